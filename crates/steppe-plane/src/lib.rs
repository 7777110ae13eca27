//! The request plane: framed calls between callers and workers, whose memory is its budget.
//!
//! This is the protocol, without a socket: [`frame`] reads and writes frames, [`Connection`] is the
//! state machine of one connection, on either side of it and in a relay. Bytes and the time come in,
//! and events and slices to write come out. `docs/plane-protocol.md` specifies it to the byte.
//!
//! Invariant: nothing that a peer sends grows anything here past a bound of [`limits`], and no DATA is
//! accepted that was not granted before.
//!
//! Leaves out: sockets, TLS, budgets. Whoever drives a connection reserves bytes before it grants them.

#![forbid(unsafe_code)]

mod connection;
pub mod frame;
pub mod limits;
mod status;

pub use connection::{
    Config, Connection, DataPart, Event, HalfLeft, OpenError, Peer, Processing, SendError, Side,
    StreamId, Violation,
};
pub use status::{Reason, Status};
