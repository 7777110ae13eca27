//! Field lines of requests, and heads of the gateway out of received responses. Spec: RFC 9113 §8.

use steppe_h2::Truncation;
use steppe_h2::hpack::FieldLine;
use steppe_h2::message::Pseudo;
use steppe_mem::{Buffer, Lease, OverBudget};

use crate::encoder::Encoder;
use crate::error::GatewayError;
use crate::exchange::Outgoing as Request;
use crate::field::FieldId;
use crate::h2::head::{FIELD_OVERHEAD, content_length, forwarded_line, has_valid_lines, line};
use crate::h2::inbox::ReceivedSection;
use crate::h2::websocket::{self, WEBSOCKET};
use crate::head::{Announced, ContentLength, RequestHead, ResponseHead, Version};
use crate::limits::{RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX};
use crate::message;

/// A request to be sent.
pub(super) struct RequestLines<'a> {
    head: &'a RequestHead,
    authority: &'a [u8],
    /// `None`: CONNECT has no more than an authority (RFC 9113 §8.5).
    scheme: Option<&'static [u8]>,
    target: OriginForm<'a>,
    /// Decimal digits of `content-length`, so many; 0: there is none.
    length: [u8; 20],
    length_digits: usize,
}

/// The target of a request in origin form.
enum OriginForm<'a> {
    Slice(&'a [u8]),
    /// Path and query that lie apart.
    Joined(Buffer),
}

impl<'a> RequestLines<'a> {
    /// # Errors
    /// The budget has no room for its target.
    pub(super) fn new(request: &Request<'a>, scheme: &'static [u8]) -> Result<Self, OverBudget> {
        let head = request.head;
        let mut lines = Self {
            head,
            authority: head.host_for(request.authority),
            scheme: (!head.is_connect()).then_some(scheme),
            target: OriginForm::of(head, request.lease)?,
            length: [0; 20],
            length_digits: 0,
        };
        if let Some(length) = message::request_length(head) {
            let mut digits = Encoder::new(&mut lines.length);
            digits.number(length);
            lines.length_digits = digits.written();
        }
        Ok(lines)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        let is_extended = self.head.upgrade().is_some();
        let method = match is_extended {
            true => b"CONNECT",
            false => self.head.method(),
        };
        let path = self.scheme.map(|_| line(b":path", self.target.octets()));
        let protocol = is_extended.then(|| line(b":protocol", WEBSOCKET));
        let pseudo = [
            Some(line(b":method", method)),
            self.scheme.map(|scheme| line(b":scheme", scheme)),
            Some(line(b":authority", self.authority)),
            path,
            protocol,
        ];
        let bytes = self.head.fields.bytes();
        let kept = self.head.fields.fields().iter().filter(move |field| {
            let is_own = matches!(
                field.id,
                FieldId::Host | FieldId::ContentLength | FieldId::Te
            );
            let is_key = |name: &[u8]| name.eq_ignore_ascii_case(websocket::KEY);
            let is_of_handshake = is_extended && is_key(field.name(bytes));
            !field.id.is_hop_by_hop() && !is_own && !is_of_handshake
        });
        let kept = kept.map(move |&field| forwarded_line(field, bytes));
        let length = &self.length[..self.length_digits];
        let length = (self.length_digits > 0).then(|| line(b"content-length", length));
        let te = (self.head.takes_trailers).then(|| line(b"te", b"trailers"));
        (pseudo.into_iter().flatten())
            .chain(kept)
            .chain(length)
            .chain(te)
    }
}

impl<'a> OriginForm<'a> {
    fn of(head: &'a RequestHead, lease: &Lease) -> Result<Self, OverBudget> {
        if let Some(target) = head.path_and_query() {
            return Ok(Self::Slice(target));
        }
        let (path, query) = (head.path(), head.query().unwrap_or_default());
        let mut joined = Buffer::take(lease, path.len() + 1 + query.len())?;
        for part in [path, b"?", query] {
            joined.put(part).expect("it was taken for them");
        }
        Ok(Self::Joined(joined))
    }

    fn octets(&self) -> &[u8] {
        match self {
            Self::Slice(target) => target,
            Self::Joined(target) => target.filled(),
        }
    }
}

/// The status of a section of a response; 0 where it was lost.
fn status(received: &ReceivedSection) -> u16 {
    let status = received.section.pseudo(Pseudo::Status);
    let digits = status.map(|status| status.of(received.section.bytes()));
    let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The length of content that may follow; `None`: no content follows.
pub(super) fn announced_length(received: &ReceivedSection) -> Option<ContentLength> {
    let status = status(received);
    if received.is_last || (100..200).contains(&status) || matches!(status, 204 | 304) {
        return None;
    }
    let mut values = received.section.values(FieldId::ContentLength);
    // What is malformed is refused when it is read.
    let length = values.next().and_then(message::content_length);
    Some(match (length, values.next()) {
        (Some(bytes), None) => ContentLength::Known(bytes),
        _ => ContentLength::Unknown,
    })
}

/// The head of a response, interim or final, charged to `lease`.
///
/// # Errors
/// It is malformed or larger than allowed: 502. The budget has no room: 503.
pub(super) fn response_head(
    received: ReceivedSection,
    announced: Announced,
    lease: &Lease,
) -> Result<ResponseHead, GatewayError> {
    let status = status(&received);
    let is_to_head = announced == Announced::Representation;
    let ReceivedSection {
        section,
        truncation,
        is_last,
        ..
    } = received;
    match truncation {
        None if !section.has_no_room() => {}
        Some(Truncation::TooLarge) => return Err(GatewayError::bad_response()),
        None | Some(Truncation::NoRoom) => return Err(GatewayError::over_budget()),
    }
    let mut fields = section.into_fields();
    let bytes: usize = (fields.iter())
        .map(|(_, name, value)| name.len() + value.len() + FIELD_OVERHEAD)
        .sum();
    let is_too_large =
        fields.fields().len() > RESPONSE_FIELDS_MAX || bytes > RESPONSE_HEAD_BYTES_MAX;
    // RFC 9113 §8.6: there is no 101.
    let is_status = (100..600).contains(&status) && status != 101;
    if is_too_large || !is_status || !has_valid_lines(&fields) {
        return Err(GatewayError::bad_response());
    }
    fields.charge_to(lease)?;
    let has_none = is_last || is_to_head || status < 200 || matches!(status, 204 | 304);
    let length = match content_length(&fields).map_err(|_| GatewayError::bad_response())? {
        _ if has_none => ContentLength::Empty,
        Some(bytes) => ContentLength::Known(bytes),
        None => ContentLength::Unknown,
    };
    let reason = fields.put(crate::status::reason(status).as_bytes())?;
    Ok(ResponseHead {
        fields,
        version: Version::Http2,
        status,
        length,
        reason,
        upgrade: None,
        is_connected: false,
    })
}

/// The answer to an extended CONNECT, as what it is in HTTP/1.1: 101 (RFC 8441 §5).
pub(super) fn tunnel_head(mut head: ResponseHead, key: &[u8]) -> Result<ResponseHead, OverBudget> {
    head.fields.remove_where(|id| id == FieldId::ContentLength);
    head.fields
        .append(websocket::ACCEPT, websocket::accept(key).as_bytes())?;
    head.upgrade = Some(head.fields.put(WEBSOCKET)?);
    head.reason = head.fields.put(crate::status::reason(101).as_bytes())?;
    head.status = 101;
    head.length = ContentLength::Empty;
    Ok(head)
}
