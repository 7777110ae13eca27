//! True when a response may have a secret in it, and who has it sent: what `breach = "strict"` goes by.
//!
//! Spec: Fetch Metadata (`Sec-Fetch-Site`), RFC 6454 (`Origin`), RFC 9110 §10.1.3 (`Referer`).

use crate::field::FieldId;
use crate::head::RequestHead;
use crate::host::{Authority, same_host};
use crate::path::PathPattern;

/// True when the answer to `head` may vary by a secret that the request itself has, or another site has it sent.
pub(super) fn is_risky(head: &RequestHead, paths: &[PathPattern]) -> bool {
    const CREDENTIALS: [&[u8]; 3] = [b"cookie", b"authorization", b"proxy-authorization"];
    let has = |name: &[u8]| head.fields.values_named(name).next().is_some();
    CREDENTIALS.into_iter().any(has)
        || head.fields.has(FieldId::ClientCert)
        || paths.iter().any(|path| path.matches(head.path()))
        || is_cross_site(head)
}

/// True when another site sent the request: by a browser's `Sec-Fetch-Site`, else by the origin
/// that it states.
fn is_cross_site(head: &RequestHead) -> bool {
    let first = |name: &'static [u8]| head.fields.values_named(name).next();
    if let Some(site) = first(b"sec-fetch-site") {
        return !matches!(site, b"same-origin" | b"same-site" | b"none");
    }
    let other = first(b"origin").or_else(|| first(b"referer"));
    other.is_some_and(|other| !is_same(authority(other), head.authority()))
}

fn is_same(left: &[u8], right: &[u8]) -> bool {
    match (Authority::parse(left), Authority::parse(right)) {
        (Ok(left), Ok(right)) => left.port == right.port && same_host(left.host, right.host),
        _ => false,
    }
}

/// Host and port of a URL; nothing of what is none, which is the authority of no request.
fn authority(url: &[u8]) -> &[u8] {
    let Some(at) = memchr::memmem::find(url, b"://") else {
        return b"";
    };
    let rest = &url[at + 3..];
    let end = rest.iter().position(|byte| b"/?#".contains(byte));
    &rest[..end.unwrap_or(rest.len())]
}
