//! The deadline of the next look at decayed memory: set when memory comes back, awaited by `decay`.
//!
//! Invariant: 0 is no deadline; every other has its lowest bit set.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::profile;
use crate::sync::AtomicU32;
use crate::sys;

/// The time of the next look, in milliseconds with the lowest bit set; 0: nothing waits.
pub(crate) static DEADLINE: AtomicU32 = AtomicU32::new(0);
/// The state of the thread that waits for the deadline.
pub(crate) static THREAD: AtomicU8 = AtomicU8::new(NOT_STARTED);
/// The thread sleeps for a time while this is 0.
pub(crate) static SLEEP: AtomicU32 = AtomicU32::new(0);

pub(crate) const NOT_STARTED: u8 = 0;
pub(crate) const STARTED: u8 = 1;
/// Not wanted, or not possible.
pub(crate) const NEVER: u8 = 2;

/// Since when something has been free.
#[derive(Clone, Copy)]
pub(crate) enum Age {
    /// In milliseconds.
    Since(u32),
    /// Long enough to go back.
    Past,
}

impl Age {
    /// The time in milliseconds for [`has_passed`].
    pub fn stamp(self) -> u32 {
        match self {
            Self::Since(stamp) => stamp,
            Self::Past => sys::now_ms().wrapping_sub(u32::MAX / 4),
        }
    }
}

/// Notes that memory came back: it decays from now on. The first look comes before it has, to see
/// which threads sleep by the second.
pub(crate) fn note(now: u32) {
    if DEADLINE.load(Ordering::Relaxed) == 0 {
        set(now.wrapping_add(profile::decay_ms() / 2));
    }
}

/// Notes that a thread filled a bin: its blocks go back if the thread then sleeps.
pub(crate) fn note_refill() {
    if is_idle() && has_thread() {
        note(sys::now_ms());
    }
}

/// Sets the deadline if there is none.
pub(crate) fn set(at: u32) {
    // Sequentially consistent, as `start` and `run`: either this sees the thread or it the deadline.
    let was = DEADLINE.compare_exchange(0, at | 1, Ordering::SeqCst, Ordering::SeqCst);
    if was.is_ok() && THREAD.load(Ordering::SeqCst) == STARTED {
        sys::futex_wake(&DEADLINE, 1);
    }
}

/// Has the background thread look at what is due, if it runs. Safe in a signal handler.
pub(crate) fn wake() {
    if THREAD.load(Ordering::SeqCst) == STARTED {
        set(sys::now_ms());
        sys::futex_wake(&SLEEP, 1);
    }
}

/// True while the background thread is to go on.
pub(crate) fn has_thread() -> bool {
    THREAD.load(Ordering::Relaxed) == STARTED
}

/// True while nothing waits: there is no deadline.
pub(crate) fn is_idle() -> bool {
    DEADLINE.load(Ordering::Relaxed) == 0
}

/// True if `decay_ms` have passed since a stamp. Stamps may be later than `now`, which is read once
/// a look: the difference then is almost 2^32.
pub(crate) fn has_passed(stamp: u32, now: u32, decay_ms: u32) -> bool {
    let age = now.wrapping_sub(stamp);
    decay_ms == 0 || (decay_ms..u32::MAX / 2).contains(&age)
}

/// True if `now` is at or past `deadline`, modulo 2^32.
pub(crate) fn is_past(deadline: u32, now: u32) -> bool {
    now.wrapping_sub(deadline) < u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_wraps() {
        assert!(is_past(5, 5));
        assert!(is_past(u32::MAX, 3));
        assert!(!is_past(3, u32::MAX));
    }
}
