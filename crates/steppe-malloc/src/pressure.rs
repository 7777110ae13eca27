//! Pressure: the answers when a bound on held memory is passed.
//!
//! | bound | passed by | answer |
//! | --- | --- | --- |
//! | limit | bytes held | purge, then `ENOMEM` (`raw`) |
//! | soft limit | bytes held | everything free is purged at once |
//! | watermark | bytes held | the program's eventfd is written to, once |
//! | control group's limit | its working set, with a margin | everything free is purged at once |
//! | the profile's share of live bytes | free bytes | the oldest free memory is purged |
//!
//! Slow paths that take or bring memory set a flag (`held`) and ask here at their end, with no lock held. Beyond a
//! bound, further growth by an eighth is answered again, so a program that lives above its soft limit pays for few
//! purges.
//!
//! Invariant: while no bound is passed, the only cost here is a look at the flag.

mod watermark;

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use watermark::WATERMARK;

use crate::control_group::GROUP;
use crate::decay::{self, PURGE};
use crate::held;
use crate::large::LARGE;
use crate::pool::POOL;
use crate::profile;
use crate::sys;

/// Parts of a bound that held memory grows or falls by until it is answered again.
const HYSTERESIS: usize = 8;

/// Ages tried to find the oldest free memory, each half of the one before.
const AGES: u32 = 8;

/// The soft limit; `usize::MAX`: none.
static SOFT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Bytes held beyond which the next purge is due.
static SOFT_NEXT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the most bytes that may be held; 0 removes the limit. If more are held, free memory is purged.
///
/// Held bytes are whole units of 64 KiB in use, blocks above 1 MiB, free memory until it is purged, and the allocator's
/// records; not the program's own mappings, stacks and libraries.
pub fn set_limit(bytes: usize) {
    held::set_limit(bytes);
    if bytes > 0 && held::bytes() > bytes {
        decay::purge_all();
    }
}

/// Sets how many bytes may be held before everything free is purged at once; 0 removes the soft limit.
pub fn set_soft_limit(bytes: usize) {
    note_soft_limit(bytes);
    answer();
}

/// The same as [`set_soft_limit`] where locks are held: the purge comes later.
pub(crate) fn note_soft_limit(bytes: usize) {
    let soft = if bytes == 0 { usize::MAX } else { bytes };
    SOFT.store(soft, Ordering::Relaxed);
    SOFT_NEXT.store(soft, Ordering::Relaxed);
    plan();
}

/// Has 1 written to `eventfd`, as 8 bytes (eventfd(2)), once more than `bytes` are held; 0 takes the watermark away.
/// Each call replaces the one before; a watermark that was reached has to be set again. The program keeps the descriptor
/// open until then. False: it is not open.
pub fn set_watermark(bytes: usize, eventfd: c_int) -> bool {
    let is_set = WATERMARK.set(bytes, eventfd);
    plan();
    answer();
    is_set
}

/// Gives back everything that is kept for later, before a request is tried again.
pub(crate) fn make_room() {
    LARGE.unmap_places();
    decay::purge_all();
}

/// Has a block resized, by `request`, with no lock held: once more if a limit refuses it at first.
pub(crate) fn with_room<R>(request: impl Fn() -> Option<R>) -> Option<R> {
    let mut result = request();
    if result.is_none() && held::is_limited() {
        make_room();
        result = request();
    }
    answer();
    result
}

/// Answers passed bounds and gives back what is due. At the end of a slow path, with no lock held.
pub(crate) fn tick() {
    answer();
    decay::tick();
}

/// Answers passed bounds, and starts the background thread if the heap has grown. On paths that allocate, with no lock
/// held.
#[inline]
pub(crate) fn start_if_wanted() {
    answer();
    decay::start_if_wanted();
}

/// Answers the bounds that were passed.
#[inline]
fn answer() {
    if held::is_answer_wanted() {
        answer_now();
    }
}

#[cold]
fn answer_now() {
    WATERMARK.look(held::bytes());
    let is_soft_passed = held::bytes() > soft_next();
    let is_pressed = held::bytes() > GROUP.next_bytes() && GROUP.look();
    let is_purged = (is_soft_passed || is_pressed) && purge_everything();
    if !is_purged {
        purge_excess();
    }
    if is_purged && is_soft_passed {
        let soft = SOFT.load(Ordering::Relaxed);
        let next = soft.max(held::bytes() + soft / HYSTERESIS);
        SOFT_NEXT.store(next, Ordering::Relaxed);
    }
    if is_pressed {
        GROUP.look();
    }
    plan();
}

/// Resets the bounds in the child of a fork: its parent's watermark is not its own, and it may be moved to another
/// control group.
pub(crate) fn after_fork() {
    WATERMARK.forget();
    GROUP.forget();
    plan();
}

/// Sets the bounds whose passing is answered next.
fn plan() {
    let next = next_bound();
    // Below this the soft limit is in force again.
    let soft = SOFT.load(Ordering::Relaxed);
    let is_passed = SOFT_NEXT.load(Ordering::Relaxed) > soft;
    held::watch(if is_passed { rearmed_below(soft) } else { 0 }, next);
    // Another thread may have set a lower bound meanwhile, and planned before this did.
    let now = next_bound();
    if now < next {
        held::watch(0, now);
    }
}

/// Bytes held beyond which a purge or a report is due.
fn next_bound() -> usize {
    soft_next().min(GROUP.next_bytes()).min(WATERMARK.bytes())
}

fn soft_next() -> usize {
    let soft = SOFT.load(Ordering::Relaxed);
    if held::bytes() < rearmed_below(soft) {
        SOFT_NEXT.store(soft, Ordering::Relaxed);
    }
    SOFT_NEXT.load(Ordering::Relaxed)
}

fn rearmed_below(bound: usize) -> usize {
    bound - bound / HYSTERESIS
}

/// Purges everything free. False: another thread is purging.
fn purge_everything() -> bool {
    let guard = PURGE.try_lock();
    if guard.is_some() {
        decay::purge(sys::now_ms(), 0);
    }
    guard.is_some()
}

/// Purges the oldest free memory beyond the profile's share, and a quarter of that share more, so that the next purge
/// is as many frees away.
fn purge_excess() {
    let (free, max) = (held::free_bytes(), held::free_max());
    if !held::is_excess(free) {
        return;
    }
    let Some(_guard) = PURGE.try_lock() else {
        return;
    };
    let refusals = sys::refusals();
    let excess = free - (max - max / 4);
    let (now, decay_ms) = (sys::now_ms(), profile::decay_ms());
    let mut purged = 0;
    // The clock of stamps has a resolution of some milliseconds.
    for age_ms in (1..=AGES).map(|age| decay_ms >> age).chain([0]) {
        purged += LARGE.purge_some(now, age_ms, excess.saturating_sub(purged));
        purged += POOL.purge_some(now, age_ms, excess.saturating_sub(purged));
    }
    decay::count(purged);
    if sys::refusals() != refusals {
        held::allow_free(max / 8);
    }
}
