//! Heads of requests and responses, whatever protocol they came by.
//!
//! Invariant: a head owns its bytes; see [`FieldBlock`]. Spec: RFC 9110 §6.2.

use steppe_mem::{Buffer, Lease, OverBudget};

use crate::error::GatewayError;
use crate::field::{FieldBlock, FieldId, FieldList, Span};
use crate::host::Authority;
use crate::{path, status};

/// The protocol version that a message came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a higher minor version, which is read as that.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Version {
    /// Its number, as traces and logs have it.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
        }
    }

    /// The node's own item of `Via` in a message of this version (RFC 9110 §7.6.3).
    #[must_use]
    pub const fn via(self) -> &'static [u8] {
        match self {
            Self::Http10 => b"1.0 steppe",
            Self::Http11 => b"1.1 steppe",
            Self::Http2 => b"2.0 steppe",
        }
    }

    /// True where trailers always have a place, whatever the client says in `TE`.
    #[must_use]
    pub const fn carries_trailers(self) -> bool {
        matches!(self, Self::Http2)
    }
}

/// A request's method, as far as the framing of its response depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    /// HEAD: the response has no content (RFC 9110 §9.3.2).
    Head,
    /// CONNECT: a successful response begins a tunnel (RFC 9110 §9.3.6).
    Connect,
    /// Any other method.
    Other,
}

impl MethodKind {
    /// The kind of `method`, a case-sensitive token.
    #[must_use]
    pub fn of(method: &[u8]) -> Self {
        match method {
            b"HEAD" => Self::Head,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// True for HEAD.
    #[must_use]
    pub fn is_head(self) -> bool {
        self == Self::Head
    }

    /// True for CONNECT.
    #[must_use]
    pub fn is_connect(self) -> bool {
        self == Self::Connect
    }
}

/// The length of a message's content, as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentLength {
    /// There is none.
    Empty,
    /// Just this many bytes.
    Known(u64),
    /// Unknown until the end; trailers may follow.
    Unknown,
}

/// The `Content-Length` that a response carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// The length of its content.
    Content,
    /// The length of the content that a GET would have got: to HEAD, and in a 304.
    Representation,
}

/// A request's head, its path in normal form.
#[derive(Debug)]
pub struct RequestHead {
    /// Field lines, and the bytes of everything else.
    pub fields: FieldBlock,
    /// The protocol version.
    pub version: Version,
    /// The length of its content.
    pub length: ContentLength,
    /// The client takes trailers (`TE: trailers`).
    pub takes_trailers: bool,
    pub(crate) parts: RequestParts,
}

/// Where the parts of a request's head lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestParts {
    pub(crate) method: Span,
    /// The request target as it came, in whatever form.
    pub(crate) target: Span,
    pub(crate) path: Span,
    pub(crate) query: Option<Span>,
    /// Host and port; empty where a request of HTTP/1.0 names none.
    pub(crate) authority: Span,
    /// The authority without its port.
    pub(crate) host: Span,
    /// The protocol that it asks to go on as, one that may be asked for.
    pub(crate) upgrade: Option<Span>,
}

/// A request as an access log sees it, readable or not.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The request target as it came.
    pub target: &'a [u8],
    /// The protocol version.
    pub version: Version,
    /// The field lines.
    pub fields: &'a FieldBlock,
}

/// A response's head.
#[derive(Debug)]
pub struct ResponseHead {
    /// Field lines, and the bytes of everything else.
    pub fields: FieldBlock,
    /// The protocol version.
    pub version: Version,
    /// 100 to 599.
    pub status: u16,
    /// The length of its content.
    pub length: ContentLength,
    pub(crate) reason: Span,
    /// The protocol that the connection goes on as, after 101.
    pub(crate) upgrade: Option<Span>,
    /// A 2xx answer to CONNECT.
    pub(crate) is_connected: bool,
}

impl Announced {
    /// The length field for the response `head` to a request of this method.
    pub(crate) fn of(head: &ResponseHead, method: MethodKind) -> Self {
        if method.is_head() || head.status == 304 {
            Self::Representation
        } else {
            Self::Content
        }
    }
}

impl RequestHead {
    /// A request without content for `target` of the server `authority`.
    ///
    /// `target` is a path, with a query or without one; `method` a token (RFC 9110 §9.1).
    ///
    /// # Errors
    /// Where the budget has no room, or the parts are not valid: 400.
    pub fn new(
        method: &[u8],
        authority: &[u8],
        target: &[u8],
        lease: &Lease,
    ) -> Result<Self, GatewayError> {
        let host = Authority::parse(authority).map_err(|_| GatewayError::bad_request())?;
        let bytes = method.len() + authority.len() + 2 * target.len();
        let mut fields = FieldBlock::new(Buffer::take(lease, bytes)?, FieldList::take());
        let method = fields.put(method)?;
        let authority = fields.put(authority)?;
        let host = Span::new(authority.start(), authority.start() + host.host.len());
        let as_sent = fields.put(target)?;
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], Some(&target[at + 1..])),
            None => (target, None),
        };
        let path = fields.put(path)?;
        let text = &mut fields.bytes_mut()[path.start()..path.end()];
        let path = Span::new(path.start(), path.start() + path::normalize_in_place(text)?);
        let query = query.map(|query| Span::new(as_sent.end() - query.len(), as_sent.end()));
        let parts = RequestParts {
            method,
            target: as_sent,
            path,
            query,
            authority,
            host,
            upgrade: None,
        };
        Ok(Self {
            fields,
            version: Version::Http11,
            length: ContentLength::Empty,
            takes_trailers: false,
            parts,
        })
    }

    /// The same head in memory of its own.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn try_clone(&self) -> Result<Self, OverBudget> {
        Ok(Self {
            fields: self.fields.try_clone()?,
            version: self.version,
            length: self.length,
            takes_trailers: self.takes_trailers,
            parts: self.parts,
        })
    }

    /// Replaces the method, a token (RFC 9110 §9.1).
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn set_method(&mut self, method: &[u8]) -> Result<(), OverBudget> {
        self.parts.method = self.fields.put(method)?;
        Ok(())
    }

    /// The request target as it came, before its path was normalized.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        self.parts.target.of(self.fields.bytes())
    }

    /// The method, a case-sensitive token.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.parts.method.of(self.fields.bytes())
    }

    /// Path and query in one piece, with the `?` between them; `None` where they lie apart.
    pub(crate) fn path_and_query(&self) -> Option<&[u8]> {
        let RequestParts { path, query, .. } = self.parts;
        let Some(query) = query else {
            return Some(self.path());
        };
        let bytes = &self.fields.bytes()[path.start()..];
        let is_joined =
            query.start() == path.end() + 1 && self.fields.bytes().get(path.end()) == Some(&b'?');
        is_joined.then(|| &bytes[..query.end() - path.start()])
    }

    /// The path in normal form, with `;parameters`; `*` for the server as a whole.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.parts.path.of(self.fields.bytes())
    }

    /// Replaces the path, which is brought into normal form.
    ///
    /// # Errors
    /// Where it has none: 400; or the budget has no room.
    pub fn set_path(&mut self, path: &[u8]) -> Result<(), GatewayError> {
        let path = self.fields.put(path)?;
        let text = &mut self.fields.bytes_mut()[path.start()..path.end()];
        let length = path::normalize_in_place(text)?;
        self.parts.path = Span::new(path.start(), path.start() + length);
        Ok(())
    }

    /// Replaces the query, which has the characters of one (RFC 3986 §3.4); empty: there is none.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn set_query(&mut self, query: &[u8]) -> Result<(), GatewayError> {
        self.parts.query = match query.is_empty() {
            true => None,
            false => Some(self.fields.put(query)?),
        };
        Ok(())
    }

    /// The query, without the `?`.
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

    /// Takes the final dot off the host: the root that it names is that of every name (RFC 9110 §4.2.3, RFC 3986
    /// §3.2.2), so that routes, certificates, caches and servers see one name.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub(crate) fn normalize_host(&mut self) -> Result<(), OverBudget> {
        let [name @ .., b'.'] = self.host() else {
            return Ok(());
        };
        if name.is_empty() || name.ends_with(b".") {
            return Ok(());
        }
        let length = name.len();
        let authority = [name, &self.authority()[length + 1..]].concat();
        if self.fields.has(FieldId::Host) {
            self.fields.set(b"host", &authority)?;
        }
        let authority = self.fields.put(&authority)?;
        self.parts.authority = authority;
        self.parts.host = Span::new(authority.start(), authority.start() + length);
        Ok(())
    }

    /// Host and port as a server is told: what a filter has set, what the client asked for, or
    /// else `server`.
    pub(crate) fn host_for<'a>(&'a self, server: &'a str) -> &'a [u8] {
        let in_target = Some(self.authority()).filter(|authority| !authority.is_empty());
        (self.host_set().or(in_target)).unwrap_or(server.as_bytes())
    }

    /// Host and port that a filter has set for servers.
    pub(crate) fn host_set(&self) -> Option<&[u8]> {
        self.fields.values(FieldId::Host).next()
    }

    /// The protocol that the client asks to go on as.
    #[must_use]
    pub fn upgrade(&self) -> Option<&[u8]> {
        self.parts
            .upgrade
            .map(|upgrade| upgrade.of(self.fields.bytes()))
    }

    /// True for CONNECT, which requests a tunnel to its authority (RFC 9110 §9.3.6).
    #[must_use]
    pub fn is_connect(&self) -> bool {
        self.method() == b"CONNECT"
    }

    /// True when the response may turn the connection into a tunnel.
    #[must_use]
    pub fn asks_for_tunnel(&self) -> bool {
        self.upgrade().is_some() || self.is_connect()
    }

    /// The head's parts for the access log.
    #[must_use]
    pub fn view(&self) -> RequestView<'_> {
        RequestView {
            method: self.method(),
            target: self.target(),
            version: self.version,
            fields: &self.fields,
        }
    }

    /// True for a method that is idempotent (RFC 9110 §9.2.2).
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        matches!(
            self.method(),
            b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE"
        )
    }
}

impl ResponseHead {
    /// A head without fields, in memory of `lease`.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn new(status: u16, length: ContentLength, lease: &Lease) -> Result<Self, OverBudget> {
        const ROOM: usize = 512;
        let mut fields = FieldBlock::new(Buffer::take(lease, ROOM)?, FieldList::take());
        let reason = fields.put(status::reason(status).as_bytes())?;
        Ok(Self {
            fields,
            version: Version::Http11,
            status,
            length,
            reason,
            upgrade: None,
            is_connected: false,
        })
    }

    /// The head that has a client go on with its content: 100 (RFC 9110 §10.1.1).
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn go_on(lease: &Lease) -> Result<Self, OverBudget> {
        Self::new(100, ContentLength::Empty, lease)
    }

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
        self.status < 200 && !self.is_tunnel()
    }

    /// Content is bytes both ways after this head.
    #[must_use]
    pub fn is_tunnel(&self) -> bool {
        self.status == 101 || self.is_connected
    }

    /// Makes it the answer to CONNECT that it is, where it says yes: it has no content, whatever it
    /// says of that, and bytes both ways follow it (RFC 9110 §9.3.6).
    pub(crate) fn answer_connect(&mut self) {
        if self.is_success() {
            self.is_connected = true;
            self.length = ContentLength::Empty;
            self.fields.remove_where(|id| id == FieldId::ContentLength);
        }
    }

    /// True for a 2xx response (RFC 9110 §15.3).
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// True for a 2xx response that a client would take for an answer to CONNECT, and that is none.
    pub(crate) fn is_false_yes(&self) -> bool {
        self.is_success() && !self.is_connected
    }
}
