//! A thread's heap: a bin for each class, last in, first out; its fast paths touch nothing shared.
//!
//! ```text
//!   tops[class] ───────────────┐                     limits[class]
//!                              ▼                           ▼
//!   slots …  │ null │ p │ p │ p │   │   │   │   │   │   │   │ null │ … of the next class
//!              bottom: empty          room
//! ```
//! To allocate is to load the top slot and step down; the null at the bottom says that the bin is
//! empty, so one load answers both. To free is to compare with the limit and step up. The slots are
//! an array, not links in the blocks: a block that is freed is not touched, and what a program does
//! to it afterwards harms no books.
//!
//! Invariant: slots from the bottom to `tops` hold free blocks of the class, but for `hollow` of them above the bottom,
//! which are null: `sweep` took their blocks while the owner slept. Only the owner and `sweep` write slots; other
//! threads may read `tops`, for statistics. A thread that moves more than one block has the heap's lock. Heaps are
//! never unmapped: when its thread ends a heap's bins go to the depots, and the next thread gets it.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, compiler_fence};

use crate::heap_profile::Sampler;
use crate::meta::META;
use crate::profile::{self, Numbers, Profile};
use crate::size_class::{CLASS_OF_GRANULES, CLASSES, GRANULE_BYTES, GRANULES, TABLE_BYTES_MAX};
use crate::sync::{AtomicPtr, Lock};

mod batches;
pub(crate) mod sweep;
pub(crate) mod threads;

/// Blocks that a bin gets the first time; each further batch is twice as large, up to half the bin.
const FIRST_BATCH: u16 = 2;

/// A slot of a bin; null: without a block.
type Slot = AtomicPtr<u8>;

/// The heap of a thread without one: its bins are empty and full at once.
pub(crate) static EMPTY: Heap = Heap::empty();
/// The slot of such bins; never written.
static NO_SLOT: Slot = AtomicPtr::new(ptr::null_mut());

/// A thread's bins.
#[repr(C, align(64))]
pub(crate) struct Heap {
    tops: [AtomicPtr<Slot>; CLASSES],
    limits: [AtomicPtr<Slot>; CLASSES],
    classes: [u8; GRANULES],
    /// Set while the owner takes a block out of a bin of the larger classes.
    is_popping: AtomicBool,
    /// Slots above the bottom that are null.
    hollow: [AtomicU8; CLASSES],
    /// Held while more than one block is moved.
    lock: Lock,
    /// State at the last look of `sweep`.
    watch: Cell<Watch>,
    bottoms: [Cell<*mut Slot>; CLASSES],
    batches: [Cell<u16>; CLASSES],
    profile: Cell<Profile>,
    /// The sampler of this heap, or the one that this heap is a part of; see `heap_profile`.
    pub sampler: Cell<Option<&'static Sampler>>,
    /// The shard whose depots fill its bins.
    shard: Cell<usize>,
    has_thread: AtomicBool,
    thread: AtomicU32,
    /// The next one in the list of all heaps ever made.
    next: AtomicPtr<Heap>,
    /// The next one in the list of heaps without a thread.
    next_free: Cell<Option<&'static Heap>>,
}

/// A heap at the last look.
#[derive(Clone, Copy)]
struct Watch {
    /// The tops of all bins, combined to one number.
    tops: usize,
    /// Time at which a look last found them changed.
    since: u32,
    /// True if its thread does not exist in this process: the copy of a fork may have a top without its block.
    is_copy: bool,
    /// The same, and blocks were being moved at the time of the fork.
    is_lost: bool,
}

impl Watch {
    pub const fn new() -> Self {
        Self {
            tops: 0,
            since: 0,
            is_copy: false,
            is_lost: false,
        }
    }
}

// SAFETY: cells are touched by the owner, or under `HEAPS`' lock while there is none.
unsafe impl Sync for Heap {}

impl Heap {
    /// Bins that are empty and full at once.
    pub const fn empty() -> Self {
        Self {
            tops: [const { AtomicPtr::new((&raw const NO_SLOT).cast_mut()) }; CLASSES],
            limits: [const { AtomicPtr::new((&raw const NO_SLOT).cast_mut()) }; CLASSES],
            classes: [0; GRANULES],
            is_popping: AtomicBool::new(false),
            hollow: [const { AtomicU8::new(0) }; CLASSES],
            lock: Lock::new(),
            watch: Cell::new(Watch::new()),
            bottoms: [const { Cell::new((&raw const NO_SLOT).cast_mut()) }; CLASSES],
            batches: [const { Cell::new(FIRST_BATCH) }; CLASSES],
            profile: Cell::new(Profile::Balanced),
            sampler: Cell::new(None),
            shard: Cell::new(0),
            has_thread: AtomicBool::new(false),
            thread: AtomicU32::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            next_free: Cell::new(None),
        }
    }

    /// The class of a request of at most [`TABLE_BYTES_MAX`] bytes.
    #[inline(always)]
    pub fn class_of(&self, bytes: usize) -> usize {
        debug_assert!(bytes <= TABLE_BYTES_MAX);
        let granules = bytes.div_ceil(GRANULE_BYTES);
        // SAFETY: the table has an entry for each number of granules up to the largest, which the caller has made sure
        // of. (A checked access is 1 of 16 instructions.)
        usize::from(unsafe { *self.classes.get_unchecked(granules) })
    }

    /// Takes a block out of a bin. Null: the bin is empty.
    #[inline(always)]
    pub fn pop(&self, class: usize) -> *mut u8 {
        debug_assert!(class < CLASSES);
        // SAFETY: classes come from our tables, all of whose entries are below `CLASSES`.
        let top_of = unsafe { self.tops.get_unchecked(class) };
        let top = top_of.load(Ordering::Relaxed);
        // SAFETY: a top is a slot of this heap, or the static null.
        let block = unsafe { &*top }.load(Ordering::Relaxed);
        if !block.is_null() {
            // SAFETY: not null, so not the bottom: there is a slot below.
            top_of.store(unsafe { top.sub(1) }, Ordering::Relaxed);
        }
        block
    }

    /// The same as [`Heap::pop`], visible to `sweep` while it is under way: so no block of the larger classes has to
    /// stay in the bin of a thread that sleeps.
    #[inline(always)]
    pub fn pop_announced(&self, class: usize) -> *mut u8 {
        self.is_popping.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let block = self.pop(class);
        self.is_popping.store(false, Ordering::Release);
        block
    }

    /// Puts a block into a bin. False: the bin is full.
    #[inline(always)]
    pub fn push(&self, class: usize, block: *mut u8) -> bool {
        debug_assert!(class < CLASSES);
        // SAFETY: as in `pop`.
        let top_of = unsafe { self.tops.get_unchecked(class) };
        // SAFETY: as in `pop`.
        let limit = unsafe { self.limits.get_unchecked(class) }.load(Ordering::Relaxed);
        let top = top_of.load(Ordering::Relaxed);
        if top == limit {
            return false;
        }
        // SAFETY: below the limit there is a slot above the top, of this heap alone.
        let above = unsafe { top.add(1) };
        // SAFETY: as above; the static heap's limit is its top.
        unsafe { &*above }.store(block, Ordering::Relaxed);
        top_of.store(above, Ordering::Relaxed);
        true
    }

    /// A slot of a bin: 0 is the one above the bottom, and `index` is below the bin's capacity.
    fn slot(&self, class: usize, index: usize) -> &Slot {
        debug_assert!(index < self.capacity(class));
        // SAFETY: as many slots as the capacity lie above the bottom.
        unsafe { &*self.bottoms[class % CLASSES].get().add(1 + index) }
    }

    /// Blocks in a bin. Approximate for another thread's heap.
    pub fn held(&self, class: usize) -> usize {
        let hollow = self.hollow[class % CLASSES].load(Ordering::Relaxed);
        self.height(class).saturating_sub(usize::from(hollow))
    }

    /// Slots from the bottom to the top, null ones included. Approximate for another thread's heap.
    fn height(&self, class: usize) -> usize {
        let top = self.tops[class % CLASSES].load(Ordering::Relaxed);
        let bottom = self.bottoms[class % CLASSES].get();
        top.addr().saturating_sub(bottom.addr()) / size_of::<Slot>()
    }

    fn capacity(&self, class: usize) -> usize {
        let limit = self.limits[class % CLASSES].load(Ordering::Relaxed);
        (limit.addr() - self.bottoms[class % CLASSES].get().addr()) / size_of::<Slot>()
    }

    /// A new heap with bins as the profile wants them. `None`: no memory.
    fn new(profile: Profile) -> Option<&'static Self> {
        let numbers = profile.numbers();
        let slots = profile::bin_slots(numbers);
        let record = META.allocate(size_of::<Self>() + slots * size_of::<Slot>())?;
        let heap = record.cast::<Self>();
        // SAFETY: a fresh record, large enough, at a cache line.
        unsafe { heap.write(Self::empty()) };
        // SAFETY: the slots begin behind the heap, which is a multiple of 64 bytes long.
        let first_slot = unsafe { heap.add(1) }.cast::<Slot>();
        // SAFETY: no other thread knows of it yet.
        unsafe { (*heap).classes = CLASS_OF_GRANULES };
        // SAFETY: initialized above, never unmapped.
        let heap = unsafe { &*heap };
        heap.profile.set(profile);
        heap.lay_out(numbers, first_slot);
        Some(heap)
    }

    fn lay_out(&self, numbers: &Numbers, first_slot: *mut Slot) {
        let mut bottom = first_slot;
        for class in 1..CLASSES {
            let capacity = numbers.bin_capacity(class);
            // SAFETY: `bin_slots` counted `capacity` and the bottom for each class.
            let limit = unsafe { bottom.add(capacity) };
            self.bottoms[class].set(bottom);
            self.tops[class].store(bottom, Ordering::Relaxed);
            self.limits[class].store(limit, Ordering::Relaxed);
            // SAFETY: as above; the last one ends where the record does.
            bottom = unsafe { limit.add(1) };
        }
    }
}

#[cfg(all(loom, test))]
mod modeled;
