//! Mappings under Miri: the host's allocator, and writing zeros.

use core::ffi::c_void;
use core::ptr;

use super::PAGE_BYTES;

pub fn map(_hint: usize, bytes: usize) -> Option<*mut u8> {
    map_aligned(bytes, PAGE_BYTES)
}

pub fn map_aligned(bytes: usize, align: usize) -> Option<*mut u8> {
    let mut base = ptr::null_mut::<c_void>();
    // SAFETY: `base` is written only on success.
    let refused = unsafe { libc::posix_memalign(&raw mut base, align, bytes) };
    if refused != 0 {
        return None;
    }
    // SAFETY: just allocated with this size.
    unsafe { ptr::write_bytes(base.cast::<u8>(), 0, bytes) };
    Some(base.cast())
}

pub unsafe fn unmap(base: *mut u8, _bytes: usize) -> bool {
    // SAFETY: from `map_aligned`, whole: nothing is unmapped in parts here.
    unsafe { libc::free(base.cast()) };
    true
}

pub unsafe fn purge(base: *mut u8, bytes: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { ptr::write_bytes(base, 0, bytes) };
    true
}

pub fn advise_huge_pages(_base: *mut u8, _bytes: usize, _wanted: bool) {}

#[cfg(feature = "hardened")]
pub unsafe fn protect(_base: *mut u8, _bytes: usize, _accessible: bool) {}

pub unsafe fn resize(_base: *mut u8, _old: usize, _new: usize) -> bool {
    false
}

pub unsafe fn relocate(_base: *mut u8, _old: usize, _new: usize, _target: usize) -> bool {
    false
}
