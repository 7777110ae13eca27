//! The handshake of WebSockets as HTTP/1.1 has it, for the side that speaks it, where the other
//! speaks HTTP/2: there a stream is asked for by extended CONNECT, without keys.
//!
//! Spec: RFC 8441 §5, RFC 6455 §4.

use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::head::{RequestHead, ResponseHead};

/// The protocol's name, in `Upgrade` and `:protocol` alike.
pub(super) const WEBSOCKET: &[u8] = b"websocket";

/// The request's field of a handshake by HTTP/1.1.
pub(super) const KEY: &[u8] = b"sec-websocket-key";

/// The response's field.
pub(super) const ACCEPT: &[u8] = b"sec-websocket-accept";

/// The state of a tunnel on a stream.
pub(super) enum Tunnel {
    No,
    /// Requested; for a WebSocket, with the key of HTTP/1.1's handshake.
    Asked(Option<Vec<u8>>),
    Begun,
}

/// RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A key of our own: 16 bytes that nobody foresees.
pub(super) fn new_key() -> String {
    let random = || RandomState::new().hash_one(0_u8).to_be_bytes();
    STANDARD.encode([random(), random()].concat())
}

/// The key of a handshake.
pub(super) fn key_of(head: &RequestHead) -> Option<&[u8]> {
    head.fields.values_named(KEY).next()
}

/// True when a server's 101 answers the handshake that `key` began.
pub(super) fn is_accepted(head: &ResponseHead, key: &[u8]) -> bool {
    let mut accepted = head.fields.values_named(ACCEPT);
    accepted.next() == Some(self::accept(key).as_bytes())
}

/// The proof that a server has read `key`.
pub(super) fn accept(key: &[u8]) -> String {
    let mut digest = Sha1::new();
    digest.update(key);
    digest.update(GUID);
    STANDARD.encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_that_of_the_rfc() {
        let accept = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_ne!(new_key(), new_key());
        assert_eq!(new_key().len(), 24);
    }
}
