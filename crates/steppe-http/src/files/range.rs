//! Which parts of a file are wanted. Spec: RFC 9110 §14.
//!
//! Invariant: ranges that are served lie within the file, are not empty, and do not overlap, so
//! that no request asks for more bytes than the file has.

use std::ops::Range;

use crate::limits::RANGES_MAX;

/// What a `Range` field asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it: the field is none that is understood, or asks for too much.
    Whole,
    /// One part.
    Part(Range<u64>),
    /// Several, in the order of the field.
    Parts(Vec<Range<u64>>),
    /// Nothing of what the file has: 416.
    Nothing,
}

/// What the field's `value` asks for of a file of so many `bytes`.
pub(super) fn wanted(value: &[u8], bytes: u64) -> Wanted {
    let Some(specs) = value
        .get(..6)
        .filter(|unit| unit.eq_ignore_ascii_case(b"bytes="))
        .map(|_| &value[6..])
    else {
        return Wanted::Whole;
    };
    let mut first = None;
    let mut several = Vec::new();
    let mut count = 0;
    for spec in specs.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if spec.is_empty() {
            continue;
        }
        count += 1;
        let Some(asked) = Spec::parse(spec).filter(|_| count <= RANGES_MAX) else {
            return Wanted::Whole;
        };
        let Some(range) = asked.of(bytes) else {
            continue;
        };
        match &first {
            None => first = Some(range),
            Some(first) => {
                if several.is_empty() {
                    several.push(first.clone());
                }
                several.push(range);
            }
        }
    }
    match first {
        _ if count == 0 => Wanted::Whole,
        None => Wanted::Nothing,
        Some(range) if several.is_empty() => Wanted::Part(range),
        Some(_) if overlap(&several) => Wanted::Whole,
        Some(_) => Wanted::Parts(several),
    }
}

/// One element of the field.
enum Spec {
    /// `first-` and `first-last`.
    From(u64, Option<u64>),
    /// `-count`.
    Last(u64),
}

impl Spec {
    fn parse(spec: &[u8]) -> Option<Self> {
        let dash = spec.iter().position(|&byte| byte == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            (b"", last) => Some(Self::Last(number(last)?)),
            (first, b"") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// What there is of it.
    fn of(&self, bytes: u64) -> Option<Range<u64>> {
        let range = match *self {
            Self::From(first, last) => {
                first..last.map_or(bytes, |last| last.saturating_add(1).min(bytes))
            }
            Self::Last(count) => bytes.saturating_sub(count)..bytes,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Digits alone; what does not fit is more than any file has.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.iter().fold(0, add))
}

fn overlap(ranges: &[Range<u64>]) -> bool {
    let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let others = |at: usize| &ranges[at + 1..];
    let mut indexed = ranges.iter().enumerate();
    indexed.any(|(at, range)| others(at).iter().any(|other| meet(range, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_ask_for_parts() {
        let part = |range| Wanted::Part(range);
        for (field, expected) in [
            ("bytes=0-0", part(0..1)),
            ("Bytes=0-499", part(0..500)),
            ("bytes=500-", part(500..1000)),
            ("bytes=-1", part(999..1000)),
            ("bytes=-2000", part(0..1000)),
            ("bytes=999-5000", part(999..1000)),
            ("bytes=0-18446744073709551615", part(0..1000)),
            ("bytes=0-99999999999999999999999", part(0..1000)),
            ("bytes= 0-1 ,, ", part(0..2)),
            ("bytes=0-1,2000-", part(0..2)),
            ("bytes=5-6,0-1", Wanted::Parts(vec![5..7, 0..2])),
            ("bytes=1000-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=1000-,2000-3000", Wanted::Nothing),
        ] {
            assert_eq!(wanted(field.as_bytes(), 1000), expected, "{field}");
        }
        assert_eq!(wanted(b"bytes=0-", 0), Wanted::Nothing);
    }

    #[test]
    fn what_is_not_understood_or_too_much_is_the_whole() {
        let many = format!("bytes={}", "0-0,".repeat(RANGES_MAX + 1));
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=a-b",
            "bytes=1",
            "bytes=-",
            "bytes=2-1",
            "bytes=0-1,2-1",
            "bytes=+1-2",
            "bytes=0-9,5-12",
            "bytes=0-,-1",
            "items=0-1",
            &many,
        ] {
            assert_eq!(wanted(field.as_bytes(), 1000), Wanted::Whole, "{field}");
        }
    }
}
