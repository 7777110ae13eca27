//! A field line to be sent, and its indexing.

/// The representation of a field line, as far as its content doesn't tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// RFC 7541 §6.1: an entry of a table.
    Indexed,
    /// RFC 7541 §6.2.1: a literal that becomes an entry of the dynamic table.
    Incremental,
    /// RFC 7541 §6.2.2: a literal that becomes no entry on this hop.
    Without,
    /// RFC 7541 §6.2.3: a literal that becomes no entry on any hop.
    Never,
}

/// A field line to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// Name; upper case becomes lower case on the way out (RFC 9113 §8.2.1).
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// [`Indexing::Never`] stays so, as RFC 7541 §6.2.3 demands; otherwise the encoder chooses.
    pub indexing: Indexing,
}
