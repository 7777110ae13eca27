//! Writes field blocks (RFC 7541 §6).
//!
//! [`Policy`] chooses among the representations. A field line becomes an entry of the dynamic table when it is sent for
//! the second time within some 64 others ([`History`]): one that is sent once would cost the entries that it evicts,
//! and make no later block shorter.

use super::dynamic_table::{DynamicTable, TABLE_BYTES_INITIAL, entry_size};
use super::error::Full;
use super::field_line::{FieldLine, Indexing};
use super::history::{Hashed, History};
use super::huffman;
use super::integer::{self, Prefix};
use super::out::Out;
use super::policy::Policy;
use super::static_table;

/// Names up to this length are put into lower case before they are looked up. No registered one is longer.
const LOWERED_BYTES_MAX: usize = 64;

/// Longest form of an index or a size: of one with 32 bits.
const INDEX_BYTES_MAX: usize = integer::bytes_max(u32::MAX as usize);

/// Writes the field blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    history: History,
    /// Limit of this side; the peer may allow more.
    table_bytes_max: u32,
    /// Due at the beginning of the next block.
    update: Option<Update>,
}

/// A change of the maximum size of the table, which the peer is told.
#[derive(Debug, Clone, Copy)]
struct Update {
    /// The smallest maximum since the last block.
    least: u32,
    /// The maximum from now on.
    last: u32,
}

impl Encoder {
    /// Longest output of [`Encoder::begin`].
    pub const BEGIN_BYTES_MAX: usize = 2 * INDEX_BYTES_MAX;

    /// Begins with an empty table, which never gets larger than `table_bytes_max`.
    ///
    /// The table has 4,096 bytes at most until [`Encoder::set_table_bytes_max`] raises what the peer allows.
    #[must_use]
    pub fn new(table_bytes_max: u32) -> Self {
        let size_max = table_bytes_max.min(TABLE_BYTES_INITIAL);
        let update = Update {
            least: size_max,
            last: size_max,
        };
        Self {
            table: DynamicTable::new(size_max),
            history: History::default(),
            table_bytes_max,
            update: (size_max < TABLE_BYTES_INITIAL).then_some(update),
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE. It holds from the next block on.
    pub fn set_table_bytes_max(&mut self, peer_max: u32) {
        let size = peer_max.min(self.table_bytes_max);
        let known = self
            .update
            .map_or(self.table.size_max(), |update| update.last);
        if size != known {
            let least = self.update.map_or(size, |update| update.least.min(size));
            self.update = Some(Update { least, last: size });
        }
    }

    /// The dynamic table.
    #[must_use]
    pub fn table(&self) -> &DynamicTable {
        &self.table
    }

    /// Bytes that it has allocated.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.history.memory_bytes()
    }

    /// The most that it allocates with a table of so many bytes.
    #[must_use]
    pub const fn memory_bytes_max(table_bytes_max: u32) -> usize {
        DynamicTable::memory_bytes_max(table_bytes_max) + History::memory_bytes_max(table_bytes_max)
    }

    /// Begins a field block: writes the dynamic table size updates that are due (RFC 7541 §4.2).
    ///
    /// # Errors
    /// [`Full`] where `out` has less than [`Encoder::BEGIN_BYTES_MAX`] left and an update is due.
    pub fn begin(&mut self, out: &mut Out<'_>) -> Result<(), Full> {
        let Some(Update { least, last }) = self.update else {
            return Ok(());
        };
        if out.left() < Self::BEGIN_BYTES_MAX {
            return Err(Full);
        }
        if least < last {
            self.resize(least, out);
        }
        self.resize(last, out);
        self.update = None;
        Ok(())
    }

    /// RFC 7541 §6.3.
    fn resize(&mut self, size: u32, out: &mut Out<'_>) {
        Prefix::SIZE_UPDATE.write(size as usize, out);
        self.table.set_size_max(size);
    }

    /// The most bytes that a field line takes, by the lengths of its name and value.
    #[must_use]
    pub const fn field_bytes_max(name: usize, value: usize) -> usize {
        INDEX_BYTES_MAX
            .saturating_add(integer::bytes_max(name))
            .saturating_add(name)
            .saturating_add(integer::bytes_max(value))
            .saturating_add(value)
    }

    /// Writes a field line.
    ///
    /// # Errors
    /// [`Full`] where `out` has less than [`Encoder::field_bytes_max`] left: nothing is written then.
    pub fn field(&mut self, line: &FieldLine<'_>, out: &mut Out<'_>) -> Result<(), Full> {
        if out.left() < Self::field_bytes_max(line.name.len(), line.value.len()) {
            return Err(Full);
        }
        let hashed = Hashed::of(line);
        if !hashed.has_capitals {
            self.write(hashed, out);
            return Ok(());
        }
        let mut lowered = [0; LOWERED_BYTES_MAX];
        let Some(lowered) = lowered.get_mut(..line.name.len()) else {
            write_long_name(line, out);
            return Ok(());
        };
        lowered.copy_from_slice(line.name);
        lowered.make_ascii_lowercase();
        let name = &*lowered;
        self.write(hashed.lowered(&FieldLine { name, ..*line }), out);
        Ok(())
    }

    fn write(&mut self, hashed: Hashed<'_>, out: &mut Out<'_>) {
        let line = hashed.line;
        // Most lines are entries, and no secret ever becomes one.
        if line.indexing != Indexing::Never
            && let Some(at) = self.history.find_lately(&self.table, hashed)
        {
            return Prefix::INDEXED.write(dynamic_index(at), out);
        }
        let name = static_table::find_name(line.name);
        let policy = Policy::of(line);
        if policy == Policy::Never {
            return write_literal(Prefix::NEVER, name, line, out);
        }
        if let Some(index) = name.and_then(|name| static_table::find_value(name, line.value)) {
            return Prefix::INDEXED.write(index, out);
        }
        // As an entry it would evict half of the table, whose many small entries are used more often.
        let size = entry_size(line.name.len() + line.value.len());
        if policy == Policy::Literal || size > self.table.size_max() as usize / 2 {
            return write_literal(Prefix::WITHOUT, name, line, out);
        }
        self.write_or_insert(name, hashed, out);
    }

    /// Writes a field line that may become an entry; `name` is the index of its name in the static table.
    fn write_or_insert(&mut self, name: Option<usize>, hashed: Hashed<'_>, out: &mut Out<'_>) {
        let line = hashed.line;
        if let Some(at) = self.history.find(&self.table, hashed) {
            return Prefix::INDEXED.write(dynamic_index(at), out);
        }
        let name = name.or_else(|| {
            let at = self.history.find_name(&self.table, hashed);
            at.map(dynamic_index)
        });
        if !self.history.is_repeated(hashed) {
            return write_literal(Prefix::WITHOUT, name, line, out);
        }
        write_literal(Prefix::INCREMENTAL, name, line, out);
        self.table.insert(line.name, line.value);
        self.history.inserted(hashed, &self.table);
    }
}

/// RFC 7541 §2.3.3: the index of an entry of the dynamic table.
fn dynamic_index(at: usize) -> usize {
    static_table::LEN + 1 + at
}

/// RFC 7541 §6.2: writes a literal, with the index of its name where a table has it.
fn write_literal(prefix: Prefix, name: Option<usize>, line: &FieldLine<'_>, out: &mut Out<'_>) {
    prefix.write(name.unwrap_or(0), out);
    if name.is_none() {
        write_string(line.name, out);
    }
    write_string(line.value, out);
}

/// Writes a literal with a name that is too long to be looked up.
fn write_long_name(line: &FieldLine<'_>, out: &mut Out<'_>) {
    let prefix = match Policy::of(line) {
        Policy::Never => Prefix::NEVER,
        Policy::Literal | Policy::Insert => Prefix::WITHOUT,
    };
    prefix.write(0, out);
    Prefix::RAW.write(line.name.len(), out);
    let name = out.take(line.name.len());
    name.copy_from_slice(line.name);
    name.make_ascii_lowercase();
    write_string(line.value, out);
}

/// RFC 7541 §5.2: writes a string literal, in the Huffman code where that is shorter.
fn write_string(string: &[u8], out: &mut Out<'_>) {
    let coded = huffman::encoded_bytes(string);
    if coded < string.len() {
        Prefix::HUFFMAN.write(coded, out);
        huffman::encode(string, out.take(coded));
    } else {
        Prefix::RAW.write(string.len(), out);
        out.extend(string);
    }
}
