//! The calling thread's `errno`.

/// The value of `errno`.
pub fn read() -> i32 {
    // SAFETY: the C library returns the address of this thread's `errno`, valid while it runs.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
pub fn set(value: i32) {
    // SAFETY: as in `read`; no other thread writes to this thread's `errno`.
    unsafe { *libc::__errno_location() = value }
}
