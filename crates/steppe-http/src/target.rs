//! The request target and `Host`, resolved into authority, path and query for every protocol
//! version.
//! Spec: RFC 9112 §3.2, RFC 9113 §8.3.1, RFC 9110 §7.2.
//!
//! # Deviations
//! Where an absolute-form target and `Host` name different authorities, the
//! request is refused instead of preferring the target: it has two readings.

use crate::error::GatewayError;
use crate::field::{FieldBlock, FieldId, Span};
use crate::head::{RequestParts, Version};
use crate::host::Authority;
use crate::metrics::CloseReason;
use crate::path;

/// VCHAR: which of them a target may have is for the path and host to say.
pub(crate) const fn is_target_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e)
}

/// True when `bytes` can be a request's target, in whatever form.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_target_byte(byte))
}

/// True when `bytes` is the name of a scheme (RFC 3986 §3.1).
pub(crate) fn is_scheme(bytes: &[u8]) -> bool {
    let is_further = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.iter().all(is_further)
}

/// The request line as it was received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) method: Span,
    /// The target in any form.
    pub(crate) target: Span,
    pub(crate) version: Version,
}

/// Resolves the target; the path is brought into its normal form where it stands.
pub(crate) fn resolve(
    asked: Asked,
    upgrade: Option<Span>,
    fields: &mut FieldBlock,
) -> Result<RequestParts, GatewayError> {
    let method = asked.method;
    if method.of(fields.bytes()) == b"CONNECT" {
        return resolve_connect(asked, fields);
    }
    let named = host_field(asked.version, fields)?;
    let (in_target, path) = split_authority(asked.target, fields.bytes())?;
    if let (Some(in_target), Some(named)) = (in_target, named) {
        let bytes = fields.bytes();
        if !in_target.of(bytes).eq_ignore_ascii_case(named.of(bytes)) {
            return Err(bad_request());
        }
    }
    let authority = in_target.or(named).unwrap_or_default();
    let host = host_of(authority, fields.bytes())?;
    let (path, query) = split_query(path, fields.bytes());
    if query.is_some_and(|query| query.of(fields.bytes()).contains(&b'#')) {
        return Err(bad_request());
    }
    let (path, target) = normalize(asked, path, fields)?;
    Ok(RequestParts {
        method,
        target,
        path,
        query,
        authority,
        host,
        upgrade,
    })
}

/// A target in authority-form: host and port (RFC 9112 §3.2.3).
fn resolve_connect(asked: Asked, fields: &mut FieldBlock) -> Result<RequestParts, GatewayError> {
    let named = host_field(asked.version, fields)?;
    let bytes = fields.bytes();
    let text = asked.target.of(bytes);
    let parsed = Authority::parse(text).map_err(|_| bad_request())?;
    let is_other = named.is_some_and(|named| !named.of(bytes).eq_ignore_ascii_case(text));
    if parsed.host.is_empty() || parsed.port.is_none() || is_other {
        return Err(bad_request());
    }
    Ok(RequestParts {
        method: asked.method,
        target: asked.target,
        // What routes see of it.
        path: fields.put(b"/")?,
        query: None,
        authority: asked.target,
        host: host_of(asked.target, fields.bytes())?,
        upgrade: None,
    })
}

/// The `Host` field's value. There is just one, but for HTTP/1.0, which may leave it out.
fn host_field(version: Version, fields: &FieldBlock) -> Result<Option<Span>, GatewayError> {
    match fields.values(FieldId::Host).count() {
        0 if version == Version::Http10 => Ok(None),
        1 => Ok(fields.value_span(FieldId::Host)),
        _ => Err(bad_request()),
    }
}

/// Tells absolute-form from origin-form: an authority, and the rest.
fn split_authority(target: Span, bytes: &[u8]) -> Result<(Option<Span>, Span), GatewayError> {
    const HTTP: &[u8] = b"http://";
    let text = target.of(bytes);
    if text.starts_with(b"/") || text == b"*" {
        return Ok((None, target));
    }
    let scheme = text.get(..HTTP.len()).ok_or_else(bad_request)?;
    if !scheme.eq_ignore_ascii_case(HTTP) {
        return Err(bad_request());
    }
    let start = target.start() + HTTP.len();
    let rest = &text[HTTP.len()..];
    let authority_len = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    let end = start + authority_len;
    Ok((Some(Span::new(start, end)), Span::new(end, target.end())))
}

fn host_of(authority: Span, bytes: &[u8]) -> Result<Span, GatewayError> {
    let text = authority.of(bytes);
    if text.is_empty() && authority.start() == 0 {
        // None was named, in HTTP/1.0.
        return Ok(authority);
    }
    let parsed = Authority::parse(text).map_err(|_| bad_request())?;
    Ok(Span::new(
        authority.start(),
        authority.start() + parsed.host.len(),
    ))
}

fn split_query(target: Span, bytes: &[u8]) -> (Span, Option<Span>) {
    match memchr::memchr(b'?', target.of(bytes)) {
        Some(at) => {
            let at = target.start() + at;
            (
                Span::new(target.start(), at),
                Some(Span::new(at + 1, target.end())),
            )
        }
        None => (target, None),
    }
}

/// The path in its normal form, and the target as it came.
fn normalize(
    asked: Asked,
    path: Span,
    fields: &mut FieldBlock,
) -> Result<(Span, Span), GatewayError> {
    match path.of(fields.bytes()) {
        b"*" if asked.method.of(fields.bytes()) == b"OPTIONS" => Ok((path, asked.target)),
        b"*" => Err(bad_request()),
        // RFC 9110 §4.2.3: an empty path is that of the root.
        b"" => Ok((fields.put(b"/")?, asked.target)),
        text if path::is_clean(text)? => Ok((path, asked.target)),
        _ => {
            // It is normalized where it stands: what came is kept elsewhere.
            let target = fields.copy(asked.target)?;
            let text = &mut fields.bytes_mut()[path.start()..path.end()];
            let len = path::normalize_in_place(text)?;
            Ok((Span::new(path.start(), path.start() + len), target))
        }
    }
}

fn bad_request() -> GatewayError {
    GatewayError::downstream(CloseReason::BadRequest, 400)
}
