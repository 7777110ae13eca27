//! HTTP/2, on either side. Spec: RFC 9113.
//!
//! The protocol is that of `steppe-h2`, which has no sockets. An `endpoint` is the task of a connection on either side:
//! it reads (`reading`), hands what has come to the `inbox` of each stream, and writes what streams have put. A stream
//! reaches the connection by its `link`: it takes content (`incoming`), and sends heads (`send_head`) and content
//! (`outgoing`). A field section is received as a `section`, and `head` has what both sides make of it. `windows` says
//! how much content may come, and `turns` what goes out next, by the `priority` that was asked for.
//!
//! `server` faces clients: a task for the connection, and one for each of its open streams. `client` faces servers, and
//! asks those that are silent whether they are there (`silence`).

mod client;
mod endpoint;
mod head;
mod inbox;
mod incoming;
mod link;
mod outgoing;
mod priority;
mod reading;
mod section;
mod send_head;
mod server;
mod silence;
mod turns;
mod websocket;
mod windows;

/// The codec, on either side.
#[derive(Debug, Clone, Copy)]
pub struct Http2;
