//! Sweeps of the bins of sleeping threads: their blocks go back to the slabs without the thread's
//! help.
//!
//! ```text
//!   before   null │ p │ p │ p │ p │            the top stays where it is
//!   hollowed null │   │   │   │ p │            each slot is swapped with null …
//!   later                                      … and after the barrier: is the top where it was,
//!   accepted null │   │   │   │ p │            and are they null still?  then the blocks are ours
//!   or not   null │ p │ p │ p │ p │            else they go back into slots that are null
//! ```
//! The owner takes no lock and makes no step more for this, so it may wake up between any two of
//! its instructions. It reads a slot only when its top is there, and stores the lower top after
//! that. To come back to the same top it has to push into each slot that it popped, which is not
//! null then. So an owner that got one of the blocks shows it, once its stores are visible: that is
//! the purpose of the barrier. The block at the top itself stays, since a thread may have stopped
//! between reading it and storing the lower top; of the larger classes it goes too, since there the
//! owner announces that it pops ([`Heap::pop_announced`]). An owner that finds null takes the slow
//! path, and waits at the lock.
//!
//! The barrier is a wait: processors make a store visible within microseconds, and this takes a
//! thousand of them. `membarrier` would be the textbook's (membarrier(2)), but a sandbox that does not
//! list it kills the process, and a process can't ask for its filters without calls that they may
//! refuse.
//!
//! Invariant: at most one sweep runs, under `decay::PURGE`, so no fork copies a heap in its midst.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::batches::BATCH_MAX;
use super::threads::HEAPS;
use super::{Heap, Watch};
use crate::deadline;
use crate::depot::{self, Place};
use crate::meta::META;
use crate::profile::{Profile, bin_slots};
use crate::size_class::{BLOCK_BYTES, CLASSES, TABLE_BYTES_MAX, class_of};
use crate::sync::{Lock, barrier};
use crate::sys;

/// Sleep between two heaps, in microseconds.
const PAUSE_US: u64 = 50;
/// Bytes of a thread's blocks that are worth a sweep.
const WORTH_BYTES: usize = 16 << 10;
/// Bytes that a smaller block counts as: it may be all that keeps its page resident.
const WEIGHT_MIN: usize = 512;
/// Classes above this are popped with an announcement.
const UNANNOUNCED_CLASS_MAX: usize = class_of(TABLE_BYTES_MAX);

/// Blocks taken out of a bin while their owner may still claim them: room for all of one heap.
static BLOCKS: AtomicPtr<*mut u8> = AtomicPtr::new(ptr::null_mut());

/// Sweeps the heaps of threads that have not moved a block for `decay_ms`. `purging` is held for one
/// heap at a time.
pub(crate) fn sweep(purging: &Lock, now: u32, decay_ms: u32) {
    for heap in HEAPS.all() {
        let guard = purging.lock();
        if !heap.is_worth_a_sweep() || !heap.sleeps(now, decay_ms) {
            continue;
        }
        heap.sweep(give_back);
        drop(guard);
        if !deadline::has_thread() {
            return;
        }
        // A fork that waits for the lock gets it.
        sys::rest(PAUSE_US);
    }
}

/// True if a bin holds blocks that a sweep may give back later.
pub(crate) fn is_wanted() -> bool {
    HEAPS.all().any(Heap::is_worth_a_sweep)
}

/// Marks the heaps of all other threads as copies, in the child of a fork: only the calling thread
/// is there.
pub(crate) fn after_fork(own: Option<&'static Heap>) {
    let is_own = |heap: &Heap| own.is_some_and(|own| ptr::eq(own, heap));
    for heap in HEAPS.all().filter(|heap| !is_own(heap)) {
        // The top block stays, which is the one that a pop in progress may have.
        heap.is_popping.store(false, Ordering::Relaxed);
        let watch = heap.watch.get();
        heap.watch.set(Watch {
            is_copy: true,
            is_lost: watch.is_lost || heap.lock.try_lock().is_none(),
            ..watch
        });
    }
}

impl Heap {
    fn is_worth_a_sweep(&self) -> bool {
        if self.watch.get().is_lost {
            return false;
        }
        let bytes: usize = (1..CLASSES)
            .map(|class| {
                let count = self.held(class).saturating_sub(self.kept(class));
                count * BLOCK_BYTES[class].max(WEIGHT_MIN)
            })
            .sum();
        bytes >= WORTH_BYTES
    }

    /// Blocks of a class that a sweep leaves in a bin.
    fn kept(&self, class: usize) -> usize {
        usize::from(class <= UNANNOUNCED_CLASS_MAX || self.watch.get().is_copy)
    }

    /// True if no bin's top has changed for `decay_ms`, as far as looks tell.
    fn sleeps(&self, now: u32, decay_ms: u32) -> bool {
        let tops = self.tops.iter().fold(0_usize, |sum, top| {
            // One bin may rise as far as another falls.
            sum.rotate_left(1) ^ top.load(Ordering::Relaxed).addr()
        });
        let watch = self.watch.get();
        if watch.tops == tops {
            return deadline::has_passed(watch.since, now, decay_ms);
        }
        self.watch.set(Watch {
            tops,
            since: now,
            ..watch
        });
        false
    }

    /// Passes the blocks that its thread does not have to `give`, a class at a time.
    pub(super) fn sweep(&self, mut give: impl FnMut(usize, &[Cell<*mut u8>])) {
        let Some(room) = room() else { return };
        // The thread is awake, or was copied with its lock held.
        let Some(_guard) = self.lock.try_lock() else {
            return;
        };
        let parts: [Part; CLASSES] = core::array::from_fn(|class| Part::of(self, class));
        let mut blocks = room;
        for part in &parts {
            let (own, others) = blocks.split_at(part.count.min(blocks.len()));
            part.hollow(self, own);
            blocks = others;
        }
        barrier();
        let is_popping = self.is_popping.load(Ordering::Acquire);
        let mut blocks = room;
        for part in &parts {
            let (own, others) = blocks.split_at(part.count.min(blocks.len()));
            let is_known = !is_popping || part.class <= UNANNOUNCED_CLASS_MAX;
            if is_known && part.is_untouched(self) {
                part.accept(self);
                give(part.class, own);
            } else {
                part.put_back(self, own);
            }
            blocks = others;
        }
    }
}

/// Slots of a bin that are swept.
struct Part {
    class: usize,
    /// Slots from the bottom to the top, when the sweep began.
    height: usize,
    /// Index of the lowest slot, and the number of slots.
    first: usize,
    count: usize,
}

impl Part {
    fn of(heap: &Heap, class: usize) -> Self {
        if class == 0 {
            return Self {
                class,
                height: 0,
                first: 0,
                count: 0,
            };
        }
        let height = heap.height(class);
        let first = usize::from(heap.hollow[class].load(Ordering::Relaxed));
        Self {
            class,
            height,
            first,
            count: height.saturating_sub(first + heap.kept(class)),
        }
    }

    /// Swaps the slots with null; `blocks` gets their blocks.
    fn hollow(&self, heap: &Heap, blocks: &[Cell<*mut u8>]) {
        for (index, block) in blocks.iter().enumerate() {
            let slot = heap.slot(self.class, self.first + index);
            block.set(slot.swap(ptr::null_mut(), Ordering::SeqCst));
        }
    }

    /// True if the owner has none of the blocks.
    fn is_untouched(&self, heap: &Heap) -> bool {
        let is_null = |index| {
            let slot = heap.slot(self.class, self.first + index);
            slot.load(Ordering::SeqCst).is_null()
        };
        self.count > 0 && heap.height(self.class) == self.height && (0..self.count).all(is_null)
    }

    /// Leaves the slots null.
    fn accept(&self, heap: &Heap) {
        let hollow = u8::try_from(self.first + self.count).unwrap_or(u8::MAX);
        heap.hollow[self.class].store(hollow, Ordering::Relaxed);
    }

    /// Undoes [`Part::hollow`]. A slot that is not null has a block that came later; the block that
    /// it held before is with the program.
    fn put_back(&self, heap: &Heap, blocks: &[Cell<*mut u8>]) {
        for (index, block) in blocks.iter().enumerate() {
            let slot = heap.slot(self.class, self.first + index);
            let _ = slot.compare_exchange(
                ptr::null_mut(),
                block.get(),
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }
}

/// Brings blocks to their slabs.
pub(super) fn give_back(class: usize, blocks: &[Cell<*mut u8>]) {
    let mut batch = [ptr::null_mut(); BATCH_MAX];
    for part in blocks.chunks(BATCH_MAX) {
        for (to, block) in batch.iter_mut().zip(part) {
            *to = block.get();
        }
        depot::take_all(class, &mut batch[..part.len()], Place::Aged);
    }
}

/// Room for the blocks of a heap, under the lock of purges. `None`: no memory.
fn room() -> Option<&'static [Cell<*mut u8>]> {
    let slots = bin_slots(Profile::Speed.numbers());
    let mut room = BLOCKS.load(Ordering::Relaxed);
    if room.is_null() {
        room = META.allocate(slots * size_of::<*mut u8>())?.cast();
        BLOCKS.store(room, Ordering::Relaxed);
    }
    // SAFETY: as many zeroed words, never unmapped, used under the lock alone.
    Some(unsafe { core::slice::from_raw_parts(room.cast::<Cell<*mut u8>>(), slots) })
}
