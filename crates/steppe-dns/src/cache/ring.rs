//! A ring of records of any size: the oldest is popped first.
//!
//! ```text
//!   0        head             tail        end
//!   | free   | oldest … newest | free      |      or, wrapped,  | … newest | free | oldest … | filler |
//! ```
//! Records begin at multiples of eight bytes, lie in one piece, and begin with their size (four bytes)
//! and their state (one). A filler takes the end that was too short for a record.

use super::memory::{Memory, round_up};

/// States of a record, in its fifth byte.
pub(super) const FILLER: u8 = 0;
pub(super) const LIVE: u8 = 1;
pub(super) const DEAD: u8 = 2;

/// Offsets of the size and the state in a record.
const SIZE_AT: usize = 0;
pub(super) const STATE_AT: usize = 4;

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Memory,
    head: usize,
    tail: usize,
    used: usize,
}

/// The progress of a walk over a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    at: usize,
    left: usize,
}

/// A record's offset, size and state: popped, or come to by a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Popped {
    pub at: usize,
    pub size: usize,
    pub state: u8,
}

impl Ring {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            memory: Memory::new(bytes),
            head: 0,
            tail: 0,
            used: 0,
        }
    }

    /// Bytes of the whole ring.
    pub(super) fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Bytes in use, fillers and dead records included.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Reserves `size` bytes for a record behind the newest, and returns its offset; `None` while no free
    /// piece is large enough. Size and state are written here, the rest by the caller.
    pub(super) fn push(&mut self, size: usize) -> Option<usize> {
        let size = round_up(size);
        let at = self.reserve(size)?;
        self.memory.set_u32(at + SIZE_AT, size);
        self.memory.set_u8(at + STATE_AT, LIVE);
        Some(at)
    }

    fn reserve(&mut self, size: usize) -> Option<usize> {
        if self.used == 0 {
            (self.head, self.tail) = (0, 0);
        } else if self.head == self.tail {
            return None;
        }
        let is_wrapped = self.used > 0 && self.tail < self.head;
        let end = if is_wrapped {
            self.head
        } else {
            self.capacity()
        };
        if size <= end - self.tail {
            return Some(self.take(size));
        }
        if is_wrapped || size > self.head {
            return None;
        }
        let filler = end - self.tail;
        self.memory.set_u32(self.tail + SIZE_AT, filler);
        self.memory.set_u8(self.tail + STATE_AT, FILLER);
        self.take(filler);
        Some(self.take(size))
    }

    fn take(&mut self, size: usize) -> usize {
        let at = self.tail;
        self.tail = (at + size) % self.capacity();
        self.used += size;
        at
    }

    /// Pops the oldest record. Its bytes stay as they are until the next record is pushed.
    pub(super) fn pop(&mut self) -> Option<Popped> {
        if self.used == 0 {
            return None;
        }
        let popped = self.record(self.head);
        self.head = (self.head + popped.size) % self.capacity();
        self.used -= popped.size;
        Some(popped)
    }

    /// Puts the record that was just popped behind the newest. Returns its new offset.
    ///
    /// There is room: free bytes lie before the record or around the end, so that with the record's own
    /// bytes either the piece behind the newest or the one at the front is as large as the record.
    pub(super) fn push_again(&mut self, popped: Popped) -> Option<usize> {
        let at = self.reserve(popped.size)?;
        self.memory.copy_within(popped.at, popped.size, at);
        Some(at)
    }

    fn record(&self, at: usize) -> Popped {
        Popped {
            at,
            size: self.memory.u32(at + SIZE_AT),
            state: self.memory.u8(at + STATE_AT),
        }
    }

    /// The start of a walk over the records.
    pub(super) fn cursor(&self) -> Cursor {
        Cursor {
            at: self.head,
            left: self.used,
        }
    }

    /// The next record of a walk, oldest first, in any state. States may change between calls.
    pub(super) fn next(&self, cursor: &mut Cursor) -> Option<Popped> {
        let record = (cursor.left > 0).then(|| self.record(cursor.at))?;
        cursor.at = (cursor.at + record.size) % self.capacity();
        cursor.left -= record.size;
        Some(record)
    }

    /// The live records, oldest first.
    pub(super) fn live(&self) -> impl Iterator<Item = Popped> + '_ {
        let mut cursor = self.cursor();
        let all = std::iter::from_fn(move || self.next(&mut cursor));
        all.filter(|record| record.state == LIVE)
    }

    /// Removes all records.
    pub(super) fn clear(&mut self) {
        (self.head, self.tail, self.used) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Records have numbers, which fill their bytes behind size and state.
    fn fill(ring: &mut Ring, at: usize, size: usize, number: u8) {
        let bytes = vec![number; round_up(size) - 5];
        ring.memory_mut().write(at + 5, &bytes);
    }

    fn numbers(ring: &Ring) -> Vec<(usize, u8)> {
        let check = |record: Popped| {
            let bytes = ring.memory().bytes(record.at + 5, record.size - 5);
            assert!(
                bytes.iter().all(|byte| *byte == bytes[0]),
                "torn: {bytes:?}"
            );
            (record.size, bytes[0])
        };
        ring.live().map(check).collect()
    }

    proptest! {
        /// A ring is a queue: whatever is pushed leaves in order and whole, and a record that is put
        /// back always has room.
        #[test]
        fn a_ring_is_a_queue(operations in prop::collection::vec((0..4_u8, 9..80_usize), 1..200)) {
            let mut ring = Ring::new(256);
            let mut model: VecDeque<(usize, u8)> = VecDeque::new();
            for (number, (operation, size)) in operations.into_iter().enumerate() {
                let number = u8::try_from(number % 251).unwrap();
                if operation < 2 {
                    if let Some(at) = ring.push(size) {
                        fill(&mut ring, at, size, number);
                        model.push_back((round_up(size), number));
                    } else {
                        // Fillers and the gap between head and tail cost less than two records.
                        prop_assert!(ring.used() + 2 * round_up(size) > 256);
                    }
                } else if let Some(popped) = pop_live(&mut ring) {
                    let record = model.pop_front().unwrap();
                    prop_assert_eq!(popped.size, record.0);
                    if operation == 3 {
                        prop_assert!(ring.push_again(popped).is_some());
                        model.push_back(record);
                    }
                }
                prop_assert_eq!(numbers(&ring), Vec::from(model.clone()));
                prop_assert!(ring.used() <= 256);
            }
        }
    }

    fn pop_live(ring: &mut Ring) -> Option<Popped> {
        loop {
            let popped = ring.pop()?;
            if popped.state == LIVE {
                return Some(popped);
            }
        }
    }
}
