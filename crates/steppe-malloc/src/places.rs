//! Large blocks by the ten thousand: their mappings share the kernel's, of which a process may have 65,530.
//!
//! ```text
//!   exact     │ block │ hole    │ block   │ hole  │    a mapping of the kernel (VMA) each
//!   sharing   │ block │ padding │ block   │ padding │ block …    one for all that are neighbours
//! ```
//! The first [`EXACT_MAX`] are as long as their block. From then on a mapping is padded up to the next
//! multiple of 4 MiB, where the next one starts, with equal flags and advice, so the kernel merges them.
//! Padding is never touched: it costs address space only, so it is not used where that is limited.
//!
//! To unmap a part of a merged mapping cuts it in two. A block that is freed while there are many gives its
//! memory back and keeps its place, for the next block that fits; places are unmapped when there are few
//! mappings again, or when the system refuses new ones.
//!
//! Invariant: lists are touched under `large`'s lock.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::chunk::CHUNK_BYTES;
use crate::huge::Huge;
use crate::list::List;
use crate::sys;

/// Mappings that are as long as their block, at most: a small part of the kernel's limit.
pub const EXACT_MAX: usize = 4096;
/// Mappings that share none of the kernel's, at most. Those that `mremap` moved count, since the kernel merges them
/// with no other any more; beyond this number blocks are copied instead of moved.
pub const ALONE_MAX: usize = 4 * EXACT_MAX;
/// The largest block whose mapping shares: as many as the kernel allows of larger ones are 4 TiB.
pub const SHARING_BYTES_MAX: usize = 64 << 20;
/// A list for each length in chunks, 0 for less than one.
const LISTS: usize = SHARING_BYTES_MAX / CHUNK_BYTES + 1;

/// The padding of a new mapping for a block of `bytes`, if `alone` share none already. `None`: it does not share.
pub(crate) fn padding(bytes: usize, alone: usize) -> Option<usize> {
    let shares = alone >= EXACT_MAX && bytes <= SHARING_BYTES_MAX && sys::has_endless_addresses();
    shares.then(|| bytes.next_multiple_of(CHUNK_BYTES) - bytes)
}

/// True when there are so many mappings that places are kept.
pub(crate) fn is_crowded(mappings: usize) -> bool {
    mappings >= EXACT_MAX
}

/// Mappings without memory and without a block, by their length.
pub(crate) struct Places {
    lists: [List<Huge, 0>; LISTS],
    count: AtomicUsize,
}

impl Places {
    pub const fn new() -> Self {
        Self {
            lists: [const { List::new() }; LISTS],
            count: AtomicUsize::new(0),
        }
    }

    /// Number of places. Needs no lock.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn put(&self, huge: &'static Huge) {
        let list = (huge.mapped_bytes() / CHUNK_BYTES).min(LISTS - 1);
        self.lists[list].push_back(huge);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the shortest place that holds `bytes`, at most [`SHARING_BYTES_MAX`].
    pub fn take(&self, bytes: usize) -> Option<&'static Huge> {
        if self.count() == 0 {
            return None;
        }
        self.pop_from(bytes.div_ceil(CHUNK_BYTES))
    }

    /// Takes any place.
    pub fn pop(&self) -> Option<&'static Huge> {
        self.pop_from(0)
    }

    fn pop_from(&self, first: usize) -> Option<&'static Huge> {
        let found = self.lists.iter().skip(first).find_map(List::pop_front)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_mappings_are_exact_and_many_end_where_the_next_starts() {
        assert_eq!(padding(3 << 20, EXACT_MAX - 1), None);
        assert_eq!(padding(3 << 20, EXACT_MAX), Some(1 << 20));
        assert_eq!(padding(8 << 20, EXACT_MAX), Some(0));
        assert_eq!(padding(SHARING_BYTES_MAX + 4096, usize::MAX), None);
    }
}
