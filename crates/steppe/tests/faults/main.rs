//! Servers that fail under load: idempotent requests see no error as long as another server lives.
//!
//! Each test loads a node with wrk, makes one of several servers fail, watches `/upstreams`,
//! repairs the server and watches it return. The load ends when the test ends it, so nothing here
//! depends on the speed of the machine.

mod bench;
mod names;
mod network;
mod night;
mod peers;
mod processes;
