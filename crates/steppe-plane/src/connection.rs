//! One connection: the state machine that both sides of it run, and a relay at either end.
//!
//! ```text
//!  bytes ─ room, filled ─ Reader ─ receive ─ Event      ─ the shell: buffers, budget, handlers
//!                                  Streams
//!  bytes ─ slices, sent ─ Output ─ transmit ─ open, respond, send, end, reset, grant, release
//! ```
//! `machine.rs` is the connection; `receive.rs` and `call.rs` have what a peer's frames do to it, `command.rs` what
//! the shell does, `transmit.rs` which frame is next.

mod call;
mod command;
mod event;
mod half;
mod keepalive;
mod machine;
mod output;
mod queue;
mod reader;
mod receive;
mod streams;
mod transmit;
mod violation;

pub use command::{OpenError, Processing, SendError};
pub use event::{DataPart, Event, HalfLeft, Peer, StreamId};
pub use machine::{Config, Connection, Side};
pub use violation::Violation;
