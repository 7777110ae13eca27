//! The cache of responses: fixed memory, shared by all workers.
//!
//! Invariant: neither a hit nor an insertion allocates, and the cache never takes more than the bytes
//! that it was made with. ADR 0021 has its layout.

mod admit;
mod entry;
mod index;
mod key;
mod lookup;
mod memory;
mod ring;
mod shard;
mod shared;
pub mod snapshot;

pub use admit::{Admission, admit, pass_on};
pub use entry::Kind;
pub use key::Key;
pub use lookup::{Failure, Freshness, Hit, Lookup, Refresh, ServePolicy};
pub use shard::{Flush, NewEntry, NotCached, ShardStats};
pub use shared::Cache;
