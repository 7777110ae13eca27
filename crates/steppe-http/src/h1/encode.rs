//! Heads as they go out: always written anew, never passed through.
//!
//! Invariant: what is written has one reading. Framing and connection fields
//! are ours, in a place of ours; a message's own were taken out when it came.
//! Spec: RFC 9112 §2 to §6.

use steppe_mem::{Buffer, Lease, OverBudget};

use super::framing::BodyLength;
use crate::encoder::{Encoder, Put};
use crate::exchange::{Refusal, RefusalContent};
use crate::field::{FieldBlock, FieldId};
use crate::head::{Announced, ContentLength, MethodKind, RequestHead, ResponseHead};
use crate::limits::COPIED_PART_BYTES_MAX;
use crate::message::{self, OwnFields};
use crate::status;

/// The client's connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Another request may follow, as HTTP/1.1 has it.
    Default,
    /// Another request may follow, and HTTP/1.0 must be told.
    KeepAlive,
    /// The connection is closed.
    Close,
}

fn put_length(out: &mut Encoder<'_>, length: BodyLength) {
    match length {
        BodyLength::Known(bytes) => {
            out.put(b"content-length: ");
            out.number(bytes);
            out.put(b"\r\n");
        }
        BodyLength::Chunked => out.put(b"transfer-encoding: chunked\r\n"),
        // Nothing says it but the end of the connection; and where there is no
        // content, a `Content-Length` that came stands for what there would be.
        BodyLength::UntilEnd | BodyLength::Empty => {}
    }
}

/// Lines that lie one after the other as they are written here are copied in one piece.
fn put_fields(out: &mut Encoder<'_>, fields: &FieldBlock, skips: impl Fn(FieldId) -> bool) {
    let bytes = fields.bytes();
    // Where such lines lie that are still to be copied.
    let (mut start, mut end) = (0, 0);
    for field in fields.fields() {
        if skips(field.id) {
            continue;
        }
        let (name, value) = field.spans();
        let is_as_written = value.start() == name.end() + 2
            && matches!(bytes[name.end()..], [b':', b' ', ..])
            && matches!(bytes[value.end()..], [b'\r', b'\n', ..]);
        let line_end = value.end() + 2;
        if is_as_written && name.start() == end {
            end = line_end;
            continue;
        }
        out.put(&bytes[start..end]);
        (start, end) = if is_as_written {
            (name.start(), line_end)
        } else {
            out.line(name.of(bytes), value.of(bytes));
            (0, 0)
        };
    }
    out.put(&bytes[start..end]);
}

/// The framing of a request's content: never by the end of the connection.
#[must_use]
pub fn request_length(head: &RequestHead) -> BodyLength {
    match head.length {
        ContentLength::Empty => BodyLength::Empty,
        ContentLength::Known(bytes) => BodyLength::Known(bytes),
        ContentLength::Unknown => BodyLength::Chunked,
    }
}

/// A request's head. `server` is named as its host where the client named none.
///
/// # Errors
/// Where the budget has no room.
pub fn request(head: &RequestHead, server: &str, lease: &Lease) -> Result<Buffer, OverBudget> {
    let room = room_for(&head.fields, request_length(head));
    Encoder::encode(lease, room, |out| {
        out.put(head.method());
        out.put(b" ");
        out.put(if head.is_connect() {
            head.authority()
        } else {
            head.path()
        });
        if let Some(query) = head.query() {
            out.put(b"?");
            out.put(query);
        }
        out.put(b" HTTP/1.1\r\n");
        out.line(b"host", head.host_for(server));
        // How long the content is, is ours to say.
        put_fields(out, &head.fields, |id| {
            matches!(id, FieldId::Host | FieldId::ContentLength)
        });
        let length = request_length(head);
        put_length(out, length);
        if length == BodyLength::Empty && message::request_length(head).is_some() {
            out.put(b"content-length: 0\r\n");
        }
        match (head.upgrade(), head.takes_trailers) {
            (Some(protocol), _) => {
                out.line(b"connection", b"upgrade");
                out.line(b"upgrade", protocol);
            }
            (None, true) => out.put(b"te: trailers\r\nconnection: te\r\n"),
            (None, false) => {}
        }
        out.put(b"\r\n");
    })
}

/// The framing of a response, and the client's connection after it.
#[derive(Debug, Clone, Copy)]
pub struct ResponsePlan {
    /// The framing of its content.
    pub length: BodyLength,
    /// The `Content-Length` that it carries.
    pub announced: Announced,
    /// The connection after it.
    pub persistence: Persistence,
}

/// A response's head, framed as planned.
///
/// # Errors
/// Where the budget has no room.
pub fn response(
    head: &ResponseHead,
    plan: ResponsePlan,
    lease: &Lease,
) -> Result<Buffer, OverBudget> {
    let ResponsePlan {
        length,
        announced,
        persistence,
    } = plan;
    Encoder::encode(lease, room_for(&head.fields, length), |out| {
        put_status_line(out, head.status, head.reason());
        let own = OwnFields::of_response(head, announced);
        put_fields(out, &head.fields, |id| {
            id == FieldId::ContentLength && own.replaces_length
        });
        if length == BodyLength::Empty && own.length.is_some() {
            out.put(b"content-length: 0\r\n");
        }
        if own.adds_date {
            out.line(b"date", &crate::date::now());
        }
        put_length(out, length);
        match (head.upgrade(), persistence) {
            (Some(protocol), _) => {
                out.line(b"connection", b"upgrade");
                out.line(b"upgrade", protocol);
            }
            (None, _) if head.status < 200 || head.is_tunnel() => {}
            (None, Persistence::Default) => {}
            (None, Persistence::KeepAlive) => out.line(b"connection", b"keep-alive"),
            (None, Persistence::Close) => out.line(b"connection", b"close"),
        }
        out.put(b"\r\n");
    })
}

/// A response that the gateway makes itself to a request of this method: its head, and its word where that is to
/// follow.
///
/// # Errors
/// Where the budget has no room.
pub fn refusal(
    refusal: &Refusal<'_>,
    method: MethodKind,
    persistence: Persistence,
    lease: &Lease,
) -> Result<Buffer, OverBudget> {
    let status = refusal.status;
    let reason = status::reason(status);
    let has_word = !method.is_head() && matches!(refusal.content, RefusalContent::Word);
    Encoder::encode(lease, 1024, |out| {
        put_status_line(out, status, reason.as_bytes());
        out.line(b"date", &crate::date::now());
        for (name, value) in refusal.fields {
            out.line(name.as_bytes(), value.as_bytes());
        }
        if let Some(media_type) = refusal.media_type() {
            out.line(b"content-type", media_type.as_bytes());
            put_length(out, BodyLength::Known(refusal.bytes()));
        } else {
            out.put(b"content-length: 0\r\n");
        }
        match persistence {
            Persistence::Default => {}
            Persistence::KeepAlive => out.line(b"connection", b"keep-alive"),
            Persistence::Close => out.line(b"connection", b"close"),
        }
        out.put(b"\r\n");
        if has_word {
            out.refusal_content(status);
        }
    })
}

/// The end of a chunked message that has trailers.
///
/// # Errors
/// Where the budget has no room.
pub fn trailers(fields: &FieldBlock) -> Result<Buffer, OverBudget> {
    let room = room_for(fields, BodyLength::Empty);
    Encoder::encode(fields.lease(), room, |out| {
        out.put(b"0\r\n");
        for (id, name, value) in fields.iter() {
            if !id.is_refused_as_trailer(name) {
                out.line(name, value);
            }
        }
        out.put(b"\r\n");
    })
}

fn put_status_line(out: &mut Encoder<'_>, status: u16, reason: &[u8]) {
    out.put(b"HTTP/1.1 ");
    out.number(status.into());
    out.put(b" ");
    out.put(reason);
    out.put(b"\r\n");
}

/// The usual size of a head, as much as it had and a few fields of ours, with the content that is copied behind it.
fn room_for(fields: &FieldBlock, length: BodyLength) -> usize {
    const OURS: usize = 512;
    let head = fields.bytes().len() + OURS;
    let content = match length {
        BodyLength::Known(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        BodyLength::Empty => 0,
        BodyLength::Chunked | BodyLength::UntilEnd => COPIED_PART_BYTES_MAX,
    };
    match content > COPIED_PART_BYTES_MAX {
        true => head,
        false => head.max((head + content).min(COPIED_PART_BYTES_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steppe_mem::Budget;

    use super::*;
    use crate::field::FieldList;
    use crate::h1::parse::{self, HeadLimits};

    fn lines(fields: &FieldBlock, is_skipped: impl Fn(FieldId) -> bool) -> Vec<u8> {
        let mut room = [0; 4096];
        let mut out = Encoder::new(&mut room);
        put_fields(&mut out, fields, is_skipped);
        let written = out.finish().expect("it is roomy");
        room[..written].to_vec()
    }

    proptest! {
        /// Lines as they come, with white space here and there; some are skipped, some removed,
        /// some added: what is copied in one piece is what line by line would have been.
        #[test]
        fn lines_that_are_copied_together_are_those_that_are_meant(
            came in prop::collection::vec(
                ("(host|via|te|a|b)", "(:|: |:  |:\t)", "(|x|x y)", "(| )"), 0..8),
            added in prop::collection::vec("[a-c]", 0..3),
            removed in "[a-c]",
        ) {
            let lease = Budget::new(1 << 20).root().lease();
            let mut bytes = Buffer::take(&lease, 4096).expect("room");
            for (name, colon, value, end) in &came {
                let line = format!("{name}{colon}{value}{end}\r\n");
                bytes.put(line.as_bytes()).expect("room");
            }
            bytes.put(b"\r\n").expect("room");
            let mut list = FieldList::take();
            let limits = HeadLimits { bytes: 4096, fields: 100 };
            parse::trailers(bytes.filled(), limits, &mut list, &lease).expect("valid");
            let mut fields = FieldBlock::new(bytes, list);
            fields.remove(removed.as_bytes());
            for name in &added {
                fields.append(name.as_bytes(), b"new").expect("room");
            }
            let is_skipped = |id| id == FieldId::Host;
            let kept = fields.iter().filter(|&(id, ..)| !is_skipped(id));
            let expected: Vec<u8> = kept
                .flat_map(|(_, name, value)| [name, b": ", value, b"\r\n"].concat())
                .collect();
            prop_assert_eq!(lines(&fields, is_skipped), expected);
        }
    }
}
