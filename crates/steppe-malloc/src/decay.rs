//! Decay: what was free for a while goes back to the system, whoever notices.
//!
//! Three notice: a thread that brings blocks back after the time has come (`tick`), a thread of our
//! own that is started once enough waits (4 MiB, `start_if_wanted`) and sleeps for as long as nothing
//! does, and the program (`trim`). In a child of a fork there is no such thread, and none is started.
//!
//! Invariant: while something waits, `DEADLINE` is set or a purge is under way.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::depot;
use crate::large::LARGE;
use crate::pool::POOL;
use crate::profile;
use crate::sync::{AtomicU32, Lock};
use crate::sys;

/// What has to wait before a thread is started for it: small programs stay of one thread.
const THREAD_BYTES: usize = 4 << 20;

/// Held while memory is given back: two at once would only wait for each other.
pub(crate) static PURGE: Lock = Lock::new();
/// When to look next, in milliseconds with the lowest bit set; 0: nothing waits.
static DEADLINE: AtomicU32 = AtomicU32::new(0);
/// What came back since the last look.
static WAITING_BYTES: AtomicUsize = AtomicUsize::new(0);
static THREAD: AtomicU8 = AtomicU8::new(NOT_STARTED);
static IS_ALLOWED: AtomicBool = AtomicBool::new(true);
static PURGED_BYTES: AtomicU64 = AtomicU64::new(0);
static PURGES: AtomicU64 = AtomicU64::new(0);

/// Looks in a row that gave nothing back.
static FRUITLESS: AtomicU32 = AtomicU32::new(0);
/// So many are as frequent as any: what is young is not due yet.
const FRUITLESS_FREE: u32 = 4;
const FRUITLESS_MAX: u32 = 12;
/// The longest wait between looks while something waits.
const LOOK_MS_MAX: u32 = 60_000;

const NOT_STARTED: u8 = 0;
const STARTED: u8 = 1;
/// Not wanted, not possible, or a child's.
const NEVER: u8 = 2;

/// Notes that memory came back: it decays from now on.
pub(crate) fn note(now: u32, bytes: usize) {
    WAITING_BYTES.fetch_add(bytes, Ordering::Relaxed);
    if DEADLINE.load(Ordering::Relaxed) == 0 {
        set_deadline(now.wrapping_add(profile::decay_ms()));
    }
}

fn set_deadline(at: u32) {
    // Sequentially consistent, as `start` and `run`: either this sees the thread or it the deadline.
    let was = DEADLINE.compare_exchange(0, at | 1, Ordering::SeqCst, Ordering::SeqCst);
    if was.is_ok() && THREAD.load(Ordering::SeqCst) == STARTED {
        sys::futex_wake(&DEADLINE, 1);
    }
}

/// At the end of a slow path, with no lock held: gives back what is due, if nobody else does.
pub(crate) fn tick() {
    let deadline = DEADLINE.load(Ordering::Relaxed);
    if deadline == 0 || THREAD.load(Ordering::Relaxed) == STARTED {
        return;
    }
    let now = sys::now_ms();
    let decay_ms = profile::decay_ms();
    // Further ahead than it is ever set: the clock went round while nobody looked.
    let is_lost = deadline.wrapping_sub(now) > decay_ms.saturating_mul(2).max(2 * LOOK_MS_MAX);
    if (is_past(deadline, now) || is_lost)
        && let Some(_guard) = PURGE.try_lock()
    {
        purge(now, decay_ms);
    }
}

/// Where memory is asked for, with no lock held: starts our thread if enough waits.
///
/// Never where memory is given back: the C library frees while it holds the lock of its list of
/// stacks, which starting a thread takes.
#[inline]
pub(crate) fn start_if_wanted() {
    let is_wanted = WAITING_BYTES.load(Ordering::Relaxed) >= THREAD_BYTES
        && THREAD.load(Ordering::Relaxed) == NOT_STARTED;
    if is_wanted {
        start();
    }
}

/// Whether nothing waits.
pub(crate) fn is_idle() -> bool {
    DEADLINE.load(Ordering::Relaxed) == 0
}

/// Gives back everything that is free, after whoever is at it. Returns the bytes.
pub(crate) fn purge_all() -> usize {
    let _guard = PURGE.lock();
    purge(sys::now_ms(), 0)
}

/// Whether `decay_ms` have passed since a stamp. Stamps may be later than `now`, which is read once a
/// look: the difference then is almost 2^32.
pub(crate) fn has_passed(stamp: u32, now: u32, decay_ms: u32) -> bool {
    let age = now.wrapping_sub(stamp);
    decay_ms == 0 || (decay_ms..u32::MAX / 2).contains(&age)
}

/// Gives back what has been free for `decay_ms`, with [`PURGE`] held. Returns the bytes.
fn purge(now: u32, decay_ms: u32) -> usize {
    WAITING_BYTES.store(0, Ordering::Relaxed);
    DEADLINE.store(0, Ordering::Relaxed);
    let mut purged: usize = depot::all()
        .map(|(class, depot)| depot.purge(class, now, decay_ms))
        .sum();
    // After the slabs: those that became empty are in the pool now.
    purged += POOL.purge(now, decay_ms);
    purged += LARGE.purge(now, decay_ms);
    PURGED_BYTES.fetch_add(purged as u64, Ordering::Relaxed);
    PURGES.fetch_add(1, Ordering::Relaxed);
    let is_done = POOL.dirty_bytes() == 0
        && LARGE.retained_bytes() == 0
        && depot::all().all(|(_, depot)| !depot.has_aging());
    if !is_done {
        // What the kernel does not take (locked memory) is offered more and more seldom.
        let fruitless = match purged {
            0 => FRUITLESS.fetch_add(1, Ordering::Relaxed).min(FRUITLESS_MAX),
            _ => {
                FRUITLESS.store(0, Ordering::Relaxed);
                0
            }
        };
        let wait = (decay_ms / 2).max(10) << fruitless.saturating_sub(FRUITLESS_FREE);
        set_deadline(now.wrapping_add(wait.min(LOOK_MS_MAX.max(decay_ms))));
    }
    purged
}

/// Bytes given back so far, and in how many looks.
pub(crate) fn purged() -> (u64, u64) {
    let bytes = PURGED_BYTES.load(Ordering::Relaxed);
    (bytes, PURGES.load(Ordering::Relaxed))
}

/// Whether our own thread runs.
pub(crate) fn has_thread() -> bool {
    THREAD.load(Ordering::Relaxed) == STARTED
}

/// Has no thread started from now on.
pub(crate) fn forbid_thread() {
    IS_ALLOWED.store(false, Ordering::Relaxed);
}

/// In the child of a fork: the thread is not there, and what waits is left to `tick`.
pub(crate) fn after_fork() {
    THREAD.store(NEVER, Ordering::Relaxed);
}

#[cold]
fn start() {
    if !IS_ALLOWED.load(Ordering::Relaxed) {
        return;
    }
    let claim = THREAD.compare_exchange(NOT_STARTED, STARTED, Ordering::SeqCst, Ordering::SeqCst);
    if claim.is_ok() && !sys::start_thread(run) {
        THREAD.store(NEVER, Ordering::Relaxed);
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    sys::name_thread(c"steppe-malloc");
    // Never woken: a place to sleep for a time.
    static SLEEP: AtomicU32 = AtomicU32::new(0);
    while THREAD.load(Ordering::Relaxed) == STARTED {
        let deadline = DEADLINE.load(Ordering::SeqCst);
        if deadline == 0 {
            sys::futex_wait(&DEADLINE, 0, None);
            continue;
        }
        let now = sys::now_ms();
        if is_past(deadline, now) {
            let _guard = PURGE.lock();
            purge(now, profile::decay_ms());
        } else {
            sys::futex_wait(&SLEEP, 0, Some(deadline.wrapping_sub(now)));
        }
    }
    ptr::null_mut()
}

/// Whether `now` is at or past `deadline`, modulo 2^32.
fn is_past(deadline: u32, now: u32) -> bool {
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
