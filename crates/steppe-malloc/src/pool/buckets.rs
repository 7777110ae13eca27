//! Chunks by the length of a run of units that they have, and the search in a chunk's bits.
//!
//! Invariant: touched under the pool's lock.

use core::cell::Cell;

use crate::chunk::{Chunk, UNITS};
use crate::list::{Linked, List};

/// Chunks by the length of a run that they have.
pub struct Buckets<const L: usize> {
    pub lists: [List<Chunk, L>; UNITS],
    /// The lists that have a chunk, a bit each.
    filled: Cell<u64>,
}

impl<const L: usize> Buckets<L>
where
    Chunk: Linked<L>,
{
    pub const fn new() -> Self {
        Self {
            lists: [const { List::new() }; UNITS],
            filled: Cell::new(0),
        }
    }

    /// The chunk with the shortest run of at least `length`.
    pub fn at_least(&self, length: usize) -> Option<&'static Chunk> {
        if length >= UNITS {
            return None;
        }
        let enough = self.filled.get() >> length << length;
        if enough == 0 {
            return None;
        }
        self.lists[enough.trailing_zeros() as usize % UNITS].first()
    }

    pub fn push(&self, chunk: &'static Chunk, length: u8) {
        if length > 0 {
            self.lists[usize::from(length) % UNITS].push_front(chunk);
            self.filled.set(self.filled.get() | 1 << length);
        }
    }

    pub fn remove(&self, chunk: &'static Chunk, length: u8) {
        if length > 0 {
            let list = &self.lists[usize::from(length) % UNITS];
            list.remove(chunk);
            if list.is_empty() {
                self.filled.set(self.filled.get() & !(1 << length));
            }
        }
    }
}

/// The lowest bit of `starts` from which `units` bits of `among` are set.
pub fn first_run(starts: u64, among: u64, units: usize) -> Option<usize> {
    let mut runs = among;
    let (mut step, mut left) = (1, units - 1);
    while left > 0 {
        let shift = step.min(left);
        runs &= runs >> shift;
        left -= shift;
        step *= 2;
    }
    let found = runs & starts;
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// The length of the longest run of set bits.
pub fn longest_run(mut bits: u64) -> u8 {
    let mut length = 0;
    while bits != 0 {
        bits &= bits << 1;
        length += 1;
    }
    length
}

/// A bit at each multiple of `align`, a power of two.
pub fn multiples(align: usize) -> u64 {
    (0..UNITS)
        .step_by(align)
        .fold(0, |bits, unit| bits | 1 << unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::span;

    #[test]
    fn runs_are_found() {
        assert_eq!(first_run(u64::MAX, 0b0111_0110, 1), Some(1));
        assert_eq!(first_run(u64::MAX, 0b0111_0110, 3), Some(4));
        assert_eq!(first_run(multiples(4), 0b0111_1110, 2), Some(4));
        assert_eq!(first_run(u64::MAX, 0b0111_0110, 4), None);
        assert_eq!(first_run(u64::MAX, !1, 63), Some(1));
    }

    #[test]
    fn the_longest_run_is_counted() {
        assert_eq!(longest_run(0), 0);
        assert_eq!(longest_run(0b1011_1011), 3);
        assert_eq!(longest_run(!1), 63);
    }

    #[test]
    fn spans_are_of_the_length_asked_for() {
        assert_eq!(span(1, 63), !1);
        assert_eq!(span(4, 2), 0b11_0000);
    }
}
