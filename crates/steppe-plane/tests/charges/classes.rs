//! An allocator that asks for whole size classes, as the node's does: counted, they are what blocks take.

use std::alloc::{GlobalAlloc, Layout};

/// Wraps an allocator, and rounds what it is asked for up to size classes: multiples of 16 bytes up to 128, four classes
/// to a doubling up to 32 KiB, then pages (`crates/steppe-malloc/src/size_class.rs`).
pub struct Classes<A>(pub A);

/// The largest block of a class.
const SMALL_BYTES_MAX: usize = 32 << 10;

/// The class of a block of `bytes`.
fn class_bytes(bytes: usize) -> usize {
    let step = match bytes {
        0..=128 => 16,
        SMALL_BYTES_MAX.. => 4 << 10,
        _ => (bytes - 1).next_power_of_two() / 8,
    };
    bytes.next_multiple_of(step.max(16))
}

fn class_of(layout: Layout) -> Layout {
    let bytes = class_bytes(layout.size());
    Layout::from_size_align(bytes, layout.align()).unwrap_or(layout)
}

#[expect(
    unsafe_code,
    reason = "the trait is unsafe: an allocator must keep its contract"
)]
// SAFETY: every call is passed on to `A` with a layout that is as large at least, and the same for a block throughout.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Classes<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc`'s contract; a class has a size where the layout has one.
        unsafe { self.0.alloc(class_of(layout)) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` or `realloc` above, with the class of this layout.
        unsafe { self.0.dealloc(pointer, class_of(layout)) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the caller keeps `realloc`'s contract for `size`, and a class overflows nothing that
        // fits an address space.
        unsafe { self.0.realloc(pointer, class_of(layout), class_bytes(size)) }
    }
}
