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
use http::header::{CONTENT_LENGTH, HOST, TE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use steppe_mem::{Buffer, Lease, OverBudget};

use super::websocket::{self, WEBSOCKET};
use crate::error::GatewayError;
use crate::field::{FieldBlock, FieldId, FieldList, Span, is_field_line};
use crate::head::{ContentLength, RequestHead, ResponseHead, Version};
use crate::limits::{RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX};
use crate::message::{self};

/// Bytes that RFC 9113 §6.5.2 counts of a field beside its name and its value.
pub(super) const FIELD_OVERHEAD: usize = 32;

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

/// Bytes of a header list as RFC 9113 §6.5.2 counts them.
pub(super) fn map_bytes(map: &HeaderMap) -> usize {
    map.iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD)
        .sum()
}

/// Bytes that the crate's form of `fields` takes until it is written, at most.
pub(super) fn handed_bytes(fields: &FieldBlock) -> usize {
    const LIST_BYTES: usize = 512;
    // A table has room for twice as many at most.
    const FIELD_BYTES: usize = 2 * 128;
    LIST_BYTES + fields.bytes().len() + FIELD_BYTES * fields.fields().len()
}

/// Lines of `headers` but `Host` and `TE`; crumbs of cookies become one (RFC 9113 §8.2.3).
fn append_all(fields: &mut FieldBlock, headers: &HeaderMap) -> Result<(), FieldError> {
    for (name, value) in headers {
        if !is_field_line(name.as_str().as_bytes(), value.as_bytes()) {
            return Err(FieldError::Malformed);
        }
        if matches!(*name, HOST | TE) {
            continue;
        }
        fields.append_received(name.as_str().as_bytes(), value.as_bytes())?;
    }
    fields.join_lines(b"cookie", b"; ")?;
    Ok(())
}

/// The trailer section of a message.
pub(super) fn trailers(map: &HeaderMap, lease: &Lease) -> Result<FieldBlock, FieldError> {
    let room = map_bytes(map);
    let mut fields = FieldBlock::new(Buffer::take(lease, room)?, FieldList::take());
    append_all(&mut fields, map)?;
    Ok(fields)
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
