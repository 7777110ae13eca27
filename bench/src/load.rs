//! The loads on a proxy: wrk, h2load and ghz at saturation, an open loop below it, large bodies,
//! handshakes, idle connections.

pub mod client;
pub mod ghz;
pub mod h2;
pub mod h2load;
pub mod handshakes;
pub mod idle;
pub mod open_loop;
pub mod stream;
pub mod tls;
pub mod transfer;
pub mod wrk;
