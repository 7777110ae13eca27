//! Memory for the allocator's own records: taken from the system, zeroed, never given back.
//!
//! Invariant: a record stays readable for as long as the process lives, so a pointer to one may
//! always be followed. Records are bounded by peaks: of threads (heaps), of large blocks that lived
//! at once (`large`), of chunks outside the window (`chunk_map`).

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Lock;
use crate::sys;

/// Bytes that are mapped at a time.
const REGION_BYTES: usize = 64 << 10;
/// Records start at cache lines: two threads' never share one.
const LINE_BYTES: usize = 64;

pub(crate) static META: Meta = Meta {
    lock: Lock::new(),
    next: Cell::new(ptr::null_mut()),
    left_bytes: Cell::new(0),
    mapped_bytes: AtomicUsize::new(0),
};

pub(crate) struct Meta {
    pub lock: Lock,
    next: Cell<*mut u8>,
    left_bytes: Cell<usize>,
    mapped_bytes: AtomicUsize,
}

// SAFETY: the cells are touched under the lock only.
unsafe impl Sync for Meta {}

impl Meta {
    /// Zeroed memory for a record, at a cache line. `None`: no memory.
    pub fn allocate(&self, bytes: usize) -> Option<*mut u8> {
        let bytes = bytes.next_multiple_of(LINE_BYTES);
        let _guard = self.lock.lock();
        if bytes > self.left_bytes.get() {
            let region = bytes.next_multiple_of(REGION_BYTES);
            self.next.set(sys::map(0, region)?);
            self.left_bytes.set(region);
            self.mapped_bytes.fetch_add(region, Ordering::Relaxed);
        }
        let record = self.next.get();
        // SAFETY: `bytes` are left in the region behind `record`.
        self.next.set(unsafe { record.add(bytes) });
        self.left_bytes.set(self.left_bytes.get() - bytes);
        Some(record)
    }

    /// Bytes taken from the system for records.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped_bytes.load(Ordering::Relaxed)
    }
}
