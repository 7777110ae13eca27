//! One field line on its way from a decoder to the sink, for as long as the sink has room.

use super::dynamic_table::Pieces;
use super::error::DecodeError;
use super::huffman::Huffman;
use super::sink::FieldSink;

/// Symbols that are read at once where nobody keeps them.
const SCRATCH_BYTES: usize = 64;

/// The strings of a field line so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kept {
    /// Bytes of name and value.
    bytes: usize,
    is_lost: bool,
}

impl Kept {
    /// Bytes of name and value.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sink had no room for all of them.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Adds a string of a table.
    pub(super) fn add_pieces(&mut self, string: Pieces<'_>, sink: &mut impl FieldSink) {
        for piece in string.0 {
            self.add(piece, sink);
        }
    }

    /// Adds bytes of a string.
    pub(super) fn add(&mut self, mut bytes: &[u8], sink: &mut impl FieldSink) {
        self.bytes += bytes.len();
        while !bytes.is_empty()
            && let Some(room) = self.room(bytes.len(), sink)
        {
            let (taken, rest) = bytes.split_at(room.len().min(bytes.len()));
            room[..taken.len()].copy_from_slice(taken);
            sink.advance(taken.len());
            bytes = rest;
        }
    }

    /// Adds all symbols whose bits have come.
    ///
    /// # Errors
    /// [`DecodeError::EndOfString`]
    pub(super) fn add_huffman(
        &mut self,
        huffman: &mut Huffman,
        mut input: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<(), DecodeError> {
        loop {
            huffman.fill(&mut input);
            // Before the sink is asked: what is left may be padding, which needs no room.
            if !huffman.has_symbol() {
                return Ok(());
            }
            let symbols = huffman.symbols_max(input.len());
            self.bytes += match self.room(symbols, sink) {
                None => huffman.read(&mut input, &mut [0; SCRATCH_BYTES])?,
                Some(room) => {
                    let read = huffman.read(&mut input, room)?;
                    sink.advance(read);
                    read
                }
            };
        }
    }

    /// Room in the sink; the field line is lost where there is none.
    fn room<'a>(&mut self, bytes: usize, sink: &'a mut impl FieldSink) -> Option<&'a mut [u8]> {
        if self.is_lost {
            return None;
        }
        // A sink that has room of no bytes would be asked forever.
        let room = sink.room(bytes).filter(|room| !room.is_empty());
        self.is_lost = room.is_none();
        room
    }
}
