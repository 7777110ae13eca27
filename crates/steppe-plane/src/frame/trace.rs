//! Trace context of a request, in binary and as the `traceparent` field of HTTP.
//!
//! Spec: W3C Trace Context §3.2. Non-goals: `tracestate`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The fields of `traceparent` in binary: version, trace id, parent id, flags.
///
/// As text it is the field's value, `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent(pub [u8; 26]);

/// A text is not a valid `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "malformed traceparent: expected VERSION-TRACE-PARENT-FLAGS, of 2, 32, 16 and 2 hexadecimal digits"
)]
pub struct NoTraceParent;

/// Length in bytes of each field.
const FIELDS: [usize; 4] = [1, 16, 8, 1];

impl TraceParent {
    /// Reads the binary form. `None` for version 255 and for ids of zeros, which are invalid (§3.2.2).
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 26] = bytes.try_into().ok()?;
        let is_valid = bytes[0] != 0xff && bytes[1..17] != [0; 16] && bytes[17..25] != [0; 8];
        is_valid.then_some(Self(bytes))
    }
}

impl FromStr for TraceParent {
    type Err = NoTraceParent;

    fn from_str(text: &str) -> Result<Self, NoTraceParent> {
        let (mut parts, mut bytes) = (text.split('-'), [0; 26]);
        let mut places = bytes.iter_mut();
        for len in FIELDS {
            let part = parts.next().filter(|part| part.len() == 2 * len);
            let pairs = part.ok_or(NoTraceParent)?.as_bytes().chunks_exact(2);
            for (pair, place) in pairs.zip(&mut places) {
                *place = byte_of(pair).ok_or(NoTraceParent)?;
            }
        }
        // Versions above 0 may have more fields.
        let is_whole = bytes[0] != 0 || parts.next().is_none();
        Self::read(&bytes).filter(|_| is_whole).ok_or(NoTraceParent)
    }
}

impl Display for TraceParent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter();
        for (at, len) in FIELDS.into_iter().enumerate() {
            if at > 0 {
                f.write_str("-")?;
            }
            for byte in bytes.by_ref().take(len) {
                write!(f, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Value of two hexadecimal digits, in lower case.
fn byte_of(pair: &[u8]) -> Option<u8> {
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let digits = std::str::from_utf8(pair).ok();
    let digits = digits.filter(|_| pair.iter().all(is_digit))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_ids() {
        let valid = [7; 26];
        let mut no_trace = valid;
        no_trace[1..17].fill(0);
        let mut no_parent = valid;
        no_parent[17..25].fill(0);
        assert!(TraceParent::read(&valid).is_some());
        for bytes in [&[0xff; 26][..], &no_trace, &no_parent, &[7; 25]] {
            assert_eq!(TraceParent::read(bytes), None);
        }
    }

    #[test]
    fn text_is_read_as_the_specification_says() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace: TraceParent = text.parse().expect("that of the specification");
        let bytes = trace.0;
        assert_eq!(
            (bytes[0], bytes[1], bytes[16], bytes[17], bytes[25]),
            (0, 0x0a, 0x9c, 0xb7, 1)
        );
        assert_eq!(trace.to_string(), text);
        let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more";
        assert!(later.parse::<TraceParent>().is_ok());
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(NoTraceParent), "{bad}");
        }
    }
}
