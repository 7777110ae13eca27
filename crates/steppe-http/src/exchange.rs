//! The protocol-neutral exchange: what a codec offers the gateway, on either side.
//!
//! An exchange is one request and its response. Its request head has been read
//! when it begins; content moves as [`Part`]s, each charged to the budget, and
//! a side that can take no more is not given any: that is all back-pressure
//! needs. Dropping a side cancels what it was doing.
//!
//! Everything is polled from one task, so that both directions move at once
//! without a channel between them.

use std::task::{Context, Poll};

use steppe_mem::{Buffer, Lease};

use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::ResponseHead;
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};

/// A piece of a message's content.
#[derive(Debug)]
pub enum Part {
    /// Some of it, never empty.
    Chunk(Buffer),
    /// All of it has been; trailers where the message has some.
    End(Option<FieldBlock>),
}

/// A side that content can be put into.
pub trait Sink {
    /// Whether it takes another part now; otherwise it must be flushed first.
    fn can_put(&self) -> bool;

    /// Takes a part over. Only after [`Sink::can_put`].
    ///
    /// # Errors
    /// Where the part can't be written in this message.
    fn put(&mut self, part: Part) -> Result<(), GatewayError>;

    /// Bytes handed to the peer so far, of this message.
    fn written(&self) -> u64;

    /// Ready when everything put so far has been handed to the peer.
    ///
    /// # Errors
    /// Where the peer no longer takes it.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>>;
}

/// A side that content comes from.
pub trait Source {
    /// The next part. After [`Part::End`] there is none.
    ///
    /// # Errors
    /// Where the content can't be read to its end.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>>;

    /// Whether the last [`Source::poll_part`] waits for budget rather than for the peer.
    fn is_starved(&self) -> bool;
}

/// The client's side, after its request's head.
pub trait Downstream: Sink + Source {
    /// Puts an interim response, only after [`Sink::can_put`]. The client is sent none that
    /// it can't read.
    ///
    /// # Errors
    /// Where the budget has no room.
    fn put_interim(&mut self, head: &ResponseHead) -> Result<(), GatewayError>;

    /// Puts the head of the final response. Its content follows as parts.
    ///
    /// # Errors
    /// Where the budget has no room; nothing was put then.
    fn put_head(&mut self, head: &ResponseHead) -> Result<(), GatewayError>;

    /// Ready when the client has gone, for as long as its request is whole.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// From now on content is bytes both ways, until each end has come.
    fn start_tunnel(&mut self);
}

/// The server's side, after the request's head was put.
pub trait Upstream: Sink + Source {
    /// The next head: any number of interim ones, then the final one.
    ///
    /// # Errors
    /// Where there is none to be had.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>>;

    /// Takes a head back that was passed on: content may have come in its memory.
    /// No content follows a final head before this.
    fn take_back(&mut self, head: ResponseHead);

    /// From now on content is bytes both ways, until each end has come.
    fn start_tunnel(&mut self);
}

/// What one message may take of what is left, so that many find room.
pub(crate) fn fair_share(lease: &Lease) -> usize {
    const SHARERS: u64 = 256;
    let room = lease.account().headroom_bytes() / SHARERS;
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// Room for a piece of content: less the less the budget has left.
pub(crate) fn content_room(lease: &Lease) -> usize {
    let room = fair_share(lease).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    // Down to a class that fits into the room.
    if room.is_power_of_two() {
        room
    } else {
        room.next_power_of_two() / 2
    }
}
