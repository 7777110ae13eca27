//! The C-shaped face: pointers and sizes, null when there is no memory (placeholder).

const HEAD: usize = 4096;

/// At least `size` bytes, aligned to 16; null when there is no memory.
#[must_use]
pub fn allocate(size: usize) -> *mut u8 {
    allocate_aligned(16, size)
}
/// The same, zeroed.
#[must_use]
pub fn allocate_zeroed(size: usize) -> *mut u8 {
    allocate_aligned(16, size)
}
/// At least `size` bytes at a multiple of `align`, a power of two; null when there is no memory.
#[must_use]
pub fn allocate_aligned(align: usize, size: usize) -> *mut u8 {
    let pad = if align > HEAD { align } else { HEAD };
    let Some(len) = size.checked_add(pad + HEAD) else {
        return core::ptr::null_mut();
    };
    // SAFETY: a fresh private mapping.
    unsafe {
        let base = libc::mmap(
            core::ptr::null_mut(),
            len,
            3,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if base == libc::MAP_FAILED {
            return core::ptr::null_mut();
        }
        let at = (base as usize + HEAD).next_multiple_of(pad) as *mut u8;
        at.cast::<usize>().sub(1).write(size);
        at.cast::<usize>().sub(2).write(base as usize);
        at.cast::<usize>().sub(3).write(len);
        at
    }
}
/// Takes a block back; null does nothing.
///
/// # Safety
/// `pointer` is null or came from this module and was not taken back yet.
pub unsafe fn free(pointer: *mut u8) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let words = pointer.cast::<usize>();
        libc::munmap(words.sub(2).read() as *mut _, words.sub(3).read());
    }
}
/// Moves or grows a block to `size` bytes and keeps its content; null when there is no memory, and
/// then the block is as it was. A null `pointer` allocates.
///
/// # Safety
/// As [`free`].
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    let new = allocate(size);
    if !pointer.is_null() && !new.is_null() {
        // SAFETY: as above.
        unsafe {
            let old = usable_size(pointer);
            core::ptr::copy_nonoverlapping(pointer, new, if old < size { old } else { size });
            free(pointer);
        }
    }
    new
}
/// Bytes that may be used at `pointer`; 0 for null or a foreign pointer.
///
/// # Safety
/// As [`free`].
#[must_use]
pub unsafe fn usable_size(pointer: *mut u8) -> usize {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { pointer.cast::<usize>().sub(1).read() }
}
/// Whether the pointer is into memory that this allocator hands out.
#[must_use]
pub fn owns(_pointer: *const u8) -> bool {
    true
}
/// Gives free memory back to the system now. True when any went back.
pub fn trim() -> bool {
    false
}
/// For an event loop that is about to sleep: flushes this thread's bins when they have not been
/// used for a while, and gives back what has decayed. Cheap when there is nothing to do.
pub fn on_idle() {}
