//! A field section that is received into the memory of a head.
//!
//! Each field line is decoded into its place, as a line of HTTP/1 has it, so that neighbors can go out in one piece.
//! Pseudo-header fields lie among them and are no fields of the head.

use steppe_h2::hpack::{FieldSink, Indexing, Pieces};
use steppe_h2::message::Pseudo;
use steppe_h2::{Section, words};
use steppe_mem::{Buffer, OverBudget, Reservation};
use steppe_net::limits::ROOMY_BYTES;

use crate::field::{Field, FieldBlock, FieldId, FieldList, Span};

/// Bytes of a section at first. Most requests of browsers fit.
const BYTES_FIRST: usize = 1 << 10;

/// The same where the budget is short: a larger head would have to find more, after it has waited for its room.
const BYTES_FIRST_SCARCE: usize = 4 << 10;

/// Bytes beside each line: `: ` and CRLF.
const LINE_ENDS: usize = 4;

/// A section, as far as it has come.
#[derive(Debug)]
pub(super) struct HeadSection {
    bytes: Buffer,
    fields: FieldList,
    pseudo: [Option<Span>; 6],
    /// Where the line in progress begins, and where its name ended.
    line: usize,
    name: Option<usize>,
    last: (Span, Span),
    has_no_room: bool,
}

impl HeadSection {
    /// An empty section, in memory of `room` where that is enough.
    ///
    /// # Errors
    /// The budget has no room.
    pub(super) fn take(room: &mut Reservation) -> Result<Self, OverBudget> {
        let is_roomy = room.lease().account().headroom_bytes() > ROOMY_BYTES;
        let bytes = if is_roomy {
            BYTES_FIRST
        } else {
            BYTES_FIRST_SCARCE
        };
        Ok(Self {
            bytes: Buffer::take_of(room, bytes)?,
            fields: FieldList::take(),
            pseudo: [None; 6],
            line: 0,
            name: None,
            last: (Span::default(), Span::default()),
            has_no_room: false,
        })
    }

    /// True when a line was lost because the budget had no room.
    pub(super) fn has_no_room(&self) -> bool {
        self.has_no_room
    }

    /// The value of a pseudo-header field.
    pub(super) fn pseudo(&self, pseudo: Pseudo) -> Option<Span> {
        self.pseudo[pseudo as usize]
    }

    /// True when its `:method` is this one.
    pub(super) fn is_method(&self, method: &[u8]) -> bool {
        let named = self.pseudo(Pseudo::Method);
        named.is_some_and(|named| named.of(self.bytes()) == method)
    }

    /// The bytes that spans lie in.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.filled()
    }

    /// Values of the lines of a field that the gateway knows.
    pub(super) fn values(&self, id: FieldId) -> impl Iterator<Item = &[u8]> {
        let bytes = self.bytes();
        let lines = self.fields.iter().filter(move |field| field.id == id);
        lines.map(move |field| field.value(bytes))
    }

    /// Values of the lines named `name`, in lower case.
    pub(super) fn values_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes();
        let lines = self
            .fields
            .iter()
            .filter(move |field| field.name(bytes) == name);
        lines.map(move |field| field.value(bytes))
    }

    /// Field lines without pseudo-header fields, and all bytes.
    pub(super) fn into_fields(self) -> FieldBlock {
        FieldBlock::new(self.bytes, self.fields)
    }

    /// Makes room for `bytes` more, up to twice of what there is: false where the budget has none.
    fn grow(&mut self, bytes: usize) -> bool {
        let needed = self.bytes.len() + bytes;
        let Ok(mut larger) =
            Buffer::take(self.bytes.lease(), needed.max(2 * self.bytes.capacity()))
        else {
            return false;
        };
        larger.put(self.bytes.filled()).expect("it is larger");
        self.bytes = larger;
        true
    }

    /// Takes note of a line whose bytes are there.
    fn note_line(&mut self, name: Span, value: Span, indexing: Indexing) {
        self.last = (name, value);
        self.line = self.bytes.len();
        let bytes = self.bytes.filled();
        if name.of(bytes).first() == Some(&b':')
            && let Some(pseudo) = Pseudo::of(name.of(bytes))
        {
            self.pseudo[pseudo as usize] = Some(value);
            return;
        }
        let mut field = Field::new(bytes, name, value);
        if words::contains(name.of(bytes), b'_') {
            field = field.with_underscore();
        }
        if indexing == Indexing::Never {
            field = field.never_indexed();
        }
        if self.fields.try_push(field, self.bytes.lease()).is_err() {
            self.has_no_room = true;
        }
    }

    fn put_end(&mut self, end: &[u8]) {
        if self.bytes.put(end).is_err() && (!self.grow(LINE_ENDS) || self.bytes.put(end).is_err()) {
            self.has_no_room = true;
        }
    }
}

impl FieldSink for HeadSection {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let spare = self.bytes.spare_mut();
        let room = spare.len().saturating_sub(LINE_ENDS).min(bytes);
        Some(&mut spare[..room]).filter(|room| !room.is_empty())
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }

    fn end_name(&mut self) {
        self.name = Some(self.bytes.len());
        self.put_end(b": ");
    }

    fn end_field(&mut self, indexing: Indexing) {
        let end = self.bytes.len();
        let name_end = self.name.take().unwrap_or(end);
        let name = Span::new(self.line, name_end);
        let value = Span::new((name_end + 2).min(end), end);
        self.put_end(b"\r\n");
        self.note_line(name, value, indexing);
    }

    fn take_line(&mut self, name: Pieces<'_>, value: Pieces<'_>) -> bool {
        let bytes = name.bytes() + value.bytes() + LINE_ENDS;
        if self.has_no_room || self.bytes.spare() < bytes {
            return false;
        }
        let room = &mut self.bytes.spare_mut()[..bytes];
        let (of_name, rest) = room.split_at_mut(name.bytes());
        let (of_value, line_end) = rest[2..].split_at_mut(value.bytes());
        name.copy_to(of_name);
        value.copy_to(of_value);
        line_end.copy_from_slice(b"\r\n");
        rest[..2].copy_from_slice(b": ");
        self.bytes.advance(bytes);
        let name = Span::new(self.line, self.line + name.bytes());
        let value = Span::new(name.end() + 2, name.end() + 2 + value.bytes());
        self.note_line(name, value, Indexing::Indexed);
        true
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes.filled();
        (self.last.0.of(bytes), self.last.1.of(bytes))
    }

    fn lost(&mut self, _: usize) {
        self.has_no_room = true;
    }
}

impl Section for HeadSection {
    fn has_room(&mut self, bytes: usize) -> bool {
        if self.has_no_room {
            return false;
        }
        let has_some = self.bytes.spare() > LINE_ENDS;
        let has_all = self.bytes.spare() >= bytes.saturating_add(LINE_ENDS);
        // Strings whose end is far may be lies.
        has_all || self.grow(bytes.min(self.bytes.capacity()) + LINE_ENDS) || has_some
    }

    fn unfinished(&self) -> (&[u8], Option<&[u8]>) {
        let bytes = self.bytes.filled();
        match self.name {
            Some(name) => (
                &bytes[self.line..name],
                Some(&bytes[(name + 2).min(bytes.len())..]),
            ),
            None => (&bytes[self.line..], None),
        }
    }
}

#[cfg(test)]
mod tests {
    use steppe_h2::hpack::{Decoder, Encoder, FieldLine, Out};
    use steppe_mem::Budget;

    use super::*;
    use crate::h2::head::line;

    /// A sink that takes no line at once.
    struct Piecewise(HeadSection);

    impl FieldSink for Piecewise {
        fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
            self.0.room(bytes)
        }

        fn advance(&mut self, bytes: usize) {
            self.0.advance(bytes);
        }

        fn end_name(&mut self) {
            self.0.end_name();
        }

        fn end_field(&mut self, indexing: Indexing) {
            self.0.end_field(indexing);
        }

        fn last(&self) -> (&[u8], &[u8]) {
            self.0.last()
        }

        fn lost(&mut self, bytes: usize) {
            self.0.lost(bytes);
        }
    }

    /// Lines that are entries come at once or in pieces: the section is the same.
    #[test]
    fn lines_of_a_table_are_kept_as_those_that_come_in_pieces() {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let lines: [FieldLine<'_>; 5] = [
            line(b":method", b"GET"),
            line(b":path", b"/"),
            line(b"x_under", b"a"),
            line(b"empty", b""),
            line(b"content-length", b"5"),
        ];
        let mut encoder = Encoder::new(4096);
        let [mut whole, mut pieces] = [(); 2].map(|()| Decoder::new(4096));
        // From the third time on, each line is an entry.
        for _ in 0..4 {
            let mut room = [0; 512];
            let mut out = Out::new(&mut room);
            encoder.begin(&mut out).expect("room");
            for line in &lines {
                encoder.field(line, &mut out).expect("room");
            }
            let take = || HeadSection::take(&mut lease.try_reserve(2048).expect("room"));
            let mut at_once = take().expect("room");
            let mut piecewise = Piecewise(take().expect("room"));
            whole.decode(out.written(), &mut at_once).expect("valid");
            pieces.decode(out.written(), &mut piecewise).expect("valid");
            let piecewise = piecewise.0;
            assert_eq!(at_once.bytes(), piecewise.bytes());
            assert_eq!(at_once.last(), piecewise.last());
            for pseudo in [Pseudo::Method, Pseudo::Path, Pseudo::Status] {
                assert_eq!(at_once.pseudo(pseudo), piecewise.pseudo(pseudo));
            }
            let fields = |section: HeadSection| format!("{:?}", section.into_fields().fields());
            assert_eq!(fields(at_once), fields(piecewise));
        }
    }
}
