//! What fields say of a message, whatever protocol it came by. Spec: RFC 9110 §8.6, §10.1.1.

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

/// Whether what `Expect` asks for is known: `100-continue` is all there is.
pub(crate) fn is_expectation_known(fields: &FieldBlock) -> bool {
    let mut expectations = fields.values(FieldId::Expect).flat_map(elements);
    expectations.all(|expectation| expectation.eq_ignore_ascii_case(b"100-continue"))
}
