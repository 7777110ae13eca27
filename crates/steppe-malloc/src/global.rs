//! The allocator of Rust programs.

use core::alloc::{GlobalAlloc, Layout};

use crate::raw;

/// The allocator as a `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SteppeMalloc;

// SAFETY: blocks have at least the size and alignment asked for and no other owner until they are
// given back; nothing here unwinds.
unsafe impl GlobalAlloc for SteppeMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= raw::ALIGN {
            raw::allocate(layout.size())
        } else {
            raw::allocate_aligned(layout.align(), layout.size())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: promised by the caller.
        unsafe { raw::free(block) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= raw::ALIGN {
            return raw::allocate_zeroed(layout.size());
        }
        let block = raw::allocate_aligned(layout.align(), layout.size());
        if !block.is_null() {
            // SAFETY: just handed out, with as many bytes.
            unsafe { core::ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= raw::ALIGN {
            // SAFETY: promised by the caller.
            return unsafe { raw::reallocate(block, new_size) };
        }
        let new = raw::allocate_aligned(layout.align(), new_size);
        if !new.is_null() {
            let bytes = layout.size().min(new_size);
            // SAFETY: both blocks have as many bytes, and the new one is this call's alone.
            unsafe { core::ptr::copy_nonoverlapping(block, new, bytes) };
            // SAFETY: promised by the caller.
            unsafe { raw::free(block) };
        }
        new
    }
}
