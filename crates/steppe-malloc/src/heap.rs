//! A thread's heap: a bin for each class, last in, first out, and nothing shared on the way.
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
//! Invariant: slots from the bottom to `tops` hold free blocks of the class. Only the owner touches
//! slots; others may read `tops`, for statistics. Heaps are never unmapped: when its thread ends a
//! heap's bins go to the depots, and the next thread gets it.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::depot::{self, Place};
use crate::heap_profile::{self, Sampler};
use crate::meta::META;
use crate::profile::{self, Numbers, Profile};
use crate::size_class::{CLASS_OF_GRANULES, CLASSES, GRANULE_BYTES, GRANULES, TABLE_BYTES_MAX};
use crate::sync::Lock;
use crate::{sys, tls};

/// Blocks that a bin gets the first time; each further batch is twice as large, up to half the bin.
const FIRST_BATCH: u16 = 2;
/// Blocks that a thread gives back before it gets a heap for that.
const FREES_WITHOUT_HEAP: usize = 32;

type Slot = *mut u8;

/// What a thread without a heap points to: bins that are empty and full at once.
pub(crate) static EMPTY: Heap = Heap::empty();
static NO_SLOT: NoSlot = NoSlot(ptr::null_mut());

struct NoSlot(Slot);
// SAFETY: always null, never written.
unsafe impl Sync for NoSlot {}

/// A thread's bins.
#[repr(C, align(64))]
pub(crate) struct Heap {
    tops: [AtomicPtr<Slot>; CLASSES],
    limits: [AtomicPtr<Slot>; CLASSES],
    classes: [u8; GRANULES],
    bottoms: [Cell<*mut Slot>; CLASSES],
    batches: [Cell<u16>; CLASSES],
    profile: Cell<Profile>,
    /// What samples for it, or what this is a part of; see `heap_profile`.
    pub sampler: Cell<Option<&'static Sampler>>,
    /// Which depots its bins are filled from.
    shard: Cell<usize>,
    has_thread: AtomicBool,
    thread: AtomicU32,
    /// All heaps there ever were.
    next: AtomicPtr<Heap>,
    /// The next one that has no thread.
    next_free: Cell<Option<&'static Heap>>,
}

// SAFETY: cells are touched by the owner, or under `HEAPS`' lock while there is none.
unsafe impl Sync for Heap {}

pub(crate) static HEAPS: Heaps = Heaps {
    lock: Lock::new(),
    first: AtomicPtr::new(ptr::null_mut()),
    free: Cell::new(None),
    count: AtomicUsize::new(0),
    key: Cell::new(None),
    frees: Cell::new(None),
};

/// All heaps.
pub(crate) struct Heaps {
    pub lock: Lock,
    first: AtomicPtr<Heap>,
    free: Cell<Option<&'static Heap>>,
    count: AtomicUsize,
    key: Cell<Option<libc::pthread_key_t>>,
    /// Where a thread without a heap counts its frees.
    frees: Cell<Option<libc::pthread_key_t>>,
}

// SAFETY: cells are touched under the lock only (the key is written once, before it is read).
unsafe impl Sync for Heaps {}

/// Figures of a heap.
#[derive(Debug, Clone, Copy)]
pub struct HeapStats {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Bytes of free blocks in its bins.
    pub binned_bytes: usize,
}

impl Heap {
    /// Bins that are empty and full at once.
    pub const fn empty() -> Self {
        Self {
            tops: [const { AtomicPtr::new((&raw const NO_SLOT.0).cast_mut()) }; CLASSES],
            limits: [const { AtomicPtr::new((&raw const NO_SLOT.0).cast_mut()) }; CLASSES],
            classes: [0; GRANULES],
            bottoms: [const { Cell::new((&raw const NO_SLOT.0).cast_mut()) }; CLASSES],
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
        // SAFETY: the table has an entry for each number of granules up to the most, as the caller
        // has made sure of. (A checked access is 1 of 16 instructions.)
        usize::from(unsafe { *self.classes.get_unchecked(granules) })
    }

    /// Takes a block out of a bin. Null: it is empty.
    #[inline(always)]
    pub fn pop(&self, class: usize) -> *mut u8 {
        debug_assert!(class < CLASSES);
        // SAFETY: classes come from our tables, all of whose entries are below `CLASSES`.
        let top_of = unsafe { self.tops.get_unchecked(class) };
        let top = top_of.load(Ordering::Relaxed);
        // SAFETY: a top is a slot of this heap, or the static null.
        let block = unsafe { *top };
        if !block.is_null() {
            // SAFETY: not null, so not the bottom: there is a slot below.
            top_of.store(unsafe { top.sub(1) }, Ordering::Relaxed);
        }
        block
    }

    /// Puts a block into a bin. False: it is full.
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
        unsafe { above.write(block) };
        top_of.store(above, Ordering::Relaxed);
        true
    }

    /// Takes a block out of a bin, which is filled if it is empty. Null: no memory.
    pub fn take(&self, class: usize) -> *mut u8 {
        let block = self.pop(class);
        if block.is_null() {
            return self.refill(class);
        }
        block
    }

    /// Fills an empty bin with a batch, and takes a block out. Null: no memory.
    fn refill(&self, class: usize) -> *mut u8 {
        let batch = usize::from(self.batches[class % CLASSES].get());
        let half = (self.capacity(class) / 2).clamp(1, usize::from(u16::MAX));
        let wanted = batch.min(half);
        let grown = (wanted * 2).min(half);
        self.batches[class % CLASSES].set(u16::try_from(grown).unwrap_or(FIRST_BATCH));
        let shard = self.shard.get();
        depot::of(shard, class).give((shard, class), wanted, |block| {
            self.push(class, block);
        });
        self.pop(class)
    }

    /// Brings the older half of a full bin to its depot, and puts a block in.
    pub fn overflow(&self, class: usize, block: *mut u8) {
        let count = self.capacity(class).div_ceil(2);
        self.flush(class, count, Place::Store);
        self.push(class, block);
    }

    /// Brings the `count` oldest blocks of a bin to its depot.
    fn flush(&self, class: usize, count: usize, place: Place) {
        let bottom = self.bottoms[class % CLASSES].get();
        let held = self.held(class);
        let count = count.min(held);
        if count == 0 {
            return;
        }
        // SAFETY: `count` slots above the bottom are initialized and this thread's.
        let slots = unsafe { core::slice::from_raw_parts_mut(bottom.add(1), count) };
        depot::take_all(class, slots, place);
        // SAFETY: within the same slots; they may overlap.
        unsafe { ptr::copy(bottom.add(1 + count), bottom.add(1), held - count) };
        // SAFETY: `held - count` slots above the bottom are left.
        let top = unsafe { bottom.add(held - count) };
        self.tops[class % CLASSES].store(top, Ordering::Relaxed);
    }

    /// Brings all blocks back to their slabs. Not into stores: the next thread takes what lies
    /// lowest, and twenty thousand short threads need no more pages than twenty.
    pub fn flush_all(&self) {
        for class in 1..CLASSES {
            self.flush(class, usize::MAX, Place::Slabs);
        }
    }

    /// Blocks in a bin. Of another thread's heap: about.
    pub fn held(&self, class: usize) -> usize {
        let top = self.tops[class % CLASSES].load(Ordering::Relaxed);
        top.addr()
            .saturating_sub(self.bottoms[class % CLASSES].get().addr())
            / size_of::<Slot>()
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
        // SAFETY: nobody else knows of it yet.
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

/// The calling thread's heap; it gets one if it has none. `None`: no memory, or the thread is at its
/// end and gave its heap back.
#[cold]
pub(crate) fn attach() -> Option<&'static Heap> {
    if tls::has_heap() {
        let heap = tls::heap();
        return (!is_ended(heap)).then(|| heap_profile::look(heap));
    }
    // Without a key nobody says when a thread ends, and its heap would be lost.
    HEAPS.key.get()?;
    let heap = HEAPS.take()?;
    tls::set_heap(heap);
    // From here on this thread may allocate, and the following does.
    HEAPS.register(heap);
    Some(heap_profile::look(heap))
}

/// Before the first heap: keys of threads.
pub(crate) fn prepare() {
    HEAPS.key.set(sys::thread_key(Some(end_of_thread)));
    HEAPS.frees.set(sys::thread_key(None));
}

/// Counts a block that a thread without a heap gives back. True: it was one of many, and a heap is
/// worth its while. The C library frees a few when a thread is past its destructors, and a heap that it
/// got then would be nobody's for ever.
pub(crate) fn is_one_of_many_frees() -> bool {
    let Some(key) = HEAPS.frees.get() else {
        return false;
    };
    let frees = sys::thread_number(key) + 1;
    sys::set_thread_value(key, ptr::without_provenance(frees));
    frees >= FREES_WITHOUT_HEAP
}

/// A second heap like [`EMPTY`]: of threads that gave theirs back and won't get another.
static ENDED: Heap = Heap::empty();

fn is_ended(heap: &Heap) -> bool {
    ptr::eq(heap, &raw const ENDED)
}

/// The calling thread's heap, if it has one.
pub(crate) fn current() -> Option<&'static Heap> {
    let heap = tls::heap();
    (tls::has_heap() && !is_ended(heap)).then(|| heap_profile::behind(heap))
}

unsafe extern "C" fn end_of_thread(_: *mut c_void) {
    let Some(heap) = current() else { return };
    // What other destructors free after this one goes straight to the depots.
    tls::set_heap(&ENDED);
    sys::keeping_errno(|| {
        heap.flush_all();
        HEAPS.put(heap);
    });
}

impl Heaps {
    fn take(&self) -> Option<&'static Heap> {
        let _guard = self.lock.lock();
        let profile = profile::current();
        let heap = match self.take_free(profile) {
            Some(heap) => heap,
            None => self.add(Heap::new(profile)?),
        };
        for batch in &heap.batches {
            batch.set(FIRST_BATCH);
        }
        heap.has_thread.store(true, Ordering::Relaxed);
        Some(heap)
    }

    /// The heap that was put back last and has this profile's bins.
    fn take_free(&self, profile: Profile) -> Option<&'static Heap> {
        let mut before: Option<&'static Heap> = None;
        let mut next = self.free.get();
        while let Some(heap) = next {
            if heap.profile.get() == profile {
                match before {
                    Some(before) => before.next_free.set(heap.next_free.get()),
                    None => self.free.set(heap.next_free.get()),
                }
                heap.next_free.set(None);
                return Some(heap);
            }
            before = Some(heap);
            next = heap.next_free.get();
        }
        None
    }

    fn add(&self, heap: &'static Heap) -> &'static Heap {
        let shards = match heap.profile.get().numbers().is_sharded {
            true => depot::shards(),
            false => 1,
        };
        heap.shard.set(self.count() % shards);
        heap.next
            .store(self.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.first
            .store(ptr::from_ref(heap).cast_mut(), Ordering::Release);
        self.count.fetch_add(1, Ordering::Relaxed);
        heap
    }

    fn put(&self, heap: &'static Heap) {
        let _guard = self.lock.lock();
        heap.has_thread.store(false, Ordering::Relaxed);
        heap.next_free.set(self.free.replace(Some(heap)));
    }

    fn register(&self, heap: &'static Heap) {
        heap.thread.store(sys::thread_id(), Ordering::Relaxed);
        if let Some(key) = self.key.get() {
            sys::set_thread_value(key, ptr::from_ref(heap).cast());
        }
    }

    /// Heaps there are, with and without a thread.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All heaps.
    pub fn all(&self) -> impl Iterator<Item = &'static Heap> {
        let mut next = self.first.load(Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: null, or a heap: never unmapped.
            let heap = unsafe { next.as_ref::<'static>() }?;
            next = heap.next.load(Ordering::Acquire);
            Some(heap)
        })
    }
}

impl Heap {
    /// Figures, if it has a thread. Read while the thread goes on: about.
    pub fn stats(&self) -> Option<HeapStats> {
        self.has_thread.load(Ordering::Relaxed).then(|| HeapStats {
            thread: self.thread.load(Ordering::Relaxed),
            binned_bytes: (1..CLASSES)
                .map(|class| self.held(class) * crate::size_class::BLOCK_BYTES[class])
                .sum(),
        })
    }
}

#[cfg(all(loom, test))]
mod modeled;
