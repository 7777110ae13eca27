//! Code that the codecs share: readers of fields, and a response to clients without TLS. Spec: RFC 9110 §8.6, §10.1.1.

use crate::field::{FieldBlock, FieldId, elements};
use crate::head::{Announced, ContentLength, RequestHead, ResponseHead};

/// The value of a `Content-Length`: digits alone, no sign, no space, no list.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Response of every codec to a client that speaks HTTP without TLS on a listener with TLS: whichever version is agreed
/// on there, this client reads HTTP/1.
pub(crate) const TO_PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; \
    charset=utf-8\r\ncontent-length: 42\r\nconnection: close\r\n\r\n\
    This port speaks HTTPS: use https:// here.";

/// True if every expectation in `Expect` is known: `100-continue` is the only one.
pub(crate) fn is_expectation_known(fields: &FieldBlock) -> bool {
    let mut expectations = fields.values(FieldId::Expect).flat_map(elements);
    expectations.all(|expectation| expectation.eq_ignore_ascii_case(b"100-continue"))
}

/// The fields that the node itself adds to a response, whatever protocol it goes by (RFC 9110 §6.6.1, §8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnFields {
    /// The head's own `Content-Length` is left out: it does not describe what is sent.
    pub(crate) replaces_length: bool,
    /// The `Content-Length` in its place; `None`: there is none.
    pub(crate) length: Option<u64>,
    /// `Date` is added: the server sent none.
    pub(crate) adds_date: bool,
}

impl OwnFields {
    /// The fields of a final or interim response with this head.
    pub(crate) fn of_response(head: &ResponseHead, announced: Announced) -> Self {
        let is_final = head.status >= 200;
        let has_content = is_final && head.status != 204 && !head.is_tunnel();
        let replaces_length = announced == Announced::Content || !has_content;
        let length = match head.length {
            ContentLength::Known(bytes) => Some(bytes),
            ContentLength::Empty => Some(0),
            ContentLength::Unknown => None,
        };
        Self {
            replaces_length,
            length: length.filter(|_| replaces_length && has_content),
            adds_date: is_final && !head.fields.has(FieldId::Date),
        }
    }
}

/// The `Content-Length` of a request as it goes out; `None`: none. A request without content has one where its client
/// sent one, since servers may ask for it (RFC 9110 §8.6).
pub(crate) fn request_length(head: &RequestHead) -> Option<u64> {
    match head.length {
        ContentLength::Known(bytes) => Some(bytes),
        ContentLength::Empty => head.fields.has(FieldId::ContentLength).then_some(0),
        ContentLength::Unknown => None,
    }
}
