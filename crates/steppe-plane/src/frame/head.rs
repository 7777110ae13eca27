//! HEADERS: the first frame of a request or a response. `docs/plane/protocol.md` §5.

use std::time::Duration;

use super::field::{FieldError, Fields, TextRule, put, text_of, u64_of, unknown};
use super::header::flag;
use super::trace::TraceParent;
use crate::limits::{
    CONTENT_TYPE_BYTES_MAX, DEADLINE_MAX, EAGER_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX,
    SERVICE_BYTES_MAX, block_bytes,
};

const SERVICE: u8 = 1;
const LENGTH: u8 = 2;
const DEADLINE: u8 = 3;
const CONTENT_TYPE: u8 = 4;
const TRACE_PARENT: u8 = 5;
const IDEMPOTENCY_KEY: u8 = 6;

pub(super) const SERVICE_NAME: TextRule = TextRule {
    max: SERVICE_BYTES_MAX,
    byte: u8::is_ascii_graphic,
};
const MEDIA_TYPE: TextRule = TextRule {
    max: CONTENT_TYPE_BYTES_MAX,
    byte: |byte| byte.is_ascii_graphic() || *byte == b' ',
};

/// The fields and flags of HEADERS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// Called service: 1 to [`SERVICE_BYTES_MAX`] visible ASCII characters. Empty in a response.
    pub service: &'a str,
    /// Bytes of all messages of the body together; `None` if unknown.
    pub length: Option<u64>,
    /// Time that is left for the call, in microseconds on the wire. In requests only.
    pub deadline: Option<Duration>,
    /// Media type of the messages.
    pub content_type: Option<&'a str>,
    /// Trace context of a request.
    pub trace_parent: Option<TraceParent>,
    /// Key that permits running a request more than once: 1 to [`IDEMPOTENCY_KEY_BYTES_MAX`] bytes. It does
    /// not deduplicate.
    pub idempotency_key: Option<&'a [u8]>,
    /// Permission for a request to wait for room.
    pub queueing: Queueing,
    /// Kind of credit that pays for the DATA of the body.
    pub payment: Payment,
}

/// Permission for a request to wait while there is no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queueing {
    /// The request may wait.
    #[default]
    Allowed,
    /// The request is refused at once.
    Never,
}

/// Kind of credit that pays for the DATA of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payment {
    /// Standing credit of the stream and of the connection: each message is one frame.
    #[default]
    Standing,
    /// Credit that the receiver grants to the stream once it has room.
    Granted,
}

/// Direction of HEADERS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the opener of the stream.
    Request,
    /// From the responder.
    Response,
}

impl<'a> Head<'a> {
    /// A request to `service` without any other field.
    #[must_use]
    pub fn request(service: &'a str) -> Self {
        Self {
            service,
            ..Self::response()
        }
    }

    /// A response without fields.
    #[must_use]
    pub fn response() -> Self {
        Self {
            service: "",
            length: None,
            deadline: None,
            content_type: None,
            trace_parent: None,
            idempotency_key: None,
            queueing: Queueing::Allowed,
            payment: Payment::Standing,
        }
    }

    /// Charge in bytes for a copy of the texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let texts = [
            Some(self.service.len()),
            self.content_type.map(str::len),
            self.idempotency_key.map(<[u8]>::len),
        ];
        texts.into_iter().flatten().map(block_bytes).sum()
    }

    /// Reads the fields of HEADERS.
    ///
    /// # Errors
    /// [`FieldError`]. [`FieldError::Unknown`] ends only the stream, any other error the connection.
    pub fn read(direction: Direction, flags: u8, payload: &'a [u8]) -> Result<Self, FieldError> {
        let mut head = Self::response();
        if flags & flag::ANNOUNCED != 0 {
            head.payment = Payment::Granted;
        }
        if flags & flag::DO_NOT_QUEUE != 0 {
            head.queueing = Queueing::Never;
        }
        let mut unknown_field = Ok(());
        for field in Fields::new(payload) {
            let (number, value) = field?;
            match number {
                SERVICE => head.service = text_of(number, value, SERVICE_NAME)?,
                LENGTH => head.length = Some(u64_of(number, value)?),
                DEADLINE => head.deadline = Some(deadline_of(u64_of(number, value)?)),
                CONTENT_TYPE => head.content_type = Some(text_of(number, value, MEDIA_TYPE)?),
                TRACE_PARENT => head.trace_parent = Some(trace_parent_of(value)?),
                IDEMPOTENCY_KEY => head.idempotency_key = Some(key_of(value)?),
                // The other fields are checked first: malformed ones end the connection.
                _ => unknown_field = unknown_field.and(unknown(number)),
            }
        }
        head.check(direction)?;
        unknown_field.map(|()| head)
    }

    /// Checks a head that is to be written as [`Head::read`] checks a received one.
    ///
    /// # Errors
    /// [`FieldError::Value`], [`FieldError::Missing`].
    pub fn check(&self, direction: Direction) -> Result<(), FieldError> {
        match direction {
            Direction::Request if self.service.is_empty() => {
                return Err(FieldError::Missing(SERVICE));
            }
            Direction::Request => _ = text_of(SERVICE, self.service.as_bytes(), SERVICE_NAME)?,
            Direction::Response => self.check_response()?,
        }
        if let Some(content_type) = self.content_type {
            text_of(CONTENT_TYPE, content_type.as_bytes(), MEDIA_TYPE)?;
        }
        if let Some(key) = self.idempotency_key {
            key_of(key)?;
        }
        let is_too_long = |length| length > EAGER_BYTES_MAX as u64;
        if self.payment == Payment::Standing && self.length.is_some_and(is_too_long) {
            return Err(FieldError::Value(LENGTH));
        }
        Ok(())
    }

    fn check_response(&self) -> Result<(), FieldError> {
        let of_requests = [
            (SERVICE, !self.service.is_empty()),
            (DEADLINE, self.deadline.is_some()),
            (TRACE_PARENT, self.trace_parent.is_some()),
            (IDEMPOTENCY_KEY, self.idempotency_key.is_some()),
        ];
        let found = of_requests.iter().find(|(_, is_there)| *is_there);
        found.map_or(Ok(()), |&(number, _)| Err(FieldError::Value(number)))
    }

    /// Appends the fields of HEADERS.
    ///
    /// # Panics
    /// If a value has 64 KiB or more; [`Head::check`] rejects such heads.
    pub fn write(&self, out: &mut Vec<u8>) {
        if !self.service.is_empty() {
            put(out, SERVICE, self.service.as_bytes());
        }
        if let Some(length) = self.length {
            put(out, LENGTH, &length.to_be_bytes());
        }
        if let Some(deadline) = self.deadline {
            let micros = u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX);
            put(out, DEADLINE, &micros.to_be_bytes());
        }
        if let Some(content_type) = self.content_type {
            put(out, CONTENT_TYPE, content_type.as_bytes());
        }
        if let Some(TraceParent(bytes)) = &self.trace_parent {
            put(out, TRACE_PARENT, bytes);
        }
        if let Some(key) = self.idempotency_key {
            put(out, IDEMPOTENCY_KEY, key);
        }
    }

    /// Flags of the HEADERS frame.
    #[must_use]
    pub fn flags(&self) -> u8 {
        let announced = match self.payment {
            Payment::Standing => 0,
            Payment::Granted => flag::ANNOUNCED,
        };
        let do_not_queue = match self.queueing {
            Queueing::Allowed => 0,
            Queueing::Never => flag::DO_NOT_QUEUE,
        };
        announced | do_not_queue
    }
}

fn deadline_of(micros: u64) -> Duration {
    Duration::from_micros(micros).min(DEADLINE_MAX)
}

fn trace_parent_of(value: &[u8]) -> Result<TraceParent, FieldError> {
    TraceParent::read(value).ok_or(FieldError::Value(TRACE_PARENT))
}

fn key_of(value: &[u8]) -> Result<&[u8], FieldError> {
    let is_valid = (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&value.len());
    is_valid
        .then_some(value)
        .ok_or(FieldError::Value(IDEMPOTENCY_KEY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Head<'static> {
        Head {
            length: Some(1_000_000),
            deadline: Some(Duration::from_micros(2_500_001)),
            content_type: Some("text/plain; charset=utf-8"),
            trace_parent: Some(TraceParent([7; 26])),
            idempotency_key: Some(b"\x00\xffkey"),
            queueing: Queueing::Never,
            payment: Payment::Granted,
            ..Head::request("embed/v1")
        }
    }

    fn written(head: &Head<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        head.write(&mut out);
        out
    }

    #[test]
    fn heads_round_trip() {
        let request = full();
        let bytes = written(&request);
        let read = Head::read(Direction::Request, request.flags(), &bytes);
        assert_eq!(read, Ok(request));
        let response = Head {
            length: Some(3),
            content_type: Some("a/b"),
            ..Head::response()
        };
        let bytes = written(&response);
        let read = Head::read(Direction::Response, response.flags(), &bytes);
        assert_eq!(read, Ok(response));
    }

    #[test]
    fn unknown_fields_are_skipped_or_told_last() {
        let mut bytes = written(&full());
        put(&mut bytes, 0x80, b"anything");
        assert!(Head::read(Direction::Request, full().flags(), &bytes).is_ok());
        let mut bytes = written(&full());
        put(&mut bytes, 100, b"must be known");
        let read = Head::read(Direction::Request, full().flags(), &bytes);
        assert_eq!(read, Err(FieldError::Unknown(100)));
        put(&mut bytes, 99, b"");
        let read = Head::read(Direction::Request, full().flags(), &bytes);
        assert_eq!(read, Err(FieldError::Order(99)));
    }

    fn checked(change: impl Fn(&mut Head<'static>)) -> Result<(), FieldError> {
        let mut head = full();
        change(&mut head);
        let before = head.check(Direction::Request);
        let bytes = written(&head);
        let read = Head::read(Direction::Request, head.flags(), &bytes).map(|_| ());
        assert_eq!(before.is_ok(), read.is_ok(), "written as it is read");
        read
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(checked(|_| {}), Ok(()));
        assert_eq!(
            checked(|head| head.service = ""),
            Err(FieldError::Missing(SERVICE))
        );
        assert_eq!(
            checked(|head| head.service = "a b"),
            Err(FieldError::Value(SERVICE))
        );
        assert_eq!(
            checked(|head| head.content_type = Some("a\r\nb")),
            Err(FieldError::Value(CONTENT_TYPE))
        );
        assert_eq!(
            checked(|head| head.idempotency_key = Some(&[0; 65])),
            Err(FieldError::Value(IDEMPOTENCY_KEY))
        );
        assert_eq!(
            checked(|head| head.payment = Payment::Standing),
            Err(FieldError::Value(LENGTH))
        );
    }

    #[test]
    fn what_is_a_requests_is_refused_in_a_response() {
        let bytes = written(&full());
        let read = Head::read(Direction::Response, full().flags(), &bytes);
        assert_eq!(read, Err(FieldError::Value(SERVICE)));
    }

    #[test]
    fn long_deadlines_count_as_the_longest() {
        let head = Head {
            deadline: Some(Duration::MAX),
            ..full()
        };
        let bytes = written(&head);
        let read = Head::read(Direction::Request, head.flags(), &bytes).expect("valid");
        assert_eq!(read.deadline, Some(DEADLINE_MAX));
    }
}
