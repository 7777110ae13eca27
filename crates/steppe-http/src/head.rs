//! Heads of requests and responses, whatever protocol they came by.
//!
//! Invariant: a head owns its bytes; see [`FieldBlock`]. Spec: RFC 9110 §6.2.

use crate::field::{FieldBlock, Span};

/// The protocol version that a message came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a higher minor version, which is read as that.
    Http11,
}

/// How a message's content is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none.
    Empty,
    /// Just this many bytes.
    Known(u64),
    /// The message says where it ends as it goes, and may have trailers.
    Chunked,
    /// Until the connection ends: HTTP/1.0 responses, and tunnels.
    UntilEnd,
}

/// A request's head, its path in normal form.
#[derive(Debug)]
pub struct RequestHead {
    /// Field lines, and the bytes of everything else.
    pub fields: FieldBlock,
    /// How it came.
    pub version: Version,
    /// How its content is delimited.
    pub length: BodyLength,
    /// The client takes trailers (`TE: trailers`).
    pub takes_trailers: bool,
    pub(crate) parts: RequestParts,
}

/// Where the parts of a request's head lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestParts {
    pub(crate) method: Span,
    pub(crate) path: Span,
    pub(crate) query: Option<Span>,
    /// Host and port; empty where a request of HTTP/1.0 names none.
    pub(crate) authority: Span,
    /// The authority without its port.
    pub(crate) host: Span,
    /// The protocol that it asks to go on as, one that may be asked for.
    pub(crate) upgrade: Option<Span>,
}

/// A response's head.
#[derive(Debug)]
pub struct ResponseHead {
    /// Field lines, and the bytes of everything else.
    pub fields: FieldBlock,
    /// How it came.
    pub version: Version,
    /// 100 to 599.
    pub status: u16,
    /// How its content is delimited.
    pub length: BodyLength,
    pub(crate) reason: Span,
    /// The protocol that the connection goes on as, after 101.
    pub(crate) upgrade: Option<Span>,
    /// Content that came with the head, and lies behind it in its bytes.
    pub(crate) content: Span,
    /// Its request can be sent again: all that is out of it was kept, and no interim response
    /// was passed on.
    pub(crate) is_request_kept: bool,
}

impl RequestHead {
    /// The method, a case-sensitive token.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.parts.method.of(self.fields.bytes())
    }

    /// The path in normal form, with `;parameters`; `*` for the server as a whole.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.parts.path.of(self.fields.bytes())
    }

    /// What follows the `?`.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.parts.query.map(|query| query.of(self.fields.bytes()))
    }

    /// Host and port as the client named them; empty where it named none.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        self.parts.authority.of(self.fields.bytes())
    }

    /// The host without its port.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        self.parts.host.of(self.fields.bytes())
    }

    /// The protocol that the client asks to go on as.
    #[must_use]
    pub fn upgrade(&self) -> Option<&[u8]> {
        self.parts
            .upgrade
            .map(|upgrade| upgrade.of(self.fields.bytes()))
    }

    /// Whether asking twice does what asking once does (RFC 9110 §9.2.2).
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        matches!(
            self.method(),
            b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE"
        )
    }
}

impl ResponseHead {
    /// The reason phrase, which may be empty.
    #[must_use]
    pub fn reason(&self) -> &[u8] {
        self.reason.of(self.fields.bytes())
    }

    /// The protocol that the connection goes on as, after 101.
    #[must_use]
    pub fn upgrade(&self) -> Option<&[u8]> {
        self.upgrade.map(|upgrade| upgrade.of(self.fields.bytes()))
    }

    /// 1xx: another response follows. Not 101, which ends HTTP on the connection.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }
}
