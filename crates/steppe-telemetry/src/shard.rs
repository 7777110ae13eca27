//! One shard of cells per worker, on cache lines of its own.
//!
//! Invariant: a shard has at most one [`ShardWriter`], and one thread at a time uses it,
//! so the single-writer rule of the cells holds by construction.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shard of cells `T` for each worker.
#[derive(Debug)]
pub struct PerWorker<T> {
    shards: Box<[Arc<Shard<T>>]>,
}

/// Aligned to two cache lines: the adjacent-line prefetcher loads pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T> {
    taken: AtomicBool,
    cells: T,
}

/// Exclusive write access to one worker's cells, released on drop.
#[derive(Debug)]
pub struct ShardWriter<T> {
    shard: Arc<Shard<T>>,
    /// `Send` and not `Sync`.
    not_sync: PhantomData<Cell<()>>,
}

impl<T> PerWorker<T> {
    /// Makes cells for each of `workers`.
    pub fn new(workers: usize, make: impl Fn() -> T) -> Self {
        Self::of((0..workers).map(|_| make()))
    }

    /// Shards with these cells, one per worker.
    pub fn of(cells: impl Iterator<Item = T>) -> Self {
        let shard = |cells| {
            Arc::new(Shard {
                taken: AtomicBool::new(false),
                cells,
            })
        };
        Self {
            shards: cells.map(shard).collect(),
        }
    }

    /// The writer of worker `index`. `None` if there is no such worker, or its writer exists.
    #[must_use]
    pub fn writer(&self, index: usize) -> Option<ShardWriter<T>> {
        let shard = self.shards.get(index)?;
        // Acquire pairs with the release in the last writer's drop: this writer sees
        // the last one's counts.
        let already_taken = shard.taken.swap(true, Ordering::Acquire);
        (!already_taken).then(|| ShardWriter {
            shard: Arc::clone(shard),
            not_sync: PhantomData,
        })
    }

    /// The cells of every worker, for reading.
    pub fn cells(&self) -> impl Iterator<Item = &T> {
        self.shards.iter().map(|shard| &shard.cells)
    }

    /// Sums a count over all workers.
    pub fn sum(&self, count: impl Fn(&T) -> u64) -> u64 {
        self.cells().map(count).fold(0, u64::wrapping_add)
    }
}

impl<T> Deref for ShardWriter<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.shard.cells
    }
}

impl<T> Drop for ShardWriter<T> {
    fn drop(&mut self) {
        self.shard.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    #[test]
    fn a_shard_has_one_writer_at_a_time() {
        let cells = PerWorker::new(2, Counter::new);
        let first = cells.writer(0).expect("nobody has it");
        assert!(cells.writer(0).is_none());
        assert!(cells.writer(1).is_some());
        assert!(cells.writer(2).is_none());
        drop(first);
        assert!(cells.writer(0).is_some());
    }

    #[test]
    fn counts_of_all_workers_are_summed_and_none_is_lost() {
        let cells = PerWorker::new(4, Counter::new);
        std::thread::scope(|scope| {
            for index in 0..4 {
                let writer = cells.writer(index).expect("one a thread");
                scope.spawn(move || (0..10_000).for_each(|_| writer.increment()));
            }
        });
        assert_eq!(cells.sum(Counter::value), 40_000);
    }

    #[test]
    fn shards_share_no_cache_line() {
        let cells = PerWorker::new(3, Counter::new);
        let lines: std::collections::HashSet<usize> = cells
            .cells()
            .map(|cell| std::ptr::from_ref(cell).addr() / 128)
            .collect();
        assert_eq!(lines.len(), 3);
    }
}
