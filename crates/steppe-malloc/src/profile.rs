//! Profiles: what the allocator trades memory for, as data.
//!
//! Invariant: no code asks which profile is in force; it asks for the numbers here, and the numbers
//! that a bin needs are copied into a heap when a thread gets it. So a change of profile reaches bins
//! with the next thread (or the next change of hands), everything else at once.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::size_class::{BLOCK_BYTES, CLASSES, TABLE_BYTES_MAX};

/// Blocks that a depot keeps of a class at the most, whatever the profile.
const DEPOT_BLOCKS_MAX: usize = 512;

/// What the allocator trades memory for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Large bins, huge pages, memory that stays for ten seconds: throughput first.
    Speed,
    /// The default: fast, and what was not used for a second goes back.
    Balanced,
    /// Small bins, and memory goes back after a tenth of a second.
    Lean,
}

/// The numbers of a profile.
#[derive(Debug)]
pub struct Numbers {
    /// What reports call it, and what the environment names it by.
    pub name: &'static str,
    /// A bin holds at most this many bytes of blocks …
    pub bin_bytes: usize,
    /// … and at most this many blocks; 1 to 255.
    pub bin_blocks: usize,
    /// The same limit in bytes for blocks above [`TABLE_BYTES_MAX`], of which a sweep leaves none.
    pub medium_bin_bytes: usize,
    /// What a depot keeps of a class, in bytes.
    pub depot_bytes: usize,
    /// How long free memory stays resident, in milliseconds.
    pub decay_ms: u32,
    /// Free mappings of single blocks that are kept, in bytes.
    pub huge_retained_bytes: usize,
    /// A run goes back to the system when it is freed if more than this would be free and resident,
    /// in bytes, and a tenth of what runs are in use.
    pub free_bytes_max: usize,
    /// Free and resident memory beyond this goes back at once, the oldest first, in bytes …
    pub free_floor_bytes: usize,
    /// … and this many parts of 16 of what was live not long ago.
    pub free_share_16ths: usize,
    /// How much larger than asked for a kept mapping may be, as a part of 16 of the request; the rest is its tail.
    pub huge_slack_16ths: usize,
    /// Whether huge pages are asked for, or none wanted.
    pub huge_pages: bool,
    /// Whether threads are spread over shards: they wait less for each other, and more slabs are
    /// partly used.
    pub is_sharded: bool,
}

impl Profile {
    /// Its numbers.
    #[must_use]
    pub const fn numbers(self) -> &'static Numbers {
        match self {
            Self::Speed => &SPEED,
            Self::Balanced => &BALANCED,
            Self::Lean => &LEAN,
        }
    }

    /// By its name.
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
/// Set by hand, plus one; 0: the profile's own.
static DECAY_MS_PLUS_1: AtomicU32 = AtomicU32::new(0);
/// Set by hand: 1 never, 2 always; 0: the profile's own.
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

/// How long free memory stays resident, in milliseconds.
#[must_use]
pub fn decay_ms() -> u32 {
    match DECAY_MS_PLUS_1.load(Ordering::Relaxed) {
        0 => current().numbers().decay_ms,
        by_hand => by_hand - 1,
    }
}

/// Sets the decay by hand, whatever the profile says.
pub fn set_decay_ms(decay_ms: u32) {
    DECAY_MS_PLUS_1.store(decay_ms.saturating_add(1), Ordering::Relaxed);
}

/// Whether huge pages are asked for, for what is mapped from now on.
#[must_use]
pub fn huge_pages() -> bool {
    match HUGE_PAGES.load(Ordering::Relaxed) {
        0 => current().numbers().huge_pages,
        by_hand => by_hand == 2,
    }
}

/// Sets the use of huge pages by hand, whatever the profile says.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub fn set_huge_pages(wanted: bool) {
    HUGE_PAGES.store(u8::from(wanted) + 1, Ordering::Relaxed);
}

impl Numbers {
    /// How many blocks of a class a bin holds.
    #[must_use]
    pub fn bin_capacity(&self, class: usize) -> usize {
        let bytes = match BLOCK_BYTES.get(class) {
            Some(&block) if block > TABLE_BYTES_MAX => self.medium_bin_bytes,
            _ => self.bin_bytes,
        };
        capacity(class, bytes, self.bin_blocks)
    }

    /// How many blocks of a class a depot keeps.
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
