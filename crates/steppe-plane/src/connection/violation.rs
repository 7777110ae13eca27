//! What a peer is dismissed for.

use super::event::StreamId;
use crate::frame::{FieldError, FrameError, FrameType};

/// Why the connection ends. It says so to the peer by GOAWAY, with [`Violation::code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A header that no peer of this protocol sends.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Fields that are not as they must be.
    #[error("{0}: {1}")]
    Fields(FrameType, FieldError),
    /// The first frame is not HELLO, or a later one is.
    #[error("unexpected {0}: a connection begins with one HELLO")]
    Hello(FrameType),
    /// No version that both sides speak.
    #[error("no common version: the peer supports {oldest} to {newest}")]
    Version {
        /// The peer's oldest.
        oldest: u8,
        /// Its newest.
        newest: u8,
    },
    /// A stream that is not the peer's to name, or not in order.
    #[error("{0} on stream {1}, which is not open and can't be opened")]
    StreamId(FrameType, StreamId),
    /// A frame that does not belong where the stream is.
    #[error("unexpected {0} on stream {1}")]
    State(FrameType, StreamId),
    /// More bytes than were granted.
    #[error("data on stream {stream} needs {cost} bytes of credit, {left} are left")]
    Credit {
        /// The stream.
        stream: StreamId,
        /// What the frame costs.
        cost: u64,
        /// What was left of the stream's credit, or of the connection's.
        left: u64,
    },
    /// A sum of credit that is lower than before, or above what is possible.
    #[error("invalid credit {granted} on stream {stream}, after {before}")]
    CreditSum {
        /// The stream; 0 for the connection.
        stream: StreamId,
        /// What the frame has.
        granted: u64,
        /// What the one before had.
        before: u64,
    },
    /// Lengths of a message, or of a body, that contradict each other.
    #[error("data on stream {0} contradicts the announced length")]
    Length(StreamId),
    /// More of what costs the receiver than an honest peer sends.
    #[error("too many {0} frames")]
    Flood(FrameType),
    /// A service is offered that the peer may not offer.
    #[error("denied: the peer may not offer a service that it names")]
    Denied,
    /// No HELLO in time.
    #[error("no HELLO in time")]
    HelloTimeout,
    /// Nothing heard for too long.
    #[error("nothing received from the peer in time")]
    Silent,
}

impl Violation {
    /// The number of [`Violation::Denied`].
    pub(crate) const DENIED: u32 = 13;

    /// Its number in GOAWAY. `docs/plane/protocol.md` §8.
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
