//! Byte budgets, and the pooled buffers that are charged to them.
//!
//! A [`Budget`] is a tree of accounts; a [`Reservation`] holds bytes of one account and returns them on drop; a
//! [`Buffer`] is pooled memory with its reservation, and a [`Chunk`] is a buffer that can be shared. At the limit a
//! reservation is refused, and the caller reads less, waits, or refuses its peer: nothing here grows past a limit.
//!
//! Non-goals: the use of the bytes, sockets, runtimes.
//!
//! # Map of files
//! - `account.rs`, `account/`: tree of accounts with limits, peaks and refusals; leases and reservations (`lease.rs`),
//!   the place of a waiting task (`waiter.rs`), forced charges (`forced.rs`)
//! - `budget.rs`: the tree and its clients
//! - `waiters.rs`: queues of tasks that wait for bytes of an account
//! - `clients.rs`, `clients/`: memory of each client, its share, and connections to close in debt
//! - `block.rs`: memory of a buffer, in use or idle
//! - `buffer.rs`: pooled buffer with its reservation
//! - `chunk.rs`: content that several readers share, charged once
//! - `pool.rs`: idle buffers of each thread, by size class
//! - `size_class.rs`: size classes of pooled buffers, 1 KiB to 64 MiB
//! - `alloc.rs`: counting wrapper of the process's allocator: live bytes, allocations of a thread
//! - `measured.rs`: reservation for a value by the bytes that its construction allocates
//! - `lock.rs`: locks that ignore poisoning
//! - `limits.rs`: every bound of the crate, with its reason

mod account;
pub mod alloc;
mod block;
mod budget;
mod buffer;
mod chunk;
mod clients;
pub mod limits;
mod lock;
mod measured;
pub mod pool;
mod size_class;
mod waiters;

pub use account::{
    Account, AccountReport, Evict, ForcedCharge, Lease, LeavingRoom, OverBudget, Reservation,
    Waiter,
};
pub use budget::Budget;
pub use buffer::{Buffer, Full};
pub use chunk::Chunk;
pub use clients::{ClientAddress, ClientReport, Clients, Holder, Holding, Shed};
pub use measured::measured;
pub use size_class::SizeClass;
