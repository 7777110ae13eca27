//! What a request of HTTP asks of a service.

use std::time::Instant;

use steppe_http::config::Respond;
use steppe_http::field::FieldId;
use steppe_http::guest::GuestRequest;
use steppe_http::head::ContentLength;
use steppe_plane::frame::{Head, Payment, Queueing, TraceParent};
use steppe_plane::limits::{CONTENT_TYPE_BYTES_MAX, EAGER_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use steppe_plane::{Failure, Status};

use super::answer::{self, By};

/// What is asked, besides the body.
#[derive(Debug)]
pub(super) struct Asked {
    service: String,
    content_type: Option<String>,
    idempotency_key: Option<Vec<u8>>,
    trace_parent: Option<TraceParent>,
    /// Bytes of the body, where they are known.
    pub(super) length: Option<u64>,
    ends_at: Option<Instant>,
}

impl Asked {
    /// What `request` asks; else what its client is told.
    pub(super) fn read(request: &GuestRequest<'_>, bytes_max: u64) -> Result<Self, Respond> {
        let head = &request.head;
        if head.method() == b"HEAD" || head.is_connect() {
            let mut refused = answer::words(405, "the request plane has no such method".to_owned());
            let allow = (
                "allow".to_owned(),
                "GET, POST, PUT, PATCH, DELETE".to_owned(),
            );
            refused.fields.push(allow);
            return Err(refused);
        }
        let length = match head.length {
            ContentLength::Empty => Some(0),
            ContentLength::Known(length) => Some(length),
            ContentLength::Unknown => None,
        };
        if length.is_some_and(|length| length > bytes_max) {
            return Err(answer::respond(&too_large(bytes_max), By::Node));
        }
        let content_type = head.fields.values(FieldId::ContentType).next();
        let is_media_type = |value: &[u8]| {
            let is_text = value
                .iter()
                .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
            is_text && value.len() <= CONTENT_TYPE_BYTES_MAX
        };
        if content_type.is_some_and(|value| !is_media_type(value)) {
            let why = format!(
                "a media type has at most {CONTENT_TYPE_BYTES_MAX} visible characters here"
            );
            return Err(answer::words(415, why));
        }
        let idempotency_key = head.fields.values_named(b"idempotency-key").next();
        if idempotency_key.is_some_and(|key| !(1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()))
        {
            let why = format!("an idempotency key has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes here");
            return Err(answer::words(400, why));
        }
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).ok();
        Ok(Self {
            service: request.resource.to_owned(),
            content_type: content_type
                .filter(|value| !value.is_empty())
                .and_then(text),
            idempotency_key: idempotency_key.map(<[u8]>::to_vec),
            trace_parent: head
                .fields
                .values_named(b"traceparent")
                .next()
                .and_then(trace_parent),
            length,
            ends_at: request.ends_at,
        })
    }

    /// Whether the body is one message that is sent without asking.
    pub(super) fn is_small(&self) -> bool {
        self.length
            .is_some_and(|length| length <= EAGER_BYTES_MAX as u64)
    }

    /// What pays for its body.
    fn payment(&self) -> Payment {
        match self.is_small() {
            true => Payment::Standing,
            false => Payment::Granted,
        }
    }

    /// As it is asked now: what is left of the time is what there is.
    pub(super) fn head(&self, now: Instant) -> Head<'_> {
        Head {
            deadline: self.ends_at.map(|at| at.saturating_duration_since(now)),
            queueing: Queueing::Allowed,
            content_type: self.content_type.as_deref(),
            idempotency_key: self.idempotency_key.as_deref(),
            trace_parent: self.trace_parent,
            payment: self.payment(),
            length: self.length,
            ..Head::request(&self.service)
        }
    }
}

/// A body of more bytes than are taken.
pub(super) fn too_large(bytes_max: u64) -> Failure {
    Failure::new(
        Status::TooLarge,
        format!("at most {bytes_max} bytes are taken"),
    )
}

/// W3C Trace Context §3.2.2; what is malformed is as if it were not there.
fn trace_parent(value: &[u8]) -> Option<TraceParent> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.split('-');
    let mut bytes = [0; 26];
    let mut at = 0;
    for len in [1, 16, 8, 1] {
        let part = parts.next().filter(|part| part.len() == 2 * len)?;
        for pair in part.as_bytes().chunks_exact(2) {
            let is_lower_hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
            let digits = std::str::from_utf8(pair)
                .ok()
                .filter(|_| pair.iter().all(is_lower_hex))?;
            bytes[at] = u8::from_str_radix(digits, 16).ok()?;
            at += 1;
        }
    }
    // A later version may have more behind it, the first has not.
    let is_whole = bytes[0] != 0 || parts.next().is_none();
    let has_ids =
        bytes[1..17].iter().any(|&byte| byte > 0) && bytes[17..25].iter().any(|&byte| byte > 0);
    (is_whole && has_ids && bytes[0] != 0xff).then_some(TraceParent(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_read_as_the_specification_says() {
        let good = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let TraceParent(bytes) = trace_parent(good).expect("that of the specification");
        assert_eq!(
            (bytes[0], bytes[1], bytes[16], bytes[17], bytes[25]),
            (0, 0x0a, 0x9c, 0xb7, 1)
        );
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ] {
            assert_eq!(trace_parent(bad.as_bytes()), None, "{bad}");
        }
    }
}
