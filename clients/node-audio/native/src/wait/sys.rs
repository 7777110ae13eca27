//! Sleeping on a word: a futex on Linux, else short sleeps.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "libc has no safe futex")
)]

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until the word is woken, or the time has passed; not at all if it is not `seen`.
#[cfg(target_os = "linux")]
pub(super) fn sleep_while_equal(word: &AtomicU32, seen: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(0),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is aligned and lives through the call, and so does the time. What the call
    // says is of no matter: the caller looks at the word again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            seen,
            &raw const timeout,
        )
    };
}

/// Wakes all threads that sleep on the word.
#[cfg(target_os = "linux")]
pub(super) fn wake_all(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is aligned and lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
}

/// Length of a reader's sleep on systems without a futex.
#[cfg(not(target_os = "linux"))]
const SLICE: Duration = Duration::from_millis(1);

/// Sleeps in slices until the word is not `seen`, or the time has passed.
#[cfg(not(target_os = "linux"))]
pub(super) fn sleep_while_equal(word: &AtomicU32, seen: u32, timeout: Duration) {
    let until = std::time::Instant::now() + timeout;
    while word.load(std::sync::atomic::Ordering::SeqCst) == seen
        && std::time::Instant::now() < until
    {
        std::thread::sleep(SLICE);
    }
}

/// Does nothing: no reader sleeps longer than a slice.
#[cfg(not(target_os = "linux"))]
pub(super) fn wake_all(_word: &AtomicU32) {}
