//! Reads field blocks (RFC 7541 §3 and §6).

use super::dynamic_table::{DynamicTable, Pieces, TABLE_BYTES_INITIAL, entry_size};
use super::error::DecodeError;
use super::field_line::Indexing;
use super::huffman::Huffman;
use super::integer::{Integer, Prefix};
use super::kept::Kept;
use super::sink::FieldSink;
use super::static_table;

/// Reads the field blocks of one direction of a connection.
///
/// After an error it has lost its place in the block, and may have lost step with the peer's table: the connection
/// ends.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// The maximum that SETTINGS announced.
    table_bytes_max: u32,
    updates: Updates,
    awaited: Awaited,
    integer: Integer,
    representation: Representation,
    /// Bytes of the string literal that have not come.
    left: usize,
    /// The string literal is in the Huffman code, and this is its window.
    huffman: Option<Huffman>,
    part: Part,
    kept: Kept,
}

/// Dynamic table size updates, which only the beginning of a block may have (RFC 7541 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Updates {
    /// The block begins, or has had nothing but so many of them.
    Had(u8),
    /// The block must have one first.
    Due,
    /// The block has had another representation.
    Late,
}

/// The part of a field block that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The first byte of a representation.
    First,
    /// The rest of the integer that it begins with: an index, or a size.
    Integer,
    /// The first byte of the length of a string literal.
    Length,
    /// The rest of that length.
    LengthRest,
    /// The bytes of a string literal.
    String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Representation {
    Indexed,
    Literal(Indexing),
    SizeUpdate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Value,
}

impl Representation {
    /// RFC 7541 §6: the kind, and the prefix of its integer.
    fn of(byte: u8) -> (Self, Prefix) {
        match byte {
            0x80.. => (Self::Indexed, Prefix::INDEXED),
            0x40.. => (Self::Literal(Indexing::Incremental), Prefix::INCREMENTAL),
            0x20.. => (Self::SizeUpdate, Prefix::SIZE_UPDATE),
            0x10.. => (Self::Literal(Indexing::Never), Prefix::NEVER),
            _ => (Self::Literal(Indexing::Without), Prefix::WITHOUT),
        }
    }
}

impl Decoder {
    /// Begins with an empty table, whose maximum size `table_bytes_max` is announced with SETTINGS.
    ///
    /// The table has 4,096 bytes until the peer changes that (RFC 9113 §6.5.2). For less, begin with 4,096 and call
    /// [`Decoder::set_table_bytes_max`] once the peer has acknowledged the SETTINGS: until then it doesn't know.
    #[must_use]
    pub fn new(table_bytes_max: u32) -> Self {
        Self {
            table: DynamicTable::new(table_bytes_max.min(TABLE_BYTES_INITIAL)),
            table_bytes_max,
            updates: Updates::Had(0),
            awaited: Awaited::First,
            integer: Integer::default(),
            representation: Representation::Indexed,
            left: 0,
            huffman: None,
            part: Part::Name,
            kept: Kept::default(),
        }
    }

    /// The peer has acknowledged another maximum size. Call it between two blocks.
    ///
    /// Where that is below the size in use, the next block must begin with an update (RFC 7541 §4.2).
    pub fn set_table_bytes_max(&mut self, table_bytes_max: u32) {
        self.table_bytes_max = table_bytes_max;
        self.await_block();
    }

    fn await_block(&mut self) {
        let is_due = self.table.size_max() > self.table_bytes_max;
        self.updates = if is_due {
            Updates::Due
        } else {
            Updates::Had(0)
        };
    }

    /// The dynamic table.
    #[must_use]
    pub fn table(&self) -> &DynamicTable {
        &self.table
    }

    /// Bytes that it has allocated.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// The most that it allocates with a table of so many bytes.
    #[must_use]
    pub const fn memory_bytes_max(table_bytes_max: u32) -> usize {
        DynamicTable::memory_bytes_max(table_bytes_max)
    }

    /// Reads the next fragment of a field block, of any length.
    ///
    /// # Errors
    /// [`DecodeError`], by which the connection ends.
    pub fn decode(
        &mut self,
        fragment: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), DecodeError> {
        let mut rest = fragment;
        while let Some((&byte, behind)) = rest.split_first() {
            if self.awaited == Awaited::String {
                rest = self.read_string(rest, sink)?;
                continue;
            }
            rest = behind;
            let integer = match self.awaited {
                Awaited::First => self.begin(byte)?,
                Awaited::Length => self.begin_length(byte),
                _ => self.integer.push(byte)?,
            };
            match (integer, self.awaited) {
                (None, _) => {}
                (Some(value), Awaited::First | Awaited::Integer) => {
                    self.end_integer(value, sink)?
                }
                (Some(length), _) => self.end_length(length, sink)?,
            }
        }
        Ok(())
    }

    /// The field block is whole (END_HEADERS).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], or [`DecodeError::UpdateMissing`] of a block without a field line.
    pub fn end(&mut self) -> Result<(), DecodeError> {
        if self.awaited != Awaited::First {
            return Err(DecodeError::Truncated);
        }
        if self.updates == Updates::Due {
            return Err(DecodeError::UpdateMissing);
        }
        self.await_block();
        Ok(())
    }

    /// The first byte of a representation: its integer where that is all of it.
    fn begin(&mut self, byte: u8) -> Result<Option<u32>, DecodeError> {
        let (representation, prefix) = Representation::of(byte);
        self.updates = match (representation, self.updates) {
            (Representation::SizeUpdate, Updates::Late) => return Err(DecodeError::UpdateLate),
            // The smallest size, and the last one.
            (Representation::SizeUpdate, Updates::Had(2)) => {
                return Err(DecodeError::TooManyUpdates);
            }
            (Representation::SizeUpdate, Updates::Had(count)) => Updates::Had(count + 1),
            (Representation::SizeUpdate, Updates::Due) => Updates::Had(1),
            (_, Updates::Due) => return Err(DecodeError::UpdateMissing),
            _ => Updates::Late,
        };
        self.representation = representation;
        self.kept = Kept::default();
        let integer = self.integer.begin(byte, prefix);
        if integer.is_none() {
            self.awaited = Awaited::Integer;
        }
        Ok(integer)
    }

    fn end_integer(&mut self, value: u32, sink: &mut impl FieldSink) -> Result<(), DecodeError> {
        self.awaited = Awaited::First;
        match self.representation {
            Representation::SizeUpdate => return self.resize(value),
            Representation::Indexed => {
                if let Some((name, value)) = entry(&self.table, value as usize)
                    && sink.take_line(name, value)
                {
                    return Ok(());
                }
                self.add_entry(value, Part::Value, sink)?;
                return self.end_field(sink);
            }
            // RFC 7541 §6.2.1: a name that no table has.
            Representation::Literal(_) if value == 0 => self.part = Part::Name,
            Representation::Literal(_) => self.add_entry(value, Part::Name, sink)?,
        }
        self.awaited = Awaited::Length;
        Ok(())
    }

    /// RFC 7541 §6.3.
    fn resize(&mut self, size: u32) -> Result<(), DecodeError> {
        let max = self.table_bytes_max;
        if size > max {
            return Err(DecodeError::UpdateTooLarge { size, max });
        }
        self.table.set_size_max(size);
        Ok(())
    }

    /// Adds the name of an entry; up to [`Part::Value`], its value too.
    fn add_entry(
        &mut self,
        index: u32,
        up_to: Part,
        sink: &mut impl FieldSink,
    ) -> Result<(), DecodeError> {
        let (name, value) = entry(&self.table, index as usize).ok_or(DecodeError::Index(index))?;
        self.kept.add_pieces(name, sink);
        if !self.kept.is_lost() {
            sink.end_name();
        }
        if up_to == Part::Value {
            self.kept.add_pieces(value, sink);
        }
        self.part = Part::Value;
        Ok(())
    }

    /// RFC 7541 §5.2: the first byte of a string literal; its length where that is all of it.
    fn begin_length(&mut self, byte: u8) -> Option<u32> {
        self.huffman = (byte & 0x80 != 0).then(Huffman::default);
        self.awaited = Awaited::LengthRest;
        self.integer.begin(byte, Prefix::RAW)
    }

    fn end_length(&mut self, length: u32, sink: &mut impl FieldSink) -> Result<(), DecodeError> {
        self.left = length as usize;
        self.awaited = Awaited::String;
        if length == 0 {
            return self.end_string(sink);
        }
        Ok(())
    }

    /// Reads bytes of the string literal: those behind it.
    fn read_string<'a>(
        &mut self,
        bytes: &'a [u8],
        sink: &mut impl FieldSink,
    ) -> Result<&'a [u8], DecodeError> {
        let (string, behind) = bytes.split_at(bytes.len().min(self.left));
        match &mut self.huffman {
            None => self.kept.add(string, sink),
            Some(huffman) => self.kept.add_huffman(huffman, string, sink)?,
        }
        self.left -= string.len();
        if self.left == 0 {
            self.end_string(sink)?;
        }
        Ok(behind)
    }

    fn end_string(&mut self, sink: &mut impl FieldSink) -> Result<(), DecodeError> {
        if let Some(huffman) = self.huffman.take() {
            huffman.end()?;
        }
        if self.part == Part::Value {
            self.awaited = Awaited::First;
            return self.end_field(sink);
        }
        if !self.kept.is_lost() {
            sink.end_name();
        }
        (self.part, self.awaited) = (Part::Value, Awaited::Length);
        Ok(())
    }

    fn end_field(&mut self, sink: &mut impl FieldSink) -> Result<(), DecodeError> {
        let indexing = match self.representation {
            Representation::Literal(indexing) => indexing,
            Representation::Indexed | Representation::SizeUpdate => Indexing::Indexed,
        };
        let is_entry = indexing == Indexing::Incremental;
        if !self.kept.is_lost() {
            sink.end_field(indexing);
            if is_entry {
                let (name, value) = sink.last();
                self.table.insert(name, value);
            }
            return Ok(());
        }
        sink.lost(self.kept.bytes());
        if !is_entry {
            return Ok(());
        }
        if entry_size(self.kept.bytes()) <= self.table.size_max() as usize {
            return Err(DecodeError::Lost);
        }
        // RFC 7541 §4.4: an entry that is larger than the table empties it, whatever it has.
        self.table.clear();
        Ok(())
    }
}

/// RFC 7541 §2.3.3: the entry with an index, which goes on in the dynamic table.
fn entry(table: &DynamicTable, index: usize) -> Option<(Pieces<'_>, Pieces<'_>)> {
    if let Some((name, value)) = static_table::entry(index) {
        return Some((Pieces([name, &[]]), Pieces([value, &[]])));
    }
    table.entry(index.checked_sub(static_table::LEN + 1)?)
}
