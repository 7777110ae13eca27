//! Conditional requests for a file. Spec: RFC 9110 §13, in the order of §13.2.2.
//!
//! Malformed `If-*` fields are ignored (§13.1).

use super::validators::Validators;
use crate::date;
use crate::field::FieldBlock;

/// The result of a request's preconditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They hold: the file is served.
    Proceed,
    /// The client's copy is current: 304.
    NotModified,
    /// A precondition failed: 412.
    Failed,
}

/// Evaluates the preconditions of a GET or HEAD for the file with `validators`.
pub(super) fn check(fields: &FieldBlock, validators: &Validators) -> Verdict {
    let is_current = match tags(fields, b"if-match") {
        Some(tags) => tags.any(|tag| validators.is_strongly(tag)),
        None => {
            let until = date_of(fields, b"if-unmodified-since");
            until.is_none_or(|until| validators.modified <= until)
        }
    };
    if !is_current {
        return Verdict::Failed;
    }
    let is_known = match tags(fields, b"if-none-match") {
        Some(tags) => tags.any(|tag| validators.is_weakly(tag)),
        None => {
            let since = date_of(fields, b"if-modified-since");
            since.is_some_and(|since| validators.modified <= since)
        }
    };
    if is_known {
        Verdict::NotModified
    } else {
        Verdict::Proceed
    }
}

/// Evaluates `If-Range` (RFC 9110 §13.1.5): whether ranges of this version may be sent.
pub(super) fn allows_ranges(fields: &FieldBlock, validators: &Validators) -> bool {
    let mut values = fields.values_named(b"if-range");
    let Some(value) = values.next() else {
        return true;
    };
    if values.next().is_some() {
        return false;
    }
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        return validators.is_strongly(value);
    }
    // An exact match of a strong validator (§13.1.5).
    validators.is_strong && date::parse(value) == Some(validators.modified)
}

/// The value of a date field; several lines are ambiguous and count as none.
fn date_of(fields: &FieldBlock, name: &[u8]) -> Option<u64> {
    let mut values = fields.values_named(name);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    date::parse(value)
}

/// The entity tags of a field; `None` if the request does not have it.
fn tags<'a>(fields: &'a FieldBlock, name: &'a [u8]) -> Option<Tags<'a>> {
    fields.values_named(name).next()?;
    Some(Tags { fields, name })
}

struct Tags<'a> {
    fields: &'a FieldBlock,
    name: &'a [u8],
}

impl Tags<'_> {
    /// Whether one of them is accepted; `*` always is.
    fn any(&self, accept: impl Fn(&[u8]) -> bool) -> bool {
        let mut values = self.fields.values_named(self.name);
        values.any(|value| value == b"*" || any_tag(value, &accept))
    }
}

/// Whether `accept` holds for one of the entity tags of `list`; parsing ends at the first
/// malformed one. Tags may contain commas (RFC 9110 §8.8.3).
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
    use std::time::Duration;

    use steppe_net::FileStatus;

    use super::*;
    use crate::field::testing::fields;

    /// 1994-11-06 08:49:37.
    const MODIFIED: u64 = 784_111_777;
    const TAG: &str = "\"ae1b981bc490a00-5-7\"";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn validators(age: u64) -> Validators {
        let status = FileStatus {
            bytes: 5,
            modified_ns: MODIFIED * 1_000_000_000,
            inode: 7,
        };
        Validators::of(status, Duration::from_secs(MODIFIED + age))
    }

    #[track_caller]
    fn verdict(lines: &[(&str, &str)], expected: Verdict) {
        assert_eq!(
            check(&fields(lines), &validators(60)),
            expected,
            "{lines:?}"
        );
    }

    #[test]
    fn the_tag_is_what_the_tests_think() {
        assert_eq!(validators(60).tag(), TAG.as_bytes());
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
        let allows = |value: &str, age| {
            let fields = fields(&[("if-range", value)]);
            allows_ranges(&fields, &validators(age))
        };
        assert!(allows_ranges(&fields(&[]), &validators(60)));
        assert!(allows(TAG, 60) && allows(AT, 60));
        for other in ["\"x\"", BEFORE, AFTER, "", "soon"] {
            assert!(!allows(other, 60), "{other}");
        }
        assert!(!allows(&format!("W/{TAG}"), 60));
        // The file may have changed again within the second.
        assert!(!allows(TAG, 1) && !allows(AT, 1) && !allows(&format!("W/{TAG}"), 1));
        assert!(!allows_ranges(
            &fields(&[("if-range", TAG), ("if-range", TAG)]),
            &validators(60)
        ));
    }
}
