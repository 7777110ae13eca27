//! Events of a connection, and the DATA frame that is being received.

use super::block::Truncation;
use crate::error::{ErrorCode, Violation};
use crate::message::SectionKind;
use crate::stream_id::StreamId;

/// An event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A field block begins: [`Connection::accept`] or [`Connection::refuse`] decides about it.
    Begins(BlockStart),
    /// A section is whole, and well-formed as far as it was kept. [`Connection::take_section`] has it until more is
    /// received.
    Section {
        /// Its stream, which it has opened if it is a request.
        stream: StreamId,
        /// The kind.
        kind: SectionKind,
        /// `None`: all of it was kept.
        truncation: Option<Truncation>,
    },
    /// The next octets of the input are content; the holder takes so many off it before it goes on.
    Content {
        /// Its stream.
        stream: StreamId,
        /// Octets, at least one.
        bytes: usize,
    },
    /// The peer sends nothing more on the stream.
    End {
        /// The stream.
        stream: StreamId,
    },
    /// The stream is closed by a reset.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The code.
        code: ErrorCode,
        /// The side that reset it.
        by: ResetBy,
    },
    /// WINDOW_UPDATE has come: for a stream, or for the connection (`None`). See also [`Event::Settings`].
    Window(Option<StreamId>),
    /// The peer changes the priority of this stream's response (RFC 9218 §7.1). [`Connection::priority_value`] has it until
    /// more is received.
    Priority(StreamId),
    /// The peer's settings have come. The send windows of all streams may differ.
    Settings,
    /// A PING of ours was acknowledged.
    Pong([u8; 8]),
    /// The peer takes no further streams. A client's above [`Connection::goaway`] are reset next.
    Goaway(ErrorCode),
}

/// The result of a received frame: an event, if it has one.
pub(super) type Next = Result<Option<Event>, Violation>;

/// A field block that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStart {
    /// Its stream.
    pub stream: StreamId,
    /// The kind of its section.
    pub kind: SectionKind,
    /// The peer sends nothing more on the stream behind it.
    pub ends_stream: bool,
}

/// The side that reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetBy {
    /// The peer.
    Peer,
    /// We, for a violation of the peer's.
    Us,
}

/// A DATA frame that is being received.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataFrame {
    pub(super) stream: StreamId,
    pub(super) is_discarded: bool,
    /// Octets that count for flow control, and are not of content that was handed on.
    pub(super) overhead: u32,
}
