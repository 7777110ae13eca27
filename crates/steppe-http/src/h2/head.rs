//! Heads of the gateway out of those of the `h2` crate, and the other way round.
//!
//! Invariant: what becomes a head of the gateway could be one of HTTP/1: no byte in it ends a line
//! or a field there, whatever it is forwarded as. Spec: RFC 9113 §8.
//!
//! # Deviations
//! Stricter than RFC 9113 §8.3.1: a `Host` that differs from `:authority` is refused instead of
//! being ignored.

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, COOKIE, HOST, TE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use steppe_mem::{Buffer, Chunk, Lease, OverBudget, Reservation};

use super::websocket::{self, WEBSOCKET};
use crate::encoder::Encoder;
use crate::error::GatewayError;
use crate::exchange::{Refusal, RefusalContent};
use crate::field::{FieldBlock, FieldId, FieldList, Span, is_field_line, is_token};
use crate::gateway::ListenerSettings;
use crate::head::{Announced, ContentLength, RequestHead, RequestView, ResponseHead, Version};
use crate::limits::{RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX};
use crate::message::{self, OwnFields};
use crate::metrics::CloseReason;
use crate::target::{self, Asked};

/// Bytes that RFC 9113 §6.5.2 counts of a field beside its name and its value.
pub(super) const FIELD_OVERHEAD: usize = 32;

/// A request that is rejected, and as much of it as could be read.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) error: GatewayError,
    read: Option<(Asked, FieldBlock)>,
}

/// Why fields of a peer can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldError {
    Malformed,
    OverBudget,
}

impl From<OverBudget> for FieldError {
    fn from(_: OverBudget) -> Self {
        Self::OverBudget
    }
}

impl From<FieldError> for GatewayError {
    fn from(error: FieldError) -> Self {
        match error {
            FieldError::Malformed => Self::bad_request(),
            FieldError::OverBudget => Self::over_budget(),
        }
    }
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

/// Bytes of a header list as RFC 9113 §6.5.2 counts them.
pub(super) fn map_bytes(map: &HeaderMap) -> usize {
    map.iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD)
        .sum()
}

/// Bytes that the crate's form of a header list takes, at most.
pub(super) fn map_memory(map: &HeaderMap) -> usize {
    // An entry, its place in the index, and the blocks of a name and a value of their own.
    const FIELD_BYTES: usize = 192;
    let text: usize = map
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    text + FIELD_BYTES * map.len().max(map.capacity())
}

/// Bytes that the crate's form of `fields` takes until it is written, at most.
pub(super) fn handed_bytes(fields: &FieldBlock) -> usize {
    const LIST_BYTES: usize = 512;
    // A table has room for twice as many at most.
    const FIELD_BYTES: usize = 2 * 128;
    LIST_BYTES + fields.bytes().len() + FIELD_BYTES * fields.fields().len()
}

/// The head of a request, in memory that is `reserved`.
pub(super) fn request(
    request: &Request<RecvStream>,
    settings: &ListenerSettings,
    reserved: &mut Reservation,
) -> Result<RequestHead, Rejection> {
    let failed = |error: GatewayError| Rejection { error, read: None };
    let (asked, mut fields) = read_request(request, settings, reserved).map_err(failed)?;
    match finish_request(request, settings, (asked, &mut fields)) {
        Ok((length, parts)) => Ok(RequestHead {
            fields,
            version: Version::Http2,
            length,
            takes_trailers: takes_trailers(request.headers()),
            parts,
        }),
        Err(error) => Err(Rejection {
            error,
            read: Some((asked, fields)),
        }),
    }
}

/// Everything of it as it came, but for fields that end here.
fn read_request(
    request: &Request<RecvStream>,
    settings: &ListenerSettings,
    reserved: &mut Reservation,
) -> Result<(Asked, FieldBlock), GatewayError> {
    let (method, uri, headers) = (request.method().as_str(), request.uri(), request.headers());
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let authority = uri.authority().map(|authority| authority.as_str());
    let is_scheme = |scheme: &str| target::is_scheme(scheme.as_bytes());
    // The crate lets through what is in no request line.
    if !is_token(method.as_bytes())
        || !target::is_target(target.as_bytes())
        || !uri.scheme_str().is_none_or(is_scheme)
    {
        return Err(GatewayError::bad_request());
    }
    let limits = &settings.limits;
    // A line of HTTP/1 has four bytes beside its name and its value.
    let list_bytes = map_bytes(headers) - headers.len() * (FIELD_OVERHEAD - 4);
    let bytes = method.len() + target.len() + list_bytes;
    if headers.len() > limits.header_count || bytes > limits.header_bytes {
        return Err(too_large());
    }
    let room = bytes + authority.map_or(0, str::len) + 16;
    let mut fields = FieldBlock::new(Buffer::take_of(reserved, room)?, FieldList::take());
    let method = match request.extensions().get::<Protocol>() {
        // A stream of RFC 8441 is what an upgrade is in HTTP/1.1.
        Some(protocol) if protocol.as_str().as_bytes() == WEBSOCKET => "GET",
        Some(_) => return Err(GatewayError::downstream(CloseReason::Unsupported, 501)),
        None => method,
    };
    let target = match authority {
        Some(authority) if method == "CONNECT" => authority,
        _ => target,
    };
    let asked = Asked {
        method: fields.put(method.as_bytes())?,
        target: fields.put(target.as_bytes())?,
        version: Version::Http2,
    };
    if let Some(authority) = authority {
        fields.append_known(FieldId::Host, b"host", authority.as_bytes())?;
    }
    let named = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let mut others = named.filter(|host| {
        !authority.is_some_and(|authority| host.eq_ignore_ascii_case(authority.as_bytes()))
    });
    if let Some(other) = others.next() {
        if authority.is_some() || others.next().is_some() {
            return Err(GatewayError::bad_request());
        }
        fields.append_known(FieldId::Host, b"host", other)?;
    }
    append_all(&mut fields, headers)?;
    Ok((asked, fields))
}

fn finish_request(
    request: &Request<RecvStream>,
    settings: &ListenerSettings,
    (asked, fields): (Asked, &mut FieldBlock),
) -> Result<(ContentLength, crate::head::RequestParts), GatewayError> {
    fields.apply_underscores(settings.underscores)?;
    if !message::is_expectation_known(fields) {
        return Err(GatewayError::downstream(CloseReason::Unsupported, 417));
    }
    let upgrade = match request.method() {
        &Method::CONNECT if asked.method.of(fields.bytes()) == b"GET" => {
            fields.remove(websocket::KEY);
            fields.append(websocket::KEY, websocket::new_key().as_bytes())?;
            Some(fields.put(WEBSOCKET)?)
        }
        _ => None,
    };
    let length = match content_length(request.headers())? {
        _ if upgrade.is_some() => ContentLength::Empty,
        // What it sends is for after the answer.
        None if request.method() == Method::CONNECT => ContentLength::Empty,
        Some(_) if request.method() == Method::CONNECT => return Err(GatewayError::bad_request()),
        _ if request.body().is_end_stream() => ContentLength::Empty,
        Some(bytes) if bytes > settings.limits.body_bytes => {
            return Err(GatewayError::downstream(CloseReason::BodyTooLarge, 413));
        }
        Some(bytes) => ContentLength::Known(bytes),
        None => ContentLength::Unknown,
    };
    Ok((length, target::resolve(asked, upgrade, fields)?))
}

/// The length of a request's content, as far as its head announces it.
pub(super) fn announced_length(request: &Request<RecvStream>) -> ContentLength {
    match content_length(request.headers()) {
        _ if request.body().is_end_stream() => ContentLength::Empty,
        Ok(Some(bytes)) => ContentLength::Known(bytes),
        // What is malformed is rejected when it is read.
        Ok(None) | Err(_) => ContentLength::Unknown,
    }
}

fn too_large() -> GatewayError {
    GatewayError::downstream(CloseReason::HeaderTooLarge, 431)
}

/// Lines of `headers` but `Host` and `TE`; crumbs of cookies become one (RFC 9113 §8.2.3).
fn append_all(fields: &mut FieldBlock, headers: &HeaderMap) -> Result<(), FieldError> {
    for (name, value) in headers {
        if !is_field_line(name.as_str().as_bytes(), value.as_bytes()) {
            return Err(FieldError::Malformed);
        }
        if matches!(*name, HOST | TE | COOKIE) {
            continue;
        }
        fields.append_received(name.as_str().as_bytes(), value.as_bytes())?;
    }
    if headers.contains_key(COOKIE) {
        fields.append_joined(b"cookie", b"; ", || {
            headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes)
        })?;
    }
    Ok(())
}

/// The trailer section of a message.
pub(super) fn trailers(map: &HeaderMap, lease: &Lease) -> Result<FieldBlock, FieldError> {
    let room = map_bytes(map);
    let mut fields = FieldBlock::new(Buffer::take(lease, room)?, FieldList::take());
    append_all(&mut fields, map)?;
    Ok(fields)
}

fn takes_trailers(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TE).iter();
    codings.any(|coding| coding.as_bytes().eq_ignore_ascii_case(b"trailers"))
}

pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, GatewayError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => message::content_length(value.as_bytes())
            .map(Some)
            .ok_or_else(GatewayError::bad_request),
        (Some(_), Some(_)) => Err(GatewayError::bad_request()),
    }
}

/// Lines of `fields` as the crate has them. Their bytes are copied once, all together.
fn append_to(map: &mut HeaderMap, fields: &FieldBlock, skips: impl Fn(FieldId, &[u8]) -> bool) {
    let bytes = Bytes::copy_from_slice(fields.bytes());
    map.reserve(fields.fields().len());
    for field in fields.fields() {
        let (name, value) = field.spans();
        if field.id.is_hop_by_hop() || skips(field.id, name.of(&bytes)) {
            continue;
        }
        let slice = |span: Span| bytes.slice(span.start()..span.end());
        let name = HeaderName::from_bytes(name.of(&bytes));
        let value = HeaderValue::from_maybe_shared(slice(value));
        // Both were valid in a head of the gateway.
        if let (Ok(name), Ok(value)) = (name, value) {
            map.append(name, value);
        }
    }
}

/// A trailer section.
pub(super) fn map_of(trailers: &FieldBlock) -> HeaderMap {
    let mut map = HeaderMap::new();
    append_to(&mut map, trailers, FieldId::is_refused_as_trailer);
    map
}

/// A response's head.
pub(super) fn response(head: &ResponseHead, announced: Announced) -> Response<()> {
    let mut response = Response::new(());
    let is_upgrade = head.status == 101;
    *response.status_mut() = status(if is_upgrade { 200 } else { head.status });
    let own = OwnFields::of_response(head, announced);
    let map = response.headers_mut();
    append_to(map, &head.fields, |id, _| {
        id == FieldId::ContentLength && own.replaces_length
    });
    if let Some(bytes) = own.length {
        map.insert(CONTENT_LENGTH, bytes.into());
    }
    if is_upgrade {
        map.remove("sec-websocket-accept");
    }
    if own.adds_date {
        map.insert(http::header::DATE, date());
    }
    response
}

/// The head of a response, its length not looked at.
pub(super) fn response_head<T>(
    response: &Response<T>,
    lease: &Lease,
) -> Result<ResponseHead, GatewayError> {
    let headers = response.headers();
    let bytes = map_bytes(headers);
    let status = response.status().as_u16();
    let is_too_large = headers.len() > RESPONSE_FIELDS_MAX || bytes > RESPONSE_HEAD_BYTES_MAX;
    // RFC 9113 §8.6: there is no 101.
    if is_too_large || !(100..600).contains(&status) || status == 101 {
        return Err(GatewayError::bad_response());
    }
    // What the gateway adds finds room too.
    const OURS: usize = 256;
    let mut fields = FieldBlock::new(Buffer::take(lease, bytes + OURS)?, FieldList::take());
    let reason = fields.put(crate::status::reason(status).as_bytes())?;
    for (name, value) in headers {
        let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
        if !is_field_line(name, value) {
            return Err(GatewayError::bad_response());
        }
        fields.append(name, value)?;
    }
    Ok(ResponseHead {
        fields,
        version: Version::Http2,
        status,
        length: ContentLength::Empty,
        reason,
        upgrade: None,
        is_connected: false,
    })
}

/// The answer to an extended CONNECT, as what it is in HTTP/1.1: 101 (RFC 8441 §5).
pub(super) fn tunnel_head(mut head: ResponseHead, key: &[u8]) -> Result<ResponseHead, OverBudget> {
    head.fields
        .append(websocket::ACCEPT, websocket::accept(key).as_bytes())?;
    head.upgrade = Some(head.fields.put(WEBSOCKET)?);
    head.reason = head.fields.put(crate::status::reason(101).as_bytes())?;
    head.status = 101;
    Ok(head)
}

/// True when a server's 101 answers the handshake that `key` began.
pub(super) fn is_accepted(head: &ResponseHead, key: &[u8]) -> bool {
    let mut accepted = head.fields.values_named(websocket::ACCEPT);
    accepted.next() == Some(websocket::accept(key).as_bytes())
}

/// The key of a handshake.
pub(super) fn key_of(head: &RequestHead) -> Option<&[u8]> {
    head.fields.values_named(websocket::KEY).next()
}

/// A request as it goes out. `server` is named as its host where the client named none.
pub(super) fn outgoing_request(
    head: &RequestHead,
    server: &str,
    scheme: &Scheme,
) -> Result<Request<()>, GatewayError> {
    let invalid = || GatewayError::bad_request();
    let mut target =
        Vec::with_capacity(head.path().len() + 1 + head.query().map_or(0, <[u8]>::len));
    target.extend_from_slice(head.path());
    if let Some(query) = head.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let mut parts = http::uri::Parts::default();
    let is_tunnel = head.upgrade().is_some();
    parts.authority = Some(head.host_for(server).try_into().map_err(|_| invalid())?);
    // RFC 9113 §8.5: CONNECT has no more than an authority.
    if !head.is_connect() {
        parts.scheme = Some(scheme.clone());
        parts.path_and_query =
            Some(PathAndQuery::from_maybe_shared(Bytes::from(target)).map_err(|_| invalid())?);
    }
    let mut request = Request::new(());
    *request.method_mut() = if is_tunnel {
        let protocol = Protocol::from_static("websocket");
        request.extensions_mut().insert(protocol);
        Method::CONNECT
    } else {
        Method::from_bytes(head.method()).map_err(|_| invalid())?
    };
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| invalid())?;
    *request.version_mut() = http::Version::HTTP_2;
    let map = request.headers_mut();
    append_to(map, &head.fields, |id, _| {
        matches!(id, FieldId::Host | FieldId::ContentLength)
    });
    if let Some(bytes) = message::request_length(head) {
        map.insert(CONTENT_LENGTH, bytes.into());
    }
    if is_tunnel {
        map.remove("sec-websocket-key");
    }
    if head.takes_trailers {
        map.insert(TE, HeaderValue::from_static("trailers"));
    }
    Ok(request)
}

/// A response of the gateway's own, and its content, where it has some.
pub(super) fn refusal(
    refusal: &Refusal<'_>,
    lease: &Lease,
) -> Result<(Response<()>, Option<Chunk>), OverBudget> {
    let mut response = Response::new(());
    *response.status_mut() = status(refusal.status);
    let map = response.headers_mut();
    map.insert(http::header::DATE, date());
    for (name, value) in refusal.fields {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            map.append(name, value);
        }
    }
    let content = match refusal.content {
        RefusalContent::Nothing => return Ok((response, None)),
        RefusalContent::Word => {
            Encoder::encode(lease, 64, |out| out.refusal_content(refusal.status))?.into()
        }
        RefusalContent::Page(page) => page.content(),
    };
    let media_type = refusal.media_type().map(HeaderValue::from_str);
    if let Some(Ok(media_type)) = media_type {
        map.insert(http::header::CONTENT_TYPE, media_type);
    }
    map.insert(CONTENT_LENGTH, content.len().into());
    Ok((response, Some(content)))
}

fn date() -> HeaderValue {
    HeaderValue::from_bytes(&crate::date::now()).expect("a date is a valid value")
}

fn status(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("100 to 599")
}

/// The reset code of a stream whose exchange was cut.
pub(super) const CUT: Reason = Reason::INTERNAL_ERROR;
