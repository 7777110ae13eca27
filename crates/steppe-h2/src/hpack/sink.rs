//! Where decoded field lines go.

use super::dynamic_table::Pieces;
use super::field_line::Indexing;

/// Receives the field lines of a field block, in memory of its own.
///
/// A field line is its name, [`FieldSink::end_name`], its value, [`FieldSink::end_field`]; or it ends anywhere in that
/// with [`FieldSink::lost`], after the sink had no room. A string comes in pieces: each is written into
/// [`FieldSink::room`], and [`FieldSink::advance`] says how much of that was filled.
pub trait FieldSink {
    /// Contiguous room right behind what the string in progress has so far, of one byte to `bytes` bytes.
    ///
    /// `None` where there is none: the rest of the field line is decoded without being kept, and
    /// [`FieldSink::lost`] is the next call.
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]>;

    /// The first `bytes` of the room were filled.
    fn advance(&mut self, bytes: usize);

    /// The name is whole.
    fn end_name(&mut self);

    /// The value is whole, and so is the field line.
    fn end_field(&mut self, indexing: Indexing);

    /// Takes a whole field line, which stands in a table, at once. False: nothing was taken, and the line comes piece by
    /// piece.
    fn take_line(&mut self, _name: Pieces<'_>, _value: Pieces<'_>) -> bool {
        false
    }

    /// Name and value of the field line that ended last: the dynamic table takes them from here.
    fn last(&self) -> (&[u8], &[u8]);

    /// The field line in progress is over and not kept. Its name and value have `bytes` bytes together.
    fn lost(&mut self, bytes: usize);
}
