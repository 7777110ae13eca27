//! HTTP/2 without sockets (RFC 9113), for either side of a connection.
//!
//! [`Connection`] is the state machine of one connection: it takes bytes and the time, and returns events and slices
//! to write. [`frame`] reads and writes frames, [`hpack`] compresses fields (RFC 7541).
//!
//! Invariant: a peer can make nothing here grow past a bound of [`limits`], and everything that is held for it is in
//! memory that is charged: field blocks in sinks of the caller, content in the buffers that it was read into, output in
//! buffers of the lease that the connection was given, scratch memory and a buffer for scarcity in its reservation;
//! tables and streams are charged by the caller.
//!
//! Non-goals: sockets, clocks, tasks, and the meaning of a message beyond RFC 9113 §8.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `frame.rs`: frames: header, flags, and the rules of length and stream identifier
//!   - `write.rs`: writers of frames
//! - `settings.rs`: settings of both peers
//! - `hpack.rs`, `hpack/`: field compression
//! - `message.rs`: rules of a well-formed message
//! - `connection.rs`: state machine of a connection
//!   - `machine.rs`: the connection: its parts, its preface, what is owed to the peer, and its end
//!   - `event.rs`: events
//!   - `reader.rs`: bytes to frames
//!   - `receive.rs`: handling of received frames
//!     - `section.rs`: HEADERS and CONTINUATION
//!     - `content.rs`: DATA
//!     - `control.rs`: the others
//!   - `block.rs`: the field block that is being received
//!   - `send.rs`: heads, content and control frames to send
//!   - `output.rs`: bytes that wait to be written
//!   - `state.rs`: states of a stream
//!   - `streams.rs`: table of streams
//!   - `flow.rs`: flow-control windows
//!   - `flood.rs`: frames that cost their sender nothing
//! - `role.rs`, `stream_id.rs`: side of a connection; stream identifiers
//! - `token_bucket.rs`: tokens that come back with time
//! - `words.rs`: octets of short strings, eight at a time
//! - `error.rs`: error codes, and violations of the protocol
//! - `limits.rs`: every bound of the crate, with its reason

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

mod connection;
mod error;
pub mod frame;
pub mod hpack;
pub mod limits;
pub mod message;
mod role;
mod settings;
mod stream_id;
mod token_bucket;
pub mod words;

pub use connection::{
    BlockStart, Connection, ConnectionMemory, EndStream, Event, Memory, ResetBy, Section,
    Truncation,
};
pub use error::{ConnectionError, ErrorCode, SendError, Violation};
pub use role::Role;
pub use settings::{LocalSettings, PeerSettings};
pub use stream_id::StreamId;
pub use token_bucket::TokenBucket;
