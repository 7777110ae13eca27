//! Queues of streams that wait for a turn, and deadlines of streams.
//!
//! Removal is lazy: the entry of a stream that has ended is dropped when it comes first, or in a sweep
//! once such entries outnumber the others. Numbers of streams are never reused.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use super::event::StreamId;
use crate::limits::STALE_MAX;
use crate::table::capacity_max;

/// Streams, first in, first out.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<StreamId>);

/// Deadlines of streams, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BinaryHeap<Reverse<(Instant, StreamId)>>);

/// True if a queue of `len` entries is due for a sweep, where `count` streams are live.
fn is_stale(len: usize, count: usize) -> bool {
    len > 2 * count + STALE_MAX
}

impl Queue {
    /// True if the queue has no entry, not even of an ended stream.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, stream: StreamId) {
        self.0.push_back(stream);
    }

    pub(super) fn pop(&mut self) -> Option<StreamId> {
        self.0.pop_front()
    }

    pub(super) fn first(&self) -> Option<StreamId> {
        self.0.front().copied()
    }

    /// Drops ended streams if there are many of them, and capacity beyond the need of `count` live streams.
    pub(super) fn sweep(&mut self, count: usize, is_live: impl Fn(StreamId) -> bool) {
        if is_stale(self.0.len(), count) {
            self.0.retain(|&stream| is_live(stream));
        }
        if self.0.capacity() > capacity_max(count) {
            self.0.shrink_to(capacity_max(count) / 2);
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<StreamId>()
    }
}

impl Deadlines {
    pub(super) fn push(&mut self, deadline: Instant, stream: StreamId) {
        self.0.push(Reverse((deadline, stream)));
    }

    /// The earliest deadline of a live stream.
    pub(super) fn first(&mut self, is_live: impl Fn(StreamId) -> bool) -> Option<Instant> {
        while let Some(&Reverse((deadline, stream))) = self.0.peek() {
            if is_live(stream) {
                return Some(deadline);
            }
            self.0.pop();
        }
        None
    }

    /// Removes the first entry whose deadline has passed; its stream may have ended.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<StreamId> {
        let &Reverse((deadline, stream)) = self.0.peek()?;
        (deadline <= now).then(|| {
            self.0.pop();
            stream
        })
    }

    /// Drops entries of ended streams and capacity, as [`Queue::sweep`] does.
    pub(super) fn sweep(&mut self, count: usize, is_live: impl Fn(StreamId) -> bool) {
        if is_stale(self.0.len(), count) {
            self.0.retain(|Reverse((_, stream))| is_live(*stream));
        }
        if self.0.capacity() > capacity_max(count) {
            self.0.shrink_to(capacity_max(count) / 2);
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Instant, StreamId)>()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_live_deadline_comes_first() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut deadlines = Deadlines::default();
        for (seconds, stream) in [(3, 1), (1, 3), (2, 5)] {
            deadlines.push(at(seconds), StreamId(stream));
        }
        assert_eq!(deadlines.first(|stream| stream.0 != 3), Some(at(2)));
        assert_eq!(deadlines.pop_due(at(1)), None);
        assert_eq!(deadlines.pop_due(at(9)), Some(StreamId(5)));
        assert_eq!(deadlines.pop_due(at(9)), Some(StreamId(1)));
        assert_eq!(deadlines.pop_due(at(9)), None);
    }

    #[test]
    fn what_has_ended_does_not_pile_up() {
        let (mut queue, mut deadlines) = (Queue::default(), Deadlines::default());
        let now = Instant::now();
        let far = now + Duration::from_secs(3600);
        for number in 0..100_000 {
            queue.push(StreamId(number));
            deadlines.push(far, StreamId(number));
            queue.sweep(1, |stream| stream.0 == number);
            deadlines.sweep(1, |stream| stream.0 == number);
        }
        assert!(queue.held_bytes() < 4096, "{}", queue.held_bytes());
        assert!(deadlines.held_bytes() < 8192, "{}", deadlines.held_bytes());
        while let Some(stream) = queue.pop() {
            assert!(stream.0 > 99_900);
        }
    }
}
