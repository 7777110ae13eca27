//! Protocol violations, for which a peer is dismissed.

use super::event::StreamId;
use crate::frame::{FieldError, FrameError, FrameType};

/// A violation of the protocol that ends the connection. GOAWAY has its [`Violation::code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An invalid header.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Malformed fields.
    #[error("{0}: {1}")]
    Fields(FrameType, FieldError),
    /// A first frame other than HELLO, or a second HELLO.
    #[error("unexpected {0}: a connection begins with one HELLO")]
    Hello(FrameType),
    /// The peers have no version in common.
    #[error("no common version: the peer supports {oldest} to {newest}")]
    Version {
        /// Oldest version of the peer.
        oldest: u8,
        /// Newest version of the peer.
        newest: u8,
    },
    /// A stream that the peer may not open, or that was never opened.
    #[error("{0} on stream {1}, which is not open and can't be opened")]
    StreamId(FrameType, StreamId),
    /// A frame that is not allowed in the state of its stream.
    #[error("unexpected {0} on stream {1}")]
    State(FrameType, StreamId),
    /// DATA that costs more than the credit that is left.
    #[error("data on stream {stream} needs {cost} bytes of credit, {left} are left")]
    Credit {
        /// The stream.
        stream: StreamId,
        /// Cost of the frame.
        cost: u64,
        /// Credit that was left, of the stream or of the connection.
        left: u64,
    },
    /// A sum of credit that falls, or is above the maximum.
    #[error("invalid credit {granted} on stream {stream}, after {before}")]
    CreditSum {
        /// The stream; 0 for the connection.
        stream: StreamId,
        /// Sum in the frame.
        granted: u64,
        /// Sum in the previous frame.
        before: u64,
    },
    /// Contradictory lengths of a message or of a body.
    #[error("data on stream {0} contradicts the announced length")]
    Length(StreamId),
    /// More frames of a costly kind than the limit.
    #[error("too many {0} frames")]
    Flood(FrameType),
    /// The peer names a service that it may not offer.
    #[error("denied: the peer may not offer a service that it names")]
    Denied,
    /// No HELLO in time.
    #[error("no HELLO in time")]
    HelloTimeout,
    /// Nothing was received in time after a PING.
    #[error("nothing received from the peer in time")]
    Silent,
}

impl Violation {
    /// Code of [`Violation::Denied`].
    pub(crate) const DENIED: u32 = 13;

    /// Code of the violation in GOAWAY. `docs/plane/protocol.md` §8.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Frame(_) => 1,
            Self::Fields(..) => 2,
            Self::Hello(_) => 3,
            Self::Version { .. } => 4,
            Self::StreamId(..) => 5,
            Self::State(..) => 6,
            Self::Credit { .. } => 7,
            Self::CreditSum { .. } => 8,
            Self::Length(_) => 9,
            Self::Flood(_) => 10,
            Self::HelloTimeout => 11,
            Self::Silent => 12,
            Self::Denied => Self::DENIED,
        }
    }
}
