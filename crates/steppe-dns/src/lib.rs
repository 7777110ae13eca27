//! The DNS forwarder.
//!
//! Its core has bytes and the time come in, and bytes and decisions go out: `wire` reads and writes
//! messages in buffers of the caller; `cache` keeps responses; `in_flight` knows who waits for which
//! question, and which queries are out; `rules` knows which lists a name is on. The shell about it is
//! `service`, which a node runs, `snapshot`, a configuration in force, and `worker` with the sockets.
//!
//! Non-goals: recursion, and DNSSEC validation. Terms are those of RFC 9499.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

mod answer;
pub mod cache;
mod cache_file;
pub mod client;
pub mod config;
pub mod cookie;
mod designation;
pub mod doh;
pub mod explain;
pub mod fetch;
mod files;
pub mod hosts;
pub mod in_flight;
pub mod limits;
mod manner;
mod metrics;
mod query_log;
pub mod rate_limit;
pub mod rebinding;
pub mod report;
pub mod rules;
pub mod schedule;
mod servers;
mod service;
mod shared;
pub mod siphash;
mod snapshot;
pub mod special_use;
mod tls;
mod top_names;
mod wakes;
pub mod wire;
mod worker;

pub use files::{FilesError, check_files};
pub use metrics::{DnsCollector, DnsMetrics};
pub use service::{DnsContext, DnsService};
pub use worker::{Asked, Asking, Unanswered};
