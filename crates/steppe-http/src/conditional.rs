//! Preconditions of requests for a selected representation. Spec: RFC 9110 §13, in the order of §13.2.2.
//!
//! `files/` evaluates them for a file, `cache/` for a stored response (RFC 9111 §4.3.2). `range.rs` has the
//! ranges that follow them (§14), `multipart.rs` the content of several.
//!
//! Malformed `If-*` fields are ignored (§13.1).

pub(crate) mod multipart;
pub mod range;

use range::RequestedRange;

use crate::date;
use crate::field::FieldBlock;

/// The validators of a selected representation (RFC 9110 §8.8).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Validators<'a> {
    /// The value of `ETag`.
    pub(crate) tag: Option<&'a [u8]>,
    /// The time of the last modification, as Unix time in seconds.
    pub(crate) modified: Option<u64>,
    /// The representation was not modified twice within the second of `modified` (§8.8.2.2).
    pub(crate) is_date_strong: bool,
}

impl Validators<'_> {
    /// True if `If-Match` or `If-Unmodified-Since` fails: 412.
    pub(crate) fn fail(&self, asked: &FieldBlock) -> bool {
        match any_of(asked, b"if-match", |tag| self.is_strongly(tag)) {
            Some(is_matched) => !is_matched,
            None => self.is_modified_after(date_of(asked, b"if-unmodified-since")) == Some(true),
        }
    }

    /// True if `If-None-Match` or `If-Modified-Since` says that the client has the representation: 304.
    pub(crate) fn are_known(&self, asked: &FieldBlock) -> bool {
        any_of(asked, b"if-none-match", |tag| self.is_weakly(tag)).unwrap_or_else(|| {
            self.is_modified_after(date_of(asked, b"if-modified-since")) == Some(false)
        })
    }

    /// The part of a representation of `bytes` that `Range` asks for: all of it where `If-Range` names another
    /// representation, or where a field has several lines.
    pub(crate) fn requested_range(&self, asked: &FieldBlock, bytes: u64) -> RequestedRange {
        match only_value(asked, b"range") {
            Some(value) if self.allow_ranges(asked) => range::requested(value, bytes),
            _ => RequestedRange::Whole,
        }
    }

    /// True if ranges of this representation go with what the client has: an exact match of a strong validator
    /// (RFC 9110 §13.1.5).
    pub(crate) fn allow_ranges(&self, asked: &FieldBlock) -> bool {
        if asked.values_named(b"if-range").next().is_none() {
            return true;
        }
        only_value(asked, b"if-range").is_some_and(|value| {
            if value.starts_with(b"\"") || value.starts_with(b"W/") {
                return self.is_strongly(value);
            }
            self.is_date_strong && self.modified.is_some() && date::parse(value) == self.modified
        })
    }

    /// `None` where one of the times is unknown.
    fn is_modified_after(&self, time: Option<u64>) -> Option<bool> {
        Some(self.modified? > time?)
    }

    /// Strong comparison with `tag` (RFC 9110 §8.8.3.2).
    pub(crate) fn is_strongly(&self, tag: &[u8]) -> bool {
        !tag.starts_with(b"W/") && self.tag == Some(tag)
    }

    /// Weak comparison with `tag` (RFC 9110 §8.8.3.2).
    pub(crate) fn is_weakly(&self, tag: &[u8]) -> bool {
        self.tag.is_some_and(|own| opaque(own) == opaque(tag))
    }
}

/// An entity tag without the mark of a weak one (RFC 9110 §8.8.3).
pub(crate) fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The value of a field that has one line; several lines are ambiguous and count as none.
fn only_value<'a>(fields: &'a FieldBlock, name: &'a [u8]) -> Option<&'a [u8]> {
    let mut values = fields.values_named(name);
    values.next().filter(|_| values.next().is_none())
}

fn date_of(fields: &FieldBlock, name: &[u8]) -> Option<u64> {
    date::parse(only_value(fields, name)?)
}

/// True if `accept` holds for one of the entity tags of the field `name`; it always does for `*`. `None` where
/// the request has no such field.
fn any_of(fields: &FieldBlock, name: &[u8], accept: impl Fn(&[u8]) -> bool) -> Option<bool> {
    let mut values = fields.values_named(name).peekable();
    values.peek()?;
    Some(values.any(|value| value == b"*" || any_tag(value, &accept)))
}

/// True if `accept` holds for one of the entity tags of `list`; parsing ends at the first malformed one. Tags may
/// contain commas (RFC 9110 §8.8.3).
pub fn any_tag(list: &[u8], accept: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = list;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after;
            continue;
        }
        let start = if rest.starts_with(b"W/\"") { 3 } else { 1 };
        if rest.get(start - 1) != Some(&b'"') {
            return false;
        }
        let Some(len) = memchr::memchr(b'"', &rest[start..]) else {
            return false;
        };
        let (tag, after) = rest.split_at(start + len + 1);
        if accept(tag) {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::testing::fields;

    /// 1994-11-06 08:49:37.
    const MODIFIED: u64 = 784_111_777;
    const TAG: &str = "\"ae1b981bc490a00-5-7\"";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn validators(tag: &str) -> Validators<'_> {
        Validators {
            tag: Some(tag.as_bytes()),
            modified: Some(MODIFIED),
            is_date_strong: !tag.starts_with("W/"),
        }
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Verdict {
        Proceed,
        NotModified,
        Failed,
    }

    #[track_caller]
    fn verdict(lines: &[(&str, &str)], expected: Verdict) {
        let (asked, validators) = (fields(lines), validators(TAG));
        let verdict = match validators.fail(&asked) {
            true => Verdict::Failed,
            false if validators.are_known(&asked) => Verdict::NotModified,
            false => Verdict::Proceed,
        };
        assert_eq!(verdict, expected, "{lines:?}");
    }

    #[test]
    fn tags_decide_before_dates() {
        use Verdict::{Failed, NotModified, Proceed};
        let weak = format!("W/{TAG}");
        let list = format!("\"a,b\", {TAG} ,\"c\"");
        verdict(&[], Proceed);
        verdict(&[("if-match", TAG)], Proceed);
        verdict(&[("if-match", "*")], Proceed);
        verdict(&[("if-match", &list)], Proceed);
        verdict(&[("if-match", "\"x\"")], Failed);
        verdict(&[("if-match", &weak)], Failed);
        verdict(
            &[("if-match", TAG), ("if-unmodified-since", BEFORE)],
            Proceed,
        );
        verdict(
            &[("if-match", "\"x\""), ("if-unmodified-since", AFTER)],
            Failed,
        );
        verdict(&[("if-unmodified-since", BEFORE)], Failed);
        verdict(&[("if-unmodified-since", AT)], Proceed);
        verdict(&[("if-none-match", TAG)], NotModified);
        verdict(&[("if-none-match", &weak)], NotModified);
        verdict(&[("if-none-match", "*")], NotModified);
        verdict(&[("if-none-match", &list)], NotModified);
        verdict(
            &[("if-none-match", "\"a\""), ("if-none-match", TAG)],
            NotModified,
        );
        verdict(&[("if-none-match", "\"x\"")], Proceed);
        verdict(
            &[("if-none-match", "\"x\""), ("if-modified-since", AFTER)],
            Proceed,
        );
        verdict(&[("if-modified-since", BEFORE)], Proceed);
        verdict(&[("if-modified-since", AT)], NotModified);
        verdict(&[("if-modified-since", AFTER)], NotModified);
        // A failed precondition comes first.
        verdict(&[("if-match", "\"x\""), ("if-none-match", TAG)], Failed);
    }

    #[test]
    fn what_can_not_be_read_says_nothing() {
        use Verdict::{Failed, Proceed};
        verdict(&[("if-modified-since", "yesterday")], Proceed);
        verdict(
            &[("if-modified-since", AT), ("if-modified-since", AT)],
            Proceed,
        );
        verdict(&[("if-unmodified-since", "0")], Proceed);
        for broken in ["", "abc", "\"a", "W/", "W/a", ",", "\"x\"y"] {
            verdict(&[("if-none-match", broken)], Proceed);
            // No tag that can be read is this file's.
            verdict(&[("if-match", broken)], Failed);
        }
    }

    #[test]
    fn ranges_go_with_what_the_client_has() {
        let weak = format!("W/{TAG}");
        let allows = |value: &str, tag: &str| {
            let asked = fields(&[("if-range", value)]);
            validators(tag).allow_ranges(&asked)
        };
        assert!(validators(TAG).allow_ranges(&fields(&[])));
        assert!(allows(TAG, TAG) && allows(AT, TAG));
        for other in ["\"x\"", BEFORE, AFTER, "", "soon"] {
            assert!(!allows(other, TAG), "{other}");
        }
        assert!(!allows(&weak, TAG));
        // The representation may have changed again within the second.
        assert!(!allows(TAG, &weak) && !allows(AT, &weak) && !allows(&weak, &weak));
        let twice = fields(&[("if-range", TAG), ("if-range", TAG)]);
        assert!(!validators(TAG).allow_ranges(&twice));
    }

    #[test]
    fn one_range_field_selects_a_part() {
        let part = |lines: &[(&str, &str)]| validators(TAG).requested_range(&fields(lines), 10);
        let range = ("range", "bytes=2-3");
        assert_eq!(part(&[]), RequestedRange::Whole);
        assert_eq!(part(&[range]), RequestedRange::Single(2..4));
        assert_eq!(
            part(&[range, ("if-range", TAG)]),
            RequestedRange::Single(2..4)
        );
        assert_eq!(part(&[range, ("if-range", "\"x\"")]), RequestedRange::Whole);
        assert_eq!(part(&[range, range]), RequestedRange::Whole);
    }
}
