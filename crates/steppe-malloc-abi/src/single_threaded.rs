//! System calls that a process of several threads is refused: the library's own thread ends before them.
//!
//! `unshare(CLONE_NEWUSER)` and `setns` fail with `EINVAL` while a second thread runs (unshare(2), setns(2)), and a
//! program of one thread does not know of ours.

use core::ffi::c_int;

use steppe_malloc::raw;

use crate::errno;

/// Times that a refused call is made again: the kernel counts a thread that has been joined for a moment.
const RETRIES_MAX: usize = 1_000;

/// # Safety
/// As the function of the C library (unshare(2)).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the caller promises what the call asks for.
    call(|| unsafe { libc::syscall(libc::SYS_unshare, flags) })
}

/// # Safety
/// As the function of the C library (setns(2)).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: the caller promises what the call asks for.
    call(|| unsafe { libc::syscall(libc::SYS_setns, descriptor, kind) })
}

fn call(call: impl Fn() -> libc::c_long) -> c_int {
    let retries = if raw::stop_thread() { RETRIES_MAX } else { 0 };
    for _ in 0..retries {
        if call() == 0 {
            return 0;
        }
        if errno::read() != libc::EINVAL {
            return -1;
        }
        // SAFETY: cannot fail.
        unsafe { libc::sched_yield() };
    }
    if call() == 0 { 0 } else { -1 }
}
