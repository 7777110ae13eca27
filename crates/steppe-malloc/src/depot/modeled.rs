//! A depot between threads, in every order of their steps.
//!
//! The right to use a block is modeled by a cell of loom's for it: two threads that have the same
//! block at once fail the test, and so does one that gets a block without a happens-before edge
//! from the last use of it.

use std::collections::BTreeMap;
use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Depot, Place};
use crate::size_class::CLASSES;
use crate::sync::Lock;
use crate::sync::modeled::explore;
use crate::sys;

/// Blocks of 32 KiB: a slab has two, a store keeps one, so every way is short.
const LARGEST: usize = CLASSES - 1;
/// Blocks of 16 bytes: they stay in the store.
const SMALLEST: usize = 1;

struct Shared {
    depot: Depot,
    class: usize,
    blocks: BTreeMap<usize, UnsafeCell<u32>>,
}

type Blocks = Vec<*mut u8>;

impl Shared {
    /// A depot that gave `count` blocks, and these.
    fn new(class: usize, count: usize) -> (Arc<Self>, Blocks) {
        let depot = Depot {
            lock: Lock::modeled(),
            ..Depot::new()
        };
        let mut given = Blocks::new();
        while given.len() < count {
            let wanted = count - given.len();
            depot.give((0, class), wanted, |block| given.push(block));
        }
        let blocks = given.iter().map(|block| (block.addr(), UnsafeCell::new(0)));
        let shared = Self {
            depot,
            class,
            blocks: blocks.collect(),
        };
        (Arc::new(shared), given)
    }

    /// Uses blocks that the calling thread has.
    fn touch(&self, blocks: &[*mut u8]) {
        for block in blocks {
            if let Some(cell) = self.blocks.get(&block.addr()) {
                cell.with_mut(|count| {
                    // SAFETY: the thread that has the block has this cell; loom checks.
                    unsafe { *count += 1 };
                });
            }
        }
    }

    fn give(&self, wanted: usize) -> Blocks {
        let mut given = Blocks::new();
        self.depot
            .give((0, self.class), wanted, |block| given.push(block));
        self.touch(&given);
        given
    }

    fn take(&self, blocks: Blocks) {
        self.touch(&blocks);
        self.depot
            .take(self.class, blocks.into_iter(), Place::Store);
    }

    fn purge(&self) {
        self.depot.purge(self.class, sys::now_ms(), 0);
    }

    /// Brings everything back: nothing is out, and the slabs are the pool's.
    fn finish(&self, blocks: Blocks) {
        let distinct: std::collections::BTreeSet<_> = blocks.iter().collect();
        assert_eq!(distinct.len(), blocks.len(), "given twice");
        self.take(blocks);
        self.purge();
        let stats = self.depot.stats(self.class);
        let left = (stats.out_blocks, stats.stored_blocks, stats.slabs);
        assert_eq!(left, (0, 0, 0), "{stats:?}");
        assert_eq!(stats.given_blocks, stats.taken_blocks, "{stats:?}");
        assert!(!self.depot.has_aging());
    }
}

/// Blocks given to a thread, on their way to the test's thread.
struct Sent(Blocks);
// SAFETY: only the thread that receives the blocks uses them.
unsafe impl Send for Sent {}
// SAFETY: the depot's cells are under its lock; loom checks the others.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

fn spawn(
    shared: &Arc<Shared>,
    blocks: Blocks,
    work: impl FnOnce(&Shared, Blocks) -> Blocks + 'static,
) -> impl FnOnce() -> Blocks {
    let (shared, sent) = (Arc::clone(shared), Sent(blocks));
    let thread = loom::thread::spawn(move || {
        let sent = sent;
        Sent(work(&shared, sent.0))
    });
    move || thread.join().expect("the work returns").0
}

#[test]
fn blocks_go_through_the_store() {
    explore(4, || {
        let (shared, mut own) = Shared::new(SMALLEST, 4);
        shared.touch(&own);
        let theirs = own.split_off(2);
        let other = spawn(&shared, theirs, |shared, blocks| {
            shared.take(blocks);
            shared.give(1)
        });
        own.extend(shared.give(2));
        own.extend(other());
        shared.finish(own);
    });
}

#[test]
fn a_thread_that_only_frees_empties_slabs() {
    explore(4, || {
        let (shared, mut own) = Shared::new(LARGEST, 4);
        shared.touch(&own);
        let theirs = own.split_off(1);
        let other = spawn(&shared, theirs, |shared, blocks| {
            shared.take(blocks);
            Blocks::new()
        });
        shared.take(own);
        let mut own = shared.give(1);
        own.extend(other());
        shared.finish(own);
    });
}

#[test]
fn blocks_come_back_while_their_slab_is_purged() {
    explore(4, || {
        let (shared, mut own) = Shared::new(LARGEST, 4);
        shared.touch(&own);
        let theirs = own.split_off(2);
        shared.take(own);
        let other = spawn(&shared, theirs, |shared, blocks| {
            shared.take(blocks);
            shared.give(1)
        });
        shared.purge();
        shared.finish(other());
    });
}

#[test]
fn blocks_are_taken_while_their_slab_is_purged() {
    explore(4, || {
        let (shared, mut own) = Shared::new(LARGEST, 4);
        shared.touch(&own);
        // One block of each slab is left, so that there is a slab to purge and one to give from.
        let theirs = Vec::from([own.remove(2), own.remove(0)]);
        shared.take(theirs);
        let other = spawn(&shared, Blocks::new(), |shared, _| {
            let mut blocks = shared.give(1);
            blocks.extend(shared.give(2));
            blocks
        });
        shared.purge();
        own.extend(other());
        shared.finish(own);
    });
}
