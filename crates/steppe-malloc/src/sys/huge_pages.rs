//! Transparent huge pages of the kernel (`Documentation/admin-guide/mm/transhuge.rst`).

use core::ffi::c_void;

use crate::errno::keeping_errno;

/// The usual size of a huge page: x86-64, and aarch64 with pages of 4 KiB.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Splits the huge pages that lie partly in a range, so that a purge of the range gives that part back. The range's
/// content may be lost.
///
/// `MADV_FREE` has this side effect (madvise(2)): the kernel can't free a part of a page later. Whole ones stay whole.
///
/// # Safety
/// The pages are mapped and their content is not used again.
pub unsafe fn split_huge_pages(base: *mut u8, bytes: usize) {
    let is_whole =
        base.addr().is_multiple_of(HUGE_PAGE_BYTES) && bytes.is_multiple_of(HUGE_PAGE_BYTES);
    if cfg!(miri) || is_whole {
        return;
    }
    let base = base.cast::<c_void>();
    // SAFETY: promised by the caller. Refused, nothing is split, and the purge works as it would have.
    keeping_errno(|| unsafe { libc::madvise(base, bytes, libc::MADV_FREE) });
}
