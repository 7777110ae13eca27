//! The HTTP gateway.
//!
//! `gateway` accepts connections and routes requests, a codec (`h1`) reads and
//! writes messages, `relay` moves one exchange between its two sides, `upstream`
//! keeps the connections to servers.
//!
//! Non-goals: sockets and threads (steppe-net), files of configuration and
//! signals (the binary). It never knows DNS or the request plane.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

pub mod access;
mod age;
pub mod cache;
pub mod certificates;
pub mod codec;
pub mod codecs;
pub mod coding;
pub mod config;
pub mod date;
mod encoder;
pub mod error;
pub mod exchange;
pub mod explain;
pub mod field;
pub mod files;
pub mod filter;
pub mod forwarded;
pub mod gateway;
pub mod grpc;
pub mod guest;
pub mod h1;
pub mod h2;
pub mod head;
pub mod host;
pub mod key_sets;
pub mod limits;
mod linger;
pub mod local;
pub mod max_forwards;
mod message;
pub mod metrics;
pub mod path;
pub mod relay;
pub mod respond;
pub mod router;
pub mod service;
pub mod socket_buffers;
pub mod status;
mod target;
pub mod upstream;

// What tests of the library share with those beside it calls it by its name.
#[cfg(test)]
extern crate self as steppe_http;

use std::sync::Arc;

pub use gateway::Gateway;
pub use service::{HttpContext, HttpService};

/// Every protocol that this crate speaks.
#[must_use]
pub fn codecs() -> codecs::Codecs {
    let (h1, h2) = (Arc::new(h1::Http1), Arc::new(h2::Http2));
    codecs::Codecs::default()
        .with_downstream(config::H1, h1.clone())
        .with_downstream(config::H2, h2.clone())
        .with_downstream(config::H2C, h2.clone())
        .with_upstream(config::H1, h1)
        .with_upstream(config::H2, h2)
}
