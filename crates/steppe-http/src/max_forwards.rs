//! `Max-Forwards`: how many more hops a `TRACE` or `OPTIONS` may go. Spec: RFC 9110 §7.6.2.
//!
//! Non-goal: other methods. The field says nothing about them, and they pass with it.

use std::io::Write as _;

use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::metrics::CloseReason;

/// The meaning of the field for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxForwards {
    /// No field.
    Absent,
    /// The request is forwarded; the field has been counted down.
    Forward,
    /// The request has used up its hops: this gateway answers it.
    AnswerHere,
}

const NAME: &[u8] = b"max-forwards";

/// Digits of a [`u32`].
const DIGITS_MAX: usize = 10;

impl MaxForwards {
    /// Reads the field of a request, and counts it down where the request may be forwarded.
    ///
    /// A number beyond [`u32`] counts down from that: RFC 9110 lets an intermediary send the
    /// most that it supports.
    ///
    /// # Errors
    /// 400 where the value is no number or there are several; 503 where the budget has no room.
    pub fn count_down(method: &[u8], fields: &mut FieldBlock) -> Result<Self, GatewayError> {
        if !matches!(method, b"TRACE" | b"OPTIONS") {
            return Ok(Self::Absent);
        }
        let hops = {
            let mut values = fields.values_named(NAME);
            match (values.next(), values.next()) {
                (None, _) => return Ok(Self::Absent),
                (Some(value), None) => number(value),
                _ => None,
            }
        };
        let Some(hops) = hops else {
            return Err(GatewayError::downstream(CloseReason::BadRequest, 400));
        };
        let Some(left) = hops.checked_sub(1) else {
            return Ok(Self::AnswerHere);
        };
        let mut digits = [0; DIGITS_MAX];
        let mut free = &mut digits[..];
        write!(free, "{left}").expect("ten digits hold every 32-bit number");
        let len = DIGITS_MAX - free.len();
        fields.set(NAME, &digits[..len])?;
        Ok(Self::Forward)
    }
}

/// `1*DIGIT`; numbers that are too large are the largest.
fn number(value: &[u8]) -> Option<u32> {
    let add = |sum: u32, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    };
    (!value.is_empty()).then(|| value.iter().try_fold(0, add))?
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::field::FieldList;

    /// The result of [`MaxForwards::count_down`] on these values of the field, and the values afterwards.
    fn counted(method: &str, values: &[&str]) -> (Option<MaxForwards>, Vec<String>) {
        let budget = Budget::new(1 << 20);
        let bytes = Buffer::take(&budget.root().lease(), 64).expect("room");
        let mut fields = FieldBlock::new(bytes, FieldList::take());
        for value in values {
            let added = fields.append(b"Max-Forwards", value.as_bytes());
            added.expect("room");
        }
        let found = MaxForwards::count_down(method.as_bytes(), &mut fields).ok();
        let text = |value| String::from_utf8_lossy(value).into_owned();
        (found, fields.values_named(NAME).map(text).collect())
    }

    #[track_caller]
    fn check(method: &str, values: &[&str], found: MaxForwards, after: &[&str]) {
        let after = after.iter().map(ToString::to_string).collect();
        assert_eq!(
            counted(method, values),
            (Some(found), after),
            "{method} {values:?}"
        );
    }

    #[test]
    fn hops_are_counted_down_to_an_answer() {
        use MaxForwards::{Absent, AnswerHere, Forward};
        check("TRACE", &[], Absent, &[]);
        check("TRACE", &["10"], Forward, &["9"]);
        check("OPTIONS", &["1"], Forward, &["0"]);
        check("OPTIONS", &["0"], AnswerHere, &["0"]);
        check("TRACE", &["000"], AnswerHere, &["000"]);
        check("TRACE", &["99999999999999999999"], Forward, &["4294967294"]);
        // It says nothing about others.
        check("GET", &["0"], Absent, &["0"]);
        check("trace", &["x"], Absent, &["x"]);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for values in [
            &[""][..],
            &["-1"],
            &["+1"],
            &["1,1"],
            &["1", "1"],
            &["1 "],
            &["x"],
        ] {
            assert_eq!(counted("TRACE", values).0, None, "{values:?}");
        }
    }
}
