//! Fields of a head, as offsets into the bytes that the head owns.
//!
//! Invariant: a [`FieldBlock`] owns the bytes that its fields lie in, and every
//! span lies within them. Nothing borrows from it across a change: an edit
//! appends bytes and moves offsets. Spec: RFC 9110 §5.

mod alias;
mod edits;
mod line;
mod list;
mod strip;

use std::fmt;
use std::io::Write;

use steppe_h2::words;
use steppe_mem::{Buffer, Full, Lease, OverBudget};

use crate::encoder::Encoder;
pub(crate) use edits::{Lines, NameSet};
pub use line::{Field, FieldId, Span};
pub use list::FieldList;
pub use strip::{UnderscoreRefused, Underscores};

/// Field lines, and the bytes that they lie in.
#[derive(Debug)]
pub struct FieldBlock {
    bytes: Buffer,
    fields: FieldList,
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
        let field = self.put_line(id, name, value)?;
        self.fields.try_push(field, self.bytes.lease())
    }

    /// [`FieldBlock::append`], of a line that goes on never-indexed (RFC 7541 §6.2.3).
    ///
    /// # Errors
    /// As there.
    pub(crate) fn append_never_indexed(
        &mut self,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), OverBudget> {
        let field = self.put_line(FieldId::of(name), name, value)?;
        self.fields
            .try_push(field.never_indexed(), self.bytes.lease())
    }

    /// Adds a copy of a line of `from` at the end, never-indexed where that is.
    ///
    /// # Errors
    /// As [`FieldBlock::append`].
    pub(crate) fn append_copy(&mut self, field: Field, from: &Self) -> Result<(), OverBudget> {
        let (name, value) = (field.name(from.bytes()), field.value(from.bytes()));
        match field.is_never_indexed {
            true => self.append_never_indexed(name, value),
            false => self.append_known(field.id, name, value),
        }
    }

    /// Puts the bytes of a line behind all others.
    fn put_line(&mut self, id: FieldId, name: &[u8], value: &[u8]) -> Result<Field, OverBudget> {
        debug_assert!(
            is_token(name) && value.iter().all(|&byte| is_value_byte(byte)),
            "a field line that can't be sent"
        );
        // As a line of HTTP/1, so that it can go out with its neighbours in one piece.
        let start = self.bytes.len();
        self.make_room(name.len() + value.len() + 4)?;
        let mut line = Encoder::new(self.bytes.spare_mut());
        line.line(name, value);
        let written = line.finish().expect("room was made");
        self.bytes.advance(written);
        let name = Span::new(start, start + name.len());
        let value = Span::new(name.end() + 2, start + written - 2);
        Ok(Field {
            id,
            name,
            value,
            is_dropped: false,
            has_underscore: false,
            is_never_indexed: false,
        })
    }

    /// Adds a `Host` line, whose value stands in the block already.
    ///
    /// # Errors
    /// As [`FieldBlock::append`].
    pub(crate) fn append_host(&mut self, value: Span) -> Result<(), OverBudget> {
        let range = value.start()..value.end();
        self.append_filled(b"host", range.len(), |bytes, _| bytes.put_within(range))
    }

    /// Adds a line whose value, of at most `value_bytes`, is copied by `fill` from what stands in the block already.
    fn append_filled(
        &mut self,
        name: &[u8],
        value_bytes: usize,
        fill: impl FnOnce(&mut Buffer, &[Field]) -> Result<(), Full>,
    ) -> Result<(), OverBudget> {
        self.make_room(name.len() + value_bytes + 4)?;
        let fits = "room was made";
        let start = self.bytes.len();
        self.bytes.put(name).expect(fits);
        self.bytes.put(b": ").expect(fits);
        let value_start = self.bytes.len();
        fill(&mut self.bytes, &self.fields).expect(fits);
        let value = Span::new(value_start, self.bytes.len());
        self.bytes.put(b"\r\n").expect(fits);
        let name = Span::new(start, start + name.len());
        let field = Field::new(self.bytes.filled(), name, value);
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

    /// Charges its bytes to `lease` from now on.
    ///
    /// # Errors
    /// [`OverBudget`] where `lease` has no room; they stay charged as they were.
    pub(crate) fn charge_to(&mut self, lease: &Lease) -> Result<(), OverBudget> {
        self.bytes.charge_to(lease)
    }

    /// [`FieldBlock::append`], of a line that a peer sent: one with an underscore in its name is
    /// marked.
    ///
    /// # Errors
    /// As there.
    #[cfg(test)]
    pub(crate) fn append_received(&mut self, name: &[u8], value: &[u8]) -> Result<(), OverBudget> {
        self.append(name, value)?;
        if name.contains(&b'_') {
            self.fields.mark_underscore();
        }
        Ok(())
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

    /// Makes one line of those named `name`, with `separator` between each two values, where there are several.
    ///
    /// # Errors
    /// As [`FieldBlock::append`].
    pub(crate) fn join_lines(&mut self, name: &[u8], separator: &[u8]) -> Result<(), OverBudget> {
        let values = self.values_named(name);
        let lengths = values.map(|value| value.len() + separator.len());
        let (lines, bytes) = lengths.fold((0, 0), |(lines, bytes), more| (lines + 1, bytes + more));
        if lines < 2 {
            return Ok(());
        }
        self.append_filled(name, bytes, |bytes, fields| {
            let mut is_first = true;
            for field in fields {
                if !field.name.of(bytes.filled()).eq_ignore_ascii_case(name) {
                    continue;
                }
                if !std::mem::take(&mut is_first) {
                    bytes.put(separator)?;
                }
                bytes.put_within(field.value.start()..field.value.end())?;
            }
            Ok(())
        })?;
        // The joined line is the last of them.
        let (bytes, mut left) = (self.bytes.filled(), lines);
        self.fields.retain(|field| {
            let is_joined = left > 0 && field.name.of(bytes).eq_ignore_ascii_case(name);
            left -= usize::from(is_joined);
            !is_joined
        });
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

/// [`is_token_byte`] of each byte. The comparisons took 20 instructions a byte of each field name.
static TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = u8::MIN;
    loop {
        table[byte as usize] = is_token_byte(byte);
        match byte {
            u8::MAX => break table,
            _ => byte += 1,
        }
    }
};

/// True for a token (RFC 9110 §5.6.2): a method, a field name.
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    let is_valid = |valid, &byte: &u8| valid & TOKEN_BYTES[usize::from(byte)];
    !bytes.is_empty() && bytes.iter().fold(true, is_valid)
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
    let control = words::fold(bytes, 0, |found, word| {
        found | words::has_below_space(word) | words::has_octet(word, 0x7f)
    });
    // A tab is one that may be there.
    let is_valid = control == 0 || bytes.iter().all(|&byte| is_value_byte(byte));
    is_valid && bytes.trim_ascii().len() == bytes.len()
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
