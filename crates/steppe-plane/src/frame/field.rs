//! Fields: a number, a length and a value each, in ascending order of their numbers.
//!
//! ```text
//! | number 1 | length 2 | value … |
//! ```
//! Numbers from 128 on are skipped where they are unknown. The order makes a repetition impossible,
//! and one pass enough.

/// Fields from here on are skipped where they are unknown.
const OPTIONAL: u8 = 0x80;

/// Fields that are not as they must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The last field goes past the end of the payload.
    #[error("truncated fields")]
    Truncated,
    /// Numbers of fields do not ascend.
    #[error("field {0} is out of order")]
    Order(u8),
    /// A field that must be understood and is not.
    #[error("field {0} is unknown")]
    Unknown(u8),
    /// The value of a field is not one that it may have.
    #[error("field {0} has an invalid value")]
    Value(u8),
    /// A field that must be there is not.
    #[error("field {0} is missing")]
    Missing(u8),
}

/// Fields that are read one after the other.
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

/// What to make of a field that is unknown here.
pub(super) fn unknown(number: u8) -> Result<(), FieldError> {
    let is_optional = number >= OPTIONAL;
    is_optional.then_some(()).ok_or(FieldError::Unknown(number))
}

/// Appends a field.
///
/// # Panics
/// Where the value has 64 KiB or more: callers have checked it against limits far below.
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

/// Text of visible ASCII characters, and spaces within where `allowed` has them.
pub(super) fn text_of(number: u8, value: &[u8], allowed: TextRule) -> Result<&str, FieldError> {
    let is_valid =
        !value.is_empty() && value.len() <= allowed.max && value.iter().all(allowed.byte);
    is_valid
        .then_some(value)
        .and_then(|value| std::str::from_utf8(value).ok())
        .ok_or(FieldError::Value(number))
}

/// What a text may have.
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
