//! Frames: the header, and the fields in payloads.
//!
//! Invariant: reading allocates nothing and takes one pass, for any input. The meaning of a frame for
//! its stream is up to the connection.

mod field;
mod head;
mod header;
mod hello;
mod services;
mod trace;

pub use crate::limits::HEADER_BYTES;
pub use field::FieldError;
pub use head::{Direction, Head, Payment, Queueing};
pub use header::{FrameError, FrameHeader, FrameType, flag};
pub use hello::Hello;
pub use services::{Service, Services, write_services};
pub use trace::{NoTraceParent, TraceParent};
