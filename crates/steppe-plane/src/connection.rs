//! State machine of one connection. Callers, workers and both ends of a relay use it.
//!
//! ```text
//!  bytes ─ room, filled ─ Reader ─ receive ─ Event      ─ the shell: buffers, budget, handlers
//!                                  Streams
//!  bytes ─ slices, sent ─ Output ─ transmit ─ open, respond, send, end, reset, grant, release
//! ```
//! `machine.rs` is the connection; `receive.rs` and `call.rs` handle received frames, `command.rs` has the commands
//! of the shell, `transmit.rs` chooses the next frame.

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
