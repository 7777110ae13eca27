//! Certificates: a peer's bytes are read or refused, and the text made of them can't move a terminal's cursor
//! or pass for more names than there are.

use steppe_net::limits::{CERT_BYTES_MAX, CERT_NAMES_MAX};
use steppe_net::tls::x509::Summary;

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let Ok(summary) = Summary::of(bytes) else {
        return;
    };
    assert!(bytes.len() <= CERT_BYTES_MAX && summary.names.len() <= CERT_NAMES_MAX);
    for name in [&summary.subject, &summary.issuer] {
        assert!(!name.chars().any(char::is_control), "{name:?}");
        // An escape takes three characters for a byte, an attribute's type some tens.
        assert!(name.len() <= 64 * bytes.len(), "{name:?}");
    }
    for name in &summary.names {
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
    }
    assert_eq!(Summary::of(bytes).as_ref(), Ok(&summary));
}
