//! HTTP/1.1: the first codec of the exchange. Spec: RFC 9112.
//!
//! `parse`, `framing`, `chunked` and `encode` are sans-IO: bytes in, values and
//! bytes out. `reader` and `writer` put them on a connection, `server` faces a
//! client and `client` a server.

pub mod chunked;
pub mod encode;
pub mod framing;
pub mod parse;

mod client;
mod error;
mod head_reader;
mod reader;
mod server;
mod server_side;
mod wire;
mod writer;

/// The codec, on either side.
#[derive(Debug, Clone, Copy)]
pub struct Http1;
