//! Fields: a number, a length and a value each, in ascending order of their numbers.
//!
//! ```text
//! | number 1 | length 2 | value … |
//! ```
//! Unknown fields with numbers of 128 and above are skipped. The ascending order rules out repeated fields
//! and makes one pass enough.

/// Unknown fields with this number or a greater one are skipped.
const OPTIONAL: u8 = 0x80;

/// The reason why fields are malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The last field goes past the end of the payload.
    #[error("truncated fields")]
    Truncated,
    /// Numbers of fields do not ascend.
    #[error("field {0} is out of order")]
    Order(u8),
    /// A field below 128 is unknown.
    #[error("field {0} is unknown")]
    Unknown(u8),
    /// A field has an invalid value.
    #[error("field {0} has an invalid value")]
    Value(u8),
    /// A required field is missing.
    #[error("field {0} is missing")]
    Missing(u8),
}

/// Iterator over the fields of a payload.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    last: u8,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            last: 0,
        }
    }

    fn read(&mut self) -> Result<(u8, &'a [u8]), FieldError> {
        let Some((&[number, l0, l1], rest)) = self.rest.split_first_chunk::<3>() else {
            return Err(FieldError::Truncated);
        };
        if number <= self.last {
            return Err(FieldError::Order(number));
        }
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let (value, rest) = rest.split_at_checked(len).ok_or(FieldError::Truncated)?;
        (self.rest, self.last) = (rest, number);
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u8, &'a [u8]), FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Skips an unknown field, or rejects it if its number requires that it is understood.
pub(super) fn unknown(number: u8) -> Result<(), FieldError> {
    let is_optional = number >= OPTIONAL;
    is_optional.then_some(()).ok_or(FieldError::Unknown(number))
}

/// Appends a field.
///
/// # Panics
/// If the value has 64 KiB or more. Callers have checked values against much smaller limits.
pub(super) fn put(out: &mut Vec<u8>, number: u8, value: &[u8]) {
    let len = u16::try_from(value.len()).expect("limits of values are far below");
    out.push(number);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
}

pub(super) fn u32_of(number: u8, value: &[u8]) -> Result<u32, FieldError> {
    let bytes = value.try_into().map_err(|_| FieldError::Value(number))?;
    Ok(u32::from_be_bytes(bytes))
}

pub(super) fn u64_of(number: u8, value: &[u8]) -> Result<u64, FieldError> {
    let bytes = value.try_into().map_err(|_| FieldError::Value(number))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Reads text of the characters that `allowed` permits: visible ASCII, and spaces in some fields.
pub(super) fn text_of(number: u8, value: &[u8], allowed: TextRule) -> Result<&str, FieldError> {
    let is_valid =
        !value.is_empty() && value.len() <= allowed.max && value.iter().all(allowed.byte);
    is_valid
        .then_some(value)
        .and_then(|value| std::str::from_utf8(value).ok())
        .ok_or(FieldError::Value(number))
}

/// Permitted length and bytes of a text.
#[derive(Clone, Copy)]
pub(super) struct TextRule {
    pub(super) max: usize,
    pub(super) byte: fn(&u8) -> bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_ascend_and_end_with_the_payload() {
        let mut bytes = Vec::new();
        put(&mut bytes, 1, b"a");
        put(&mut bytes, 3, b"");
        put(&mut bytes, 200, b"xyz");
        let read: Vec<_> = Fields::new(&bytes).collect();
        assert_eq!(
            read,
            [
                Ok((1, &b"a"[..])),
                Ok((3, &b""[..])),
                Ok((200, &b"xyz"[..]))
            ]
        );
        for cut in 1..bytes.len() {
            let read: Vec<_> = Fields::new(&bytes[..cut]).collect();
            let is_boundary = cut == 4 || cut == 7;
            assert_eq!(read.last().expect("one").is_ok(), is_boundary, "{cut}");
        }
    }

    #[test]
    fn order_is_kept_and_the_rest_not_read() {
        for second in [2, 1] {
            let mut bytes = Vec::new();
            put(&mut bytes, 2, b"a");
            put(&mut bytes, second, b"b");
            let read: Vec<_> = Fields::new(&bytes).collect();
            assert_eq!(read[1], Err(FieldError::Order(second)));
            assert_eq!(read.len(), 2);
        }
        assert_eq!(unknown(127), Err(FieldError::Unknown(127)));
        assert_eq!(unknown(128), Ok(()));
    }
}
