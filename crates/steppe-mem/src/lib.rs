//! Byte budgets, and the pooled buffers that are charged to them.
//!
//! A [`Budget`] is a tree of accounts; a [`Reservation`] holds bytes of one
//! account and gives them back on drop; a [`Buffer`] is pooled memory that
//! carries its reservation with it, and a [`Chunk`] is a buffer that may be shared.
//! At the limit a reservation is refused, and the caller reads less, waits, or
//! refuses its peer: nothing here grows past a limit.
//!
//! Leaves out: what the bytes are for, sockets, runtimes.

mod account;
pub mod alloc;
mod buffer;
mod chunk;
pub mod limits;
pub mod pool;
mod size_class;
mod waiters;

pub use account::{Account, AccountReport, Budget, Evict, Lease, OverBudget, Reservation};
pub use buffer::{Buffer, Full};
pub use chunk::Chunk;
pub use size_class::SizeClass;
pub use waiters::Waiter;
