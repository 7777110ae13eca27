//! Bytes held: memory from the system that is or may be resident, and the bounds on it.
//!
//! ```text
//!   held = units in slabs and runs + dirty free units + live, retained and refused mappings + books of chunks
//!                                  └──── free ────┘         └─ free ─┘ └ neither ┘
//! ```
//! Counted by units of 64 KiB and whole blocks above 1 MiB, touched or not: the memory that a program may touch without
//! another request. Growth is counted before memory is taken, so a limit is never passed; where a lower bound is
//! passed, a flag is set, and `pressure` answers at the end of the slow path, with no lock held.
//!
//! Invariant: code that takes clean units or maps calls [`take`]; code that gives memory back to the system calls
//! [`give`].

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::chunk::UNIT_BYTES;
use crate::meta::META;
use crate::profile;

/// Bytes that a program holds before its control group is looked for.
pub const FIRST_LOOK_BYTES: usize = 8 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);
/// Free units with resident pages; the pool's to count.
pub(crate) static DIRTY_UNITS: AtomicUsize = AtomicUsize::new(0);
/// Bytes of freed mappings and of tails of mappings that are kept; `large`'s to count.
pub(crate) static RETAINED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Bytes of freed mappings that were to go back and that the kernel did not take; `large`'s to count.
pub(crate) static REFUSED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Most bytes that may be held, records of `meta` included.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Growth beyond this bound, or from below the lower one, is answered.
static UPPER: AtomicUsize = AtomicUsize::new(FIRST_LOOK_BYTES);
static LOWER: AtomicUsize = AtomicUsize::new(0);
static IS_ANSWER_WANTED: AtomicBool = AtomicBool::new(false);
/// Free bytes up to which the kernel need not be asked again; 0: it refused nothing.
static REFUSED_FREE: AtomicUsize = AtomicUsize::new(0);
/// Peak of live bytes, which decays at each look.
static LIVE_PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts `bytes` that are about to be taken. False: the limit does not allow them.
pub(crate) fn take(bytes: usize) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    let allowed = match limit {
        usize::MAX => limit,
        _ => limit.saturating_sub(META.mapped_bytes()),
    };
    let counted = HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
        held.checked_add(bytes)
            .filter(|&held| held <= allowed || bytes == 0)
    });
    let Ok(before) = counted else { return false };
    let is_beyond = before + bytes > UPPER.load(Ordering::Relaxed);
    if bytes > 0 && (is_beyond || before < LOWER.load(Ordering::Relaxed)) {
        IS_ANSWER_WANTED.store(true, Ordering::Relaxed);
    }
    true
}

/// Counts `bytes` that went back.
pub(crate) fn give(bytes: usize) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

/// Bytes held now, records of `meta` not included.
pub(crate) fn bytes() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Bytes held that are free. Units whose memory is going back at the moment are not counted.
pub(crate) fn free_bytes() -> usize {
    DIRTY_UNITS.load(Ordering::Relaxed) * UNIT_BYTES + RETAINED_BYTES.load(Ordering::Relaxed)
}

/// Bytes held that are the program's, or books, if `free` bytes are free.
fn live_bytes(free: usize) -> usize {
    let not_live = free.saturating_add(REFUSED_BYTES.load(Ordering::Relaxed));
    HELD.load(Ordering::Relaxed).saturating_sub(not_live)
}

/// Notes that `bytes` of the program's were freed and stay resident.
pub(crate) fn note_free(bytes: usize) {
    let free = free_bytes();
    let live = live_bytes(free) + bytes;
    if live > LIVE_PEAK.load(Ordering::Relaxed) {
        LIVE_PEAK.store(live, Ordering::Relaxed);
    }
    if is_excess(free) {
        IS_ANSWER_WANTED.store(true, Ordering::Relaxed);
    }
}

/// True if `free` bytes are more than may be free, and more than the kernel refused to take.
pub(crate) fn is_excess(free: usize) -> bool {
    let max = free_max();
    if free <= max {
        REFUSED_FREE.store(0, Ordering::Relaxed);
        return false;
    }
    free > REFUSED_FREE.load(Ordering::Relaxed)
}

/// Allows free memory that the kernel refuses (locked pages) to stay: `more` bytes may be free before it is offered
/// again.
pub(crate) fn allow_free(more: usize) {
    REFUSED_FREE.store(free_bytes().saturating_add(more), Ordering::Relaxed);
}

/// Bytes that may be free and resident, by the profile and by the recent peak of live bytes.
pub(crate) fn free_max() -> usize {
    let numbers = profile::current().numbers();
    let share = LIVE_PEAK.load(Ordering::Relaxed) / 16;
    numbers
        .free_floor_bytes
        .saturating_add(share.saturating_mul(numbers.free_share_16ths))
}

/// Lowers the peak of live bytes by a quarter, to no less than the live bytes. At each look of `decay`.
pub(crate) fn forget_peak() {
    let live = live_bytes(free_bytes());
    let peak = LIVE_PEAK.load(Ordering::Relaxed);
    LIVE_PEAK.store(live.max(peak - peak / 4), Ordering::Relaxed);
}

/// True if a bound was passed since the last call.
#[inline]
pub(crate) fn is_answer_wanted() -> bool {
    IS_ANSWER_WANTED.load(Ordering::Relaxed) && IS_ANSWER_WANTED.swap(false, Ordering::Relaxed)
}

/// Sets the bounds: growth beyond `upper`, or from below `lower`, is answered.
pub(crate) fn watch(lower: usize, upper: usize) {
    LOWER.store(lower, Ordering::Relaxed);
    UPPER.store(upper, Ordering::Relaxed);
    if bytes() > upper {
        IS_ANSWER_WANTED.store(true, Ordering::Relaxed);
    }
}

/// True when there is a limit.
pub(crate) fn is_limited() -> bool {
    LIMIT.load(Ordering::Relaxed) != usize::MAX
}

/// Sets the most that may be held, in bytes; 0: no limit.
pub(crate) fn set_limit(bytes: usize) {
    let limit = if bytes == 0 { usize::MAX } else { bytes };
    LIMIT.store(limit, Ordering::Relaxed);
}
