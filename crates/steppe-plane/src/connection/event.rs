//! What a connection tells the shell.

use std::fmt;

use crate::frame::{Head, Payment, Services};
use crate::status::{Reason, Status};

/// A stream of one connection. Numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What the peer said in HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The version that both sides speak.
    pub version: u8,
    /// Streams that this side may have open.
    pub streams_max: u32,
}

/// What has happened.
///
/// After [`Event::Expired`], [`Event::Reset`] and an [`Event::Ended`] that says so, the stream is
/// gone, and so is all that was to be sent on it. `unspent` is credit that the shell granted to the
/// stream and that no [`Event::Data`] will use: its reservation is free.
#[derive(Debug)]
pub enum Event<'a> {
    /// The peer said HELLO: streams can be opened.
    Connected(Peer),
    /// The peer opened a stream.
    Request {
        /// The stream.
        stream: StreamId,
        /// What it asks.
        head: Head<'a>,
    },
    /// The response to a stream of ours begins.
    Response {
        /// The stream.
        stream: StreamId,
        /// What the peer says of it.
        head: Head<'a>,
    },
    /// Part of a message follows: [`Connection::body_left`](super::Connection::body_left) bytes.
    Data(DataPart),
    /// The peer has sent all that it sends.
    Ended {
        /// The stream.
        stream: StreamId,
        /// How its side ended.
        reason: Reason<'a>,
        /// See above.
        unspent: u64,
        /// Whether our side still has to end.
        side: HalfLeft,
    },
    /// The peer asks that the stream end early. It goes on until we end it.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// Why.
        reason: Reason<'a>,
    },
    /// The stream is gone: reset by the peer, or not processed because the peer goes away.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why.
        reason: Reason<'a>,
        /// Whether the peer did nothing for it, so that it may be sent again whatever it is.
        is_unprocessed: bool,
        /// See above.
        unspent: u64,
    },
    /// The stream is gone: its deadline has come. The peer is told.
    Expired {
        /// The stream.
        stream: StreamId,
        /// See above.
        unspent: u64,
    },
    /// The peer granted credit to our side of a stream. A relay grants as much to where the body
    /// comes from.
    Granted {
        /// The stream.
        stream: StreamId,
        /// How much more than before.
        bytes: u64,
    },
    /// There is room for messages of a stream that was [`SendError::Full`](super::SendError::Full).
    Writable(StreamId),
    /// What the peer serves from now on, in place of what it named before.
    Services(Services<'a>),
    /// The peer has read the last SERVICES of this side.
    Registered,
    /// The peer takes no further streams.
    GoingAway {
        /// What is wrong, as a number of [`Violation::code`](super::Violation::code); 0: nothing is.
        code: u32,
        /// Whether it has no stream left: it can be stopped without a loss.
        is_drained: bool,
    },
}

/// Whether our side of a stream still has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfLeft {
    /// It has to.
    Open,
    /// Both have ended: the stream is gone.
    None,
}

/// Where the payload of a frame of DATA belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPart {
    /// The stream.
    pub stream: StreamId,
    /// Bytes of its message that came before.
    pub offset: u64,
    /// Bytes that come now.
    pub len: usize,
    /// Bytes of the whole message.
    pub message_len: u64,
    /// What it was paid with.
    pub payment: Payment,
    /// What it cost: for the shell to release once the bytes are used and forgotten.
    pub cost: u64,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event before it borrows what its frame says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Closed {
    Expired,
    Refused,
}

impl Closed {
    pub(super) fn event<'a>(self, stream: StreamId, unspent: u64) -> Event<'a> {
        match self {
            Self::Expired => Event::Expired { stream, unspent },
            Self::Refused => Event::Reset {
                stream,
                reason: Status::Draining.into(),
                is_unprocessed: true,
                unspent,
            },
        }
    }
}
