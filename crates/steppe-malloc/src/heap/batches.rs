//! Batches between a heap's bins and the depots.
//!
//! Invariant: all of it runs in the heap's own thread, under the heap's lock: `sweep` moves blocks of
//! the same bins.

use core::ptr;
use core::sync::atomic::Ordering;

use super::{FIRST_BATCH, Heap};
use crate::deadline;
use crate::depot::{self, Place};
use crate::size_class::CLASSES;

/// Blocks that go to the depots at once.
pub(super) const BATCH_MAX: usize = 32;

impl Heap {
    /// Takes a block out of a bin, which is filled if it is empty. Null: no memory.
    pub fn take(&self, class: usize) -> *mut u8 {
        let block = self.pop_announced(class);
        if block.is_null() {
            return self.refill(class);
        }
        block
    }

    /// Fills an empty bin with a batch, and takes a block out. Null: no memory.
    fn refill(&self, class: usize) -> *mut u8 {
        let _guard = self.lock.lock();
        self.settle(class);
        // A sweep that was given up has put the blocks back.
        let block = self.pop(class);
        if !block.is_null() {
            return block;
        }
        let batch = usize::from(self.batches[class % CLASSES].get());
        let half = (self.capacity(class) / 2).clamp(1, usize::from(u16::MAX));
        let wanted = batch.min(half);
        let grown = (wanted * 2).min(half);
        self.batches[class % CLASSES].set(u16::try_from(grown).unwrap_or(FIRST_BATCH));
        let shard = self.shard.get();
        depot::of(shard, class).give((shard, class), wanted, |block| {
            self.push(class, block);
        });
        deadline::note_refill();
        self.pop(class)
    }

    /// Brings the older half of a full bin to its depot, and puts a block in.
    pub fn overflow(&self, class: usize, block: *mut u8) {
        let _guard = self.lock.lock();
        self.settle(class);
        let count = self.capacity(class).div_ceil(2);
        self.flush(class, count, Place::Store);
        self.push(class, block);
    }

    /// Flushes all blocks to their slabs. Not into stores: the next thread takes the lowest
    /// addresses, and twenty thousand short threads need no more pages than twenty.
    pub fn flush_all(&self) {
        let _guard = self.lock.lock();
        for class in 1..CLASSES {
            self.settle(class);
            self.flush(class, usize::MAX, Place::Slabs);
        }
    }

    /// Brings the `count` oldest blocks of a settled bin to its depot.
    fn flush(&self, class: usize, count: usize, place: Place) {
        let held = self.held(class);
        let count = count.min(held);
        if count == 0 {
            return;
        }
        let mut batch = [ptr::null_mut(); BATCH_MAX];
        let mut flushed = 0;
        while flushed < count {
            let part = (count - flushed).min(BATCH_MAX);
            for (index, block) in batch[..part].iter_mut().enumerate() {
                *block = self.slot(class, flushed + index).load(Ordering::Relaxed);
            }
            depot::take_all(class, &mut batch[..part], place);
            flushed += part;
        }
        self.move_down(class, count);
    }

    /// Removes the null slots that a sweep left in a bin.
    fn settle(&self, class: usize) {
        let hollow = usize::from(self.hollow[class % CLASSES].load(Ordering::Relaxed));
        if hollow > 0 {
            self.hollow[class % CLASSES].store(0, Ordering::Relaxed);
            self.move_down(class, hollow);
        }
    }

    /// Removes the lowest `count` slots of a bin, below the others.
    fn move_down(&self, class: usize, count: usize) {
        let left = self.held(class) - count;
        for index in 0..left {
            let block = self.slot(class, count + index).load(Ordering::Relaxed);
            self.slot(class, index).store(block, Ordering::Relaxed);
        }
        // SAFETY: `left` slots above the bottom are filled.
        let top = unsafe { self.bottoms[class % CLASSES].get().add(left) };
        self.tops[class % CLASSES].store(top, Ordering::Relaxed);
    }
}
