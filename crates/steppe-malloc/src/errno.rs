//! The calling thread's error number.
//!
//! Invariant: `free` must not change it (POSIX.1-2024), so paths that `free` takes run within
//! [`keeping_errno`].

use core::ffi::c_int;

/// The calling thread's error number.
#[must_use]
pub fn errno() -> c_int {
    // SAFETY: points to the thread's own number for as long as it runs.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's error number.
pub fn set_errno(number: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = number }
}

/// Runs `work` and puts `errno` back.
// Always: in a frame of its own, a profile would name it instead of the allocating function.
#[inline(always)]
pub fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}
