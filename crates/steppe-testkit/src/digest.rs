//! Digests, to compare what peers saw without having it.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

/// The SHA-256 digest of `bytes`, in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
