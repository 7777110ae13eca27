//! Keys of the gateway in a configuration: their tables, what they say together, and the types that are built of them.
//!
//! Invariant: every key of a table here is read by its builder here. Non-goals: tables that `steppe-node` still holds.

pub mod cache;
pub mod compress;
pub mod forms;
pub mod listener;
pub mod route;
pub mod tls;
pub mod upstream;
