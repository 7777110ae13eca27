//! Heaps and threads: each thread gets one, and gives it back when it ends.
//!
//! Invariant: a heap that has a thread is in no list of free ones; the lock guards those lists.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::{FIRST_BATCH, Heap, Watch};
use crate::depot;
use crate::heap_profile;
use crate::profile::{self, Profile};
use crate::size_class::{BLOCK_BYTES, CLASSES};
use crate::sync::Lock;
use crate::{sys, tls};

/// Blocks that a thread gives back before it gets a heap for that.
const FREES_WITHOUT_HEAP: usize = 32;

pub(crate) static HEAPS: Heaps = Heaps {
    lock: Lock::new(),
    first: AtomicPtr::new(ptr::null_mut()),
    free: Cell::new(None),
    count: AtomicUsize::new(0),
    key: Cell::new(None),
    frees: Cell::new(None),
};

/// All heaps, with and without a thread.
pub(crate) struct Heaps {
    pub lock: Lock,
    first: AtomicPtr<Heap>,
    free: Cell<Option<&'static Heap>>,
    count: AtomicUsize,
    key: Cell<Option<libc::pthread_key_t>>,
    /// The key of the counter of frees by a thread without a heap.
    frees: Cell<Option<libc::pthread_key_t>>,
}

// SAFETY: cells are touched under the lock only (the key is written once, before it is read).
unsafe impl Sync for Heaps {}

/// Statistics of a heap.
#[derive(Debug, Clone, Copy)]
pub struct HeapStats {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Bytes of free blocks in its bins.
    pub binned_bytes: usize,
}

/// The calling thread's heap; a thread without one gets one. `None`: no memory, or the thread is at
/// its end and gave its heap back.
#[cold]
pub(crate) fn attach() -> Option<&'static Heap> {
    if tls::has_heap() {
        let heap = tls::heap();
        return (!is_ended(heap)).then(|| heap_profile::look(heap));
    }
    // Without a key no destructor runs when a thread ends, and its heap would be lost.
    HEAPS.key.get()?;
    let heap = HEAPS.take()?;
    tls::set_heap(heap);
    // From here on this thread may allocate, and the following does.
    HEAPS.register(heap);
    Some(heap_profile::look(heap))
}

/// Makes the keys of threads, before the first heap.
pub(crate) fn prepare() {
    HEAPS.key.set(sys::thread_key(Some(end_of_thread)));
    HEAPS.frees.set(sys::thread_key(None));
}

/// Counts a block that a thread without a heap gives back. True: so many that a heap is worth its
/// cost. The C library frees a few when a thread is past its destructors, and a heap that it got
/// then would never be given back.
pub(crate) fn is_one_of_many_frees() -> bool {
    let Some(key) = HEAPS.frees.get() else {
        return false;
    };
    let frees = sys::thread_number(key) + 1;
    sys::set_thread_value(key, ptr::without_provenance(frees));
    frees >= FREES_WITHOUT_HEAP
}

/// A second heap like [`EMPTY`]: for threads that gave theirs back and won't get another.
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
    // Destructors that run after this one free straight to the depots.
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
        heap.watch.set(Watch::new());
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

    /// All heaps, with and without a thread.
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
    /// Statistics, if it has a thread. Approximate: the thread goes on while they are read.
    pub fn stats(&self) -> Option<HeapStats> {
        self.has_thread.load(Ordering::Relaxed).then(|| HeapStats {
            thread: self.thread.load(Ordering::Relaxed),
            binned_bytes: (1..CLASSES)
                .map(|class| self.held(class) * BLOCK_BYTES[class])
                .sum(),
        })
    }
}

#[cfg(all(loom, test))]
mod modeled;
