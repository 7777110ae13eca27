//! The interface of a connection to the shell: settings, buffers, timeouts.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

use super::event::{Closed, Peer, StreamId};
use super::keepalive::Keepalive;
use super::output::Output;
use super::queue::{Deadlines, Queue};
use super::reader::{Reader, Tail};
use super::streams::Streams;
use super::violation::Violation;
use crate::frame::{FrameHeader, FrameType, Hello, flag};
use crate::limits::{STANDING_CREDIT_MIN, STREAMS_MAX};

/// Versions that this side speaks.
pub(super) const VERSION: u8 = 1;

/// Settings of a connection, from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Side of the connection that this peer is.
    pub side: Side,
    /// Streams that the peer may have open at a time; [`STREAMS_MAX`] at most.
    pub streams_max: u32,
    /// Standing credit of each body that the peer sends, in bytes; [`STANDING_CREDIT_MIN`] at least.
    pub stream_credit: u32,
    /// Standing credit of all these bodies together; [`STANDING_CREDIT_MIN`] at least. The shell keeps as many
    /// bytes reserved while the connection lives.
    pub connection_credit: u32,
    /// Silence of the peer before it is sent a PING.
    pub quiet: Duration,
    /// Time that the peer has to react to a PING.
    pub patience: Duration,
}

/// A side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The peer that dialed; its streams have odd numbers.
    Dialer,
    /// The peer that accepted; its streams have even numbers.
    Acceptor,
}

/// The state machine of one connection, without a socket.
///
/// The shell calls [`Connection::next_event`] until there is none, reads into [`Connection::room`],
/// writes [`Connection::slices`] while there are any, and comes back when the socket is readable or
/// writable, after each command, and at [`Connection::next_timeout`]. After a [`Violation`] it writes
/// the remaining slices once, and closes the connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) reader: Reader,
    pub(super) output: Output,
    pub(super) streams: Streams,
    pub(super) keepalive: Keepalive,
    pub(super) deadlines: Deadlines,
    /// HELLO of the peer.
    pub(super) peer: Option<Hello>,
    /// Number of this side's next stream, and the highest number of the peer's streams.
    pub(super) next_id: u32,
    pub(super) last_id: u32,
    /// The highest stream of the peer that was delivered to the shell.
    pub(super) last_taken: u32,
    /// Standing credit that the peer has used, and the sum of it that the peer knows of.
    pub(super) received: u64,
    pub(super) told: u64,
    /// Standing credit that the shell has released.
    pub(super) released: u64,
    /// Standing credit that this side has used, and the sum in the peer's CREDIT frames.
    pub(super) used: u64,
    pub(super) granted: u64,
    /// The stream of the DATA payload that is being read.
    pub(super) body: Option<StreamId>,
    /// Queues of streams: with credit to announce; to send on granted credit, or END alone; to send on standing
    /// credit; with room that the shell waits for; closed by the peer's GOAWAY, not yet reported to the shell.
    pub(super) untold: Queue,
    pub(super) granted_turns: Queue,
    pub(super) standing_turns: Queue,
    pub(super) writable: Queue,
    pub(super) closed: VecDeque<(StreamId, u64, Closed)>,
    pub(super) is_standing_next: bool,
    /// Value of the peer's last PING, until it is answered.
    pub(super) pong: Option<u64>,
    /// SERVICES frames that this side has sent, and how many of them the peer had read at its last ACK.
    pub(super) registrations: u64,
    pub(super) acknowledged: u64,
    pub(super) goaways: u8,
    pub(super) is_peer_leaving: bool,
    pub(super) leaving: Leaving,
    pub(super) resets: Resets,
    pub(super) violation: Option<Violation>,
}

/// Progress of this side's drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// No further streams are accepted.
    Draining,
    /// No stream is open, and GOAWAY with DRAINED was queued.
    Drained,
}

/// RESET frames of the peer within a second.
#[derive(Debug)]
pub(super) struct Resets {
    pub(super) since: Instant,
    pub(super) count: u32,
}

impl Connection {
    /// A new connection at `now`, with its HELLO ready to be written.
    ///
    /// # Panics
    /// If `config` is outside of its bounds.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        assert!(config.streams_max <= STREAMS_MAX);
        assert!(config.stream_credit.min(config.connection_credit) >= STANDING_CREDIT_MIN);
        let mut output = Output::new();
        let hello = Hello {
            oldest: VERSION,
            newest: VERSION,
            streams_max: config.streams_max,
            stream_credit: config.stream_credit,
            connection_credit: u64::from(config.connection_credit),
        };
        hello.write(output.lane());
        Self {
            reader: Reader::new(),
            output,
            streams: Streams::new(),
            keepalive: Keepalive::new(now, config.quiet, config.patience),
            deadlines: Deadlines::default(),
            peer: None,
            next_id: match config.side {
                Side::Dialer => 1,
                Side::Acceptor => 2,
            },
            last_id: 0,
            last_taken: 0,
            received: 0,
            told: u64::from(config.connection_credit),
            released: 0,
            used: 0,
            granted: 0,
            body: None,
            untold: Queue::default(),
            granted_turns: Queue::default(),
            standing_turns: Queue::default(),
            writable: Queue::default(),
            closed: VecDeque::new(),
            is_standing_next: false,
            pong: None,
            registrations: 0,
            acknowledged: 0,
            goaways: 0,
            is_peer_leaving: false,
            leaving: Leaving::No,
            resets: Resets {
                since: now,
                count: 0,
            },
            violation: None,
            config,
        }
    }

    /// The stream and the number of payload bytes that are still to be read of the last
    /// [`Event::Data`](super::Event::Data). No other frame is read before them.
    #[must_use]
    pub fn body_left(&self) -> Option<(StreamId, usize)> {
        let stream = self.body?;
        let left = self.reader.body_left();
        (left > 0).then_some((stream, left))
    }

    /// Copies DATA payload that was read together with earlier frames into `out`; returns the number of
    /// bytes. For bodies on granted credit, there are none or few.
    pub fn take_body(&mut self, out: &mut [u8]) -> usize {
        self.reader.take_body(out)
    }

    /// Drops the rest of the DATA payload.
    pub fn skip_body(&mut self) {
        self.reader.skip_body();
    }

    /// The buffers of the next read, in this order. `body` is the buffer for the remaining DATA payload, or for
    /// the beginning of it; empty if no payload remains.
    ///
    /// # Panics
    /// If `body` is longer than the remaining payload, or [`Connection::take_body`] has bytes of it.
    pub fn room<'a>(&'a mut self, body: &'a mut [u8]) -> [IoSliceMut<'a>; 2] {
        let tail = if self.streams.is_any_announced() {
            Tail::Header
        } else {
            Tail::All
        };
        self.reader.room(body, tail)
    }

    /// Notes that `count` bytes were read into [`Connection::room`]; returns how many of them are in
    /// `body`.
    ///
    /// # Panics
    /// If `count` exceeds the room.
    pub fn filled(&mut self, count: usize, now: Instant) -> usize {
        self.keepalive.heard(now);
        self.reader.filled(count)
    }

    /// Fills `slices` with the next bytes to write, in order; returns the number of slices, at most
    /// [`SLICES_MAX`](crate::limits::SLICES_MAX). 0: there is nothing to write.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.transmit();
        self.output.slices(slices)
    }

    /// Notes that the first `count` bytes of [`Connection::slices`] were written. Payloads that were written
    /// are dropped, with their reservations.
    ///
    /// # Panics
    /// If `count` exceeds the committed bytes.
    pub fn sent(&mut self, count: usize) {
        self.output.sent(count);
    }

    /// The latest time for the next call of [`Connection::next_event`].
    pub fn next_timeout(&mut self) -> Option<Instant> {
        if self.violation.is_some() {
            return None;
        }
        let keepalive = self.keepalive.next();
        let deadline = self.deadlines.first(|stream| self.streams.has(stream));
        Some(deadline.map_or(keepalive, |deadline| deadline.min(keepalive)))
    }

    /// The peer's version and limits; `None` before its HELLO.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.peer.as_ref().map(|hello| Peer {
            version: hello.newest.min(VERSION),
            streams_max: hello.streams_max,
        })
    }

    /// True once the peer has read the last SERVICES of this side; false if none was sent.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registrations > 0 && self.acknowledged == self.registrations
    }

    /// True once the peer has sent GOAWAY: it accepts no further streams.
    #[must_use]
    pub fn is_peer_leaving(&self) -> bool {
        self.is_peer_leaving
    }

    /// The number of open streams, of both sides.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Standing credit that the peer has used and the shell has not released.
    #[must_use]
    pub fn standing_held(&self) -> u64 {
        self.received - self.released
    }

    /// True while the stream has an entry here: until both sides have ended, and this side's END is committed.
    pub(crate) fn has_stream(&self, id: StreamId) -> bool {
        self.streams.has(id)
    }

    /// Memory of frames that wait to be written, in bytes, without payloads.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output.held_bytes()
    }

    /// Memory of the connection itself in bytes, for the shell to reserve: tables, queues and waiting frames.
    /// Payloads are not included: they carry their own reservations.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let queues = [
            &self.untold,
            &self.granted_turns,
            &self.standing_turns,
            &self.writable,
        ];
        size_of::<Self>()
            + crate::limits::INBOX_BYTES
            + self.output.held_bytes()
            + self.streams.held_bytes()
            + self.deadlines.held_bytes()
            + queues.map(Queue::held_bytes).iter().sum::<usize>()
            + self.closed.capacity() * size_of::<(StreamId, u64, Closed)>()
    }

    /// Drains the connection: neither side opens further streams, and open ones go on. GOAWAY is sent now, and
    /// GOAWAY with DRAINED when the last stream has ended.
    pub fn drain(&mut self) {
        if self.leaving == Leaving::No && self.violation.is_none() {
            self.leaving = Leaving::Draining;
            self.push_goaway(0, 0, b"");
            self.note_drained();
        }
    }

    /// True once a drain is complete and its last GOAWAY is written: the connection can be closed without a loss.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.leaving == Leaving::Drained && self.output.is_empty()
    }

    /// Queues GOAWAY with DRAINED if this side drains and no stream is open any more.
    pub(super) fn note_drained(&mut self) {
        if self.leaving == Leaving::Draining && self.streams.len() == 0 {
            self.leaving = Leaving::Drained;
            self.push_goaway(0, flag::DRAINED, b"");
        }
    }

    pub(super) fn push_goaway(&mut self, code: u32, flags: u8, text: &[u8]) {
        let mut header = FrameHeader::new(FrameType::GOAWAY, 0);
        header.code = code;
        header.flags = flags;
        header.aux = u64::from(self.last_taken);
        self.output.push(&header, text);
    }
}
