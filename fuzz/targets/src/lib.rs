//! Bodies of the fuzz targets, a module each, whose `run` checks one input and panics where a property fails.
//!
//! Invariant: a target links no crate of Steppe beyond those that its feature names, so a change of one parser
//! needs coverage builds of few crates. Non-goals: libFuzzer itself, which `fuzz/fuzz_targets` link, and mutation
//! of inputs: the tests replay the committed seeds.

#[cfg(feature = "steppe-http")]
pub mod cache_control;
#[cfg(feature = "steppe-net")]
pub mod certificate;
#[cfg(feature = "steppe-http")]
pub mod chunked;
#[cfg(feature = "steppe-net")]
pub mod client_hello;
#[cfg(feature = "steppe-node")]
pub mod config;
#[cfg(feature = "steppe-dns")]
pub mod dns_cache;
#[cfg(feature = "steppe-dns")]
pub mod dns_list;
#[cfg(feature = "steppe-dns")]
pub mod dns_message;
#[cfg(feature = "steppe-dns")]
pub mod dns_over_https;
#[cfg(feature = "steppe-dns")]
pub mod dns_receive;
#[cfg(feature = "steppe-dns")]
pub mod dns_snapshot;
#[cfg(feature = "steppe-http")]
pub mod file_fields;
#[cfg(feature = "steppe-http")]
pub mod grpc_timeout;
#[cfg(feature = "steppe-http")]
pub mod grpc_web;
#[cfg(feature = "steppe-http")]
pub mod h2_client;
#[cfg(feature = "steppe-h2")]
pub mod h2_connection;
#[cfg(feature = "steppe-h2")]
pub mod h2_hpack;
#[cfg(feature = "steppe-http")]
pub mod json_content;
#[cfg(feature = "steppe-malloc")]
pub mod malloc;
#[cfg(feature = "steppe-http")]
pub mod path;
#[cfg(feature = "steppe-plane")]
pub mod plane_connection;
#[cfg(feature = "steppe-plane")]
pub mod plane_frame;
#[cfg(feature = "steppe-net")]
pub mod proxy_protocol;
#[cfg(feature = "steppe-http")]
pub mod request_head;
#[cfg(feature = "steppe-http")]
pub mod response_head;
#[cfg(feature = "steppe-telemetry")]
pub mod trace_context;
