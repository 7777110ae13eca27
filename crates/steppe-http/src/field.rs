//! Fields of a head, as offsets into the bytes that the head owns.
//!
//! Invariant: a [`FieldBlock`] owns the bytes that its fields lie in, and every
//! span lies within them. Nothing borrows from it across a change: an edit
//! appends bytes and moves offsets. Spec: RFC 9110 §5.

mod alias;
mod edits;
mod list;
mod strip;

use std::fmt;
use std::io::Write;

use steppe_mem::{Buffer, Lease, OverBudget};

use crate::encoder::{Encoder, Put};

pub(crate) use edits::{Lines, NameSet};
pub use list::FieldList;
pub use strip::{UnderscoreRefused, Underscores};

/// Offsets of some bytes within their block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    len: u32,
}

/// One field line.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name's id, where the gateway knows it.
    pub id: FieldId,
    name: Span,
    value: Span,
    is_dropped: bool,
    has_underscore: bool,
}

/// Names that mean something to a gateway; everything else is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of that name")]
pub enum FieldId {
    /// `X-Real-IP`, `X-Client-IP` or `True-Client-IP`: the client's address, to those who
    /// believe it.
    ClientIp,
    /// `Client-Cert` or `Client-Cert-Chain` (RFC 9440).
    ClientCert,
    Connection,
    ContentLength,
    ContentType,
    Date,
    Expect,
    Forwarded,
    Host,
    Http2Settings,
    KeepAlive,
    ProxyConnection,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    Via,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
    /// Every other `X-Forwarded-*`: port, prefix, server, whatever comes up.
    XForwardedOther,
    Other,
}

/// Field lines, and the bytes that they lie in.
#[derive(Debug)]
pub struct FieldBlock {
    bytes: Buffer,
    fields: FieldList,
}

impl Span {
    /// From `start` up to `end`.
    ///
    /// # Panics
    /// Where the bytes are not those of a head, which is far below 4 GiB.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let small = |offset: usize| u32::try_from(offset).expect("heads are bounded");
        Self {
            start: small(start),
            len: small(end - start),
        }
    }

    /// The bytes that it stands for.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start()..self.end()]
    }

    /// First byte.
    #[must_use]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Past the last byte.
    #[must_use]
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

impl Field {
    /// A field line whose parts lie at `name` and `value` of `bytes`.
    #[must_use]
    pub fn new(bytes: &[u8], name: Span, value: Span) -> Self {
        Self {
            id: FieldId::of(name.of(bytes)),
            name,
            value,
            is_dropped: false,
            has_underscore: false,
        }
    }

    /// A line whose name has an underscore in it.
    pub(crate) fn with_underscore(self) -> Self {
        Self {
            has_underscore: true,
            ..self
        }
    }

    /// Where its name and its value lie.
    pub(crate) fn spans(self) -> (Span, Span) {
        (self.name, self.value)
    }

    /// The name in `bytes`, in the case that was sent.
    #[must_use]
    pub fn name(self, bytes: &[u8]) -> &[u8] {
        self.name.of(bytes)
    }

    /// The value in `bytes`, without the white space around it.
    #[must_use]
    pub fn value(self, bytes: &[u8]) -> &[u8] {
        self.value.of(bytes)
    }
}

impl FieldId {
    /// The id of `name`, in any case.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        // The last byte tells most names apart before all of them are compared.
        let last = name.last().map_or(0, u8::to_ascii_lowercase);
        let is = |known: &str, id| {
            let known = known.as_bytes();
            let is_same = known.last() == Some(&last) && name.eq_ignore_ascii_case(known);
            is_same.then_some(id)
        };
        let id = match name.len() {
            2 => is("te", Self::Te),
            3 => is("via", Self::Via),
            4 => is("host", Self::Host).or_else(|| is("date", Self::Date)),
            6 => is("expect", Self::Expect),
            7 => is("upgrade", Self::Upgrade).or_else(|| is("trailer", Self::Trailer)),
            9 => is("forwarded", Self::Forwarded).or_else(|| is("x-real-ip", Self::ClientIp)),
            10 => is("connection", Self::Connection).or_else(|| is("keep-alive", Self::KeepAlive)),
            11 => is("x-client-ip", Self::ClientIp).or_else(|| is("client-cert", Self::ClientCert)),
            12 => is("content-type", Self::ContentType),
            14 => is("content-length", Self::ContentLength)
                .or_else(|| is("http2-settings", Self::Http2Settings))
                .or_else(|| is("true-client-ip", Self::ClientIp)),
            15 => is("x-forwarded-for", Self::XForwardedFor),
            16 => is("proxy-connection", Self::ProxyConnection)
                .or_else(|| is("x-forwarded-host", Self::XForwardedHost)),
            17 => is("transfer-encoding", Self::TransferEncoding)
                .or_else(|| is("x-forwarded-proto", Self::XForwardedProto))
                .or_else(|| is("client-cert-chain", Self::ClientCert)),
            _ => None,
        };
        id.unwrap_or_else(|| {
            if is_x_forwarded(name) {
                Self::XForwardedOther
            } else {
                Self::Other
            }
        })
    }

    /// Fields that end at the next hop, whatever `Connection` names (RFC 9110 §7.6.1).
    #[must_use]
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::Http2Settings
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
        )
    }

    /// Fields that `Connection` can't take away: those that frame and route a
    /// message, and those that the gateway itself vouches for.
    #[must_use]
    pub fn is_kept_from_connection(self) -> bool {
        self.tells_of_client() || matches!(self, Self::ContentLength | Self::Host | Self::Via)
    }

    /// Fields that say who the client is and what it asked the first proxy for: worth what the
    /// peer is trusted with.
    #[must_use]
    pub fn tells_of_client(self) -> bool {
        matches!(
            self,
            Self::ClientIp
                | Self::ClientCert
                | Self::Forwarded
                | Self::XForwardedFor
                | Self::XForwardedHost
                | Self::XForwardedProto
                | Self::XForwardedOther
        )
    }

    /// True when trailers must not have this `name`: it would frame, route, modify or authorize a
    /// message, or describe its content (RFC 9110 §6.5.1).
    #[must_use]
    pub fn is_refused_as_trailer(self, name: &[u8]) -> bool {
        const REFUSED: [&str; 14] = [
            "age",
            "authorization",
            "cache-control",
            "content-encoding",
            "content-range",
            "cookie",
            "expires",
            "location",
            "max-forwards",
            "proxy-authorization",
            "range",
            "retry-after",
            "set-cookie",
            "vary",
        ];
        let is_known = matches!(
            self,
            Self::ContentType | Self::Date | Self::Expect | Self::Trailer
        );
        let is_named = |refused: &&str| name.eq_ignore_ascii_case(refused.as_bytes());
        is_known
            || self.is_hop_by_hop()
            || self.is_kept_from_connection()
            || REFUSED.iter().any(is_named)
    }
}

/// True when `name` begins with `X-Forwarded-`. Its first byte tells most others apart.
fn is_x_forwarded(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    matches!(name.first(), Some(b'x' | b'X'))
        && name
            .get(..PREFIX.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

impl FieldBlock {
    /// Fields that were parsed out of `bytes`.
    #[must_use]
    pub fn new(bytes: Buffer, fields: FieldList) -> Self {
        Self { bytes, fields }
    }

    /// The same lines in memory of their own.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn try_clone(&self) -> Result<Self, OverBudget> {
        let lease = self.lease();
        let mut bytes = Buffer::take(lease, self.bytes.len())?;
        bytes
            .put(self.bytes.filled())
            .expect("it was taken for them");
        let mut fields = FieldList::take();
        for &field in self.fields() {
            fields.try_push(field, lease)?;
        }
        Ok(Self { bytes, fields })
    }

    /// The bytes that all spans lie in.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.filled()
    }

    /// Every field line, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (FieldId, &[u8], &[u8])> + Clone {
        let bytes = self.bytes();
        let parts = move |field: &Field| (field.id, field.name.of(bytes), field.value.of(bytes));
        self.fields.iter().map(parts)
    }

    /// Values of the lines of a field that the gateway knows.
    pub fn values(&self, id: FieldId) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        let is_one = !matches!(
            id,
            FieldId::Other | FieldId::XForwardedOther | FieldId::ClientIp | FieldId::ClientCert
        );
        debug_assert!(is_one, "these are several fields, which go by name");
        let bytes = self.bytes();
        self.fields
            .iter()
            .filter(move |field| field.id == id)
            .map(|field| field.value.of(bytes))
    }

    /// Values of the lines named `name`, in any case.
    pub fn values_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let named = move |&(_, line, value): &(FieldId, &'a [u8], &'a [u8])| {
            line.eq_ignore_ascii_case(name).then_some(value)
        };
        self.iter().filter_map(move |line| named(&line))
    }

    /// Values of the cookies of this name (RFC 6265 §4.2.1).
    pub(crate) fn cookies<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.values_named(b"cookie");
        let pairs = lines.flat_map(|line| line.split(|&byte| byte == b';'));
        pairs.filter_map(move |pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
    }

    /// True when the block has a line of this field.
    #[must_use]
    pub fn has(&self, id: FieldId) -> bool {
        self.fields.iter().any(|field| field.id == id)
    }

    /// Takes out every line named `name`, in any case, and those that a peer sent with underscores in the
    /// place of its hyphens.
    pub fn remove(&mut self, name: &[u8]) {
        let bytes = self.bytes.filled();
        self.fields.retain(|field| {
            let line = field.name.of(bytes);
            let is_aliased = field.has_underscore && alias::is_alias(line, name);
            !is_aliased && !line.eq_ignore_ascii_case(name)
        });
    }

    /// Takes out every line that is not named `name`, in any case.
    pub fn keep_only(&mut self, name: &[u8]) {
        let bytes = self.bytes.filled();
        self.fields
            .retain(|field| field.name.of(bytes).eq_ignore_ascii_case(name));
    }

    /// Takes out every line for which `drop` holds.
    pub fn remove_where(&mut self, mut drop: impl FnMut(FieldId) -> bool) {
        self.fields.retain(|field| !drop(field.id));
    }

    /// Adds a line at the end. `name` and `value` are valid (RFC 9110 §5.1, §5.5).
    ///
    /// # Errors
    /// [`OverBudget`] where the line needs more room than the budget has.
    pub fn append(&mut self, name: &[u8], value: &[u8]) -> Result<(), OverBudget> {
        self.append_known(FieldId::of(name), name, value)
    }

    /// [`FieldBlock::append`], where it is known what `name` is.
    ///
    /// # Errors
    /// As there.
    pub fn append_known(
        &mut self,
        id: FieldId,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), OverBudget> {
        // As a line of HTTP/1, so that it can go out with its neighbours in one piece.
        let start = self.bytes.len();
        self.make_room(name.len() + value.len() + 4)?;
        let mut line = Encoder::new(self.bytes.spare_mut());
        line.line(name, value);
        let written = line.finish().expect("room was made");
        self.bytes.advance(written);
        let name = Span::new(start, start + name.len());
        let value = Span::new(name.end() + 2, start + written - 2);
        let field = Field {
            id,
            name,
            value,
            is_dropped: false,
            has_underscore: false,
        };
        self.fields.try_push(field, self.bytes.lease())
    }

    /// [`FieldBlock::append`], of a short value that is formatted: numbers, dates, and names of this crate.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn append_formatted(
        &mut self,
        name: &[u8],
        value: fmt::Arguments<'_>,
    ) -> Result<(), OverBudget> {
        /// A media type with its parameters; the longest registered one has 93 bytes without.
        const BYTES_MAX: usize = 160;
        let mut text = [0; BYTES_MAX];
        let mut room = &mut text[..];
        room.write_fmt(value).expect("it is of bounded length");
        let end = BYTES_MAX - room.len();
        self.append(name, &text[..end])
    }

    /// [`FieldBlock::append`], of a line that a peer sent: one with an underscore in its name is
    /// marked.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn append_received(&mut self, name: &[u8], value: &[u8]) -> Result<(), OverBudget> {
        self.append(name, value)?;
        if name.contains(&b'_') {
            self.fields.mark_underscore();
        }
        Ok(())
    }

    /// Adds one line of several values, with `separator` between each two.
    ///
    /// # Errors
    /// As [`FieldBlock::append`].
    pub(crate) fn append_joined<'a, V: Iterator<Item = &'a [u8]>>(
        &mut self,
        name: &[u8],
        separator: &[u8],
        values: impl Fn() -> V,
    ) -> Result<(), OverBudget> {
        let lengths = values().map(|value| value.len() + separator.len());
        let bytes: usize = lengths.sum();
        let start = self.bytes.len();
        self.make_room(name.len() + bytes + 4)?;
        let mut line = Encoder::new(self.bytes.spare_mut());
        line.put(name);
        line.put(b": ");
        for (index, value) in values().enumerate() {
            line.put(if index == 0 { b"" } else { separator });
            line.put(value);
        }
        line.put(b"\r\n");
        let written = line.finish().expect("room was made");
        self.bytes.advance(written);
        let name = Span::new(start, start + name.len());
        let value = Span::new(name.end() + 2, start + written - 2);
        let field = Field::new(self.bytes.filled(), name, value);
        self.fields.try_push(field, self.bytes.lease())
    }

    /// Replaces every line named `name` by one.
    ///
    /// # Errors
    /// [`OverBudget`] where the bytes need more room than the budget has.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), OverBudget> {
        self.remove(name);
        self.append(name, value)
    }

    /// Adds bytes after all others and says where they are.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<Span, OverBudget> {
        self.make_room(bytes.len())?;
        let start = self.bytes.len();
        self.bytes.put(bytes).expect("room was made");
        Ok(Span::new(start, start + bytes.len()))
    }

    /// Adds a copy of bytes that it has already.
    pub(crate) fn copy(&mut self, span: Span) -> Result<Span, OverBudget> {
        const PIECE: usize = 256;
        let len = span.end() - span.start();
        self.make_room(len)?;
        let start = self.bytes.len();
        for from in (span.start()..span.end()).step_by(PIECE) {
            let mut piece = [0; PIECE];
            let piece = &mut piece[..PIECE.min(span.end() - from)];
            piece.copy_from_slice(&self.bytes.filled()[from..from + piece.len()]);
            self.bytes.put(piece).expect("room was made");
        }
        Ok(Span::new(start, start + len))
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if self.bytes.spare() < bytes {
            let mut larger = Buffer::take(self.bytes.lease(), self.bytes.len() + bytes)?;
            larger.put(self.bytes.filled()).expect("it is larger");
            self.bytes = larger;
        }
        Ok(())
    }

    /// Where the value of the first line of a field lies.
    pub(crate) fn value_span(&self, id: FieldId) -> Option<Span> {
        self.fields
            .iter()
            .find(|field| field.id == id)
            .map(|field| field.value)
    }

    pub(crate) fn lease(&self) -> &Lease {
        self.bytes.lease()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.filled_mut()
    }
}

/// RFC 9110 §5.6.2.
#[must_use]
pub const fn is_token_byte(byte: u8) -> bool {
    matches!(byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')
}

/// True for a token (RFC 9110 §5.6.2): a method, a field name.
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// RFC 9110 §5.5: VCHAR, obs-text, and white space within.
#[must_use]
pub const fn is_value_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | 0x20..=0x7e | 0x80..)
}

/// True when a line of a header or trailer section can have this name and this value, whatever protocol it
/// came by.
#[must_use]
pub fn is_field_line(name: &[u8], value: &[u8]) -> bool {
    is_token(name) && is_field_value(value)
}

/// True for a valid field value.
#[must_use]
pub fn is_field_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| is_value_byte(byte)) && bytes.trim_ascii().len() == bytes.len()
}

/// The elements of a comma-separated list, without white space and empty ones
/// (RFC 9110 §5.6.1). Not for fields that have quoted strings in them.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A block with these lines, in a budget of its own.
    pub(crate) fn fields(lines: &[(&str, &str)]) -> FieldBlock {
        let budget = steppe_mem::Budget::new(16 << 20);
        let buffer = Buffer::take(&budget.root().lease(), 4096).expect("room");
        let mut fields = FieldBlock::new(buffer, FieldList::take());
        for (name, value) in lines {
            let added = fields.append(name.as_bytes(), value.as_bytes());
            added.expect("room");
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_known_in_any_case() {
        for (name, id) in [
            ("Client-Cert", FieldId::ClientCert),
            ("client-cert-chain", FieldId::ClientCert),
            ("connection", FieldId::Connection),
            ("Content-Length", FieldId::ContentLength),
            ("CONTENT-TYPE", FieldId::ContentType),
            ("date", FieldId::Date),
            ("expect", FieldId::Expect),
            ("forwarded", FieldId::Forwarded),
            ("host", FieldId::Host),
            ("HTTP2-Settings", FieldId::Http2Settings),
            ("keep-alive", FieldId::KeepAlive),
            ("proxy-connection", FieldId::ProxyConnection),
            ("te", FieldId::Te),
            ("trailer", FieldId::Trailer),
            ("transfer-encoding", FieldId::TransferEncoding),
            ("upgrade", FieldId::Upgrade),
            ("via", FieldId::Via),
            ("x-forwarded-for", FieldId::XForwardedFor),
            ("x-forwarded-host", FieldId::XForwardedHost),
            ("x-forwarded-proto", FieldId::XForwardedProto),
            ("x-forwarded-port", FieldId::XForwardedOther),
            ("X-Forwarded-By", FieldId::XForwardedOther),
            ("x-forwarded-a-thing-unheard-of", FieldId::XForwardedOther),
            ("x-forwarded", FieldId::Other),
            ("X-Real-IP", FieldId::ClientIp),
            ("x-client-ip", FieldId::ClientIp),
            ("True-Client-IP", FieldId::ClientIp),
            ("", FieldId::Other),
        ] {
            assert_eq!(FieldId::of(name.as_bytes()), id, "{name}");
        }
    }

    #[test]
    fn appended_lines_are_copied_a_few_times_however_many_there_are() {
        let budget = steppe_mem::Budget::new(16 << 20);
        let copies = |lines: usize| {
            let bytes = Buffer::take(&budget.root().lease(), 1).expect("room");
            let mut fields = FieldBlock::new(bytes, FieldList::take());
            let mut copied = 0;
            for _ in 0..lines {
                let before = fields.bytes.capacity();
                fields.append(b"x-name", &[b'v'; 100]).expect("room");
                let has_moved = fields.bytes.capacity() != before;
                copied += if has_moved { before } else { 0 };
            }
            copied
        };
        // 100 KiB, then twice that.
        let (half, whole) = (copies(1000), copies(2000));
        assert!(half > 0, "moves are counted");
        assert!(whole * 2 < half * 5, "{half}, then {whole}");
    }

    #[test]
    fn list_elements_lose_white_space_and_empties() {
        let found: Vec<&[u8]> = elements(b" close ,, upgrade\t, ").collect();
        assert_eq!(found, [&b"close"[..], b"upgrade"]);
    }
}
