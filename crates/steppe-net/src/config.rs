//! Keys of a configuration that products share: addresses, networks, names of servers, TLS.
//!
//! Invariant: each is described once here. Non-goals: tables of one product, which its crate has.

pub mod forms;
pub mod tls;
