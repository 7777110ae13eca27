//! The shell around a connection: a socket, the time, and the budget.
//!
//! ```text
//!  Caller, Handlers ─ Call ─ Sender, Receiver ─ Link ─ Driver ─ socket
//!                            └ Memory: reserves what is granted
//! ```
//! A `Link` is a connection and the streams on it, under one lock that is held for a turn at most; its
//! `Driver` is the task that reads, writes and keeps time. Whoever waits for the budget is the task of
//! the call, never the driver: cancels and pings pass whatever is held.
//!
//! Invariant: what comes from a peer is in memory that is reserved before it is granted, and charged
//! until the last view of it is dropped.
//!
//! Leaves out: discovery, whom to dial and when.

mod driver;
mod failure;
mod link;
mod memory;
mod reading;
mod receiver;
mod returns;
mod room;
mod sender;
mod stream;
mod transport;
mod wait;

pub(crate) use driver::{Driver, Endpoint, NamedService};
pub use failure::Failure;
pub(crate) use link::{Accepted, Handle, Kept, Link};
pub use memory::Memory;
pub(crate) use memory::Way;
pub use receiver::Receiver;
pub use room::Room;
pub use sender::Sender;
pub(crate) use sender::payment_of;
pub use stream::Part;
pub use transport::ALPN;
pub(crate) use transport::{Transport, reserve_session};
