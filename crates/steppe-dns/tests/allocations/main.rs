//! Allocations of the forwarder.
//!
//! A binary of its own, with an allocator that counts by thread.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

#[path = "../support/client.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod client;
mod connections;
#[path = "../support/https.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod https;
#[path = "../support/messages.rs"]
mod messages;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;
mod protocol;
#[path = "../support/questions.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod questions;
mod rules;
#[path = "../support/secure.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod secure;
#[path = "../support/server.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod server;
mod service;
#[path = "../support/streams.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod streams;
mod tables;

use std::alloc::System;

use steppe_mem::alloc::Counted;

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);
