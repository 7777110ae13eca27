//! The system's allocator, with a count of allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The system's allocator, counted.
struct Counted;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: every call goes on to `System`, unchanged; counting touches nothing that is allocated.
#[expect(unsafe_code, reason = "the trait is unsafe to implement")]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller keeps `realloc`'s contract, and `alloc` above got it from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and `alloc` above got it from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations and reallocations of the process so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.load(SeqCst)
}
