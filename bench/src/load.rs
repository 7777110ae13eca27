//! What loads a proxy: wrk at saturation, an open loop below it, large bodies, idle connections.

pub mod client;
pub mod idle;
pub mod open_loop;
pub mod transfer;
pub mod wrk;
