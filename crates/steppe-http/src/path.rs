//! Paths: normalized once, before routing, and matched by pattern.
//!
//! Invariant: what is matched is what is sent. [`normalize`] gives the one spelling that is
//! forwarded, and matching reads that same text: it skips each segment's `;parameters` and reads
//! escapes as the bytes they stand for, but never sees another sequence of segments than the
//! origin gets.
//!
//! Non-goals: the query (it begins at the first `?`, which the caller finds), `*` of `OPTIONS`, and
//! the authority of `CONNECT`. Spec: RFC 3986 §3.3, §5.2.4, §6.2.2; RFC 9110 §4.2.3.

mod glob;
mod normalize;
mod pattern;

use std::cmp::Ordering;

use memchr::{memchr, memchr2};

pub use glob::{FilePattern, FilePatternError};
pub use normalize::{Normalized, PathError, is_clean, normalize, normalize_in_place};
pub use pattern::{PathPattern, PatternError, PatternErrorKind, PatternSegment};

/// The segments of a normalized path in order, each without its `;parameters`.
///
/// A path has at least one segment, and only the last one may be empty: `/` has one, `/a/` two.
#[derive(Debug, Clone)]
pub struct SegmentNames<'a> {
    /// The rest behind the slash that was read last; `None` after the last segment.
    rest: Option<&'a [u8]>,
}

impl<'a> SegmentNames<'a> {
    /// Reads the segments of `path`, which [`normalize`] has passed.
    pub fn new(path: &'a [u8]) -> Self {
        Self {
            rest: path.strip_prefix(b"/"),
        }
    }
}

impl<'a> Iterator for SegmentNames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let name_end = memchr2(b'/', b';', rest).unwrap_or(rest.len());
        let parameters = &rest[name_end..];
        self.rest = memchr(b'/', parameters).map(|slash| &parameters[slash + 1..]);
        Some(&rest[..name_end])
    }
}

/// Orders a segment of a normalized path against decoded bytes, reading its escapes.
///
/// Normalization leaves escapes of characters that are not unreserved. An origin may well take
/// `%3A` for `:`, so for matching both are the same character; `%2F` can't occur here.
pub(crate) fn compare_decoded(segment: &[u8], decoded: &[u8]) -> Ordering {
    match memchr(b'%', segment) {
        None => segment.cmp(decoded),
        Some(_) => DecodedSegment { bytes: segment }.cmp(decoded.iter().copied()),
    }
}

/// The bytes that a segment of a normalized path stands for.
pub(crate) fn decoded(segment: &[u8]) -> impl Iterator<Item = u8> {
    DecodedSegment { bytes: segment }
}

/// Reads percent-encoded bytes; a `%` that begins no escape is taken as it is.
#[derive(Clone)]
struct DecodedSegment<'a> {
    bytes: &'a [u8],
}

impl Iterator for DecodedSegment<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&first, after) = self.bytes.split_first()?;
        let escaped = if first == b'%' {
            escaped_byte(self.bytes)
        } else {
            None
        };
        self.bytes = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
        Some(escaped.unwrap_or(first))
    }
}

/// The byte that the escape at the beginning of `bytes` stands for.
pub(crate) fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    let &[b'%', high, low, ..] = bytes else {
        return None;
    };
    Some(hex_value(high)? << 4 | hex_value(low)?)
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// RFC 3986 §2.3.
pub(crate) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986 §2.2.
const fn is_sub_delim(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_skip_parameters() {
        let names = |path: &'static str| {
            SegmentNames::new(path.as_bytes())
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("/"), [""]);
        assert_eq!(names("/a/"), ["a", ""]);
        assert_eq!(names("/a;x=1;y/b;z"), ["a", "b"]);
        assert_eq!(names("/a/;jsessionid=1"), ["a", ""]);
        assert_eq!(names("*"), [""; 0]);
    }

    #[test]
    fn escapes_compare_as_their_bytes() {
        assert_eq!(
            compare_decoded(b"users%3Abatch", b"users:batch"),
            Ordering::Equal
        );
        assert_eq!(
            compare_decoded(b"caf%C3%A9", "café".as_bytes()),
            Ordering::Equal
        );
        assert_eq!(compare_decoded(b"%2561", b"%61"), Ordering::Equal);
        assert_eq!(compare_decoded(b"a%3Ab", b"a"), Ordering::Greater);
        assert_eq!(compare_decoded(b"100%", b"100%"), Ordering::Equal);
    }
}
