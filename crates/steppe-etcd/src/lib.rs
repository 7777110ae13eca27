//! A client of etcd: watches the keys below a prefix, and keeps keys there by a lease.
//!
//! It speaks the v3 API as JSON over HTTP/1.1, which etcd serves beside gRPC on the same port since 3.4
//! (<https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>), so the build needs no protocol buffer compiler.
//!
//! ```text
//!  Keys ── list ── watch from the revision after it ── changes     lost, compacted: list again
//!  Lease ── grant ── put ── keep alive … ── revoke                 lapsed: grant and put again
//! ```
//! Invariant: the memory of a response is bounded by [`limits`], for any server.
//!
//! Non-goals: values of keys, users and roles, client certificates.
//!
//! # Map of files
//! - `client.rs`: requests and responses over HTTP/1.1, with failover between endpoints
//! - `endpoint.rs`: address of a cluster member
//! - `keys.rs`: list and watch of the keys below a prefix
//! - `lease.rs`: keys bound to a lease, kept alive
//! - `lines.rs`: stream of JSON lines, split into messages
//! - `message.rs`: message types of the v3 API
//! - `limits.rs`: every bound of the crate, with its reason

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
