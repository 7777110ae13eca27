//! States of a stream. Spec: RFC 9113 §5.1.
//!
//! ```text
//!                    idle
//!                     | H
//!                     v
//!      recv ES      open      send ES
//!        .------------+------------.
//!        v                         v
//!   half-closed               half-closed
//!    (remote)                   (local)
//!        |        send / recv R    |
//!        '-----------> closed <----'
//!     send ES                   recv ES
//! ```
//! H: HEADERS, sent or received; ES: END_STREAM; R: RST_STREAM, which closes an open stream, too. The reserved states
//! are absent: PUSH_PROMISE ends the connection (`frame.rs`).
//!
//! Receiving, by state:
//!
//! | | HEADERS | DATA | RST_STREAM | WINDOW_UPDATE |
//! | --- | --- | --- | --- | --- |
//! | idle | open | PROTOCOL_ERROR | PROTOCOL_ERROR | PROTOCOL_ERROR |
//! | open, half-closed (local) | head or trailers | yes | closed | yes |
//! | half-closed (remote) | STREAM_CLOSED | STREAM_CLOSED | closed | yes |
//! | closed by END_STREAM | STREAM_CLOSED | STREAM_CLOSED | ignored | ignored |
//! | closed by our RST_STREAM | discarded | discarded | ignored | ignored |
//! | closed by the peer's RST_STREAM | STREAM_CLOSED | STREAM_CLOSED | ignored | ignored |
//!
//! PROTOCOL_ERROR of an idle stream ends the connection, as does STREAM_CLOSED of HEADERS on a closed stream; the
//! other violations end the stream. PRIORITY and PRIORITY_UPDATE are allowed in every state; a PRIORITY that depends on
//! itself resets its stream, if that is neither closed nor idle, and ends the connection on an idle one. CONTINUATION without a field block ends the connection.
//!
//! Idle streams, and those that the holder has released, are decided in `receive/` (`begin_unknown`, `begin_data`,
//! `is_idle`). A released stream counts as closed by our RST_STREAM if it is among the last ones that were reset here,
//! or before the first of them where there were more; else as closed by END_STREAM. HEADERS open an idle stream toward a server only; toward a client they end the
//! connection. Before the final head of a message, HEADERS are heads, and DATA ends the stream.

use crate::error::ErrorCode;

/// The state of a stream that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Both sides may send.
    Open,
    /// The peer may send.
    HalfClosedLocal,
    /// We may send.
    HalfClosedRemote,
    /// Neither may.
    Closed(ClosedBy),
}

/// The event that closed a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosedBy {
    /// END_STREAM of both sides.
    End,
    /// RST_STREAM of ours: the peer may have sent frames before it came.
    LocalReset,
    /// RST_STREAM of the peer.
    PeerReset,
}

/// A frame whose reception depends on the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Headers,
    Data,
    RstStream,
    WindowUpdate,
}

/// The consequence of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reception {
    /// It counts.
    Accepted,
    /// Its payload is read and dropped; it counts for flow control and field compression.
    Discarded,
    /// The stream ends by RST_STREAM.
    StreamError(ErrorCode),
    /// The connection ends by GOAWAY.
    ConnectionError(ErrorCode),
}

impl State {
    /// The consequence of `frame` in this state.
    pub(super) fn receive(self, frame: Received) -> Reception {
        use Received::{Data, Headers, RstStream, WindowUpdate};
        match (self, frame) {
            (Self::Open | Self::HalfClosedLocal, _) => Reception::Accepted,
            (Self::HalfClosedRemote, RstStream | WindowUpdate) => Reception::Accepted,
            (Self::HalfClosedRemote, Headers | Data) => {
                Reception::StreamError(ErrorCode::STREAM_CLOSED)
            }
            (Self::Closed(_), RstStream | WindowUpdate) => Reception::Discarded,
            (Self::Closed(ClosedBy::LocalReset), Headers | Data) => Reception::Discarded,
            (Self::Closed(_), Headers) => Reception::ConnectionError(ErrorCode::STREAM_CLOSED),
            (Self::Closed(_), Data) => Reception::StreamError(ErrorCode::STREAM_CLOSED),
        }
    }

    /// The state after END_STREAM of the peer.
    pub(super) fn after_remote_end(self) -> Self {
        match self {
            Self::Open => Self::HalfClosedRemote,
            Self::HalfClosedLocal => Self::Closed(ClosedBy::End),
            Self::HalfClosedRemote | Self::Closed(_) => self,
        }
    }

    /// The state after our END_STREAM.
    pub(super) fn after_local_end(self) -> Self {
        match self {
            Self::Open => Self::HalfClosedLocal,
            Self::HalfClosedRemote => Self::Closed(ClosedBy::End),
            Self::HalfClosedLocal | Self::Closed(_) => self,
        }
    }

    /// True when we may send HEADERS and DATA.
    pub(super) fn can_send(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedRemote)
    }

    /// True when the peer may send HEADERS and DATA.
    pub(super) fn can_receive(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedLocal)
    }

    pub(super) fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 6] = [
        State::Open,
        State::HalfClosedLocal,
        State::HalfClosedRemote,
        State::Closed(ClosedBy::End),
        State::Closed(ClosedBy::LocalReset),
        State::Closed(ClosedBy::PeerReset),
    ];

    #[test]
    fn every_frame_in_every_state_has_the_consequence_of_the_table() {
        use Reception::{Accepted as A, ConnectionError as C, Discarded as D, StreamError as S};
        const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;
        let table = [
            [A, A, A, A],
            [A, A, A, A],
            [S(CLOSED), S(CLOSED), A, A],
            [C(CLOSED), S(CLOSED), D, D],
            [D, D, D, D],
            [C(CLOSED), S(CLOSED), D, D],
        ];
        let frames = [
            Received::Headers,
            Received::Data,
            Received::RstStream,
            Received::WindowUpdate,
        ];
        for (state, row) in STATES.into_iter().zip(table) {
            assert_eq!(frames.map(|frame| state.receive(frame)), row, "{state:?}");
        }
    }

    #[test]
    fn ends_of_both_sides_close_a_stream() {
        let remote = State::Open.after_remote_end();
        assert_eq!(remote, State::HalfClosedRemote);
        assert!(remote.can_send() && !remote.can_receive());
        assert_eq!(remote.after_local_end(), State::Closed(ClosedBy::End));
        let local = State::Open.after_local_end();
        assert_eq!(local, State::HalfClosedLocal);
        assert!(!local.can_send() && local.can_receive());
        assert_eq!(local.after_remote_end(), State::Closed(ClosedBy::End));
        for closed in &STATES[3..] {
            assert_eq!(closed.after_local_end(), *closed);
            assert_eq!(closed.after_remote_end(), *closed);
            assert!(closed.is_closed() && !closed.can_send() && !closed.can_receive());
        }
    }
}
