//! Where a message ends, decided once and strictly. Spec: RFC 9112 §6, §9.3.
//!
//! Invariant: a message with two readings has none: it is refused, and the
//! connection is closed. Nothing here repairs.
//!
//! # Deviations
//! Stricter than RFC 9112: repeated `Content-Length` with equal values, and a
//! transfer coding in a message of HTTP/1.0, are refused too.

use crate::field::{FieldBlock, FieldId, elements};
use crate::head::{ContentLength, MethodKind, Version};
use crate::limits::UPGRADE_PROTOCOLS_MAX;
use crate::message;

/// The framing of a message's content (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No content.
    Empty,
    /// A fixed number of bytes.
    Known(u64),
    /// By the chunked coding, which may have trailers.
    Chunked,
    /// By the end of the connection: responses of HTTP/1.0, and tunnels.
    UntilEnd,
}

impl From<BodyLength> for ContentLength {
    fn from(length: BodyLength) -> Self {
        match length {
            BodyLength::Empty => Self::Empty,
            BodyLength::Known(bytes) => Self::Known(bytes),
            BodyLength::Chunked | BodyLength::UntilEnd => Self::Unknown,
        }
    }
}

/// A request's framing, and its wishes for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFraming {
    /// The framing of its content.
    pub length: BodyLength,
    /// The client would send another request.
    pub keep_alive: bool,
    /// The client waits for `100 Continue`.
    pub expects_continue: bool,
    /// An `Upgrade` to another protocol, one that may be asked for.
    pub upgrade: bool,
}

/// A response's framing, and its wishes for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseFraming {
    /// The framing of its content.
    pub length: BodyLength,
    /// The server would take another request.
    pub keep_alive: bool,
}

/// Why a message's framing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// `Content-Length` is no number, or there are several.
    #[error("invalid content-length")]
    ContentLength,
    /// Both length and transfer coding.
    #[error("both content-length and transfer-encoding")]
    Ambiguous,
    /// A transfer coding in HTTP/1.0, or one that does not end in `chunked`.
    #[error("invalid transfer-encoding")]
    TransferEncoding,
    /// Transfer codings besides `chunked`: 501.
    #[error("unsupported transfer coding")]
    Unsupported,
    /// An expectation other than `100-continue`: 417.
    #[error("unsupported expectation")]
    Expectation,
}

/// Reads a request's framing.
///
/// # Errors
/// [`FramingError`]; the connection must be closed after the refusal.
pub fn request(version: Version, fields: &FieldBlock) -> Result<RequestFraming, FramingError> {
    let seen = FramingFields::of(fields);
    let length = match seen.delimited(version, fields)? {
        Some(length) => length,
        None => BodyLength::Empty,
    };
    let connection = seen.connection(fields);
    let upgrade = seen.upgrade
        && version == Version::Http11
        && connection.upgrade
        && length == BodyLength::Empty
        && asks_for_other_than_http(fields);
    // RFC 9110 §10.1.1: from HTTP/1.0 it is ignored.
    let expects_continue = seen.expect && version != Version::Http10;
    if expects_continue && !message::is_expectation_known(fields) {
        return Err(FramingError::Expectation);
    }
    let keep_alive = connection.keep_alive(version);
    Ok(RequestFraming {
        length,
        keep_alive,
        expects_continue,
        upgrade,
    })
}

/// Reads the framing of a response to a request of this method.
///
/// # Errors
/// [`FramingError`]: 502.
pub fn response(
    version: Version,
    status: u16,
    method: MethodKind,
    fields: &FieldBlock,
) -> Result<ResponseFraming, FramingError> {
    let seen = FramingFields::of(fields);
    // What the fields say is checked even where there is no content.
    let delimited = seen.delimited(version, fields)?;
    let connection = seen.connection(fields);
    let keep_alive = connection.keep_alive(version);
    if method.is_head() || status < 200 || status == 204 || status == 304 {
        return Ok(ResponseFraming {
            length: BodyLength::Empty,
            keep_alive,
        });
    }
    Ok(match delimited {
        Some(length) => ResponseFraming { length, keep_alive },
        None => ResponseFraming {
            length: BodyLength::UntilEnd,
            keep_alive: false,
        },
    })
}

/// Presence of the fields that matter to framing, found in one pass.
#[derive(Default)]
struct FramingFields {
    content_length: bool,
    transfer_encoding: bool,
    connection: bool,
    upgrade: bool,
    expect: bool,
}

impl FramingFields {
    fn of(fields: &FieldBlock) -> Self {
        let mut seen = Self::default();
        for field in fields.fields() {
            match field.id {
                FieldId::ContentLength => seen.content_length = true,
                FieldId::TransferEncoding => seen.transfer_encoding = true,
                FieldId::Connection => seen.connection = true,
                FieldId::Upgrade => seen.upgrade = true,
                FieldId::Expect => seen.expect = true,
                _ => {}
            }
        }
        seen
    }

    fn connection(&self, fields: &FieldBlock) -> Connection {
        if self.connection {
            Connection::of(fields)
        } else {
            Connection::default()
        }
    }

    fn delimited(
        &self,
        version: Version,
        fields: &FieldBlock,
    ) -> Result<Option<BodyLength>, FramingError> {
        match (self.content_length, self.transfer_encoding) {
            (false, false) => Ok(None),
            (true, true) => Err(FramingError::Ambiguous),
            (true, false) => content_length(fields).map(Some),
            (false, true) if version == Version::Http10 => Err(FramingError::TransferEncoding),
            (false, true) => transfer_encoding(fields).map(Some),
        }
    }
}

fn content_length(fields: &FieldBlock) -> Result<BodyLength, FramingError> {
    let mut values = fields.values(FieldId::ContentLength);
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(FramingError::ContentLength);
    };
    match message::content_length(value).ok_or(FramingError::ContentLength)? {
        0 => Ok(BodyLength::Empty),
        length => Ok(BodyLength::Known(length)),
    }
}

fn transfer_encoding(fields: &FieldBlock) -> Result<BodyLength, FramingError> {
    let mut codings = fields.values(FieldId::TransferEncoding).flat_map(elements);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (Some(only), None) if is_chunked(only) => Ok(BodyLength::Chunked),
        (Some(first), Some(second)) if !is_chunked(first) => {
            let last = codings.last().unwrap_or(second);
            let is_delimited = is_chunked(last);
            Err(if is_delimited {
                FramingError::Unsupported
            } else {
                FramingError::TransferEncoding
            })
        }
        _ => Err(FramingError::TransferEncoding),
    }
}

/// The options of the `Connection` field.
#[derive(Default)]
struct Connection {
    close: bool,
    keep_alive: bool,
    upgrade: bool,
}

impl Connection {
    fn of(fields: &FieldBlock) -> Self {
        let mut found = Self::default();
        for option in fields.values(FieldId::Connection).flat_map(elements) {
            found.close |= option.eq_ignore_ascii_case(b"close");
            found.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            found.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
        found
    }

    fn keep_alive(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// `h2c` would be an HTTP that the gateway does not see into: it is not asked for.
fn asks_for_other_than_http(fields: &FieldBlock) -> bool {
    let mut protocols = fields
        .values(FieldId::Upgrade)
        .flat_map(elements)
        .peekable();
    let is_http = |protocol: &[u8]| {
        let prefix = protocol.get(..5).unwrap_or_default();
        protocol.eq_ignore_ascii_case(b"h2c") || prefix.eq_ignore_ascii_case(b"http/")
    };
    protocols.peek().is_some() && !protocols.any(is_http)
}

/// True when a 101 switches to a protocol that the client asked for: each protocol in `answered`,
/// the
/// response's `Upgrade`, is one of `asked` (RFC 9110 §7.8). Names count in any case; a version
/// counts
/// where both sides give one.
#[must_use]
pub fn upgrade_matches(asked: &[u8], answered: &[u8]) -> bool {
    let is_asked_for = |protocol| elements(asked).any(|wish| is_same_protocol(wish, protocol));
    let mut count = 0;
    elements(answered).all(|protocol| {
        count += 1;
        count <= UPGRADE_PROTOCOLS_MAX && is_asked_for(protocol)
    }) && count > 0
}

/// RFC 9110 §7.8: `protocol = protocol-name [ "/" protocol-version ]`.
fn is_same_protocol(asked: &[u8], answered: &[u8]) -> bool {
    let (asked_name, asked_version) = name_and_version(asked);
    let (name, version) = name_and_version(answered);
    let is_same_version = match (asked_version, version) {
        (Some(asked), Some(answered)) => asked.eq_ignore_ascii_case(answered),
        _ => true,
    };
    asked_name.eq_ignore_ascii_case(name) && is_same_version
}

fn name_and_version(protocol: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = protocol.splitn(2, |&byte| byte == b'/');
    (parts.next().unwrap_or_default(), parts.next())
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::h1::parse::{self, HeadLimits};

    fn fields(text: &str) -> FieldBlock {
        let budget = Budget::new(1 << 20);
        let mut bytes = Buffer::take(&budget.root().lease(), 4096).expect("room");
        bytes
            .put(text.as_bytes())
            .and_then(|()| bytes.put(b"\r\n"))
            .expect("room");
        let mut list = crate::field::FieldList::take();
        let limits = HeadLimits {
            bytes: 4096,
            fields: 100,
        };
        parse::trailers(bytes.filled(), limits, &mut list, bytes.lease())
            .expect("valid")
            .expect("whole");
        FieldBlock::new(bytes, list)
    }

    fn length(text: &str) -> Result<BodyLength, FramingError> {
        request(Version::Http11, &fields(text)).map(|framing| framing.length)
    }

    #[test]
    fn lengths_are_read_strictly() {
        assert_eq!(length(""), Ok(BodyLength::Empty));
        assert_eq!(length("Content-Length: 12\r\n"), Ok(BodyLength::Known(12)));
        assert_eq!(length("Content-Length: 0\r\n"), Ok(BodyLength::Empty));
        assert_eq!(
            length("Transfer-Encoding: Chunked\r\n"),
            Ok(BodyLength::Chunked)
        );
        for value in [
            "",
            "+5",
            "-1",
            "5,5",
            "5 5",
            "0x5",
            "18446744073709551616",
            "5;",
        ] {
            let text = format!("Content-Length: {value}\r\n");
            assert_eq!(length(&text), Err(FramingError::ContentLength), "{value}");
        }
        let twice = "Content-Length: 5\r\nContent-Length: 5\r\n";
        assert_eq!(length(twice), Err(FramingError::ContentLength));
    }

    #[test]
    fn transfer_codings_are_read_strictly() {
        for value in [
            "",
            "identity",
            "chunked, gzip",
            "chunked, chunked",
            "chunked, identity",
            "xchunked",
            "\"chunked\"",
            "chunked;a=b",
        ] {
            let text = format!("Transfer-Encoding: {value}\r\n");
            assert_eq!(
                length(&text),
                Err(FramingError::TransferEncoding),
                "{value}"
            );
        }
        assert_eq!(
            length("Transfer-Encoding: gzip, chunked\r\n"),
            Err(FramingError::Unsupported)
        );
        let lines = "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(length(lines), Err(FramingError::Unsupported));
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(length(both), Err(FramingError::Ambiguous));
        let old = request(Version::Http10, &fields("Transfer-Encoding: chunked\r\n"));
        assert_eq!(old, Err(FramingError::TransferEncoding));
    }

    #[test]
    fn connections_are_kept_as_the_version_has_it() {
        let keep = |version, text| request(version, &fields(text)).expect("valid").keep_alive;
        assert!(keep(Version::Http11, ""));
        assert!(!keep(Version::Http11, "Connection: x, CLOSE\r\n"));
        assert!(!keep(Version::Http10, ""));
        assert!(keep(Version::Http10, "Connection: Keep-Alive\r\n"));
        assert!(!keep(Version::Http10, "Connection: keep-alive, close\r\n"));
    }

    #[test]
    fn upgrades_to_anything_but_http_are_asked_for() {
        let upgrade = |text| {
            request(Version::Http11, &fields(text))
                .expect("valid")
                .upgrade
        };
        assert!(upgrade("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
        assert!(
            !upgrade("Upgrade: websocket\r\n"),
            "not named by Connection"
        );
        assert!(!upgrade(
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        ));
        assert!(!upgrade(
            "Connection: Upgrade\r\nUpgrade: websocket, H2C\r\n"
        ));
        assert!(!upgrade("Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n"));
        let text = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
        let old = request(Version::Http10, &fields(text)).expect("valid");
        assert!(!old.upgrade);
        assert!(!upgrade(
            "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n"
        ));
    }

    #[test]
    fn an_upgrade_is_what_was_asked_for() {
        for (asked, answered) in [
            ("websocket", "websocket"),
            ("websocket", "WebSocket"),
            ("a, websocket", "websocket"),
            ("foo/2, foo/1", "FOO/1"),
            ("foo", "foo/1"),
            ("foo/1", "foo"),
            ("tls/1.0, irc/6.9", "TLS/1.0, IRC/6.9"),
            ("websocket", ", websocket,"),
            ("a/1/2", "a/1/2"),
            ("/1", "/1"),
        ] {
            let is_match = upgrade_matches(asked.as_bytes(), answered.as_bytes());
            assert!(is_match, "{asked}, then {answered}");
        }
        for (asked, answered) in [
            ("websocket", ""),
            ("websocket", ","),
            ("", "websocket"),
            ("", ""),
            ("websocket", "h2c"),
            ("websocket", "websocket, h2c"),
            ("foo/1", "foo/2"),
            ("a/1/2", "a/1/3"),
            ("websocket", "web"),
            ("web", "websocket"),
            // A list of this length is no answer, and what it costs is bounded.
            ("a", "a,a,a,a,a"),
        ] {
            let is_match = upgrade_matches(asked.as_bytes(), answered.as_bytes());
            assert!(!is_match, "{asked}, then {answered}");
        }
    }

    #[test]
    fn responses_without_content_have_none_whatever_they_say() {
        use MethodKind::{Head, Other};
        let read = |status, method, text| {
            response(Version::Http11, status, method, &fields(text)).map(|framing| framing.length)
        };
        assert_eq!(
            read(200, Head, "Content-Length: 5\r\n"),
            Ok(BodyLength::Empty)
        );
        assert_eq!(
            read(204, Other, "Content-Length: 5\r\n"),
            Ok(BodyLength::Empty)
        );
        assert_eq!(
            read(304, Other, "Transfer-Encoding: chunked\r\n"),
            Ok(BodyLength::Empty)
        );
        for status in [100, 101, 199] {
            let said = read(status, Other, "Content-Length: 5\r\n");
            assert_eq!(said, Ok(BodyLength::Empty), "{status}");
        }
        for status in [200, 203, 205, 303, 305, 404] {
            let said = read(status, Other, "Content-Length: 5\r\n");
            assert_eq!(said, Ok(BodyLength::Known(5)), "{status}");
        }
        assert_eq!(read(200, Other, ""), Ok(BodyLength::UntilEnd));
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(read(200, Head, both), Err(FramingError::Ambiguous));
    }

    #[test]
    fn servers_take_another_request_where_their_response_has_an_end() {
        use MethodKind::{Head, Other};
        let keep = |method, text| {
            let read = response(Version::Http11, 200, method, &fields(text));
            read.expect("valid").keep_alive
        };
        assert!(keep(Other, "Content-Length: 5\r\n"));
        assert!(!keep(Other, "Content-Length: 5\r\nConnection: close\r\n"));
        assert!(!keep(Other, ""));
        assert!(keep(Head, "") && !keep(Head, "Connection: close\r\n"));
    }

    #[test]
    fn expectations_are_known_or_refused() {
        let expects = |version, text| request(version, &fields(text)).map(|f| f.expects_continue);
        assert_eq!(
            expects(Version::Http11, "Expect: 100-Continue\r\n"),
            Ok(true)
        );
        assert_eq!(
            expects(Version::Http11, "Expect: x\r\n"),
            Err(FramingError::Expectation)
        );
        assert_eq!(expects(Version::Http10, "Expect: x\r\n"), Ok(false));
        assert_eq!(expects(Version::Http11, ""), Ok(false));
    }
}
