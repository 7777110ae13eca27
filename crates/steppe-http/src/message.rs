//! What the codecs share: readers of fields, and a response to clients without TLS. Spec: RFC 9110 §8.6, §10.1.1.

use crate::field::{FieldBlock, FieldId, elements};

/// The value of a `Content-Length`: digits alone, no sign, no space, no list.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Response of every codec to a client that speaks HTTP without TLS on a listener with TLS: whichever version is agreed
/// on there, this client reads HTTP/1.
pub(crate) const TO_PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; \
    charset=utf-8\r\ncontent-length: 42\r\nconnection: close\r\n\r\n\
    This port speaks HTTPS: use https:// here.";

/// Whether what `Expect` asks for is known: `100-continue` is all there is.
pub(crate) fn is_expectation_known(fields: &FieldBlock) -> bool {
    let mut expectations = fields.values(FieldId::Expect).flat_map(elements);
    expectations.all(|expectation| expectation.eq_ignore_ascii_case(b"100-continue"))
}
