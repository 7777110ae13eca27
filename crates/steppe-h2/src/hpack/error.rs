//! Errors of reading a field block, each of which is a COMPRESSION_ERROR (RFC 9113 §4.3), and of writing one.

/// The reason why a field block can't be read; the connection ends by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// RFC 7541 §5.1: an integer above what this implementation takes.
    #[error("an integer above the limit of {0}")]
    Integer(u32),
    /// RFC 7541 §2.3.3: index 0, or one behind the last entry of the dynamic table.
    #[error("index {0} is that of no entry")]
    Index(u32),
    /// RFC 7541 §5.2: the padding of a Huffman-coded string literal is 8 bits or longer, or has a zero.
    #[error(
        "the padding of a Huffman-coded string literal is no prefix of EOS shorter than a byte"
    )]
    Padding,
    /// RFC 7541 §5.2: a Huffman-coded string literal contains EOS.
    #[error("a Huffman-coded string literal contains EOS")]
    EndOfString,
    /// RFC 7541 §6.3: a dynamic table size update above the maximum that was announced.
    #[error("a dynamic table size update to {size}, at most {max} is announced")]
    UpdateTooLarge {
        /// The new maximum size that it asks for.
        size: u32,
        /// The maximum that was announced.
        max: u32,
    },
    /// RFC 7541 §4.2: a dynamic table size update behind a field line of its block.
    #[error("a dynamic table size update behind a field line")]
    UpdateLate,
    /// RFC 7541 §4.2: a third dynamic table size update in one block.
    #[error("more than two dynamic table size updates in a block")]
    TooManyUpdates,
    /// RFC 7541 §4.2: the announced maximum fell below the size of the table, and no update came.
    #[error("the block begins without the dynamic table size update that is due")]
    UpdateMissing,
    /// RFC 9113 §4.3: the field block ends amid a field line.
    #[error("the field block ends amid a field line")]
    Truncated,
    /// The sink had no room for a field line that belongs in the dynamic table.
    #[error("no room for a field line of the dynamic table")]
    Lost,
}

/// The output is shorter than the longest form of what was to be written; nothing was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the output has no room")]
pub struct Full;
