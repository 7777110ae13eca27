//! Servers that fail under load: idempotent requests see no error where another server lives.
//!
//! Each test loads a node with wrk, makes one of several servers fail, watches `/upstreams`, mends
//! the server and watches it return. The load ends when the test says so, hence nothing here
//! depends on how fast a machine is.

mod bench;
mod names;
mod network;
mod night;
mod peers;
mod processes;
