//! Blocks beyond the classes: runs of units up to 1 MiB, above that a mapping each.
//!
//! ```text
//!   32 KiB < bytes <= 1 MiB    a run of units of the pool, grows in place when the next ones are free
//!   1 MiB < bytes              a mapping at a multiple of 4 MiB: a record here, an entry in the map
//! ```
//! A mapping that is freed is kept for the decay time, up to a limit, for the next block of about its
//! size; it grows by `mremap`, so its content is not copied.
//!
//! Invariant: a record of `huge` that is retained or spare is in that list; a live one is in none.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::chunk::{CHUNK_BYTES, Chunk, Kind, UNIT_BYTES, Unit};
use crate::chunk_map::{CHUNK_MAP, ChunkMap};
use crate::deadline;
use crate::huge::{Huge, LIVE, RETAINED, SPARE};
use crate::list::List;
use crate::meta::META;
use crate::pool::{POOL, Run};
use crate::profile;
use crate::report;
use crate::sync::Lock;
use crate::sys;

/// The largest run: three of them fit in a chunk.
pub const RUN_BYTES_MAX: usize = 1 << 20;
/// Requests above this are refused (`PTRDIFF_MAX`): differences of pointers would not fit.
pub const BYTES_MAX: usize = isize::MAX as usize;
/// Of runs in use: this part may be free and resident besides what the profile lets be, so that a
/// program that frees and asks again pays for few page faults however much it holds.
const IN_USE_SHARE: usize = 10;
/// Retained mappings that are looked at for a request.
const LOOKS_MAX: usize = 64;

pub(crate) static LARGE: Large = Large {
    lock: Lock::new(),
    retained: List::new(),
    spare: List::new(),
    retained_bytes: AtomicUsize::new(0),
    huge_bytes: AtomicUsize::new(0),
    run_bytes: AtomicUsize::new(0),
};

/// What came of a request: the block, and whether it reads as zeros.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub pointer: *mut u8,
    pub is_clean: bool,
}

pub(crate) struct Large {
    pub lock: Lock,
    retained: List<Huge, 0>,
    spare: List<Huge, 0>,
    retained_bytes: AtomicUsize,
    huge_bytes: AtomicUsize,
    run_bytes: AtomicUsize,
}

// SAFETY: cells and lists are touched under the lock only.
unsafe impl Sync for Large {}

impl Large {
    /// A block of `bytes` at a multiple of `align`, a power of two. `None`: no memory.
    pub fn allocate(&self, bytes: usize, align: usize) -> Option<Block> {
        if bytes > BYTES_MAX || align > BYTES_MAX / 2 {
            return None;
        }
        if bytes <= RUN_BYTES_MAX && align <= RUN_BYTES_MAX {
            let units = bytes.div_ceil(UNIT_BYTES).max(1);
            if let Some(block) = self.allocate_run(units, align.div_ceil(UNIT_BYTES).max(1)) {
                return Some(block);
            }
        }
        self.allocate_huge(bytes, align)
    }

    /// A block of `units` units at a multiple of `align` units.
    pub fn allocate_run(&self, units: usize, align: usize) -> Option<Block> {
        let run = POOL.take(units, align)?;
        let unit = run.chunk.unit(run.first);
        unit.run_units.set(u16::try_from(units).unwrap_or(0));
        unit.sample.set(0);
        unit.set(Kind::Run, 0);
        self.run_bytes
            .fetch_add(units * UNIT_BYTES, Ordering::Relaxed);
        Some(Block {
            pointer: run.base(),
            is_clean: run.is_clean,
        })
    }

    /// Takes a run back.
    pub fn free_run(&self, unit: &'static Unit) {
        let units = usize::from(unit.run_units.get());
        let bytes = units * UNIT_BYTES;
        unit.set(Kind::None, 0);
        let in_use = self.run_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let free_max = profile::current().numbers().free_bytes_max;
        let goes_back = POOL.dirty_bytes() + bytes > free_max.saturating_add(in_use / IN_USE_SHARE);
        let mut run = run_of(unit, 0, units);
        // SAFETY: the program has given the block back, and the pool does not have it yet.
        run.is_clean = goes_back && unsafe { sys::purge(run.base(), bytes) };
        POOL.put(run);
    }

    /// Makes a run `bytes` long where it stands. False: it can't be, and nothing changed.
    pub fn resize_run(&self, unit: &'static Unit, bytes: usize) -> bool {
        let old = usize::from(unit.run_units.get());
        let new = bytes.div_ceil(UNIT_BYTES).max(1);
        if bytes > RUN_BYTES_MAX {
            return false;
        }
        if new > old && !POOL.extend(unit.chunk(), unit.index() + old, new - old) {
            return false;
        }
        unit.run_units.set(u16::try_from(new).unwrap_or(0));
        self.run_bytes
            .fetch_add(new * UNIT_BYTES, Ordering::Relaxed);
        self.run_bytes
            .fetch_sub(old * UNIT_BYTES, Ordering::Relaxed);
        if new < old {
            POOL.put(run_of(unit, new, old - new));
        }
        true
    }

    fn allocate_huge(&self, bytes: usize, align: usize) -> Option<Block> {
        let bytes = bytes.max(1).checked_next_multiple_of(sys::page_bytes())?;
        if let Some(huge) = self.take_retained(bytes, align) {
            if huge.mapped_bytes.get() >= bytes || self.remap(huge, bytes) {
                return Some(self.hand_out(huge));
            }
            self.unmap(huge);
        }
        let huge = self.spare_record()?;
        huge.mapped_bytes.set(bytes);
        let mapped = CHUNK_MAP.map(bytes, align, |base| {
            huge.base.set(base);
            ChunkMap::huge_entry(huge)
        });
        if mapped.is_none() {
            let _guard = self.lock.lock();
            self.spare.push_front(huge);
            return None;
        }
        sys::advise_huge_pages(huge.base.get(), bytes, profile::huge_pages());
        huge.is_clean.set(true);
        Some(self.hand_out(huge))
    }

    fn hand_out(&self, huge: &'static Huge) -> Block {
        huge.state.store(LIVE, Ordering::Relaxed);
        self.huge_bytes
            .fetch_add(huge.mapped_bytes.get(), Ordering::Relaxed);
        Block {
            pointer: huge.base.get(),
            is_clean: huge.is_clean.replace(false),
        }
    }

    /// The retained mapping that fits best: the smallest that is large enough and not too large, or
    /// else the largest that is at least a quarter as large, to be grown. Its pages are resident already.
    fn take_retained(&self, bytes: usize, align: usize) -> Option<&'static Huge> {
        let slack = (bytes / 16).saturating_mul(profile::current().numbers().huge_slack_16ths);
        let _guard = self.lock.lock();
        let mut best: Option<&'static Huge> = None;
        let mut next = self.retained.first();
        for _ in 0..LOOKS_MAX {
            let Some(huge) = next else { break };
            next = <List<Huge, 0>>::next(huge);
            let mapped = huge.mapped_bytes.get();
            let fits = mapped >= bytes / 4 && mapped <= bytes.saturating_add(slack);
            // All lie at multiples of a chunk's size, and where one grows to is no more than that.
            let is_aligned = align <= CHUNK_BYTES
                || mapped >= bytes && huge.base.get().addr().is_multiple_of(align);
            let is_better = best.is_none_or(|best| {
                let best = best.mapped_bytes.get();
                match mapped >= bytes {
                    true => best < bytes || mapped < best,
                    false => best < bytes && mapped > best,
                }
            });
            if fits && is_aligned && is_better {
                best = Some(huge);
            }
        }
        let best = best?;
        self.retained.remove(best);
        self.retained_bytes
            .fetch_sub(best.mapped_bytes.get(), Ordering::Relaxed);
        Some(best)
    }

    /// Makes a mapping `bytes` long, in whole pages. False: nothing changed.
    fn remap(&self, huge: &'static Huge, bytes: usize) -> bool {
        let old = huge.mapped_bytes.get();
        // SAFETY: the record's own mapping; whoever had its block gave it up for the result.
        let base = unsafe { CHUNK_MAP.resize(huge.base.get(), old, bytes, huge) };
        if let Some(base) = base {
            huge.base.set(base);
            huge.mapped_bytes.set(bytes);
        }
        base.is_some()
    }

    fn spare_record(&self) -> Option<&'static Huge> {
        let guard = self.lock.lock();
        if let Some(huge) = self.spare.pop_front() {
            return Some(huge);
        }
        drop(guard);
        let record = META.allocate(size_of::<Huge>())?;
        // SAFETY: zeroed, large enough, never unmapped; all-zero is a spare record.
        Some(unsafe { &*record.cast::<Huge>() })
    }

    /// Takes a mapping back. `pointer` is what the program calls it.
    pub fn free_huge(&self, huge: &'static Huge, pointer: *mut u8) {
        if pointer != huge.base.get() {
            report::misuse("free of a pointer into a block", pointer, 0);
            return;
        }
        let claim =
            huge.state
                .compare_exchange(LIVE, RETAINED, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_err() {
            report::misuse("double free", pointer, 0);
            return;
        }
        let bytes = huge.mapped_bytes.get();
        self.huge_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let limit = profile::current().numbers().huge_retained_bytes;
        let now = sys::now_ms();
        let guard = self.lock.lock();
        if self.retained_bytes.load(Ordering::Relaxed) + bytes > limit {
            drop(guard);
            self.unmap(huge);
            return;
        }
        huge.stamp.set(now);
        self.retained.push_front(huge);
        self.retained_bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(guard);
        deadline::note(now);
    }

    /// Makes a mapping `bytes` long. Its place then; `None`: nothing changed.
    pub fn resize_huge(&self, huge: &'static Huge, bytes: usize) -> Option<*mut u8> {
        let page = sys::page_bytes();
        let old = huge.mapped_bytes.get();
        let exact = bytes.checked_next_multiple_of(page)?;
        // Whoever grows a block grows it again: an eighth more costs address space, and
        // memory only where the last huge page is.
        let generous = (bytes + bytes / 8).checked_next_multiple_of(page)?;
        let wanted = if exact > old { generous } else { exact };
        if !self.remap(huge, wanted) && !self.remap(huge, exact) {
            return None;
        }
        let new = huge.mapped_bytes.get();
        self.huge_bytes.fetch_add(new, Ordering::Relaxed);
        self.huge_bytes.fetch_sub(old, Ordering::Relaxed);
        Some(huge.base.get())
    }

    /// Unmaps what has been retained for `decay_ms`. Returns the bytes.
    pub fn purge(&self, now: u32, decay_ms: u32) -> usize {
        let mut purged = 0;
        loop {
            let guard = self.lock.lock();
            let Some(oldest) = self.retained.last() else {
                return purged;
            };
            if !deadline::has_passed(oldest.stamp.get(), now, decay_ms) {
                return purged;
            }
            self.retained.remove(oldest);
            let bytes = oldest.mapped_bytes.get();
            self.retained_bytes.fetch_sub(bytes, Ordering::Relaxed);
            drop(guard);
            self.unmap(oldest);
            purged += bytes;
        }
    }

    fn unmap(&self, huge: &'static Huge) {
        // SAFETY: the record is in no list and not live: nobody has a pointer into its mapping.
        unsafe { CHUNK_MAP.unmap(huge.base.get(), huge.mapped_bytes.get()) };
        huge.state.store(SPARE, Ordering::Relaxed);
        let _guard = self.lock.lock();
        self.spare.push_front(huge);
    }

    /// Bytes of freed mappings that are kept.
    pub fn retained_bytes(&self) -> usize {
        self.retained_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of live mappings, and of live runs.
    pub fn live_bytes(&self) -> (usize, usize) {
        let huge = self.huge_bytes.load(Ordering::Relaxed);
        (huge, self.run_bytes.load(Ordering::Relaxed))
    }
}

fn run_of(unit: &'static Unit, after: usize, units: usize) -> Run {
    let chunk: &'static Chunk = unit.chunk();
    Run {
        chunk,
        first: unit.index() + after,
        units,
        is_clean: false,
    }
}
