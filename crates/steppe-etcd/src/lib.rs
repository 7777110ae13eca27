//! A client of etcd: watches the keys below a prefix, and keeps keys there by a lease.
//!
//! It speaks the v3 API as JSON over HTTP/1.1, which etcd serves beside gRPC on the same port since 3.4
//! (<https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>): building it needs no compiler of protocol
//! buffers.
//!
//! ```text
//!  Keys ── list ── watch from the revision after it ── changes     lost, compacted: list again
//!  Lease ── grant ── put ── keep alive … ── revoke                 lapsed: grant and put again
//! ```
//! Invariant: what an answer takes is bounded by [`limits`], whatever a server sends.
//!
//! Leaves out: values of keys, users and roles, client certificates.

#![forbid(unsafe_code)]

mod client;
mod endpoint;
mod keys;
mod lease;
pub mod limits;
mod lines;
mod message;

pub use client::{Error, Etcd};
pub use endpoint::{Endpoint, EndpointError};
pub use keys::{Change, Keys};
pub use lease::Lease;
