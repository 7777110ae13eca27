//! The call that an HTTP request makes.

use std::time::Instant;

use steppe_http::config::Respond;
use steppe_http::field::FieldId;
use steppe_http::guest::GuestRequest;
use steppe_http::head::ContentLength;
use steppe_plane::frame::{Head, Payment, Queueing, TraceParent};
use steppe_plane::limits::{CONTENT_TYPE_BYTES_MAX, EAGER_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use steppe_plane::{Failure, Status};

use super::answer::{self, By};

/// The head of a call, without its body.
#[derive(Debug)]
pub(super) struct Asked {
    service: String,
    content_type: Option<String>,
    idempotency_key: Option<Vec<u8>>,
    trace_parent: Option<TraceParent>,
    /// Bytes of the body, if known.
    pub(super) length: Option<u64>,
    /// True if the client waits for `100 (Continue)` before it sends content (RFC 9110 §10.1.1).
    pub(super) expects_continue: bool,
    ends_at: Option<Instant>,
}

impl Asked {
    /// The call of `request`; the error is the response to its client.
    pub(super) fn read(request: &GuestRequest<'_>, bytes_max: u64) -> Result<Self, Respond> {
        let head = &request.head;
        if head.upgrade().is_some() {
            let why = "the request plane does not support protocol upgrades such as WebSocket";
            return Err(answer::words(501, why.to_owned()));
        }
        if head.method() == b"HEAD" || head.is_connect() {
            let mut refused = answer::words(
                405,
                "the request plane does not support this method".to_owned(),
            );
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
                "the media type must have at most {CONTENT_TYPE_BYTES_MAX} visible characters"
            );
            return Err(answer::words(415, why));
        }
        let idempotency_key = head.fields.values_named(b"idempotency-key").next();
        if idempotency_key.is_some_and(|key| !(1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()))
        {
            let why =
                format!("the idempotency key must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes");
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
            expects_continue: head.fields.has(FieldId::Expect),
            ends_at: request.ends_at,
        })
    }

    /// Bytes of its texts, to be charged.
    pub(super) fn bytes(&self) -> usize {
        self.said().text_bytes()
    }

    /// True if the body is one message that is sent on standing credit.
    pub(super) fn is_small(&self) -> bool {
        self.length
            .is_some_and(|length| length <= EAGER_BYTES_MAX as u64)
    }

    /// The kind of credit that pays for its body.
    fn payment(&self) -> Payment {
        match self.is_small() {
            true => Payment::Standing,
            false => Payment::Granted,
        }
    }

    /// The head at this time, with the time left as its deadline.
    pub(super) fn head(&self, now: Instant) -> Head<'_> {
        Head {
            deadline: self.ends_at.map(|at| at.saturating_duration_since(now)),
            ..self.said()
        }
    }

    /// The same without a deadline.
    fn said(&self) -> Head<'_> {
        Head {
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

/// The failure of a body that exceeds `bytes_max`.
pub(super) fn too_large(bytes_max: u64) -> Failure {
    Failure::new(
        Status::TooLarge,
        format!("at most {bytes_max} bytes are allowed"),
    )
}

/// The trace context of a field value; a malformed one counts as absent.
fn trace_parent(value: &[u8]) -> Option<TraceParent> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
