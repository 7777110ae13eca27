//! The protocol between two ends, without a socket.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod model;
mod peers;
mod support;
mod vectors;
