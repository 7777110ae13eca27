//! A connection as the shell has it: what it begins with, where bytes go, and what it waits for.

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
    /// Which side of it this is.
    pub side: Side,
    /// Streams that the peer may have open; [`STREAMS_MAX`] at most.
    pub streams_max: u32,
    /// Standing credit of each body of the peer's; [`STANDING_CREDIT_MIN`] at least.
    pub stream_credit: u32,
    /// Standing credit of all of them together; [`STANDING_CREDIT_MIN`] at least. The shell has so many
    /// bytes reserved for as long as the connection lives.
    pub connection_credit: u32,
    /// Silence before the peer is asked for a sign of life.
    pub quiet: Duration,
    /// Time that the peer has to give one.
    pub patience: Duration,
}

/// A side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It dialed: its streams are odd.
    Dialer,
    /// It accepted: its streams are even.
    Acceptor,
}

/// One connection.
///
/// The shell calls [`Connection::next_event`] until there is none; reads into [`Connection::room`];
/// writes [`Connection::slices`] while there are any; and comes back when bytes can be read or
/// written, after each command, and at [`Connection::next_timeout`]. After a [`Violation`] it writes
/// what is left, once, and closes.
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
    /// The number of the next stream of ours, and the highest of the peer's.
    pub(super) next_id: u32,
    pub(super) last_id: u32,
    /// The highest stream of the peer's that was given to the shell.
    pub(super) last_taken: u32,
    /// Standing credit that the peer has used, and all that it was told of.
    pub(super) received: u64,
    pub(super) told: u64,
    /// Standing credit that the shell released.
    pub(super) released: u64,
    /// The same of this side.
    pub(super) used: u64,
    pub(super) granted: u64,
    /// The stream that the payload of DATA is read for.
    pub(super) body: Option<StreamId>,
    /// Streams with credit to tell; with frames to send on granted credit or none, and on standing
    /// credit; with room that the shell waits for; that are gone, and the shell does not know.
    pub(super) untold: Queue,
    pub(super) granted_turns: Queue,
    pub(super) standing_turns: Queue,
    pub(super) writable: Queue,
    pub(super) closed: VecDeque<(StreamId, u64, Closed)>,
    pub(super) is_standing_next: bool,
    /// PING of the peer's that was not answered.
    pub(super) pong: Option<u64>,
    /// SERVICES that this side has sent, and how many of them the peer had read when it answered a PING.
    pub(super) registrations: u64,
    pub(super) acknowledged: u64,
    pub(super) goaways: u8,
    pub(super) is_peer_leaving: bool,
    pub(super) leaving: Leaving,
    pub(super) resets: Resets,
    pub(super) violation: Option<Violation>,
}

/// Progress of this side in going away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// No further streams are taken.
    Draining,
    /// None is open, and the peer knows.
    Drained,
}

/// RESET frames of the peer's in a second.
#[derive(Debug)]
pub(super) struct Resets {
    pub(super) since: Instant,
    pub(super) count: u32,
}

impl Connection {
    /// A connection that begins now. Its HELLO is there to be written.
    ///
    /// # Panics
    /// Where `config` is outside of its bounds.
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

    /// Bytes of DATA that come next, and for which stream. They are the rest of what the last
    /// [`Event::Data`](super::Event::Data) was about; nothing else is read before them.
    #[must_use]
    pub fn body_left(&self) -> Option<(StreamId, usize)> {
        let stream = self.body?;
        let left = self.reader.body_left();
        (left > 0).then_some((stream, left))
    }

    /// Copies what came of the payload of DATA together with frames before it, into `out`; says how
    /// many bytes. Of bodies on granted credit that is none or a few.
    pub fn take_body(&mut self, out: &mut [u8]) -> usize {
        self.reader.take_body(out)
    }

    /// Drops the rest of the payload of DATA, which nobody wants.
    pub fn skip_body(&mut self) {
        self.reader.skip_body();
    }

    /// Where the bytes that are read next go, in this order. `body` is where what is left of the payload
    /// of DATA goes, or the beginning of it; empty while none is left.
    ///
    /// # Panics
    /// Where `body` is longer than what is left, or [`Connection::take_body`] has some of it.
    pub fn room<'a>(&'a mut self, body: &'a mut [u8]) -> [IoSliceMut<'a>; 2] {
        let tail = if self.streams.is_any_announced() {
            Tail::Header
        } else {
            Tail::All
        };
        self.reader.room(body, tail)
    }

    /// Notes that `count` bytes were read into [`Connection::room`]; says how many of them went to
    /// `body`.
    ///
    /// # Panics
    /// Where that is more than there was room.
    pub fn filled(&mut self, count: usize, now: Instant) -> usize {
        self.keepalive.heard(now);
        self.reader.filled(count)
    }

    /// Fills `slices` with what is to be written next, in order; says how many there are, at most
    /// [`SLICES_MAX`](crate::limits::SLICES_MAX). None: there is nothing to write.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.transmit();
        self.output.slices(slices)
    }

    /// Notes that the first `count` bytes of [`Connection::slices`] were written. What they were in is
    /// dropped, and with it its reservation.
    ///
    /// # Panics
    /// Where that is more than there was.
    pub fn sent(&mut self, count: usize) {
        self.output.sent(count);
    }

    /// When [`Connection::next_event`] is to be called, whatever comes before.
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

    /// True once the peer has read the last SERVICES of this side; false where there was none.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registrations > 0 && self.acknowledged == self.registrations
    }

    /// True once the peer has said that it takes no further streams.
    #[must_use]
    pub fn is_peer_leaving(&self) -> bool {
        self.is_peer_leaving
    }

    /// Streams that are open, of both sides.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Standing credit that the peer has used and the shell has not released.
    #[must_use]
    pub fn standing_held(&self) -> u64 {
        self.received - self.released
    }

    /// True while a stream has an entry here: until both sides have ended, and this one's END is on its way.
    pub(crate) fn has_stream(&self, id: StreamId) -> bool {
        self.streams.has(id)
    }

    /// Memory of what waits to be written, payloads aside.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output.held_bytes()
    }

    /// Memory of the connection itself, for the shell to reserve: tables, queues and frames that wait.
    /// Payloads are not in it: they carry their own reservations.
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

    /// No further streams of the peer's are taken; those that are open go on. Streams of ours can't be
    /// opened either. The peer is told, and once more when the last one has ended.
    pub fn drain(&mut self) {
        if self.leaving == Leaving::No && self.violation.is_none() {
            self.leaving = Leaving::Draining;
            self.push_goaway(0, 0, b"");
            self.note_drained();
        }
    }

    /// True once it was drained, and the peer was told: the connection can be closed without a loss.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.leaving == Leaving::Drained && self.output.is_empty()
    }

    /// Says that no stream is open any more, where that is so.
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
