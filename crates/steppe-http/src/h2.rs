//! HTTP/2, on either side. Spec: RFC 9113.
//!
//! `server` faces clients, on `steppe-h2`: a task for the connection, and one for each of its open streams. `client`
//! faces servers, on the `h2` crate, and asks those that are silent whether they are there (`silence`): `carrier` is the byte stream
//! under the crate, where `frames` counts what it does not bound, `gate` reserves memory for header lists, and `backlog`
//! accounts for what waits; `head` and `content` translate. On both sides `windows` says how much content may come, and
//! `turns` what goes out next, by the `priority` that was asked for.

mod backlog;
mod carrier;
mod client;
mod content;
mod frames;
mod gate;
mod head;
mod priority;
mod server;
mod silence;
mod turns;
mod websocket;
mod windows;

/// The codec, on either side.
#[derive(Debug, Clone, Copy)]
pub struct Http2;
