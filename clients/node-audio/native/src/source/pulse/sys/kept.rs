//! Queue of recorded fragments, copied as they come: libpulse gives none of a stream that the server has ended.
//!
//! **Invariants:** bytes and holes come out in the order in which they went in. At most [`QUEUE_BYTES`] are kept: a
//! fragment without room becomes a hole. Allocates only to grow.

use std::collections::VecDeque;

use crate::limits::QUEUE_BYTES;

/// Capacity that is kept once all bytes were read: more than a running client falls behind.
const IDLE_BYTES: usize = QUEUE_BYTES / 4;

/// Part of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// Samples.
    Bytes(&'a [u8]),
    /// Number of missing bytes.
    Hole(usize),
}

/// Length of a fragment in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    Bytes(usize),
    Hole(usize),
}

/// A queue of fragments; see the module.
#[derive(Debug, Default)]
pub struct Kept {
    spans: VecDeque<Span>,
    /// Bytes of the spans; those before `start` were read already.
    bytes: Vec<u8>,
    start: usize,
    /// Length of the spans in bytes, holes included.
    len: usize,
}

impl Kept {
    /// Number of bytes to read, holes included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends a fragment.
    pub fn push(&mut self, fragment: Fragment<'_>) {
        let room = QUEUE_BYTES.saturating_sub(self.bytes.len() - self.start);
        let hole = match fragment {
            Fragment::Bytes(bytes) if bytes.len() <= room => {
                self.bytes.extend_from_slice(bytes);
                self.spans.push_back(Span::Bytes(bytes.len()));
                self.len += bytes.len();
                return;
            }
            Fragment::Bytes(bytes) => bytes.len(),
            Fragment::Hole(bytes) => bytes,
        };
        self.len += hole;
        if let Some(Span::Hole(last)) = self.spans.back_mut() {
            *last += hole;
        } else {
            self.spans.push_back(Span::Hole(hole));
        }
    }

    /// Gives the oldest fragment to `use_it`, and removes it. `None`: the queue is empty.
    pub fn next<R>(&mut self, use_it: impl FnOnce(Fragment<'_>) -> R) -> Option<R> {
        let result = match self.spans.pop_front()? {
            Span::Hole(bytes) => {
                self.len -= bytes;
                use_it(Fragment::Hole(bytes))
            }
            Span::Bytes(bytes) => {
                self.len -= bytes;
                let end = self.start + bytes;
                let result = use_it(Fragment::Bytes(&self.bytes[self.start..end]));
                self.start = end;
                result
            }
        };
        self.compact();
        Some(result)
    }

    /// Frees bytes that were read, once they are more than the others.
    fn compact(&mut self) {
        if self.start <= self.bytes.len() / 2 {
            return;
        }
        self.bytes.copy_within(self.start.., 0);
        self.bytes.truncate(self.bytes.len() - self.start);
        self.start = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_BYTES {
            self.bytes.shrink_to(IDLE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_come_out_as_they_went_in_and_memory_is_used_again() {
        let mut kept = Kept::default();
        for round in 0..100_u8 {
            kept.push(Fragment::Bytes(&[round; 3]));
            kept.push(Fragment::Hole(4));
            kept.push(Fragment::Bytes(&[round + 1; 2]));
            assert_eq!(kept.len(), 9);
            let read = |fragment: Fragment<'_>| match fragment {
                Fragment::Bytes(bytes) => bytes.to_vec(),
                Fragment::Hole(bytes) => vec![255; bytes],
            };
            let all: Vec<Vec<u8>> = std::iter::from_fn(|| kept.next(read)).collect();
            assert_eq!(all, [vec![round; 3], vec![255; 4], vec![round + 1; 2]]);
        }
        assert!(kept.bytes.capacity() < 32 && kept.len() == 0);
    }

    #[test]
    fn what_has_no_room_is_one_hole_and_memory_is_given_back() {
        let mut kept = Kept::default();
        let fragment = vec![7; QUEUE_BYTES / 8];
        let mut sizes = Vec::new();
        for _ in 0..11 {
            kept.push(Fragment::Bytes(&fragment));
        }
        kept.push(Fragment::Hole(5));
        assert_eq!(kept.len(), 11 * fragment.len() + 5);
        // There is room again, after the hole.
        let mut note = |kept: &mut Kept| {
            kept.next(|read| match read {
                Fragment::Bytes(bytes) => sizes.push(bytes.len()),
                Fragment::Hole(bytes) => sizes.push(usize::MAX - bytes),
            })
        };
        note(&mut kept);
        kept.push(Fragment::Bytes(&fragment));
        while note(&mut kept).is_some() {
            assert!(kept.bytes.len() - kept.start <= QUEUE_BYTES);
            assert!(kept.start <= kept.bytes.len() / 2);
        }
        let mut expected = vec![fragment.len(); 10];
        expected[8] = usize::MAX - 3 * fragment.len() - 5;
        assert_eq!((sizes, kept.len()), (expected, 0));
        assert!(kept.bytes.capacity() <= IDLE_BYTES);
    }
}
