//! HPACK: compression of the field lines of HTTP/2 (RFC 7541).
//!
//! [`Decoder`] reads a field block in fragments that end anywhere, as HEADERS and CONTINUATION cut it, and writes each
//! name and value straight into memory of a [`FieldSink`]. [`Encoder`] writes field lines into an [`Out`]. Each has one
//! [`DynamicTable`].
//!
//! Invariant: a peer makes nothing here grow past its dynamic table, and a field line costs no allocation once the
//! table has its memory. A sink without room for a field line leaves the dynamic table in step with the peer's, or the
//! decoder says that it can't ([`DecodeError::Lost`]).
//!
//! Non-goals: the meaning of names and values, and which of them are valid (RFC 9113 §8.2).

mod decoder;
mod dynamic_table;
mod encoder;
mod error;
mod field_line;
mod history;
mod huffman;
mod integer;
mod kept;
mod out;
mod policy;
mod sink;
mod static_table;

pub use decoder::Decoder;
pub use dynamic_table::{DynamicTable, Pieces, TABLE_BYTES_INITIAL};
pub use encoder::Encoder;
pub use error::{DecodeError, Full};
pub use field_line::{FieldLine, Indexing};
pub use out::Out;
pub use sink::FieldSink;
