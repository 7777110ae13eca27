//! Where a listener without TLS sends its clients.

use std::num::NonZeroU16;

use crate::head::RequestHead;

/// The same target by https, on `port`; `None` where the request names no host.
///
/// Off the hot path: it allocates.
pub(super) fn to_https(head: &RequestHead, port: NonZeroU16) -> Option<String> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let host = text(head.host()).filter(|host| !host.is_empty())?;
    let target = text(head.target())?;
    // In absolute form (RFC 9112 §3.2.2) only the rest of it goes on.
    let target = if target.starts_with('/') {
        target.to_owned()
    } else {
        let query = head.query().and_then(text);
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        format!("{}{query}", text(head.path())?)
    };
    Some(match port.get() {
        443 => format!("https://{host}{target}"),
        port => format!("https://{host}:{port}{target}"),
    })
}
