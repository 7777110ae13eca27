//! The state machine of one connection, on either side. Spec: RFC 9113 §5.
//!
//! The holder of a connection reads bytes and gives them to [`Connection::receive`], which returns one [`Event`] at a
//! time; it sends by [`send_head`](Connection::send_head) and [`send_content`](Connection::send_content), and writes
//! what [`slices`](Connection::slices) has.
//!
//! **Without room** for a section, the holder leaves [`Event::Begins`] undecided: the field block stays undecoded in
//! the input, and nothing behind it is processed. It decides before it reads more: by
//! [`accept`](Connection::accept), or by [`refuse`](Connection::refuse), which decodes the block into scratch memory,
//! so that the dynamic table stays in step, and resets the stream with the code that it was given.
//!
//! **Receive windows** open by [`release_content`](Connection::release_content) and
//! [`set_windows`](Connection::set_windows), since the holder charges what a peer may send; the connection itself gives
//! back padding and content that it discards.
//!
//! The holder of a connection is the code that owns it and its socket.

mod block;
mod event;
mod flood;
mod flow;
mod machine;
mod output;
mod reader;
mod receive;
mod send;
mod state;
mod streams;

#[cfg(test)]
mod tests;

pub use block::{Section, Truncation};
pub use event::{BlockStart, Event, ResetBy};
pub use machine::{Connection, ConnectionMemory, Memory};
pub use send::EndStream;
