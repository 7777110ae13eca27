//! System calls that a process of several threads is refused: the library's own thread ends before them.
//!
//! `unshare(CLONE_NEWUSER)` and `setns` fail with `EINVAL` while a second thread runs (unshare(2), setns(2)), and a
//! single-threaded program does not know of the library's thread.

use core::ffi::c_int;

use steppe_malloc::raw;

use crate::errno;

/// Flags that `unshare` refuses to a process of several threads; the others are for one thread (unshare(2)).
const OF_ONE_THREAD: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;

/// Retries of a refused call, at most: the kernel counts a thread that has been joined for a moment.
const RETRIES_MAX: usize = 1_000;

/// # Safety
/// As the function of the C library (unshare(2)).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the caller keeps the contract of unshare(2).
    let unshare = || unsafe { libc::syscall(libc::SYS_unshare, flags) };
    match flags & OF_ONE_THREAD {
        0 => result(unshare()),
        _ => alone(unshare),
    }
}

/// # Safety
/// As the function of the C library (setns(2)).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: the caller keeps the contract of setns(2).
    alone(|| unsafe { libc::syscall(libc::SYS_setns, descriptor, kind) })
}

/// Makes a call without the library's thread.
fn alone(call: impl Fn() -> libc::c_long) -> c_int {
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
    result(call())
}

fn result(returned: libc::c_long) -> c_int {
    if returned == 0 { 0 } else { -1 }
}
