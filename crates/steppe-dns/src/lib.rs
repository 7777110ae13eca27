//! The core of the DNS forwarder: bytes and the time in, bytes and decisions out.
//!
//! `wire` reads and writes messages in buffers of the caller; `cache` keeps responses;
//! `in_flight` knows who waits for which question, and which queries are out; `rules` knows which
//! lists a name is on.
//!
//! Non-goals: sockets, threads, runtimes and clocks (the shell above has them), recursion, and DNSSEC
//! validation. Terms are those of RFC 9499.

#![forbid(unsafe_code)]

pub mod cache;
pub mod config;
pub mod cookie;
pub mod in_flight;
pub mod limits;
pub mod rebinding;
pub mod rules;
pub mod siphash;
pub mod special_use;
pub mod wire;
