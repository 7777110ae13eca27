//! HTTP/2, on either side, on the `h2` crate. Spec: RFC 9113.
//!
//! The crate reads and writes frames and keeps streams apart; `carrier` is the byte stream under
//! it, where `frames` counts what it does not bound. `head` makes heads of the gateway's out of
//! its own and the other way round, `content` moves content. `server` faces clients: a task for
//! the connection, and one for each stream. `client` faces servers.

mod carrier;
mod client;
mod content;
mod frames;
mod head;
mod server;

use steppe_mem::Lease;

use crate::limits::{
    CONNECTION_WINDOW_BYTES_MIN, STREAM_WINDOW_BYTES_MAX, STREAM_WINDOW_BYTES_MIN, WINDOW_SHARERS,
};

/// The codec, on either side.
#[derive(Debug, Clone, Copy)]
pub struct Http2;

/// Windows of a stream and of a connection, in bytes: larger ones while `lease` has more room.
fn windows(lease: &Lease) -> (u32, u32) {
    let share = lease.account().headroom_bytes() / WINDOW_SHARERS;
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    let stream = share.clamp(STREAM_WINDOW_BYTES_MIN, STREAM_WINDOW_BYTES_MAX);
    (stream, (4 * stream).max(CONNECTION_WINDOW_BYTES_MIN))
}

/// What a client sends before its first frame (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
