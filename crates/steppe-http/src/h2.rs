//! HTTP/2, on either side, on the `h2` crate. Spec: RFC 9113.
//!
//! The crate reads and writes frames and keeps streams apart; `carrier` is the byte stream under
//! it, where `frames` counts what it does not bound, and `gate` reserves memory for header lists.
//! `head` makes heads of the gateway's out of its own and the other way round, `content` moves
//! content, of which `windows` says how much may come, and `turns` what goes out next, by the
//! `priority` that was asked for. `server` faces clients: a task for the connection, and one for
//! each stream. `client` faces servers, and asks those that are silent whether they are there
//! (`silence`).

mod backlog;
mod carrier;
mod client;
mod content;
mod frames;
mod gate;
mod head;
mod priority;
mod server;
mod silence;
mod turns;
mod websocket;
mod windows;

/// The codec, on either side.
#[derive(Debug, Clone, Copy)]
pub struct Http2;

/// The client's preface, before its first frame (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
