//! Fragments that were recorded and not read yet, copied as they come: libpulse gives nothing of a stream that the server has ended.
//!
//! **Invariant:** bytes and holes come out in the order in which they went in. It allocates only to grow.

use std::collections::VecDeque;

/// Part of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// Samples.
    Bytes(&'a [u8]),
    /// So many bytes are missing.
    Hole(usize),
}

/// Bytes of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    Bytes(usize),
    Hole(usize),
}

impl Span {
    fn bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) | Self::Hole(bytes) => bytes,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Kept {
    spans: VecDeque<Span>,
    /// Bytes of the spans; those before `start` were read.
    bytes: Vec<u8>,
    start: usize,
}

impl Kept {
    /// Bytes that can be read, holes included.
    pub fn len(&self) -> usize {
        self.spans.iter().map(|span| span.bytes()).sum()
    }

    /// Appends a fragment.
    pub fn push(&mut self, fragment: Fragment<'_>) {
        self.spans.push_back(match fragment {
            Fragment::Bytes(bytes) => {
                self.bytes.extend_from_slice(bytes);
                Span::Bytes(bytes.len())
            }
            Fragment::Hole(bytes) => Span::Hole(bytes),
        });
    }

    /// Gives the oldest fragment to `use_it`, and forgets it. `None`: there is none.
    pub fn next<R>(&mut self, use_it: impl FnOnce(Fragment<'_>) -> R) -> Option<R> {
        let result = match self.spans.pop_front()? {
            Span::Hole(bytes) => use_it(Fragment::Hole(bytes)),
            Span::Bytes(bytes) => {
                let end = self.start + bytes;
                let result = use_it(Fragment::Bytes(&self.bytes[self.start..end]));
                self.start = end;
                result
            }
        };
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        Some(result)
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
}
