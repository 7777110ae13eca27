//! The system's allocator, with a count of the bytes that are allocated and not freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
struct Counted;

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: every call goes on to `System`, unchanged; counting touches nothing that is allocated.
#[expect(unsafe_code, reason = "the trait is unsafe to implement")]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same one.
        unsafe { System.alloc(layout) }
    }

    // Not by a new block and a copy: how a block shrinks in its place is what some programs show.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE_BYTES.fetch_add(size as u64, Ordering::Relaxed);
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s contract, and `alloc` above got it from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract, and `alloc` above got it from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocated and not freed, as it was asked for: without what the allocator adds.
pub fn live_bytes() -> u64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}
