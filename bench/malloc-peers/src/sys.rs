//! The malloc family of C, each entry one call of rusty_alloc's.

use core::ffi::{c_int, c_void};
use core::ptr;

use rusty_alloc::alloc;

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    alloc::malloc(size).cast()
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    alloc::calloc(count, size).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: C's contract is the same: null, or a live block of this allocator. The crate names
    // this function for exports that do nothing else.
    unsafe { alloc::free_inline(block.cast()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: as for `free`.
    unsafe { alloc::realloc(block.cast(), size).cast() }
}

#[unsafe(no_mangle)]
extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    alloc::malloc_aligned(size, alignment).cast()
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    alloc::malloc_aligned(size, alignment).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(
    block: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    let word = size_of::<*mut c_void>();
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(word) {
        return libc::EINVAL;
    }
    let aligned = alloc::malloc_aligned(size, alignment);
    if aligned.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: POSIX has the caller pass a place for the result.
    unsafe { ptr::write(block, aligned.cast()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: as for `free`.
    unsafe { alloc::usable_size(block.cast()) }
}
