//! HTTP/1.1: the first codec of the exchange. Spec: RFC 9112.
//!
//! `parse`, `framing`, `chunked` and `encode` are sans-IO: bytes in, values and
//! bytes out. `reader` and `writer` put them on a stream, `server` and
//! `client` are the two ends of a proxied exchange.

pub mod chunked;
pub mod encode;
pub mod framing;
pub mod parse;

mod client;
mod reader;
mod server;
mod target;
mod wire;
mod writer;

pub use client::{ClientConnection, Outgoing};
pub use server::{NextRequest, ServerConnection, ServerSettings, ServerSide};
