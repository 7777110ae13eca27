//! The protocol between two ends, without a socket.

mod model;
mod peers;
mod support;
mod vectors;
