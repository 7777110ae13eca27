//! Events of a connection, for the shell.

use std::fmt;

use crate::frame::{Head, Payment, Services};
use crate::status::{Reason, Status};

/// The number of a stream on one connection. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The version and limits of the peer, from its HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The version that both sides speak.
    pub version: u8,
    /// Streams that this side may have open at a time.
    pub streams_max: u32,
}

/// An event of a connection.
///
/// After [`Event::Expired`], [`Event::Reset`] and an [`Event::Ended`] with [`HalfLeft::None`], the stream is
/// closed to the shell. Its unsent parts are dropped, except those of a response that the shell has ended.
/// `unspent` is credit that the shell granted to the stream and that no [`Event::Data`] will use: its
/// reservation is free.
#[derive(Debug)]
pub enum Event<'a> {
    /// The peer has sent HELLO: streams can be opened.
    Connected(Peer),
    /// The peer opened a stream.
    Request {
        /// The stream.
        stream: StreamId,
        /// Fields of the request.
        head: Head<'a>,
    },
    /// The response to a stream that this side opened begins.
    Response {
        /// The stream.
        stream: StreamId,
        /// Fields of the response.
        head: Head<'a>,
    },
    /// Part of a message follows: [`Connection::body_left`](super::Connection::body_left) bytes.
    Data(DataPart),
    /// The peer has ended its side of the stream.
    Ended {
        /// The stream.
        stream: StreamId,
        /// Status of the end, with its text.
        reason: Reason<'a>,
        /// Granted credit that is free again.
        unspent: u64,
        /// State of this side of the stream.
        side: HalfLeft,
    },
    /// The peer asks this side to end the stream early. The stream goes on until then.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// Reason that the peer gave.
        reason: Reason<'a>,
    },
    /// The stream is closed: reset by the peer, or not processed because the peer drains.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Reason that the peer gave.
        reason: Reason<'a>,
        /// True if the peer did not process the request: any such request may be sent again.
        is_unprocessed: bool,
        /// Granted credit that is free again.
        unspent: u64,
    },
    /// The stream is closed: its deadline has passed. The peer is sent RESET.
    Expired {
        /// The stream.
        stream: StreamId,
        /// Granted credit that is free again.
        unspent: u64,
    },
    /// The peer granted credit to this side of a stream. A relay grants as much to the side from which it
    /// receives the body.
    Granted {
        /// The stream.
        stream: StreamId,
        /// Credit beyond the previous sum, in bytes.
        bytes: u64,
    },
    /// There is room for messages of a stream that was [`SendError::Full`](super::SendError::Full).
    Writable(StreamId),
    /// The services that the peer offers from now on; they replace the previous list.
    Services(Services<'a>),
    /// The peer has read the last SERVICES of this side.
    Registered,
    /// The peer accepts no further streams.
    GoingAway {
        /// Code of the violation, see [`Violation::code`](super::Violation::code); 0 without one.
        code: u32,
        /// True if the peer has no open stream: it can be stopped without a loss.
        is_drained: bool,
    },
}

/// The state of this side of a stream when the peer's side has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfLeft {
    /// This side still has to end.
    Open,
    /// Both sides have ended, or the END of this side is queued.
    None,
}

/// The place of a DATA frame's payload in its message and its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPart {
    /// The stream.
    pub stream: StreamId,
    /// Bytes of the message in earlier frames.
    pub offset: u64,
    /// Bytes of this frame's payload.
    pub len: usize,
    /// Length of the whole message in bytes.
    pub message_len: u64,
    /// Kind of credit that paid for the frame.
    pub payment: Payment,
    /// Credit that the frame cost, for the shell to release once the memory of its bytes is free.
    pub cost: u64,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reason why a stream was closed without a frame from the peer.
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
