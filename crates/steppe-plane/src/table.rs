//! Streams by number, each in a block of its own.
//!
//! Invariant: the memory of a table is proportional to its streams, plus [`STREAMS_KEPT`] blocks: a crowd of streams
//! that has ended leaves no more, even if one of them stays.
//!
//! A map that holds the streams themselves takes several times their size while it is partly empty; a map of blocks
//! does not. Some blocks are kept, so that streams that come and go allocate nothing.

mod number;

use std::collections::HashMap;

use crate::connection::StreamId;
use crate::limits::{STALE_MAX, STREAMS_KEPT};
use number::Keys;

/// The streams of one connection, in one of its layers.
#[derive(Debug)]
pub(crate) struct Table<T> {
    open: HashMap<StreamId, Box<T>, Keys>,
    /// Blocks of streams that have ended.
    spare: Vec<Box<T>>,
}

/// Capacity above which a table or queue with `count` live streams is shrunk, to half of this: each stream that ends
/// is moved once on average.
pub(crate) fn capacity_max(count: usize) -> usize {
    4 * count + 2 * STALE_MAX
}

/// Empties a list that is refilled each time, and shrinks it to the need of this time.
pub(crate) fn drain<T>(list: &mut Vec<T>, take: impl FnMut(T)) {
    let count = list.len();
    list.drain(..).for_each(take);
    if list.capacity() > capacity_max(count) {
        list.shrink_to(capacity_max(count) / 2);
    }
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            open: HashMap::with_hasher(Keys::random()),
            spare: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.open.contains_key(&id)
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&T> {
        self.open.get(&id).map(|stream| &**stream)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        self.open.get_mut(&id).map(|stream| &mut **stream)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &T)> {
        self.open.iter().map(|(&id, stream)| (id, &**stream))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.open.values_mut().map(|stream| &mut **stream)
    }

    /// All blocks, of open streams and spare ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.open
            .values()
            .chain(&self.spare)
            .map(|stream| &**stream)
    }

    /// A block for a stream: a spare one in the state in which it was kept, or a new one from `new`.
    pub(crate) fn take_spare(&mut self, new: impl FnOnce() -> T) -> Box<T> {
        self.spare.pop().unwrap_or_else(|| Box::new(new()))
    }

    pub(crate) fn insert(&mut self, id: StreamId, stream: Box<T>) -> &mut T {
        self.open.entry(id).insert_entry(stream).into_mut()
    }

    /// Removes a stream. Its block is to be returned by [`Table::keep_spare`].
    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Box<T>> {
        let stream = self.open.remove(&id);
        let count = self.open.len();
        if self.open.capacity() > capacity_max(count) {
            self.open.shrink_to(capacity_max(count) / 2);
        }
        stream
    }

    /// Keeps a block for a later stream, unless enough are kept.
    pub(crate) fn keep_spare(&mut self, stream: Box<T>) {
        let kept_max = STREAMS_KEPT + self.open.len() / 4;
        if self.spare.len() < kept_max {
            self.spare.push(stream);
        } else {
            self.spare.truncate(kept_max);
        }
        if self.spare.capacity() > capacity_max(self.spare.len()) {
            self.spare.shrink_to(capacity_max(self.spare.len()) / 2);
        }
    }

    /// Bytes of the blocks, and of the map.
    pub(crate) fn held_bytes(&self) -> usize {
        (self.open.len() + self.spare.len()) * size_of::<T>()
            + self.spare.capacity() * size_of::<Box<T>>()
            // A hashbrown table is at most 7/8 full, and has one control byte for each entry.
            + self.open.capacity() * (size_of::<(StreamId, Box<T>)>() + 1) * 8 / 7
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_that_has_gone_but_for_one_leaves_little() {
        let mut table = Table::new();
        for round in 0u32..3 {
            let at = |number| StreamId(round * 20_000 + number);
            for number in 0..8_000 {
                let block = table.take_spare(|| [0u8; 300]);
                table.insert(at(number), block);
            }
            assert_eq!(table.len(), 8_000);
            for number in 1..8_000 {
                let block = table.remove(at(number)).expect("it is open");
                table.keep_spare(block);
            }
            let held = table.held_bytes();
            let one = (STREAMS_KEPT + 2) * 300;
            assert!(
                (one - 300..one + 8_192).contains(&held),
                "{held} bytes of {one}"
            );
            table.remove(at(0));
        }
    }
}
