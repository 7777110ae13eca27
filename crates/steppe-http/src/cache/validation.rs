//! Validation of stored responses. Spec: RFC 9111 §4.3.
//!
//! `If-Match` and `If-Unmodified-Since` are for the origin: the `cache` filter lets a request with one pass.

use steppe_mem::Lease;

use super::stored::StoredHead;
use crate::conditional::{Validators, opaque};
use crate::date;
use crate::error::GatewayError;
use crate::field::{Field, FieldBlock, FieldId};
use crate::head::{RequestHead, ResponseHead};

/// The validators of a stored response, for the preconditions of a request (RFC 9111 §4.3.2).
pub(super) fn validators(head: &StoredHead) -> Validators<'_> {
    let date = |name| head.values(name).next().and_then(date::parse);
    let made = date(b"date");
    let has_modified = head.values(b"last-modified").next().is_some();
    // A response without `Last-Modified` can't have changed after it was made.
    let modified = match has_modified {
        true => date(b"last-modified"),
        false => made,
    };
    Validators {
        tag: head.values(b"etag").next(),
        modified,
        // RFC 9110 §8.8.2.2: another change within its second would have shown.
        is_date_strong: has_modified && made > modified,
    }
}

/// True if a 304 with `fields` is about the stored response: one of its validators is one of that response (RFC 9111
/// §4.3.4), or it has none.
///
/// # Deviations
/// Tags are compared weakly. Servers that compress (nginx) weaken the tag of the content, and not that of the 304
/// for it.
pub(super) fn is_validated(fields: &FieldBlock, head: &StoredHead) -> bool {
    let mut tags = fields.values_named(b"etag").peekable();
    if tags.peek().is_some() {
        let is_stored = |tag| {
            head.values(b"etag")
                .any(|stored| opaque(stored) == opaque(tag))
        };
        return tags.any(is_stored);
    }
    let mut dates = fields.values_named(b"last-modified").peekable();
    if dates.peek().is_none() {
        return true;
    }
    let mut stored = head.values(b"last-modified");
    stored
        .next()
        .is_some_and(|stored| dates.any(|date| is_same_date(stored, date)))
}

/// True if two dates are the same, whatever their formats (RFC 9110 §5.6.7).
fn is_same_date(left: &[u8], right: &[u8]) -> bool {
    left == right || date::parse(left).is_some_and(|time| date::parse(right) == Some(time))
}

/// The request `head` as the cache sends it: for the whole response, unless that is still as it is `stored` (RFC 9111
/// §4.3.1).
///
/// # Errors
/// Where the budget has no room.
pub(crate) fn request_for(
    head: &RequestHead,
    stored: Option<&StoredHead>,
) -> Result<RequestHead, GatewayError> {
    const CONDITIONS: [&[u8]; 4] = [
        b"range",
        b"if-range",
        b"if-none-match",
        b"if-modified-since",
    ];
    let mut request = head.try_clone()?;
    for name in CONDITIONS {
        request.fields.remove(name);
    }
    if request.method() != b"GET" {
        request.set_method(b"GET")?;
    }
    let validators: [(&[u8], &[u8]); 2] = [
        (b"etag", b"if-none-match"),
        (b"last-modified", b"if-modified-since"),
    ];
    for (validator, condition) in validators {
        if let Some(value) = stored.and_then(|stored| stored.values(validator).next()) {
            request.fields.append(condition, value)?;
        }
    }
    Ok(request)
}

/// The head of the `stored` response with the fields of a 304 for it (RFC 9111 §3.2, §4.3.4).
///
/// # Errors
/// Where `lease` has no room.
pub(super) fn freshened(
    stored: &StoredHead,
    head: &ResponseHead,
    lease: &Lease,
) -> Result<ResponseHead, GatewayError> {
    let mut updated = stored.to_head(lease)?;
    let bytes = head.fields.bytes();
    let is_updated = |field: &&Field| is_updated(field.id, field.name(bytes));
    for field in head.fields.fields().iter().filter(is_updated) {
        updated.fields.remove(field.name(bytes));
    }
    for &field in head.fields.fields().iter().filter(is_updated) {
        updated.fields.append_copy(field, &head.fields)?;
    }
    if !head.fields.has(FieldId::Date) {
        // RFC 9110 §6.6.1: the time at which it was received.
        updated.fields.set(b"date", &date::now())?;
    }
    Ok(updated)
}

/// True if a field of a 304 updates the stored one: fields that describe the content as it is stored stay.
fn is_updated(id: FieldId, name: &[u8]) -> bool {
    const KEPT: [&[u8]; 4] = [
        b"content-encoding",
        b"content-md5",
        b"content-range",
        b"etag",
    ];
    id != FieldId::ContentLength
        && !id.is_hop_by_hop()
        && !KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept))
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::head::ContentLength;

    fn is_known(asked: &FieldBlock, head: &StoredHead) -> bool {
        validators(head).are_known(asked)
    }

    fn allows_ranges(asked: &FieldBlock, head: &StoredHead) -> bool {
        validators(head).allow_ranges(asked)
    }

    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn head(lease: &Lease, lines: &[(&str, &str)]) -> ResponseHead {
        let mut head = ResponseHead::new(200, ContentLength::Empty, lease).expect("room");
        for (name, value) in lines {
            let added = head.fields.append(name.as_bytes(), value.as_bytes());
            added.expect("room");
        }
        head
    }

    fn with<T>(
        stored: &[(&str, &str)],
        asked: &[(&str, &str)],
        check: fn(&FieldBlock, &StoredHead) -> T,
    ) -> T {
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let stored = StoredHead::of(&head(&lease, stored), &[]);
        check(&head(&lease, asked).fields, &stored)
    }

    #[test]
    fn tags_decide_before_dates() {
        let stored = [("etag", "\"a\""), ("last-modified", AT)];
        let known = |asked: &[(&str, &str)]| with(&stored, asked, is_known);
        assert!(!known(&[]));
        for same in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(known(&[("if-none-match", same)]), "{same}");
        }
        for other in ["\"b\"", "a", "", "\"A\""] {
            assert!(!known(&[("if-none-match", other)]), "{other}");
        }
        assert!(!known(&[
            ("if-none-match", "\"b\""),
            ("if-modified-since", AFTER)
        ]));
        assert!(known(&[("if-modified-since", AT)]));
        assert!(known(&[("if-modified-since", AFTER)]));
        assert!(!known(&[("if-modified-since", BEFORE)]));
        assert!(!known(&[("if-modified-since", "soon")]));
        assert!(!known(&[
            ("if-modified-since", AT),
            ("if-modified-since", AT)
        ]));
        let weak = [("etag", "W/\"a\"")];
        assert!(with(&weak, &[("if-none-match", "\"a\"")], is_known));
        let made = [("date", AT)];
        assert!(with(&made, &[("if-modified-since", AT)], is_known));
        assert!(!with(&made, &[("if-none-match", "\"a\"")], is_known));
    }

    #[test]
    fn a_304_is_about_what_its_validators_name() {
        let both = [("etag", "\"a\""), ("last-modified", AT)];
        let (tag, weak, date) = ([both[0]], [("etag", "W/\"a\"")], [both[1]]);
        let rows: [(&[_], &[_], bool); 16] = [
            (&both, &[], true),
            (&both, &[("etag", "\"a\"")], true),
            (&both, &[("etag", "\"a\""), ("last-modified", AFTER)], true),
            (&both, &[("etag", "W/\"a\"")], true),
            (&both, &[("last-modified", AT)], true),
            (&weak, &[("etag", "\"a\"")], true),
            (
                &date,
                &[("last-modified", "Sunday, 06-Nov-94 08:49:37 GMT")],
                true,
            ),
            (&both, &[("etag", "\"b\"")], false),
            (&both, &[("etag", "\"b\""), ("last-modified", AT)], false),
            (&both, &[("etag", "\"b\""), ("etag", "\"a\"")], true),
            (&both, &[("etag", "W/\"b\"")], false),
            (&both, &[("last-modified", AFTER)], false),
            (&weak, &[("etag", "W/\"b\"")], false),
            (&tag, &[("last-modified", AT)], false),
            (&date, &[("etag", "\"a\""), ("last-modified", AT)], false),
            (&date, &[("last-modified", "soon")], false),
        ];
        for (stored, sent, want) in rows {
            assert_eq!(
                with(stored, sent, is_validated),
                want,
                "{stored:?} {sent:?}"
            );
        }
    }

    #[test]
    fn ranges_go_with_strong_validators() {
        let stored = [("etag", "\"a\""), ("last-modified", AT), ("date", AFTER)];
        let allows = |value: &str| with(&stored, &[("if-range", value)], allows_ranges);
        assert!(with(&stored, &[], allows_ranges));
        assert!(allows("\"a\"") && allows(AT));
        for other in ["\"b\"", "W/\"a\"", BEFORE, AFTER, "", "soon"] {
            assert!(!allows(other), "{other}");
        }
        let weak = [("etag", "W/\"a\"")];
        assert!(!with(&weak, &[("if-range", "W/\"a\"")], allows_ranges));
        let at_once = [("last-modified", AT), ("date", AT)];
        assert!(!with(&at_once, &[("if-range", AT)], allows_ranges));
        let twice = [("if-range", "\"a\""), ("if-range", "\"a\"")];
        assert!(!with(&stored, &twice, allows_ranges));
    }
}
