//! The protocol without sockets: queries, responses, the cache, and questions in flight.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod cache;
mod in_flight;
#[path = "../support/messages.rs"]
mod messages;
mod queries;
#[path = "../support/questions.rs"]
mod questions;
mod responses;
mod snapshot;
#[path = "../support/world.rs"]
mod world;
