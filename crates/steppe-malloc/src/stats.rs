//! Statistics: read from books that are kept anyway, so they cost nothing until they are read.
//!
//! Invariant: figures that are read while other threads go on are approximate: each was true at some moment of the
//! reading, their sums at none in particular.

use core::fmt::{self, Write};

use crate::chunk::UNIT_BYTES;
use crate::chunk_map::CHUNK_MAP;
use crate::deadline;
use crate::decay;
use crate::depot;
pub use crate::depot::ClassStats;
use crate::heap::threads::HEAPS;
pub use crate::heap::threads::HeapStats;
use crate::held;
use crate::large::LARGE;
use crate::meta::META;
use crate::pool::POOL;
use crate::profile;
use crate::size_class::CLASSES;

/// Memory held by the allocator, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Blocks handed out to the program, each rounded up to its class.
    pub live_bytes: usize,
    /// Free units and mappings that are resident until their decay has passed.
    pub dirty_bytes: usize,
    /// Free blocks in slabs, stores and bins. Their pages may have been given back.
    pub retained_bytes: usize,
    /// The part of `retained_bytes` in threads' bins.
    pub binned_bytes: usize,
    /// The part of `retained_bytes` in the depots' stores.
    pub stored_bytes: usize,
    /// Address space taken from the system, records included.
    pub mapped_bytes: usize,
    /// Peak of `mapped_bytes`.
    pub mapped_bytes_peak: usize,
    /// The part of `live_bytes` in blocks with a mapping of their own.
    pub huge_bytes: usize,
    /// The part of `live_bytes` in blocks that are runs of units.
    pub run_bytes: usize,
    /// Units and mappings that are or may be resident, and records: the figure that limits bound, see `pressure`.
    pub held_bytes: usize,
    /// The allocator's own records.
    pub meta_bytes: usize,
    /// Bytes given back to the system so far.
    pub purged_bytes: u64,
    /// Purges of decayed memory so far.
    pub purges: u64,
    /// Chunks of 4 MiB.
    pub chunks: usize,
    /// Heaps of threads, also of those that ended: the most threads that lived at once.
    pub heaps: usize,
}

/// Reads the figures.
#[must_use]
pub fn read() -> Stats {
    let (huge_bytes, run_bytes) = LARGE.live_bytes();
    let (chunk_bytes, mapped_bytes_peak) = CHUNK_MAP.mapped_bytes();
    let (purged_bytes, purges) = decay::purged();
    let mut stats = Stats {
        live_bytes: huge_bytes + run_bytes,
        dirty_bytes: dirty_bytes(),
        mapped_bytes: chunk_bytes + META.mapped_bytes(),
        // Records only grow.
        mapped_bytes_peak: mapped_bytes_peak + META.mapped_bytes(),
        huge_bytes,
        run_bytes,
        held_bytes: held::bytes() + META.mapped_bytes(),
        meta_bytes: META.mapped_bytes(),
        purged_bytes,
        purges,
        chunks: POOL.chunks(),
        heaps: HEAPS.count(),
        ..Stats::default()
    };
    for class in classes() {
        let live = class.live_blocks() * class.block_bytes;
        stats.live_bytes += live;
        stats.retained_bytes += (class.slabs * UNIT_BYTES).saturating_sub(live);
        stats.binned_bytes += class.binned_blocks * class.block_bytes;
        stats.stored_bytes += class.stored_blocks * class.block_bytes;
    }
    stats
}

/// The figure of [`Stats::meta_bytes`], at no cost.
#[must_use]
pub fn meta_bytes() -> usize {
    META.mapped_bytes()
}

/// The figure of [`Stats::dirty_bytes`] at no cost: free pages that are handed out before new ones are taken.
#[must_use]
pub fn dirty_bytes() -> usize {
    POOL.dirty_bytes() + LARGE.retained_bytes() + LARGE.refused_bytes()
}

/// The figures of each class, the smallest blocks first.
pub fn classes() -> impl Iterator<Item = ClassStats> {
    (1..CLASSES).map(|class| {
        let mut stats = ClassStats::default();
        for shard in 0..depot::shards() {
            stats.add(depot::of(shard, class).stats(class));
        }
        stats.binned_blocks = HEAPS.all().map(|heap| heap.held(class)).sum();
        stats
    })
}

/// The figures of each heap that has a thread.
pub fn heaps() -> impl Iterator<Item = HeapStats> {
    HEAPS.all().filter_map(crate::heap::Heap::stats)
}

/// Writes everything as one JSON object, without allocating.
///
/// # Errors
/// The error that `sink` returns.
pub fn write_json(sink: &mut dyn Write) -> fmt::Result {
    let stats = read();
    write!(
        sink,
        "{{\"profile\":\"{}\",\"decay_ms\":{},\"hardened\":{},\"background_thread\":{}",
        profile::current().numbers().name,
        profile::decay_ms(),
        cfg!(feature = "hardened"),
        deadline::has_thread(),
    )?;
    let figures = [
        ("live_bytes", stats.live_bytes as u64),
        ("dirty_bytes", stats.dirty_bytes as u64),
        ("retained_bytes", stats.retained_bytes as u64),
        ("binned_bytes", stats.binned_bytes as u64),
        ("stored_bytes", stats.stored_bytes as u64),
        ("mapped_bytes", stats.mapped_bytes as u64),
        ("mapped_bytes_peak", stats.mapped_bytes_peak as u64),
        ("huge_bytes", stats.huge_bytes as u64),
        ("run_bytes", stats.run_bytes as u64),
        ("held_bytes", stats.held_bytes as u64),
        ("meta_bytes", stats.meta_bytes as u64),
        ("purged_bytes", stats.purged_bytes),
        ("purges", stats.purges),
        ("chunks", stats.chunks as u64),
    ];
    for (name, figure) in figures {
        write!(sink, ",\"{name}\":{figure}")?;
    }
    write!(sink, ",\"classes\":[")?;
    let mut separator = "";
    for class in classes().filter(|class| class.given_blocks > 0) {
        write!(
            sink,
            "{separator}{{\"block_bytes\":{},\"slabs\":{},\"live_blocks\":{},\"binned_blocks\":{},\
             \"stored_blocks\":{},\"given_blocks\":{},\"taken_blocks\":{}}}",
            class.block_bytes,
            class.slabs,
            class.live_blocks(),
            class.binned_blocks,
            class.stored_blocks,
            class.given_blocks,
            class.taken_blocks,
        )?;
        separator = ",";
    }
    write!(sink, "],\"heaps\":[")?;
    separator = "";
    for heap in heaps() {
        write!(
            sink,
            "{separator}{{\"thread\":{},\"binned_bytes\":{}}}",
            heap.thread, heap.binned_bytes,
        )?;
        separator = ",";
    }
    write!(sink, "]}}")
}
