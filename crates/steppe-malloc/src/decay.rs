//! Decay: what was free for a while goes back to the system, whoever notices.
//!
//! Three notice: a thread that brings blocks back after the time has come (`tick`), a thread of our
//! own that is started once enough waits (4 MiB, `start_if_wanted`) and sleeps for as long as nothing
//! does, and the program (`trim`). In a child of a fork there is no such thread, and none is started.
//!
//! Invariant: while something waits, the deadline is set or a purge is under way.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::deadline::{
    DEADLINE, NEVER, NOT_STARTED, STARTED, THREAD, WAITING_BYTES, is_past, set as set_deadline,
};
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
static IS_ALLOWED: AtomicBool = AtomicBool::new(true);
static PURGED_BYTES: AtomicU64 = AtomicU64::new(0);
static PURGES: AtomicU64 = AtomicU64::new(0);

/// Looks in a row that gave nothing back.
static FRUITLESS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
/// So many are as frequent as any: what is young is not due yet.
const FRUITLESS_FREE: u32 = 4;
const FRUITLESS_MAX: u32 = 12;
/// The longest wait between looks while something waits.
const LOOK_MS_MAX: u32 = 60_000;

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

/// Gives back everything that is free, after whoever is at it. Returns the bytes.
pub(crate) fn purge_all() -> usize {
    let _guard = PURGE.lock();
    purge(sys::now_ms(), 0)
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
