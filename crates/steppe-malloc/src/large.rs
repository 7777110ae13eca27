//! Blocks beyond the classes: runs of units up to 1 MiB, above that a mapping each.
//!
//! ```text
//!   32 KiB < bytes <= 1 MiB    a run of units of the pool, grows in place when the next ones are free
//!   1 MiB < bytes              a mapping at a multiple of 4 MiB: a record here, an entry in the map
//! ```
//! A mapping that is freed is kept for the decay time, up to a limit, for the next block: a shorter one leaves its
//! tail (`large/tails.rs`), for a longer one it grows by `mremap`, so its content is not copied. Where there are
//! thousands, they share mappings of the kernel (`places`).
//!
//! Invariant: a record of `huge` that is retained, a place or spare is in that list; a live one is among the tails if
//! it has one, else in none.

mod mappings;
mod tails;

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::chunk::{Chunk, Kind, UNIT_BYTES, Unit};
use crate::held::{REFUSED_BYTES, RETAINED_BYTES};
use crate::huge::Huge;
use crate::list::List;
use crate::places::Places;
use crate::pool::{POOL, Run};
use crate::profile;
use crate::sync::Lock;

/// The largest run: three of them fit in a chunk.
pub const RUN_BYTES_MAX: usize = 1 << 20;
/// Requests above this are refused (`PTRDIFF_MAX`): differences of pointers would not fit.
pub const BYTES_MAX: usize = isize::MAX as usize;
/// Divisor of the runs in use: this part may be free and resident besides the profile's `free_bytes_max`, so that a
/// program that frees and allocates again pays for few page faults however much it holds.
const IN_USE_SHARE: usize = 10;

pub(crate) static LARGE: Large = Large::new();

/// The result of a request: the block, and whether it reads as zeros.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub pointer: *mut u8,
    pub is_clean: bool,
}

pub(crate) struct Large {
    pub lock: Lock,
    retained: List<Huge, 0>,
    /// Live mappings with a tail.
    tails: List<Huge, 0>,
    /// Places whose memory the kernel did not take.
    refused: List<Huge, 0>,
    spare: List<Huge, 0>,
    places: Places,
    /// Number of live and retained mappings.
    mappings: AtomicUsize,
    /// Number of those mappings that share none of the kernel's.
    alone: AtomicUsize,
    huge_bytes: AtomicUsize,
    run_bytes: AtomicUsize,
}

// SAFETY: cells and lists are touched under the lock only.
unsafe impl Sync for Large {}

impl Large {
    const fn new() -> Self {
        Self {
            lock: Lock::new(),
            retained: List::new(),
            tails: List::new(),
            refused: List::new(),
            spare: List::new(),
            places: Places::new(),
            mappings: AtomicUsize::new(0),
            alone: AtomicUsize::new(0),
            huge_bytes: AtomicUsize::new(0),
            run_bytes: AtomicUsize::new(0),
        }
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
        run.is_clean = goes_back && unsafe { run.chunk.purge(run.base(), bytes) };
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

    /// Bytes of places whose memory the kernel did not take.
    pub fn refused_bytes(&self) -> usize {
        REFUSED_BYTES.load(Ordering::Relaxed)
    }

    /// Bytes of freed mappings that are kept, tails included.
    pub fn retained_bytes(&self) -> usize {
        RETAINED_BYTES.load(Ordering::Relaxed)
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
        had_slab: false,
    }
}
