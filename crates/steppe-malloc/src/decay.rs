//! Decay: memory that has been free for the decay time goes back to the system.
//!
//! It is given back from three places: a thread that brings blocks back after the deadline (`tick`), the background
//! thread, which is started once the heap grows beyond 4 MiB (`start_if_wanted`) and sleeps while nothing waits, and
//! the program's own call (`trim`). So freed memory goes back even if the program makes no further call.
//! The background thread also sweeps the bins of threads that sleep (`heap/sweep.rs`).
//! A child of a fork has no such thread until its own requests start one.
//!
//! Invariant: while something waits, the deadline is set or a purge is under way.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::control_group::{self, GROUP};
use crate::deadline::{
    self, DEADLINE, NEVER, NOT_STARTED, SLEEP, STARTED, THREAD, has_thread, is_past,
    set as set_deadline,
};
use crate::depot;
use crate::heap::{sweep, threads};
use crate::heap_profile;
use crate::held;
use crate::large::LARGE;
use crate::pool::POOL;
use crate::profile;
use crate::sync::{AtomicU32, Lock};
use crate::sys;

/// Mappings of large blocks for which a thread is started; for small ones it is a second chunk. Small programs
/// stay of one thread.
const THREAD_BYTES: usize = 4 << 20;

/// The process that started the thread: the child of a `vfork` uses its parent's memory, and must start none.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Handle of the background thread, once it runs.
static HANDLE: AtomicUsize = AtomicUsize::new(0);
/// Set when the background thread has ended, or could not be started.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Held while memory is given back: two at once would only wait for each other.
pub(crate) static PURGE: Lock = Lock::new();
static PURGED_BYTES: AtomicU64 = AtomicU64::new(0);
static PURGES: AtomicU64 = AtomicU64::new(0);

/// Looks in a row at which the kernel took back none of the pages offered.
static REFUSED_LOOKS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
/// Doublings of the wait for the next look, at most: one for each of these looks.
const REFUSED_LOOKS_MAX: u32 = 12;
/// The longest wait between looks.
const LOOK_MS_MAX: u32 = 60_000;
/// Decay times between looks while nothing waits.
const RARE_LOOK_DECAYS: u32 = 60;
/// Sleep between two tries to end the thread, in microseconds.
const STOP_US: u64 = 100;

/// Gives back what is due, unless another thread does. At the end of a slow path, with no lock held.
pub(crate) fn tick() {
    if has_thread() {
        return;
    }
    heap_profile::write_if_due();
    let deadline = DEADLINE.load(Ordering::Relaxed);
    if deadline == 0 {
        return;
    }
    let now = sys::now_ms();
    let decay_ms = profile::decay_ms();
    // Further ahead than any deadline is set: the clock wrapped with no look in between.
    let is_lost = deadline.wrapping_sub(now) > decay_ms.saturating_mul(2).max(2 * LOOK_MS_MAX);
    if (is_past(deadline, now) || is_lost)
        && let Some(_guard) = PURGE.try_lock()
    {
        purge(now, decay_ms);
    }
}

/// Starts the background thread if the heap has grown. On paths that allocate, with no lock held.
///
/// Never on paths that free: the C library frees while it holds the lock of its list of stacks, which starting a thread
/// takes.
#[inline]
pub(crate) fn start_if_wanted() {
    if THREAD.load(Ordering::Relaxed) == NOT_STARTED && has_grown() {
        start();
    }
}

fn has_grown() -> bool {
    let (huge_bytes, _) = LARGE.live_bytes();
    POOL.has_grown() || huge_bytes + LARGE.retained_bytes() >= THREAD_BYTES
}

/// Gives back everything that is free, once a purge in progress has ended. Returns the bytes.
pub(crate) fn purge_all() -> usize {
    let _guard = PURGE.lock();
    purge(sys::now_ms(), 0)
}

/// Counts a purge.
pub(crate) fn count(bytes: usize) {
    PURGED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    PURGES.fetch_add(1, Ordering::Relaxed);
}

/// Gives back memory that has been free for `decay_ms`, with [`PURGE`] held. Returns the bytes.
pub(crate) fn purge(now: u32, decay_ms: u32) -> usize {
    let refusals = sys::refusals();
    let before = DEADLINE.swap(0, Ordering::Relaxed);
    let mut purged: usize = depot::all()
        .map(|(class, depot)| depot.purge(class, now, decay_ms))
        .sum();
    // After the slabs: those that became empty are in the pool now.
    purged += POOL.purge(now, decay_ms);
    purged += LARGE.purge(now, decay_ms);
    count(purged);
    held::forget_peak();
    let is_done = !POOL.is_waiting()
        && LARGE.retained_bytes() + LARGE.refused_bytes() == 0
        && depot::all().all(|(_, depot)| !depot.has_aging())
        && !(has_thread() && sweep::is_wanted());
    if !is_done {
        let is_refused = purged == 0 && sys::refusals() != refusals;
        let looks = match is_refused {
            true => (REFUSED_LOOKS.load(Ordering::Relaxed) + 1).min(REFUSED_LOOKS_MAX),
            false => 0,
        };
        REFUSED_LOOKS.store(looks, Ordering::Relaxed);
        // After a purge before its time (a lower `decay_ms`), the next look keeps its earlier deadline.
        let next = now.wrapping_add(wait_ms(profile::decay_ms(), looks));
        let is_earlier = before != 0 && !is_past(before, now) && is_past(next, before);
        set_deadline(if is_earlier { before } else { next });
    }
    purged
}

/// Milliseconds until the next look. The wait doubles for each look at which the kernel took nothing back (locked
/// memory); memory that is only young, or in use again, does not lengthen it.
fn wait_ms(decay_ms: u32, refused_looks: u32) -> u32 {
    let wait = (decay_ms / 2).max(10);
    wait.saturating_mul(1 << refused_looks)
        .min(LOOK_MS_MAX.max(wait))
}

/// Bytes given back so far, and in how many looks.
pub(crate) fn purged() -> (u64, u64) {
    let bytes = PURGED_BYTES.load(Ordering::Relaxed);
    (bytes, PURGES.load(Ordering::Relaxed))
}

/// Has no thread started from now on.
pub(crate) fn forbid_thread() {
    // A thread that runs already goes on.
    let _ = THREAD.compare_exchange(NOT_STARTED, NEVER, Ordering::SeqCst, Ordering::SeqCst);
}

/// Allows the calling process to start a thread.
pub(crate) fn register() {
    PROCESS.store(sys::process_id(), Ordering::Relaxed);
}

/// Resets the state of the background thread, in the child of a fork: the child has none.
pub(crate) fn after_fork() {
    register();
    sweep::after_fork(threads::current());
    HANDLE.store(0, Ordering::Relaxed);
    let _ = THREAD.compare_exchange(STARTED, NOT_STARTED, Ordering::SeqCst, Ordering::SeqCst);
}

/// Ends the background thread, and has none started from now on. True when there was one: the kernel may count it for a
/// moment after this.
pub(crate) fn stop() -> bool {
    // In the child of a vfork, or of a call of clone without the handlers, the thread is the parent's.
    let is_ours = PROCESS.load(Ordering::Relaxed) == sys::process_id();
    if !is_ours || THREAD.swap(NEVER, Ordering::SeqCst) != STARTED {
        return false;
    }
    SLEEP.store(1, Ordering::SeqCst);
    sys::futex_wake(&SLEEP, 1);
    while !HAS_ENDED.load(Ordering::Acquire) {
        // A `tick` may take the deadline away again. Waiting memory is left to later slow paths then.
        set_deadline(sys::now_ms());
        sys::futex_wake(&DEADLINE, 1);
        sys::rest(STOP_US);
    }
    let handle = HANDLE.swap(0, Ordering::Relaxed);
    if handle != 0 {
        sys::join_thread(handle);
    }
    true
}

/// Milliseconds between looks while nothing waits: a thread that frees into its bins notes nothing.
fn rare_look_ms() -> u32 {
    let wait = profile::decay_ms().saturating_mul(RARE_LOOK_DECAYS);
    wait.clamp(1_000, LOOK_MS_MAX)
}

/// Starts the background thread, if there is none and it may be.
#[cold]
pub(crate) fn start() {
    if PROCESS.load(Ordering::Relaxed) != sys::process_id() {
        return;
    }
    let claim = THREAD.compare_exchange(NOT_STARTED, STARTED, Ordering::SeqCst, Ordering::SeqCst);
    if claim.is_ok() && !sys::start_thread(run) {
        THREAD.store(NEVER, Ordering::Relaxed);
        HAS_ENDED.store(true, Ordering::Release);
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    HANDLE.store(sys::this_thread(), Ordering::Release);
    sys::name_thread(c"steppe-malloc");
    GROUP.look_after_others();
    while THREAD.load(Ordering::SeqCst) == STARTED {
        heap_profile::write_if_due();
        let deadline = DEADLINE.load(Ordering::SeqCst);
        if deadline == 0 {
            sys::futex_wait(&DEADLINE, 0, heap_profile::sleep_ms(Some(rare_look_ms())));
            if sweep::is_wanted() {
                deadline::note(sys::now_ms());
            }
            continue;
        }
        let now = sys::now_ms();
        if is_past(deadline, now) {
            let decay_ms = profile::decay_ms();
            sweep::sweep(&PURGE, now, decay_ms);
            let _guard = PURGE.lock();
            purge(now, decay_ms);
        } else {
            let wait = deadline.wrapping_sub(now).min(control_group::look_ms());
            sys::futex_wait(&SLEEP, 0, heap_profile::sleep_ms(Some(wait)));
            if control_group::look_ms() < u32::MAX && GROUP.look_after_others() {
                sweep::sweep(&PURGE, sys::now_ms(), 0);
                purge_all();
            }
        }
    }
    HAS_ENDED.store(true, Ordering::Release);
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw;

    /// Blocks go to and fro through a store for many looks, and there is nothing to give back. Memory that is freed
    /// afterwards has to be seen in time.
    #[test]
    fn looks_that_find_nothing_do_not_get_rarer() {
        const DECAY_MS: u32 = 1_000;
        for _ in 0..40 {
            let blocks = [(); 200].map(|()| raw::allocate(64));
            for block in blocks {
                // SAFETY: allocated above.
                unsafe { raw::free(block) };
            }
            let _guard = PURGE.lock();
            let now = sys::now_ms();
            purge(now, DECAY_MS);
            let deadline = DEADLINE.load(Ordering::Relaxed);
            assert_ne!(deadline, 0, "the store has blocks");
            let ahead = deadline.wrapping_sub(now);
            assert!(ahead <= DECAY_MS, "{ahead} ms");
        }
    }

    #[test]
    fn what_is_refused_is_offered_more_seldom() {
        let waits = [0, 1, 2, 3, REFUSED_LOOKS_MAX].map(|looks| wait_ms(1_000, looks));
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, LOOK_MS_MAX]);
        assert_eq!(wait_ms(600_000, REFUSED_LOOKS_MAX), 300_000);
        assert_eq!(wait_ms(u32::MAX, REFUSED_LOOKS_MAX), u32::MAX / 2);
    }
}
