//! Profiles: the trade of memory for speed, as numbers.
//!
//! Invariant: no code asks which profile is in force; it asks for the numbers here, and the numbers of a bin are copied
//! into a heap when a thread gets it. So a change of profile reaches bins with the next thread (or the next change of
//! hands), everything else at once.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::size_class::{BLOCK_BYTES, CLASSES, TABLE_BYTES_MAX};

/// Blocks of a class that a depot keeps, at most, in every profile.
const DEPOT_BLOCKS_MAX: usize = 512;

/// A trade of memory for speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Large bins, huge pages, memory that stays for ten seconds: throughput first.
    Speed,
    /// The default: fast, and memory goes back after a second without use.
    Balanced,
    /// Small bins, and memory goes back after a tenth of a second.
    Lean,
}

/// The numbers of a profile.
#[derive(Debug)]
pub struct Numbers {
    /// The name in reports and in the environment.
    pub name: &'static str,
    /// A bin holds at most this many bytes of blocks …
    pub bin_bytes: usize,
    /// … and at most this many blocks; 1 to 255.
    pub bin_blocks: usize,
    /// The same limit in bytes for blocks above [`TABLE_BYTES_MAX`], of which a sweep leaves none.
    pub medium_bin_bytes: usize,
    /// Bytes of a class that a depot keeps.
    pub depot_bytes: usize,
    /// Milliseconds that free memory stays resident.
    pub decay_ms: u32,
    /// Free mappings of single blocks that are kept, in bytes.
    pub huge_retained_bytes: usize,
    /// Bytes of free and resident memory, besides a tenth of the runs in use, beyond which a run goes back to the
    /// system when it is freed.
    pub free_bytes_max: usize,
    /// Free and resident memory beyond this goes back at once, the oldest first, in bytes …
    pub free_floor_bytes: usize,
    /// … and this many sixteenths of the recent peak of live bytes.
    pub free_share_16ths: usize,
    /// The excess of a kept mapping over the request, at most, in sixteenths of the request; the rest is its tail.
    pub huge_slack_16ths: usize,
    /// True if huge pages are requested, false if they are refused.
    pub huge_pages: bool,
    /// True if threads are spread over shards: they wait less for each other, and more slabs are partly used.
    pub is_sharded: bool,
}

impl Profile {
    /// The numbers of the profile.
    #[must_use]
    pub const fn numbers(self) -> &'static Numbers {
        match self {
            Self::Speed => &SPEED,
            Self::Balanced => &BALANCED,
            Self::Lean => &LEAN,
        }
    }

    /// The profile of a name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Speed, Self::Balanced, Self::Lean]
            .into_iter()
            .find(|profile| profile.numbers().name.as_bytes() == name)
    }

    const fn code(self) -> u8 {
        match self {
            Self::Balanced => 0,
            Self::Speed => 1,
            Self::Lean => 2,
        }
    }
}

static SPEED: Numbers = Numbers {
    name: "speed",
    bin_bytes: 64 << 10,
    bin_blocks: 255,
    medium_bin_bytes: 128 << 10,
    depot_bytes: 256 << 10,
    decay_ms: 10_000,
    huge_retained_bytes: 1 << 30,
    free_bytes_max: usize::MAX,
    free_floor_bytes: 64 << 20,
    free_share_16ths: 64,
    huge_slack_16ths: 256,
    huge_pages: true,
    is_sharded: true,
};
static BALANCED: Numbers = Numbers {
    name: "balanced",
    bin_bytes: 32 << 10,
    bin_blocks: 128,
    medium_bin_bytes: 64 << 10,
    depot_bytes: 192 << 10,
    decay_ms: 1_000,
    huge_retained_bytes: 256 << 20,
    free_bytes_max: usize::MAX,
    free_floor_bytes: 8 << 20,
    free_share_16ths: 16,
    huge_slack_16ths: 128,
    huge_pages: false,
    is_sharded: true,
};
static LEAN: Numbers = Numbers {
    name: "lean",
    bin_bytes: 2 << 10,
    bin_blocks: 32,
    medium_bin_bytes: 2 << 10,
    depot_bytes: 2 << 10,
    decay_ms: 100,
    huge_retained_bytes: 0,
    free_bytes_max: 64 << 10,
    free_floor_bytes: 4 << 20,
    free_share_16ths: 4,
    huge_slack_16ths: 2,
    huge_pages: false,
    is_sharded: false,
};

static CURRENT: AtomicU8 = AtomicU8::new(Profile::Balanced.code());
/// Decay time set by hand, plus one; 0: the profile's own.
static DECAY_MS_PLUS_1: AtomicU32 = AtomicU32::new(0);
/// Huge pages set by hand: 1 never, 2 always; 0: the profile's own.
static HUGE_PAGES: AtomicU8 = AtomicU8::new(0);

/// The profile in force.
#[must_use]
pub fn current() -> Profile {
    match CURRENT.load(Ordering::Relaxed) {
        1 => Profile::Speed,
        2 => Profile::Lean,
        _ => Profile::Balanced,
    }
}

/// Changes the profile of the running process. Bins keep their size until their thread ends.
pub fn set(profile: Profile) {
    CURRENT.store(profile.code(), Ordering::Relaxed);
}

/// Milliseconds that free memory stays resident.
#[must_use]
pub fn decay_ms() -> u32 {
    match DECAY_MS_PLUS_1.load(Ordering::Relaxed) {
        0 => current().numbers().decay_ms,
        by_hand => by_hand - 1,
    }
}

/// Sets the decay time by hand; it overrides the profile's.
pub fn set_decay_ms(decay_ms: u32) {
    DECAY_MS_PLUS_1.store(decay_ms.saturating_add(1), Ordering::Relaxed);
}

/// True if huge pages are requested for new mappings.
#[must_use]
pub fn huge_pages() -> bool {
    match HUGE_PAGES.load(Ordering::Relaxed) {
        0 => current().numbers().huge_pages,
        by_hand => by_hand == 2,
    }
}

/// Sets the use of huge pages by hand; it overrides the profile's.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub fn set_huge_pages(wanted: bool) {
    HUGE_PAGES.store(u8::from(wanted) + 1, Ordering::Relaxed);
}

impl Numbers {
    /// Blocks of a class that a bin holds, at most.
    #[must_use]
    pub fn bin_capacity(&self, class: usize) -> usize {
        let bytes = match BLOCK_BYTES.get(class) {
            Some(&block) if block > TABLE_BYTES_MAX => self.medium_bin_bytes,
            _ => self.bin_bytes,
        };
        capacity(class, bytes, self.bin_blocks)
    }

    /// Blocks of a class that a depot keeps, at most.
    #[must_use]
    pub fn depot_capacity(&self, class: usize) -> usize {
        capacity(class, self.depot_bytes, DEPOT_BLOCKS_MAX)
    }
}

fn capacity(class: usize, bytes: usize, blocks: usize) -> usize {
    match BLOCK_BYTES.get(class) {
        Some(&block) if block > 0 => (bytes / block).clamp(1, blocks),
        _ => 0,
    }
}

/// Slots that the bins of all classes need, a sentinel each.
#[must_use]
pub fn bin_slots(numbers: &Numbers) -> usize {
    (1..CLASSES)
        .map(|class| numbers.bin_capacity(class) + 1)
        .sum()
}
