//! The streams of a connection.
//!
//! Invariant: a stream that has ended leaves nothing behind but, for a while, its number in a queue.

use std::collections::VecDeque;

use super::event::StreamId;
use super::half::{Part, Phase, ReceiveHalf, SendHalf};
use crate::frame::Head;
use crate::table::Table;

/// The streams of a connection, by number.
#[derive(Debug)]
pub(super) struct Streams {
    table: Table<Stream>,
    /// Open streams that this side opened, and those that the peer opened.
    pub(super) ours: u32,
    pub(super) theirs: u32,
    /// Bodies that are being received on granted credit.
    announced: u32,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) opener: Opener,
    pub(super) send: SendHalf,
    pub(super) receive: ReceiveHalf,
    /// The peer has sent RESET with STOP; the shell was told.
    pub(super) is_stopped: bool,
}

/// The side that opened a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    Us,
    Peer,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            table: Table::new(),
            ours: 0,
            theirs: 0,
            announced: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn has(&self, id: StreamId) -> bool {
        self.table.has(id)
    }

    pub(super) fn find(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.table.get_mut(id)
    }

    /// Opens a stream, both sides idle.
    pub(super) fn open(&mut self, id: StreamId, opener: Opener) -> &mut Stream {
        match opener {
            Opener::Us => self.ours += 1,
            Opener::Peer => self.theirs += 1,
        }
        let mut stream = self.table.take_spare(|| Stream::new(opener));
        stream.opener = opener;
        self.table.insert(id, stream)
    }

    /// Removes a stream; returns its granted credit that will not be used.
    pub(super) fn close(&mut self, id: StreamId) -> u64 {
        let Some(mut stream) = self.table.remove(id) else {
            return 0;
        };
        match stream.opener {
            Opener::Us => self.ours -= 1,
            Opener::Peer => self.theirs -= 1,
        }
        if stream.receive.is_announced() {
            self.announced -= 1;
        }
        let unspent = stream.receive.take_unspent();
        // Drops unsent parts now; the spare keeps capacity only.
        stream.renew();
        self.table.keep_spare(stream);
        unspent
    }

    /// Opens the peer's side of a stream.
    pub(super) fn begin_receive(&mut self, id: StreamId, head: &Head<'_>) {
        let Some(stream) = self.find(id) else { return };
        stream.receive.begin(head);
        if stream.receive.is_announced() {
            self.announced += 1;
        }
    }

    /// Ends the peer's side of a stream.
    pub(super) fn end_receive(&mut self, id: StreamId) {
        let Some(stream) = self.find(id) else { return };
        let was_announced = stream.receive.is_announced();
        stream.receive.phase = Phase::Ended;
        if was_announced {
            self.announced -= 1;
        }
    }

    /// True if a body is being received on granted credit.
    pub(super) fn is_any_announced(&self) -> bool {
        self.announced > 0
    }

    /// The streams of this side with numbers above `last`.
    pub(super) fn ours_above(&self, last: u32) -> Vec<StreamId> {
        let all = self.table.iter();
        let above = all.filter(|(id, stream)| id.0 > last && stream.opener == Opener::Us);
        above.map(|(id, _)| id).collect()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let parts = self.table.all().map(|stream| stream.send.parts.capacity());
        parts.sum::<usize>() * size_of::<Part>() + self.table.held_bytes()
    }
}

impl Stream {
    fn new(opener: Opener) -> Self {
        Self {
            opener,
            send: SendHalf::new(VecDeque::new()),
            receive: ReceiveHalf::new(),
            is_stopped: false,
        }
    }

    /// Resets the stream to its initial state; keeps the capacity of its queue.
    fn renew(&mut self) {
        let mut parts = std::mem::take(&mut self.send.parts);
        parts.clear();
        *self = Self {
            send: SendHalf::new(parts),
            ..Self::new(self.opener)
        };
    }

    /// True if the shell has nothing left to do: the peer's side has ended, and the END of this side is queued.
    pub(super) fn is_done(&self) -> bool {
        let is_sent = self.send.phase == Phase::Ended || self.send.end.is_some();
        is_sent && self.receive.phase == Phase::Ended
    }

    pub(super) fn is_over(&self) -> bool {
        self.send.phase == Phase::Ended && self.receive.phase == Phase::Ended
    }
}
