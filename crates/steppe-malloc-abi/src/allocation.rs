//! The functions of `<stdlib.h>` and `<malloc.h>` that hand out memory and take it back.
//!
//! C17 7.22.3, C23 7.24.3 (`free_sized`), POSIX.1-2017; where these leave a choice, glibc 2.36:
//! `realloc(pointer, 0)` frees and returns null, and a size above `PTRDIFF_MAX` is refused.
//!
//! Functions that other allocators and tools (valgrind) often lack call the basic ones by the dynamic symbol: a block
//! then comes from the same allocator that its program frees it by.
//!
//! Invariant: null comes with `errno` = `ENOMEM` or `EINVAL`, and a function that does not return an error through
//! `errno` leaves it as it was.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use steppe_malloc::raw;

use crate::errno;
use crate::jump::jump_to;

/// `PTRDIFF_MAX`: a larger block could not be walked by pointers.
const SIZE_MAX: usize = isize::MAX.unsigned_abs();

/// C17 7.22.3.4.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    // `raw` refuses a size above `PTRDIFF_MAX` and sets `errno`: a check here would cost a frame.
    raw::allocate(size).cast()
}

/// C17 7.22.3.3.
///
/// # Safety
/// `pointer` is null or a live block of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: the caller's promise is the same.
    unsafe { raw::free(pointer.cast()) }
}

/// C17 7.22.3.2; a product that overflows is refused.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match product(count, size) {
        Some(bytes) => or_enomem(raw::allocate_zeroed(bytes)),
        None => refused(libc::ENOMEM),
    }
}

/// C17 7.22.3.5. A size of 0 frees the block and returns null.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    if size == 0 && !pointer.is_null() {
        // SAFETY: the caller's promise is the same.
        unsafe { raw::free(pointer.cast()) };
        return null_mut();
    }
    if size > SIZE_MAX {
        return refused(libc::ENOMEM);
    }
    // SAFETY: the caller's promise is the same.
    or_enomem(unsafe { raw::reallocate(pointer.cast(), size) })
}

/// `realloc` of a product; one that overflows is refused and leaves the block alone. POSIX.1-2024.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    pointer: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match product(count, size) {
        // SAFETY: the caller's promise is the same.
        Some(bytes) => unsafe { realloc_in_force(pointer, bytes) },
        None => refused(libc::ENOMEM),
    }
}

/// C17 7.22.3.1. An alignment that is no power of two is `EINVAL`, as of glibc 2.38; the size need
/// not be a multiple of it.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return refused(libc::EINVAL);
    }
    or_enomem(aligned(align, size))
}

/// POSIX.1-2017: returns the error and leaves `errno` and, with an error, `*slot` alone.
///
/// # Safety
/// `slot` is valid for a write of a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    slot: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return libc::EINVAL;
    }
    let before = errno::read();
    let block = aligned(align, size);
    if block.is_null() {
        errno::set(before);
        return libc::ENOMEM;
    }
    // SAFETY: the caller promises that `slot` can be written.
    unsafe { slot.write(block.cast()) };
    0
}

/// `aligned_alloc` of the BSDs. Like glibc's, it rounds the alignment up to a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => or_enomem(aligned(align, size)),
        None => refused(libc::EINVAL),
    }
}

/// A block that begins with a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    or_enomem(aligned(page_bytes(), size))
}

/// A block of whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = page_bytes();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => memalign_in_force(page, bytes),
        None => refused(libc::ENOMEM),
    }
}

/// Bytes of the block that may be used: at least the requested ones.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(pointer: *mut c_void) -> usize {
    // SAFETY: the caller's promise is the same.
    unsafe { raw::usable_size(pointer.cast()) }
}

/// C23 7.24.3.4. The size is the caller's claim, and not needed.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn free_sized(pointer: *mut c_void, size: usize) {
    jump_to!("free")
}

/// C23 7.24.3.5. Neither claim is needed.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn free_aligned_sized(pointer: *mut c_void, align: usize, size: usize) {
    jump_to!("free")
}

/// # Safety
/// As [`realloc`].
#[unsafe(naked)]
unsafe extern "C" fn realloc_in_force(pointer: *mut c_void, size: usize) -> *mut c_void {
    jump_to!("realloc")
}

#[unsafe(naked)]
extern "C" fn memalign_in_force(align: usize, size: usize) -> *mut c_void {
    jump_to!("memalign")
}

/// Allocates a block, null when there is no memory for it. `align` is a power of two.
pub fn aligned(align: usize, size: usize) -> *mut u8 {
    // The sum bounds the bytes of any layout of the block.
    let fits = size <= SIZE_MAX && align <= SIZE_MAX - size;
    if fits {
        raw::allocate_aligned(align, size)
    } else {
        null_mut()
    }
}

fn product(count: usize, size: usize) -> Option<usize> {
    count.checked_mul(size).filter(|bytes| *bytes <= SIZE_MAX)
}

fn page_bytes() -> usize {
    // SAFETY: `sysconf` has no precondition.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

fn or_enomem(block: *mut u8) -> *mut c_void {
    if block.is_null() {
        return refused(libc::ENOMEM);
    }
    block.cast()
}

#[cold]
fn refused(error: c_int) -> *mut c_void {
    errno::set(error);
    null_mut()
}
