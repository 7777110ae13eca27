//! Frames: their header, and what stands in the payload of those that have fields.
//!
//! Invariant: reading takes no memory and one pass, whatever the bytes are. What a frame means for
//! its stream is the connection's business.

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
