//! A bin that is swept, in every order of its owner's steps and the sweep's.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::depot::{self, Place};
use crate::size_class::class_of;
use crate::sync::modeled::explore;
use crate::sys;

/// Blocks of 64 bytes, and of 4 KiB, whose pops are announced and whose bin has room for four.
const CLASSES_SWEPT: [usize; 2] = [4, class_of(4 << 10)];

/// Blocks that a run of the model may see.
const BLOCKS: usize = 12;

/// A bin that is swept while its owner moves blocks. A block that both threads have at once fails
/// the test.
struct Swept {
    heap: &'static Heap,
    class: usize,
    blocks: BTreeMap<usize, UnsafeCell<u32>>,
    /// Blocks that bins had, before this one.
    out_before: usize,
}

// SAFETY: the owner alone uses the heap's cells; loom checks the others.
unsafe impl Sync for Swept {}
// SAFETY: as above.
unsafe impl Send for Swept {}

impl Swept {
    /// A bin with `count` blocks, whose top and lowest slots are modeled.
    fn new(class: usize, count: usize) -> Arc<Self> {
        // A heap for each class: an earlier run's modeled slots are not touched in this one.
        static KEPT: Mutex<BTreeMap<usize, &'static Heap>> = Mutex::new(BTreeMap::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let heap = || Heap::new(Profile::Balanced).expect("memory");
        let heap = *kept.entry(class).or_insert_with(heap);
        let bottom = heap.bottoms[class].get();
        let place = ptr::from_ref(heap).cast_mut();
        // SAFETY: no thread of this run has the heap yet, those of earlier runs have ended.
        unsafe {
            (*place).tops[class] = AtomicPtr::modeled(bottom);
            (*place).lock = Lock::modeled();
        }
        heap.hollow[class].store(0, Ordering::Relaxed);
        for index in 1..=4 {
            // SAFETY: bins of these classes have at least four slots above the bottom.
            unsafe { *bottom.add(index) = AtomicPtr::modeled(ptr::null_mut()) };
        }
        heap.batches[class].set(FIRST_BATCH);
        let out_before = blocks_out(class);
        // A refill gives no other blocks: each run of the model is the same.
        let mut given = Vec::new();
        depot::of(0, class).give((0, class), BLOCKS, |block| given.push(block));
        let blocks = given.iter().map(|block| (block.addr(), UnsafeCell::new(0)));
        let blocks = blocks.collect();
        depot::take_all(class, &mut given[count..], Place::Slabs);
        for &block in &given[..count] {
            assert!(heap.push(class, block));
        }
        Arc::new(Self {
            heap,
            class,
            blocks,
            out_before,
        })
    }

    /// Uses a block that the calling thread has.
    fn touch(&self, block: *mut u8) {
        self.blocks[&block.addr()].with_mut(|count| {
            // SAFETY: the thread that has the block has this cell; loom checks.
            unsafe { *count += 1 };
        });
    }

    /// Takes `count` blocks and gives them back, the last first.
    fn take_and_free(&self, count: usize) {
        let taken: Vec<_> = (0..count).map(|_| self.heap.take(self.class)).collect();
        for &block in taken.iter().rev() {
            assert!(!block.is_null());
            self.touch(block);
            if !self.heap.push(self.class, block) {
                self.heap.overflow(self.class, block);
            }
        }
    }
}

/// Blocks of a class that are in bins.
fn blocks_out(class: usize) -> usize {
    let stats = depot::of(0, class).stats(class);
    stats.out_blocks - stats.stored_blocks
}

#[test]
fn a_block_is_swept_or_its_owners() {
    for class in CLASSES_SWEPT {
        for held in 1..=3 {
            explore(5, move || {
                let swept = Swept::new(class, held);
                let other = Arc::clone(&swept);
                let sweeper = loom::thread::spawn(move || {
                    other.heap.sweep(|class, blocks| {
                        blocks.iter().for_each(|block| other.touch(block.get()));
                        sweep::give_back(class, blocks);
                    });
                });
                swept.take_and_free(2);
                swept.take_and_free(1);
                sweeper.join().expect("sweeps only");
                let out = blocks_out(class) - swept.out_before;
                assert_eq!(
                    out,
                    swept.heap.held(class),
                    "a block is lost, or twice there"
                );
                swept.heap.flush_all();
                depot::of(0, class).purge(class, sys::now_ms(), 0);
            });
        }
    }
}
