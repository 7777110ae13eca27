//! The streams of a connection.
//!
//! Invariant: a stream that has ended leaves nothing behind but, for a while, its number in a queue.

use std::collections::{HashMap, VecDeque};

use super::event::StreamId;
use super::half::{Part, Phase, ReceiveHalf, SendHalf};
use crate::frame::Head;

/// Slots that are kept while no stream is open.
const SLOTS_KEPT: usize = 64;

/// Streams by their number.
#[derive(Debug)]
pub(super) struct Streams {
    places: HashMap<StreamId, usize>,
    slots: Vec<Stream>,
    free: Vec<usize>,
    /// How many are open that this side opened, and that the peer did.
    pub(super) ours: u32,
    pub(super) theirs: u32,
    /// How many bodies are being received on granted credit.
    announced: u32,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) opener: Opener,
    pub(super) send: SendHalf,
    pub(super) receive: ReceiveHalf,
    /// The peer asked for the end of it, and the shell knows.
    pub(super) is_stopped: bool,
}

/// Who opened a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    Us,
    Peer,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            places: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ours: 0,
            theirs: 0,
            announced: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn has(&self, id: StreamId) -> bool {
        self.places.contains_key(&id)
    }

    pub(super) fn find(&mut self, id: StreamId) -> Option<&mut Stream> {
        let place = *self.places.get(&id)?;
        self.slots.get_mut(place)
    }

    pub(super) fn is_receiving(&self, id: StreamId) -> bool {
        let stream = self.places.get(&id).map(|&place| &self.slots[place]);
        stream.is_some_and(|stream| stream.receive.phase != Phase::Ended)
    }

    /// Opens a stream, both sides idle.
    pub(super) fn open(&mut self, id: StreamId, opener: Opener) -> &mut Stream {
        match opener {
            Opener::Us => self.ours += 1,
            Opener::Peer => self.theirs += 1,
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Stream::new(opener));
            self.slots.len() - 1
        });
        self.places.insert(id, place);
        let stream = &mut self.slots[place];
        stream.renew(opener);
        stream
    }

    /// Forgets a stream; what was granted to it and will not be used.
    pub(super) fn close(&mut self, id: StreamId) -> u64 {
        let Some(place) = self.places.remove(&id) else {
            return 0;
        };
        let stream = &mut self.slots[place];
        match stream.opener {
            Opener::Us => self.ours -= 1,
            Opener::Peer => self.theirs -= 1,
        }
        if stream.receive.is_announced() {
            self.announced -= 1;
        }
        let unspent = stream.receive.take_unspent();
        // What it would have sent goes now.
        stream.renew(stream.opener);
        self.free.push(place);
        if self.places.is_empty() && self.slots.len() > SLOTS_KEPT {
            *self = Self::new();
        }
        unspent
    }

    /// The peer's side of a stream begins.
    pub(super) fn begin_receive(&mut self, id: StreamId, head: &Head<'_>) {
        let Some(stream) = self.find(id) else { return };
        stream.receive.begin(head);
        if stream.receive.is_announced() {
            self.announced += 1;
        }
    }

    /// The peer's side of a stream has ended.
    pub(super) fn end_receive(&mut self, id: StreamId) {
        let Some(stream) = self.find(id) else { return };
        let was_announced = stream.receive.is_announced();
        stream.receive.phase = Phase::Ended;
        if was_announced {
            self.announced -= 1;
        }
    }

    /// Whether a body is being received on granted credit.
    pub(super) fn is_any_announced(&self) -> bool {
        self.announced > 0
    }

    /// The streams of ours above `last`.
    pub(super) fn ours_above(&self, last: u32) -> Vec<StreamId> {
        let is_above =
            |id: &StreamId| id.0 > last && self.slots[self.places[id]].opener == Opener::Us;
        self.places.keys().copied().filter(is_above).collect()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let parts = self.slots.iter().map(|stream| stream.send.parts.capacity());
        parts.sum::<usize>() * size_of::<Part>()
            + self.slots.capacity() * size_of::<Stream>()
            + self.free.capacity() * size_of::<usize>()
            // A table of hashbrown is at most 7/8 full and has a byte of control an entry.
            + self.places.capacity() * (size_of::<(StreamId, usize)>() + 1) * 8 / 7
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

    /// As new, but for the memory that its queue has.
    fn renew(&mut self, opener: Opener) {
        let mut parts = std::mem::take(&mut self.send.parts);
        parts.clear();
        *self = Self {
            send: SendHalf::new(parts),
            ..Self::new(opener)
        };
    }

    /// Whether the shell is done with it: both sides have ended, and ours at most waits to be sent.
    pub(super) fn is_done(&self) -> bool {
        let is_sent = self.send.phase == Phase::Ended || self.send.end.is_some();
        is_sent && self.receive.phase == Phase::Ended
    }

    pub(super) fn is_over(&self) -> bool {
        self.send.phase == Phase::Ended && self.receive.phase == Phase::Ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_given_up() {
        let mut streams = Streams::new();
        for round in 0..3 {
            for number in 0..1000 {
                let id = StreamId(round * 2000 + number);
                streams.open(id, Opener::Peer).receive.grant(7);
            }
            assert_eq!((streams.theirs, streams.slots.len()), (1000, 1000));
            for number in 0..1000 {
                assert_eq!(streams.close(StreamId(round * 2000 + number)), 7);
            }
            assert_eq!((streams.len(), streams.held_bytes()), (0, 0));
        }
    }
}
