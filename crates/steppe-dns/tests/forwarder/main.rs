//! The forwarder on real sockets: its clients, its servers, its lists and its limits.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod cache_file;
mod cache_times;
#[path = "../support/client.rs"]
mod client;
mod crowds;
mod encrypted;
mod faults;
#[path = "../support/frames.rs"]
mod frames;
mod health;
#[path = "../support/https.rs"]
mod https;
mod https_frames;
mod lists;
mod lists_ahead;
#[path = "../support/messages.rs"]
mod messages;
#[path = "../support/node.rs"]
mod node;
mod policies;
mod query_log;
mod rate_limits;
mod rule_settings;
#[path = "../support/secure.rs"]
mod secure;
#[path = "../support/server.rs"]
mod server;
mod server_names;
mod servers_by_https;
mod servers_by_tls;
mod service;
#[path = "../support/streams.rs"]
mod streams;
mod subnets;
mod switched;
mod upstream_keys;
