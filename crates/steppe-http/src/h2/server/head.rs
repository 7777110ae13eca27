//! Heads of the gateway out of received sections, and field lines out of heads.
//!
//! Invariant: what becomes a head of the gateway could be one of HTTP/1: no byte in it ends a line or a field there,
//! whatever it is forwarded as. Spec: RFC 9113 §8.
//!
//! # Deviations
//! Stricter than RFC 9113 §8.3.1: a `Host` that differs from `:authority` is refused instead of being ignored.

use steppe_h2::hpack::FieldLine;
use steppe_h2::message::Pseudo;
use steppe_h2::{ErrorCode, Truncation};
use steppe_mem::{Chunk, Lease, OverBudget};

use crate::date::DATE_BYTES;
use crate::encoder::Encoder;
use crate::error::GatewayError;
use crate::exchange::{Refusal, RefusalContent};
use crate::field::{FieldBlock, FieldId, Span, is_token};
use crate::gateway::ListenerSettings;
use crate::h2::head::{TrailersError, content_length, forwarded_line, has_valid_lines, line};
use crate::h2::inbox::ReceivedSection;
use crate::h2::priority::Priority;
use crate::h2::section::HeadSection;
use crate::h2::websocket::{self, WEBSOCKET};
use crate::head::{Announced, ContentLength, RequestHead, RequestView, ResponseHead, Version};
use crate::message::{self, OwnFields};
use crate::metrics::CloseReason;
use crate::target::{self, Asked};

/// The reset code of a stream whose exchange was cut.
pub(super) const CUT: ErrorCode = ErrorCode::INTERNAL_ERROR;

/// A request that is rejected, and as much of it as could be read.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) error: GatewayError,
    read: Option<(Asked, FieldBlock)>,
}

impl Rejection {
    /// The head's parts for the access log.
    pub(super) fn view(&self) -> Option<RequestView<'_>> {
        let (asked, fields) = self.read.as_ref()?;
        Some(RequestView {
            method: asked.method.of(fields.bytes()),
            target: asked.target.of(fields.bytes()),
            version: asked.version,
            fields,
        })
    }
}

/// A section of a request, as it came.
#[derive(Debug)]
pub(super) struct ReceivedRequest {
    /// Without memory where it was cut.
    section: Result<HeadSection, GatewayError>,
    /// Nothing follows it.
    is_whole: bool,
    is_to_head: bool,
}

impl ReceivedRequest {
    /// A section that was received, all of it or in part.
    pub(super) fn new(received: ReceivedSection) -> Self {
        let ReceivedSection {
            section,
            truncation,
            is_last,
            ..
        } = received;
        let is_to_head = section.is_method(b"HEAD");
        let section = match truncation {
            Some(Truncation::TooLarge) => Err(too_large()),
            Some(Truncation::NoRoom) => Err(GatewayError::over_budget()),
            None if section.has_no_room() => Err(GatewayError::over_budget()),
            None => Ok(section),
        };
        Self {
            section,
            is_whole: is_last,
            is_to_head,
        }
    }

    /// The length of its content, as far as it announces it.
    pub(super) fn announced_length(&self) -> ContentLength {
        if self.is_whole {
            return ContentLength::Empty;
        }
        // Of CONNECT, content is a tunnel's.
        let section = self.section.as_ref().ok();
        let Some(section) = section.filter(|section| !section.is_method(b"CONNECT")) else {
            return ContentLength::Unknown;
        };
        let mut values = section.values(FieldId::ContentLength);
        // What is malformed is rejected when it is read.
        match (
            values.next().and_then(message::content_length),
            values.next(),
        ) {
            (Some(bytes), None) => ContentLength::Known(bytes),
            _ => ContentLength::Unknown,
        }
    }

    /// The priority that its client asks for.
    pub(super) fn priority(&self) -> Priority {
        match &self.section {
            Ok(section) => Priority::of_request(section.values_named(b"priority")),
            Err(_) => Priority::SHARED,
        }
    }

    /// The method is HEAD.
    pub(super) fn is_to_head(&self) -> bool {
        self.is_to_head
    }

    /// The head.
    ///
    /// # Errors
    /// It is refused, with as much of it as could be read.
    pub(super) fn into_head(self, settings: &ListenerSettings) -> Result<RequestHead, Rejection> {
        let failed = |error: GatewayError| Rejection { error, read: None };
        let is_whole = self.is_whole;
        let read = self
            .section
            .and_then(|section| read_request(section, settings));
        let ReadRequest {
            asked,
            mut fields,
            is_extended,
            takes_trailers,
        } = read.map_err(failed)?;
        let finish = Finish {
            asked,
            is_extended,
            is_whole,
        };
        match finish.finish(&mut fields, settings) {
            Ok((length, parts)) => Ok(RequestHead {
                fields,
                version: Version::Http2,
                length,
                takes_trailers,
                parts,
            }),
            Err(error) => Err(Rejection {
                error,
                read: Some((asked, fields)),
            }),
        }
    }
}

/// A request that was read, with its target unresolved.
struct ReadRequest {
    asked: Asked,
    fields: FieldBlock,
    /// Extended CONNECT (RFC 8441).
    is_extended: bool,
    takes_trailers: bool,
}

/// Everything of it as it came, but for fields that end here.
fn read_request(
    section: HeadSection,
    settings: &ListenerSettings,
) -> Result<ReadRequest, GatewayError> {
    let of = |pseudo: Pseudo| section.pseudo(pseudo);
    let bytes = section.bytes();
    let (method, path, scheme) = (of(Pseudo::Method), of(Pseudo::Path), of(Pseudo::Scheme));
    let authority = of(Pseudo::Authority);
    let method = method.ok_or_else(GatewayError::bad_request)?;
    let is_connect = method.of(bytes) == b"CONNECT";
    let protocol = of(Pseudo::Protocol).map(|span| span.of(bytes) == WEBSOCKET);
    let target = match (path, authority) {
        (_, Some(authority)) if is_connect && protocol.is_none() => authority,
        (Some(path), _) => path,
        (None, _) => return Err(GatewayError::bad_request()),
    };
    let is_valid = is_token(method.of(bytes))
        && target::is_target(target.of(bytes))
        && scheme.is_none_or(|scheme| target::is_scheme(scheme.of(bytes)))
        && authority.is_none_or(|authority| target::is_target(authority.of(bytes)));
    if !is_valid {
        return Err(GatewayError::bad_request());
    }
    let mut fields = section.into_fields();
    if !has_valid_lines(&fields) {
        return Err(GatewayError::bad_request());
    }
    // A line of HTTP/1 has four bytes beside its name and its value.
    let list_bytes: usize = (fields.iter())
        .map(|(_, name, value)| name.len() + value.len() + 4)
        .sum();
    let bytes = fields.bytes();
    let all_bytes = method.of(bytes).len() + target.of(bytes).len() + list_bytes;
    let limits = &settings.limits;
    if fields.fields().len() > limits.header_count || all_bytes > limits.header_bytes {
        return Err(too_large());
    }
    let method = match protocol {
        // A stream of RFC 8441 is what an upgrade is in HTTP/1.1.
        Some(true) => fields.put(b"GET")?,
        Some(false) => return Err(GatewayError::downstream(CloseReason::Unsupported, 501)),
        None => method,
    };
    let takes_trailers =
        (fields.values(FieldId::Te)).any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
    fields.remove_where(|id| id == FieldId::Te);
    name_host(&mut fields, authority)?;
    fields.join_lines(b"cookie", b"; ")?;
    let asked = Asked {
        method,
        target,
        version: Version::Http2,
    };
    Ok(ReadRequest {
        asked,
        fields,
        is_extended: protocol.is_some(),
        takes_trailers,
    })
}

/// Makes `:authority` the host.
fn name_host(fields: &mut FieldBlock, authority: Option<Span>) -> Result<(), GatewayError> {
    let bytes = fields.bytes();
    let is_same = |host: &[u8], authority: Span| host.eq_ignore_ascii_case(authority.of(bytes));
    let is_valid = match authority {
        Some(authority) => (fields.values(FieldId::Host)).all(|host| is_same(host, authority)),
        None => fields.values(FieldId::Host).count() < 2,
    };
    if !is_valid {
        return Err(GatewayError::bad_request());
    }
    if let Some(authority) = authority {
        fields.remove_where(|id| id == FieldId::Host);
        fields.append_host(authority)?;
    }
    Ok(())
}

/// Resolves a request.
struct Finish {
    asked: Asked,
    is_extended: bool,
    is_whole: bool,
}

impl Finish {
    fn finish(
        &self,
        fields: &mut FieldBlock,
        settings: &ListenerSettings,
    ) -> Result<(ContentLength, crate::head::RequestParts), GatewayError> {
        fields.apply_underscores(settings.underscores)?;
        if !message::is_expectation_known(fields) {
            return Err(GatewayError::downstream(CloseReason::Unsupported, 417));
        }
        let mut upgrade = None;
        if self.is_extended {
            fields.remove(websocket::KEY);
            fields.append(websocket::KEY, websocket::new_key().as_bytes())?;
            upgrade = Some(fields.put(WEBSOCKET)?);
        }
        let is_connect = self.asked.method.of(fields.bytes()) == b"CONNECT";
        let length = match content_length(fields).map_err(|_| GatewayError::bad_request())? {
            _ if upgrade.is_some() => ContentLength::Empty,
            // What it sends is for after the answer.
            None if is_connect => ContentLength::Empty,
            Some(_) if is_connect => return Err(GatewayError::bad_request()),
            _ if self.is_whole => ContentLength::Empty,
            Some(bytes) if bytes > settings.limits.body_bytes => {
                return Err(GatewayError::downstream(CloseReason::BodyTooLarge, 413));
            }
            Some(bytes) => ContentLength::Known(bytes),
            None => ContentLength::Unknown,
        };
        Ok((length, target::resolve(self.asked, upgrade, fields)?))
    }
}

fn too_large() -> GatewayError {
    GatewayError::downstream(CloseReason::HeaderTooLarge, 431)
}

/// Why the trailers of a request can't be used.
pub(super) fn trailers_error(error: TrailersError) -> GatewayError {
    match error {
        TrailersError::Malformed => GatewayError::bad_request(),
        TrailersError::TooLarge => too_large(),
        TrailersError::OverBudget => GatewayError::over_budget(),
    }
}

/// The text of a response's lines that no head has.
#[derive(Debug)]
pub(super) struct OwnLines {
    status: [u8; 3],
    /// Decimal digits of `Content-Length`, so many; 0: there is none.
    length: [u8; 20],
    length_digits: usize,
    date: Option<[u8; DATE_BYTES]>,
}

impl OwnLines {
    fn new(status: u16, length: Option<u64>, date: Option<[u8; DATE_BYTES]>) -> Self {
        let mut own = Self {
            status: [0; 3],
            length: [0; 20],
            length_digits: 0,
            date,
        };
        Encoder::new(&mut own.status).number(status.into());
        if let Some(length) = length {
            let mut digits = Encoder::new(&mut own.length);
            digits.number(length);
            own.length_digits = digits.written();
        }
        own
    }

    /// Those before the head's own lines.
    fn first(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        std::iter::once(line(b":status", &self.status))
    }

    /// Those behind them.
    fn last(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        let length = &self.length[..self.length_digits];
        let length = Some(length).filter(|length| !length.is_empty());
        let length = length.map(|length| line(b"content-length", length));
        let date = self.date.as_ref().map(|date| line(b"date", date));
        length.into_iter().chain(date)
    }
}

/// A response's head to be sent.
pub(super) struct ResponseLines<'a> {
    fields: &'a FieldBlock,
    own: OwnLines,
    replaces_length: bool,
    is_upgrade: bool,
}

impl<'a> ResponseLines<'a> {
    pub(super) fn new(head: &'a ResponseHead, announced: Announced) -> Self {
        let is_upgrade = head.status == 101;
        let own = OwnFields::of_response(head, announced);
        let date = own.adds_date.then(crate::date::now);
        let status = if is_upgrade { 200 } else { head.status };
        Self {
            fields: &head.fields,
            own: OwnLines::new(status, own.length, date),
            replaces_length: own.replaces_length,
            is_upgrade,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        let bytes = self.fields.bytes();
        let kept = self.fields.fields().iter().filter(move |field| {
            let is_replaced = field.id == FieldId::ContentLength && self.replaces_length;
            let is_accept = |name: &[u8]| name.eq_ignore_ascii_case(websocket::ACCEPT);
            let is_of_handshake = self.is_upgrade && is_accept(field.name(bytes));
            !field.id.is_hop_by_hop() && !is_replaced && !is_of_handshake
        });
        let kept = kept.map(move |&field| forwarded_line(field, bytes));
        self.own.first().chain(kept).chain(self.own.last())
    }
}

/// A response of the gateway's own.
pub(super) struct RefusalHead {
    own: OwnLines,
    media_type: Option<String>,
    fields: Vec<(String, String)>,
}

impl RefusalHead {
    /// Its head and its content, where it has some.
    ///
    /// # Errors
    /// The budget has no room for the content.
    pub(super) fn new(
        refusal: &Refusal<'_>,
        lease: &Lease,
    ) -> Result<(Self, Option<Chunk>), OverBudget> {
        let content = match refusal.content {
            RefusalContent::Nothing => None,
            RefusalContent::Word => {
                let encoded =
                    Encoder::encode(lease, 64, |out| out.refusal_content(refusal.status))?;
                Some(encoded.into())
            }
            RefusalContent::Page(page) => Some(page.content()),
        };
        let length = content.as_ref().map(|content: &Chunk| content.len() as u64);
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let head = Self {
            own: OwnLines::new(refusal.status, length, Some(crate::date::now())),
            media_type: refusal.media_type().map(str::to_owned),
            fields: refusal.fields.iter().map(owned).collect(),
        };
        Ok((head, content))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| line(name.as_bytes(), value.as_bytes()));
        let media_type = self.media_type.as_deref();
        let media_type = media_type.map(|media_type| line(b"content-type", media_type.as_bytes()));
        self.own
            .first()
            .chain(fields)
            .chain(media_type)
            .chain(self.own.last())
    }
}
