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
    #[error("{0} where a connection has its HELLO")]
    Hello(FrameType),
    /// No version that both sides speak.
    #[error("versions {oldest} to {newest} only")]
    Version {
        /// The peer's oldest.
        oldest: u8,
        /// Its newest.
        newest: u8,
    },
    /// A stream that is not the peer's to name, or not in order.
    #[error("{0} of stream {1}, which is not open and can't be")]
    StreamId(FrameType, StreamId),
    /// A frame that does not belong where the stream is.
    #[error("{0} of stream {1} out of order")]
    State(FrameType, StreamId),
    /// More bytes than were granted.
    #[error("data of stream {stream} costs {cost}, {left} are granted")]
    Credit {
        /// The stream.
        stream: StreamId,
        /// What the frame costs.
        cost: u64,
        /// What was left of the stream's credit, or of the connection's.
        left: u64,
    },
    /// A sum of credit that is lower than before, or above what is possible.
    #[error("credit {granted} of stream {stream}, it was {before}")]
    CreditSum {
        /// The stream; 0 for the connection.
        stream: StreamId,
        /// What the frame has.
        granted: u64,
        /// What the one before had.
        before: u64,
    },
    /// Lengths of a message, or of a body, that contradict each other.
    #[error("data of stream {0} contradicts the length that was announced")]
    Length(StreamId),
    /// More of what costs the receiver than an honest peer sends.
    #[error("too many {0}")]
    Flood(FrameType),
    /// No HELLO in time.
    #[error("no HELLO in time")]
    HelloTimeout,
    /// Nothing heard for too long.
    #[error("the peer is silent")]
    Silent,
}

impl Violation {
    /// Its number in GOAWAY. `docs/plane-protocol.md` §8.
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
        }
    }
}
