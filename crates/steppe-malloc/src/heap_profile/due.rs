//! The time for a further heap profile: on request, and in intervals.
//!
//! Invariant: a request is safe in a signal handler, and each request, and each interval that has
//! passed, is taken by one thread.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set once requests or intervals are possible.
static IS_SET: AtomicBool = AtomicBool::new(false);
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);
/// The interval in milliseconds; 0: no intervals.
static INTERVAL_MS: AtomicU32 = AtomicU32::new(0);
/// End of the interval, in milliseconds.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Longest sleep of the thread that writes profiles: a request in a signal handler wakes no thread,
/// and may come between its look and its sleep.
const LOOK_MS: u32 = 1_000;
/// The longest interval: times are told apart modulo 2^32 milliseconds.
pub const INTERVAL_S_MAX: u32 = 2_000_000;

/// Allows requests from now on.
pub fn expect_requests() {
    IS_SET.store(true, Ordering::Relaxed);
}

/// Starts intervals of `seconds`, 1 to [`INTERVAL_S_MAX`].
pub fn set_interval(seconds: u32, now: u32) {
    INTERVAL_MS.store(seconds * 1_000, Ordering::Relaxed);
    NEXT.store(now.wrapping_add(seconds * 1_000), Ordering::Relaxed);
    IS_SET.store(true, Ordering::Relaxed);
}

/// True if a profile may ever be due.
#[inline]
pub fn is_set() -> bool {
    IS_SET.load(Ordering::Relaxed)
}

/// Requests a profile. Safe in a signal handler.
pub fn request() {
    IS_REQUESTED.store(true, Ordering::SeqCst);
}

/// Takes the request or the interval that is due at `now`, in milliseconds. False: nothing is due.
pub fn take(now: u32) -> bool {
    // A read first: the cache line is not taken from other threads for nothing.
    let is_requested =
        IS_REQUESTED.load(Ordering::Relaxed) && IS_REQUESTED.swap(false, Ordering::SeqCst);
    is_requested | take_interval(now)
}

fn take_interval(now: u32) -> bool {
    let interval = INTERVAL_MS.load(Ordering::Relaxed);
    let next = NEXT.load(Ordering::Relaxed);
    if interval == 0 || now.wrapping_sub(next) > u32::MAX / 2 {
        return false;
    }
    // Counted from now: missed intervals are not made up for.
    let after = now.wrapping_add(interval);
    let claim = NEXT.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed);
    claim.is_ok()
}

/// The longest sleep of a thread that writes profiles, in milliseconds, if it would sleep for `wait`.
pub fn sleep_ms(wait: Option<u32>) -> Option<u32> {
    match is_set() {
        true => Some(wait.unwrap_or(LOOK_MS).min(LOOK_MS)),
        false => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_and_each_interval_is_taken_once() {
        assert_eq!(sleep_ms(None), None);
        assert!(!take(5));
        request();
        assert!(take(5));
        assert!(!take(5));
        // The clock goes round within the interval.
        let start = u32::MAX - 500;
        set_interval(1, start);
        assert!(!take(start.wrapping_add(999)));
        assert!(take(start.wrapping_add(1_000)));
        assert!(!take(start.wrapping_add(1_001)));
        assert!(take(start.wrapping_add(9_000)));
        assert!(!take(start.wrapping_add(9_999)));
        assert_eq!(sleep_ms(None), Some(LOOK_MS));
        assert_eq!(sleep_ms(Some(7)), Some(7));
    }
}
