//! A general-purpose allocator (placeholder for the first commit: a mapping a block).
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]
#![no_std]

pub mod profile;
pub mod raw;
pub mod stats;

use core::alloc::{GlobalAlloc, Layout};

/// The allocator as a `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SteppeMalloc;

// SAFETY: placeholder.
unsafe impl GlobalAlloc for SteppeMalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        raw::allocate_aligned(layout.align(), layout.size())
    }
    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        // SAFETY: ours.
        unsafe { raw::free(pointer) }
    }
}
