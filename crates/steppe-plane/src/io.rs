//! The shell of a connection: socket, timer and memory budget.
//!
//! ```text
//!  Caller, Handlers ─ Call ─ Sender, Receiver ─ Link ─ Driver ─ socket
//!                            └ Memory: reserves granted credit
//! ```
//! A `Link` is a connection and its streams, under one lock that is held for one turn of the driver at most; its
//! `Driver` is the task that reads, writes and sets timers. Tasks of calls wait for the budget, the driver
//! never does: resets and PINGs pass while calls wait.
//!
//! Invariant: memory for received bytes is reserved before it is granted to the peer, and charged until the
//! last view of the bytes is dropped.
//!
//! Non-goals: discovery, and the choice of peers to dial.

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
pub(crate) use memory::{Held, Way};
pub use receiver::Receiver;
pub use room::Room;
pub use sender::Sender;
pub(crate) use sender::payment_of;
pub use stream::Part;
pub use transport::ALPN;
pub(crate) use transport::{Transport, admit_session, reserve_session};
