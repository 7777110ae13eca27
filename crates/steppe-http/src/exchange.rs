//! The protocol-neutral exchange: what a codec offers the gateway, on either side.
//!
//! An exchange is one request and its response. Content moves as [`Part`]s, each
//! charged to the budget, and a side that can take no more is not given any: that
//! is all back-pressure needs. Dropping a side cancels what it was doing.
//!
//! Everything is polled from one task, so that both directions move at once
//! without a channel between them.

use std::task::{Context, Poll};

use bytes::Bytes;
use steppe_mem::{Chunk, Lease, Reservation};

use crate::encoder::refusal_bytes;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::{RequestHead, ResponseHead};
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};

/// A piece of a message's content.
#[derive(Debug)]
pub enum Part {
    /// Some of it, never empty.
    Chunk(Chunk),
    /// The end of it, with trailers where the message has some.
    End(Option<FieldBlock>),
}

/// A side that content can be put into.
///
/// What may be called when:
/// 1. [`Sink::put`] only after [`Sink::can_put`] returned true; after
///    [`Part::End`] nothing is put.
/// 2. [`Sink::poll_flush`] at any time. While it is pending, `can_put` may be false.
/// 3. After an error of either, nothing is put or flushed any more.
pub trait Sink {
    /// True when the sink takes another part; otherwise it must be flushed first.
    fn can_put(&self) -> bool;

    /// Takes a part over.
    ///
    /// # Errors
    /// Where the part can't be written in this message.
    fn put(&mut self, part: Part) -> Result<(), GatewayError>;

    /// Bytes handed to the peer so far, of this message: a peer that takes a little
    /// at a time has not stalled.
    fn written(&self) -> u64;

    /// Ready when everything put so far has been handed to the peer.
    ///
    /// # Errors
    /// Where the peer no longer takes it.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>>;
}

/// A side that content comes from.
pub trait Source {
    /// The next part. After [`Part::End`] it is not called.
    ///
    /// # Errors
    /// Where the content can't be read to its end.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>>;

    /// True when the last [`Source::poll_part`] or [`Upstream::poll_head`] waits for
    /// budget rather than for the peer.
    fn is_starved(&self) -> bool;
}

/// The client's side, after its request's head was read.
///
/// What may be called when:
/// 1. [`Downstream::charge_to`] before any content is asked for.
/// 2. [`Source::poll_part`] and [`Sink::poll_flush`] at any time from then on.
/// 3. [`Downstream::put_interim`], any number of times, each after [`Sink::can_put`].
/// 4. [`Downstream::put_head`] once, after [`Sink::can_put`]; then content by
///    [`Sink::put`], up to [`Part::End`].
/// 5. [`Downstream::start_tunnel`] right after a head that is a tunnel: from then on parts
///    are bytes both ways, until each end has come.
/// 6. [`Downstream::poll_gone`] at any time before 5.
/// 7. [`Downstream::retract`] at any time before [`Part::End`] was flushed; where it
///    returns true, 3, 4 and 8 may follow as if nothing had been put.
/// 8. [`Downstream::put_refusal`] instead of 4; nothing but `poll_flush` follows.
pub trait Downstream: Sink + Source {
    /// Charges the exchange's content to `lease` from now on.
    fn charge_to(&mut self, lease: &Lease);

    /// Puts an interim response. A client that can't read one is sent none. [`Sink::can_put`] is false until the
    /// client's connection has taken it, so that the server's next one stays with the server.
    ///
    /// # Errors
    /// Where the budget has no room.
    fn put_interim(&mut self, head: ResponseHead) -> Result<(), GatewayError>;

    /// Puts the head of the final response, which may wait for room until it is flushed.
    ///
    /// # Errors
    /// Where the budget has no room; nothing was put then.
    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError>;

    /// Puts a whole response of the gateway's own, as far as memory allows; says how
    /// many bytes of content it has. `None`: something that was put is in the way.
    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64>;

    /// Takes back the response, if no byte of it was sent to the client: true then.
    fn retract(&mut self) -> bool;

    /// Ready when the client has disconnected. Bytes that it sent stay unread: this is for
    /// exchanges that don't read
    /// for now.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Content is bytes both ways from now on.
    fn start_tunnel(&mut self);
}

/// The server's side: one stream of a connection, or a response made here.
///
/// What may be called when:
/// 1. [`Upstream::start`] once, first.
/// 2. [`Sink::put`], [`Sink::poll_flush`] and [`Upstream::poll_head`] at any time
///    from then on.
/// 3. `poll_head` until it gave a final head (not 1xx, or 101); then
///    [`Source::poll_part`], up to [`Part::End`].
/// 4. [`Upstream::start_tunnel`] right after a final head that is a tunnel: from then on
///    parts are bytes both ways, until each end has come.
pub trait Upstream: Sink + Source {
    /// Starts a request. Its content follows as parts, replayed ones included.
    ///
    /// # Errors
    /// Where the budget has no room; nothing was sent then.
    fn start(&mut self, request: &Outgoing<'_>) -> Result<(), GatewayError>;

    /// The next head: any number of interim ones, then the final one.
    ///
    /// # Errors
    /// Where there is none to be had.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>>;

    /// Content is bytes both ways from now on.
    fn start_tunnel(&mut self);
}

/// A request on its way to a server.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The head after all filters.
    pub head: &'a RequestHead,
    /// The server's authority, for a request without a host.
    pub authority: &'a str,
    /// The lease that the exchange's memory is charged to.
    pub lease: &'a Lease,
}

/// A response of the gateway's own: a status, perhaps a word about it, and fields.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// 200 to 599.
    pub status: u16,
    /// Further fields.
    pub fields: &'a [(&'a str, &'a str)],
    /// The content.
    pub content: RefusalContent<'a>,
}

/// The content of a refusal.
#[derive(Debug, Clone, Copy)]
pub enum RefusalContent<'a> {
    /// No content.
    Nothing,
    /// The status and its reason phrase.
    Word,
    /// An error page of the configuration.
    Page(&'a Page),
}

/// Content that a configuration has for errors. Whoever sends it shares its memory.
#[derive(Debug)]
pub struct Page {
    /// The page's `Content-Type`.
    pub media_type: String,
    content: Chunk,
}

impl Page {
    /// One with this content, which is not empty.
    #[must_use]
    pub fn new(media_type: String, content: Bytes, charge: Reservation) -> Self {
        Self {
            media_type,
            content: Chunk::charged(content, charge),
        }
    }

    /// The page's content.
    #[must_use]
    pub fn content(&self) -> Chunk {
        self.content
            .view_again()
            .expect("memory of a library is seen by views")
    }

    /// The content's length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.content.len() as u64
    }
}

impl Refusal<'_> {
    /// The `Content-Type`, where there is content.
    #[must_use]
    pub fn media_type(&self) -> Option<&str> {
        match self.content {
            RefusalContent::Nothing => None,
            RefusalContent::Word => Some("text/plain; charset=utf-8"),
            RefusalContent::Page(page) => Some(&page.media_type),
        }
    }

    /// The content's length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self.content {
            RefusalContent::Nothing => 0,
            RefusalContent::Word => refusal_bytes(self.status),
            RefusalContent::Page(page) => page.bytes(),
        }
    }
}

/// The part of the free budget that one message may take, so that many find room.
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
