//! Policies over many requests, on the wire: traces, limits, hedges, circuits.

mod examples;
mod hedge;
mod rate_limit;
mod traces;

use steppe_testkit::{Message, Steppe};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Sends one request on a new connection.
fn ask(node: &Steppe, start: &str, fields: &str) -> Message {
    node.exchange(format!("{start} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}
