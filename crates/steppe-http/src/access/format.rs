//! Formats the lines of the access log.

use std::net::IpAddr;
use std::time::Duration;

use steppe_telemetry::LogLine;
use steppe_telemetry::clock::{Now, digits};

use super::ended::Ended;
use super::escape;
use super::field::AccessField;
use super::record::{Captured, Needs};
use crate::forwarded::AddressText;
use crate::head::Version;
use crate::limits::ACCESS_VALUE_BYTES_MAX;

/// The format of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessFormat {
    /// `client - - [time] "request" status bytes "referer" "user agent"`, as nginx and
    /// Apache have it.
    Combined,
    /// One JSON object with these fields in this order. Fields without a value are omitted.
    Json(Vec<AccessField>),
}

impl AccessFormat {
    /// The values of a request to capture.
    pub(super) fn needs(&self) -> Needs {
        match self {
            Self::Combined => [
                Captured::Method,
                Captured::Target,
                Captured::Referer,
                Captured::UserAgent,
            ]
            .into_iter()
            .collect(),
            Self::Json(fields) => fields.iter().filter_map(|&field| captured(field)).collect(),
        }
    }

    pub(super) fn write(&self, line: &mut LogLine<'_>, ended: &Ended<'_>, now: &Now<'_>) {
        match self {
            Self::Combined => combined(line, ended, now),
            Self::Json(fields) => json(line, fields, ended, now),
        }
    }
}

/// The captured value that a field shows, if it is one of the request.
fn captured(field: AccessField) -> Option<Captured> {
    match field {
        AccessField::Method => Some(Captured::Method),
        AccessField::Target | AccessField::Path | AccessField::Query => Some(Captured::Target),
        AccessField::Host => Some(Captured::Host),
        AccessField::UserAgent => Some(Captured::UserAgent),
        AccessField::Referer => Some(Captured::Referer),
        AccessField::RequestId => Some(Captured::RequestId),
        AccessField::ForwardedFor => Some(Captured::ForwardedFor),
        _ => None,
    }
}

fn combined(line: &mut LogLine<'_>, ended: &Ended<'_>, now: &Now<'_>) {
    address(line, ended.client, ended);
    line.put(b" - - [");
    line.put(now.combined);
    line.put(b"] \"");
    if let Some(record) = &ended.record {
        escape::combined(line, record.value(Captured::Method).unwrap_or_default());
        line.put(b" ");
        escape::combined(line, record.value(Captured::Target).unwrap_or_default());
        line.put(b" ");
        line.put(protocol(record.version()));
    }
    line.put(b"\" ");
    number(line, ended.status.into());
    line.put(b" ");
    number(line, ended.sent_bytes);
    for captured in [Captured::Referer, Captured::UserAgent] {
        line.put(b" \"");
        let value = ended.record.as_ref().and_then(|it| it.value(captured));
        match value {
            Some(value) => escape::combined(line, value),
            None => line.put(b"-"),
        }
        line.put(b"\"");
    }
}

fn json(line: &mut LogLine<'_>, fields: &[AccessField], ended: &Ended<'_>, now: &Now<'_>) {
    let mut before: &[u8] = b"{\"";
    for &field in fields {
        if !has(field, ended) {
            continue;
        }
        line.put(before);
        line.put(field.as_str().as_bytes());
        line.put(b"\":");
        value(line, field, ended, now);
        before = b",\"";
    }
    if before == b"{\"" {
        line.put(b"{");
    }
    line.put(b"}");
}

fn has(field: AccessField, ended: &Ended<'_>) -> bool {
    match field {
        AccessField::Protocol => ended.record.is_some(),
        AccessField::Query => query(ended).is_some(),
        AccessField::Route => ended.route.is_some(),
        AccessField::Upstream => ended.upstream.is_some(),
        AccessField::Server => ended.server.is_some(),
        AccessField::Filter => ended.filter.is_some(),
        AccessField::CloseReason => ended.reason.is_some(),
        AccessField::TlsResumed => ended.tls.is_some(),
        AccessField::Cache => ended.served_from.is_some(),
        AccessField::ClientFingerprint => fingerprint(ended).is_some(),
        AccessField::TlsVersion
        | AccessField::TlsCipher
        | AccessField::TlsGroup
        | AccessField::TlsSni
        | AccessField::TlsAlpn
        | AccessField::ClientSubject => session(field, ended).is_some(),
        _ => captured(field).is_none_or(|captured| own(ended, captured).is_some()),
    }
}

fn value(line: &mut LogLine<'_>, field: AccessField, ended: &Ended<'_>, now: &Now<'_>) {
    match field {
        AccessField::Status => return number(line, ended.status.into()),
        AccessField::BytesSent => return number(line, ended.sent_bytes),
        AccessField::BytesReceived => return number(line, ended.received_bytes),
        AccessField::DurationMs => return millis(line, ended.duration),
        AccessField::TlsResumed => {
            let is_resumed = ended.tls.is_some_and(|tls| tls.is_resumed);
            return line.put(if is_resumed { b"true" } else { b"false" });
        }
        _ => {}
    }
    line.put(b"\"");
    match field {
        AccessField::Time => time(line, now),
        AccessField::Client => address(line, ended.client, ended),
        AccessField::Peer => address(line, ended.peer.address(), ended),
        AccessField::Protocol => {
            let version = ended.record.as_ref().map(|record| record.version());
            line.put(version.map_or(b"", protocol));
        }
        AccessField::Path => escape::json(line, path(ended)),
        AccessField::Query => escape::json(line, query(ended).unwrap_or_default()),
        AccessField::Route => text(line, ended.route),
        AccessField::Upstream => text(line, ended.upstream),
        AccessField::Server => text(line, ended.server),
        AccessField::Filter => text(line, ended.filter),
        AccessField::CloseReason => text(line, ended.reason.map(|reason| reason.as_str())),
        AccessField::Cache => text(line, ended.served_from.map(|from| from.as_str())),
        AccessField::ClientFingerprint => digest(line, fingerprint(ended)),
        field => {
            let own = match captured(field) {
                Some(captured) => own(ended, captured),
                None => session(field, ended),
            };
            escape::json(line, own.unwrap_or_default());
        }
    }
    line.put(b"\"");
}

/// The client's own words.
fn own<'a>(ended: &'a Ended<'_>, captured: Captured) -> Option<&'a [u8]> {
    ended.record.as_ref()?.value(captured)
}

fn path<'a>(ended: &'a Ended<'_>) -> &'a [u8] {
    let target = own(ended, Captured::Target).unwrap_or_default();
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    &target[..end]
}

fn query<'a>(ended: &'a Ended<'_>) -> Option<&'a [u8]> {
    let target = own(ended, Captured::Target)?;
    memchr::memchr(b'?', target).map(|at| &target[at + 1..])
}

/// A text of the connection's TLS, where there is one.
fn session<'a>(field: AccessField, ended: &'a Ended<'_>) -> Option<&'a [u8]> {
    let tls = ended.tls?;
    let text = match field {
        AccessField::TlsVersion => tls.version().as_bytes(),
        AccessField::TlsCipher => tls.suite().as_bytes(),
        AccessField::TlsGroup => tls.group().as_bytes(),
        AccessField::TlsSni => tls.server_name.as_ref()?.as_bytes(),
        AccessField::TlsAlpn => tls.alpn.as_ref()?,
        AccessField::ClientSubject => tls.client.as_ref()?.summary.subject.as_bytes(),
        _ => return None,
    };
    let text = &text[..text.len().min(ACCESS_VALUE_BYTES_MAX)];
    Some(text).filter(|text| !text.is_empty())
}

fn fingerprint<'a>(ended: &'a Ended<'_>) -> Option<&'a [u8; 32]> {
    let client = ended.tls?.client.as_ref()?;
    Some(&client.summary.fingerprint)
}

/// In hexadecimal, as routes are given it.
fn digest(line: &mut LogLine<'_>, digest: Option<&[u8; 32]>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in digest.into_iter().flatten() {
        line.put(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Names out of the configuration have any character.
fn text(line: &mut LogLine<'_>, text: Option<&str>) {
    escape::json(line, text.unwrap_or_default().as_bytes());
}

fn time(line: &mut LogLine<'_>, now: &Now<'_>) {
    let mut millis = *b".000Z";
    digits(&mut millis[1..4], now.millis.into());
    line.put(now.rfc3339);
    line.put(&millis);
}

/// Nearly always the peer's, which is text already.
fn address(line: &mut LogLine<'_>, address: IpAddr, ended: &Ended<'_>) {
    if address == ended.peer.address() {
        return line.put(ended.peer.text());
    }
    line.put(AddressText::new(address).as_bytes());
}

fn protocol(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    }
}

/// Milliseconds with microseconds behind the point.
fn millis(line: &mut LogLine<'_>, duration: Duration) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    number(line, micros / 1000);
    let mut fraction = *b".000";
    digits(&mut fraction[1..], micros % 1000);
    line.put(&fraction);
}

/// In decimal. By hand: formatting machinery costs ten times as much.
fn number(line: &mut LogLine<'_>, number: u64) {
    let mut room = [0; 20];
    let count = number.checked_ilog10().unwrap_or(0) as usize + 1;
    digits(&mut room[..count], number);
    line.put(&room[..count]);
}
