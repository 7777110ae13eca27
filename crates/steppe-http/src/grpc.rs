//! gRPC as a gateway sees it: detection of calls, timeouts, and errors as a call's status. Spec:
//! gRPC over
//! HTTP/2 (PROTOCOL-HTTP2.md), "gRPC status codes".
//!
//! Non-goals: messages. They pass as content, trailers as trailers.

mod code;
mod media_type;
pub mod web;

use std::time::Duration;

use crate::encoder::{Encoder, Put};
use crate::field::{FieldBlock, FieldId};
use crate::head::RequestHead;

pub use code::Code;
pub(crate) use media_type::MEDIA_TYPE;

use media_type::rest_of;
use web::MessageCoding;

/// The time that a call may take, counted from its client's request.
pub(crate) const TIMEOUT: &[u8] = b"grpc-timeout";

/// The status of a call, a [`Code`]: in trailers, or in a head that nothing follows
/// ("Trailers-Only").
pub(crate) const STATUS: &[u8] = b"grpc-status";

/// The status as text.
pub(crate) const MESSAGE: &[u8] = b"grpc-message";

/// Digits of a timeout at most.
const TIMEOUT_DIGITS_MAX: usize = 8;

/// Room for a value of `grpc-timeout`.
pub type TimeoutText = [u8; TIMEOUT_DIGITS_MAX + 1];

/// The protocol of a call's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// gRPC, with messages in any format.
    Grpc,
    /// gRPC-Web.
    Web {
        /// The coding of the request.
        request: MessageCoding,
        /// The coding of the response.
        response: MessageCoding,
    },
}

impl Dialect {
    /// The dialect of a request; `None`: it is not a call.
    pub(crate) fn of(head: &RequestHead) -> Option<Self> {
        if head.method() != b"POST" {
            return None;
        }
        let media_type = head.fields.values(FieldId::ContentType).next()?;
        let Self::Web { request, .. } = Self::of_media_type(media_type)? else {
            return Some(Self::Grpc);
        };
        let accepted = head
            .fields
            .values_named(b"accept")
            .find_map(MessageCoding::of);
        let response = accepted.unwrap_or(request);
        Some(Self::Web { request, response })
    }

    /// The dialect of this media type.
    pub(crate) fn of_media_type(value: &[u8]) -> Option<Self> {
        if rest_of(value, MEDIA_TYPE).is_some() {
            return Some(Self::Grpc);
        }
        let coding = MessageCoding::of(value)?;
        Some(Self::Web {
            request: coding,
            response: coding,
        })
    }

    /// The media type of what the gateway answers itself.
    pub(crate) fn media_type_of_refusal(self) -> &'static str {
        match self {
            Self::Grpc => MEDIA_TYPE,
            Self::Web { response, .. } => response.media_type_of_refusal(),
        }
    }
}

/// The call's status, where these fields have one.
pub(crate) fn status(fields: &FieldBlock) -> Option<Code> {
    fields.values_named(STATUS).next().map(Code::read)
}

/// The value of `grpc-timeout`: `None` where it is none.
#[must_use]
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > TIMEOUT_DIGITS_MAX {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number * 10 + digit)
    })?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// `left` as a value of `grpc-timeout`, written into `room`: a little less where its digits do not
/// say it all.
#[must_use]
pub fn write_timeout(left: Duration, room: &mut TimeoutText) -> &[u8] {
    let units: [(u128, &[u8]); 4] = [
        (left.as_micros(), b"u"),
        (left.as_millis(), b"m"),
        (left.as_secs().into(), b"S"),
        (u128::from(left.as_secs()) / 3600, b"H"),
    ];
    let fits = |&&(number, _): &&(u128, &[u8])| number < 100_000_000;
    let (number, unit) = units
        .iter()
        .find(fits)
        .copied()
        .unwrap_or((99_999_999, b"H"));
    let mut out = Encoder::new(room);
    out.number(u64::try_from(number).unwrap_or(u64::MAX));
    out.put(unit);
    let written = out.written();
    &room[..written]
}

/// Requests and answers of `grpc.health.v1`.
pub(crate) mod health {
    /// The method's path.
    pub(crate) const PATH: &[u8] = b"/grpc.health.v1.Health/Check";

    /// Bytes of an answer that are looked at: its prefix, and one field.
    pub(crate) const ANSWER_BYTES_MAX: usize = 64;

    /// Not compressed; the length of the message.
    const PREFIX_BYTES: usize = 5;

    /// Field 1 of `HealthCheckRequest`, a string; of `HealthCheckResponse`, an enumeration.
    const SERVICE: u8 = 0x0a;
    const STATUS: u8 = 0x08;
    const SERVING: u8 = 1;

    /// The one message of a request, prefix included.
    pub(crate) fn request(service: &str) -> Vec<u8> {
        let mut message = Vec::new();
        if !service.is_empty() {
            message.push(SERVICE);
            let mut len = service.len();
            // A varint: seven bits a byte, the lowest first.
            while len >= 0x80 {
                message.push(u8::try_from(len & 0x7f).expect("seven bits") | 0x80);
                len >>= 7;
            }
            message.push(u8::try_from(len).expect("seven bits"));
            message.extend_from_slice(service.as_bytes());
        }
        let len = u32::try_from(message.len()).expect("a name is short");
        [&[0][..], &len.to_be_bytes(), &message].concat()
    }

    /// True when the answer's status is `SERVING`.
    pub(crate) fn is_serving(answer: &[u8]) -> bool {
        answer.first() == Some(&0) && answer.get(PREFIX_BYTES..) == Some(&[STATUS, SERVING])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_written() {
        for (text, expected) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("6n", Some(Duration::from_nanos(6))),
            ("0S", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("1", None),
            ("1s", None),
            ("-1S", None),
            ("1.5S", None),
            ("123456789S", None),
        ] {
            assert_eq!(timeout(text.as_bytes()), expected, "{text}");
        }
        let mut room = TimeoutText::default();
        for (left, text) in [
            (Duration::ZERO, "0u"),
            (Duration::from_micros(1500), "1500u"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(1_000_000), "1000000S"),
            (Duration::from_secs(1_000_000_000), "277777H"),
        ] {
            let written = write_timeout(left, &mut room);
            assert_eq!(written, text.as_bytes());
            assert!(timeout(written).is_some());
        }
    }

    #[test]
    fn a_call_is_told_from_what_looks_like_one() {
        for (value, expected) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/json", false),
        ] {
            let dialect = Dialect::of_media_type(value.as_bytes());
            assert_eq!(dialect == Some(Dialect::Grpc), expected, "{value}");
        }
    }

    #[test]
    fn health_is_asked_for_in_one_message() {
        assert_eq!(health::request(""), [0, 0, 0, 0, 0]);
        assert_eq!(health::request("ab"), b"\0\0\0\0\x04\x0a\x02ab");
        let long = health::request(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 47, 0x0a, 0xac, 0x02]);
        assert!(health::is_serving(b"\0\0\0\0\x02\x08\x01"));
        for answer in [
            &b""[..],
            b"\0\0\0\0\0",
            b"\0\0\0\0\x02\x08\x02",
            b"\x01\0\0\0\x02\x08\x01",
        ] {
            assert!(!health::is_serving(answer));
        }
    }
}
