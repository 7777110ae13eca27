//! What loads a proxy: wrk at saturation, an open loop below it, large bodies, handshakes, idle
//! connections.

pub mod client;
pub mod handshakes;
pub mod idle;
pub mod open_loop;
pub mod stream;
pub mod tls;
pub mod transfer;
pub mod wrk;
