//! Parses `Range` and writes `Content-Range`. Spec: RFC 9110 §14.1, §14.2 and §14.4.
//!
//! A server may ignore `Range`. This one ignores a malformed field, more than [`RANGES_MAX`]
//! ranges, and ranges that overlap.

use std::ops::Range;

use steppe_mem::OverBudget;

use crate::field::FieldBlock;
use crate::limits::RANGES_MAX;

/// The part of a representation that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestedRange {
    /// The whole representation.
    Whole,
    /// One range, not empty.
    Single(Range<u64>),
    /// Two or more ranges, none empty, which do not overlap.
    Multiple(Vec<Range<u64>>),
    /// No range lies within the representation: 416.
    Unsatisfiable,
}

/// Parses the value of a `Range` field for a representation of `bytes`.
#[must_use]
pub fn requested(value: &[u8], bytes: u64) -> RequestedRange {
    const UNIT: &[u8] = b"bytes=";
    let Some((unit, set)) = value.split_at_checked(UNIT.len()) else {
        return RequestedRange::Whole;
    };
    if !unit.eq_ignore_ascii_case(UNIT) {
        return RequestedRange::Whole;
    }
    if let Some(requested) = single(set, bytes) {
        return requested;
    }
    several(set, bytes).unwrap_or(RequestedRange::Whole)
}

/// Nearly every request has a single range; it needs no allocation.
fn single(set: &[u8], bytes: u64) -> Option<RequestedRange> {
    if memchr::memchr(b',', set).is_some() {
        return None;
    }
    Some(match range(set.trim_ascii(), bytes) {
        None => RequestedRange::Whole,
        Some(range) if range.is_empty() => RequestedRange::Unsatisfiable,
        Some(range) => RequestedRange::Single(range),
    })
}

/// `None` if the field is to be ignored.
fn several(set: &[u8], bytes: u64) -> Option<RequestedRange> {
    let mut ranges = Vec::new();
    let elements = set.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let mut count = 0;
    for element in elements.filter(|element| !element.is_empty()) {
        count += 1;
        let range = range(element, bytes)?;
        if count > RANGES_MAX {
            return None;
        }
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    Some(match ranges.len() {
        0 if count == 0 => RequestedRange::Whole,
        0 => RequestedRange::Unsatisfiable,
        1 => RequestedRange::Single(ranges.remove(0)),
        _ if has_overlap(&ranges) => RequestedRange::Whole,
        _ => RequestedRange::Multiple(ranges),
    })
}

fn has_overlap(ranges: &[Range<u64>]) -> bool {
    let mut sorted: Vec<_> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.windows(2).any(|pair| pair[0].end > pair[1].start)
}

/// One range, clamped to the representation; empty if it lies beyond. `None`: malformed.
fn range(text: &[u8], bytes: u64) -> Option<Range<u64>> {
    let dash = memchr::memchr(b'-', text)?;
    let (first, last) = (&text[..dash], &text[dash + 1..]);
    if first.is_empty() {
        let suffix = number(last)?;
        return Some(bytes.saturating_sub(suffix)..bytes);
    }
    let first = number(first)?;
    let end = if last.is_empty() {
        bytes
    } else {
        let last = number(last)?;
        if last < first {
            return None;
        }
        last.saturating_add(1).min(bytes)
    };
    Some(first.min(end)..end)
}

/// Parses a number; overflow saturates.
fn number(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let add = |number: u64, byte: &u8| Some(number.saturating_mul(10).saturating_add(digit(byte)?));
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add))?
}

/// Appends the `Content-Range` of a part of a representation of `bytes`.
pub(crate) fn append_content_range(
    fields: &mut FieldBlock,
    part: &Range<u64>,
    bytes: u64,
) -> Result<(), OverBudget> {
    let (first, last) = (part.start, part.end - 1);
    let value = format_args!("bytes {first}-{last}/{bytes}");
    fields.append_formatted(b"content-range", value)
}

/// Appends the `Content-Range` of a 416 (RFC 9110 §15.5.17).
pub(crate) fn append_unsatisfied_range(
    fields: &mut FieldBlock,
    bytes: u64,
) -> Result<(), OverBudget> {
    fields.append_formatted(b"content-range", format_args!("bytes */{bytes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, bytes: u64, expected: &RequestedRange) {
        assert_eq!(&requested(value.as_bytes(), bytes), expected, "{value}");
    }

    #[test]
    fn single_ranges() {
        for (value, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-499", 0..500),
            ("Bytes=500-999", 500..1000),
            ("bytes=500-", 500..1000),
            ("bytes=-500", 500..1000),
            ("bytes=-5000", 0..1000),
            ("bytes=999-99999999999999999999999", 999..1000),
            ("bytes= 0-0 ", 0..1),
            ("bytes=0-0, 1000-", 0..1),
            ("bytes=,5-6,", 5..7),
        ] {
            check(value, 1000, &RequestedRange::Single(range));
        }
    }

    #[test]
    fn beyond_the_end_there_is_nothing() {
        for value in [
            "bytes=1000-",
            "bytes=1000-2000",
            "bytes=-0",
            "bytes=1000-,-0",
        ] {
            check(value, 1000, &RequestedRange::Unsatisfiable);
        }
        check(
            "bytes=99999999999999999999999-",
            1000,
            &RequestedRange::Unsatisfiable,
        );
        for value in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            check(value, 0, &RequestedRange::Unsatisfiable);
        }
    }

    #[test]
    fn what_is_malformed_asks_for_all() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5",
            "bytes=5-4",
            "bytes=0-1-2",
            "bytes=+1-2",
            "bytes=0x1-2",
            "lines=0-1",
            "bytes=0-1,x",
            "bytes=--1",
            "bytes 0-1",
        ] {
            check(value, 1000, &RequestedRange::Whole);
        }
    }

    #[test]
    fn several_ranges() {
        let several = |ranges: &[Range<u64>]| RequestedRange::Multiple(ranges.to_vec());
        check("bytes=0-1,3-4", 10, &several(&[0..2, 3..5]));
        check("bytes=8-, 0-1 ,2-3", 10, &several(&[8..10, 0..2, 2..4]));
        check("bytes=0-1,20-,-2", 10, &several(&[0..2, 8..10]));
        for overlapping in ["bytes=0-5,5-6", "bytes=0-,-1", "bytes=1-2,1-2"] {
            check(overlapping, 10, &RequestedRange::Whole);
        }
    }

    #[test]
    fn too_many_ranges_are_ignored() {
        let list = |count: usize| {
            let ranges: Vec<_> = (0..count).map(|at| format!("{0}-{0}", 2 * at)).collect();
            format!("bytes={}", ranges.join(","))
        };
        let RequestedRange::Multiple(ranges) = requested(list(RANGES_MAX).as_bytes(), 1000) else {
            panic!("as many as may be");
        };
        assert_eq!(ranges.len(), RANGES_MAX);
        check(&list(RANGES_MAX + 1), 1000, &RequestedRange::Whole);
    }
}
