//! A depot for each class and shard: the source of blocks for threads' bins, and where bins flush
//! to.
//!
//! ```text
//!    bins of threads        depot of a class                    slabs of the class
//!   ┌───┬───┬───┐  batch   ┌──────────────────┐   what does    ┌────────────────────┐
//!   │ p │ p │ p │ ───────▶ │ store: p p p p p │ ─ not fit ───▶ │ 0010110… free bits │ ─▶ pool, when
//!   └───┴───┴───┘ ◀─────── └──────────────────┘ ◀─ when empty ─ └────────────────────┘    all are 1
//!                  one lock a batch                fullest slab first, lowest address first
//! ```
//! Threads are spread over shards, one a processor. A block goes back to the shard of its slab,
//! whichever thread frees it, and from there to any thread of that shard: there is no list of
//! remote frees. A thread that only frees fills the stores, and from then on bits of slabs.
//!
//! Invariant: `Unit::used` is the number of clear bits of a slab, and those blocks are in bins, in
//! stores or with the program. A slab with used 0 is the last of its depot, and goes when it has aged.
//!
//! A slab that got blocks back enters the list of aging ones; when the decay has passed, pages whose
//! blocks are all free go back to the system (`pages.rs`).

#[cfg(all(loom, test))]
mod modeled;
mod pages;

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::{ptr, slice};

use crate::chunk::{AGING, Chunk, Kind, PARTIAL, SLAB_UNITS, UNIT_BYTES, UNITS, Unit, WORDS};
use crate::chunk_map;
use crate::deadline::{self, Age};
use crate::list::List;
use crate::meta::META;
use crate::pool::{POOL, Run};
use crate::profile;
use crate::report;
use crate::size_class::{BLOCK_BYTES, CLASSES, blocks_a_slab, index_in_slab};
use crate::sync::Lock;
use crate::sys::{self, PAGE_BYTES};
use pages::{free_pages, low_bits, pages_of, purge_pages, whole_pages};

/// Slabs with free blocks, by how full they are: quarters.
const BUCKETS: usize = 4;
/// In no bucket: full.
const UNLISTED: u8 = u8::MAX;
/// In no bucket: its pages are being given back.
const PURGING: u8 = u8::MAX - 1;

/// Shards there can be: more would only hold more slabs that are partly used.
pub const SHARDS_MAX: usize = 32;

static DEPOTS: [[Depot; CLASSES]; SHARDS_MAX] =
    [const { [const { Depot::new() }; CLASSES] }; SHARDS_MAX];
/// Shards in use.
static SHARDS: AtomicUsize = AtomicUsize::new(1);

/// The blocks of a class that the threads of a shard share.
#[repr(align(128))]
pub(crate) struct Depot {
    pub lock: Lock,
    stored: Cell<usize>,
    /// True if a batch came in since the last purge.
    is_touched: AtomicBool,
    partial: [List<Unit, PARTIAL>; BUCKETS],
    aging: List<Unit, AGING>,
    slabs: Cell<usize>,
    /// Blocks that left slabs less those that came back.
    out: Cell<usize>,
    /// Blocks given to bins, and taken from them, ever.
    given: Cell<u64>,
    taken: Cell<u64>,
    /// A block was freed twice: a slab that looks empty may have one that is in use.
    has_misuse: Cell<bool>,
    /// Slots for as many blocks as the profile wanted when the first block came.
    store: Cell<*mut *mut u8>,
    store_slots: Cell<usize>,
}

// SAFETY: cells are touched under the lock only.
unsafe impl Sync for Depot {}

/// Statistics of a class.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassStats {
    /// Bytes of each block.
    pub block_bytes: usize,
    /// Units that are slabs of this class.
    pub slabs: usize,
    /// Blocks that left slabs: in stores, in bins, or with the program.
    pub out_blocks: usize,
    /// Blocks in the depot's store.
    pub stored_blocks: usize,
    /// Blocks in threads' bins.
    pub binned_blocks: usize,
    /// Blocks given to bins, ever: a lower bound of allocations.
    pub given_blocks: u64,
    /// Blocks taken from bins, ever.
    pub taken_blocks: u64,
}

impl ClassStats {
    /// Adds the statistics of another shard.
    pub(crate) fn add(&mut self, other: Self) {
        self.block_bytes = other.block_bytes;
        self.slabs += other.slabs;
        self.out_blocks += other.out_blocks;
        self.stored_blocks += other.stored_blocks;
        self.given_blocks += other.given_blocks;
        self.taken_blocks += other.taken_blocks;
    }

    /// Blocks that are with the program.
    #[must_use]
    pub fn live_blocks(&self) -> usize {
        self.out_blocks
            .saturating_sub(self.stored_blocks + self.binned_blocks)
    }
}

/// The depot of a class in a shard.
pub(crate) fn of(shard: usize, class: usize) -> &'static Depot {
    &DEPOTS[shard % SHARDS_MAX][class % CLASSES]
}

/// All depots in use with their classes, in lock order.
pub(crate) fn all() -> impl DoubleEndedIterator<Item = (usize, &'static Depot)> {
    let shards = &DEPOTS[..shards()];
    shards
        .iter()
        .flat_map(|depots| depots.iter().enumerate().skip(1))
}

/// Shards in use.
pub(crate) fn shards() -> usize {
    SHARDS.load(Ordering::Relaxed).clamp(1, SHARDS_MAX)
}

/// Sets one shard a processor. Once, before there is a second thread.
pub(crate) fn set_processors(processors: usize) {
    SHARDS.store(processors.clamp(1, SHARDS_MAX), Ordering::Relaxed);
}

/// The shard of the slab that a block is in.
pub(crate) fn shard_of(block: *mut u8) -> usize {
    let shards = &Chunk::holding(block).shards;
    usize::from(shards[block.addr() / UNIT_BYTES % UNITS].load(Ordering::Relaxed))
}

/// The destination of blocks that are returned to a depot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Into the store while it has room: the blocks are wanted again soon.
    Store,
    /// Into their slabs: the thread that returns them does not go on.
    Slabs,
    /// Into their slabs, and they have been free for the decay time already.
    Aged,
}

/// Brings blocks of a class to the depots they belong to. Their order changes.
pub(crate) fn take_all(class: usize, mut blocks: &mut [*mut u8], place: Place) {
    while let Some(&first) = blocks.first() {
        let shard = shard_of(first);
        let mut count = 1;
        for index in 1..blocks.len() {
            if shard_of(blocks[index]) == shard {
                blocks.swap(index, count);
                count += 1;
            }
        }
        let (own, others) = blocks.split_at_mut(count);
        of(shard, class).take(class, own.iter().copied(), place);
        blocks = others;
    }
}

impl Depot {
    const fn new() -> Self {
        Self {
            lock: Lock::new(),
            stored: Cell::new(0),
            is_touched: AtomicBool::new(false),
            partial: [const { List::new() }; BUCKETS],
            aging: List::new(),
            slabs: Cell::new(0),
            out: Cell::new(0),
            given: Cell::new(0),
            taken: Cell::new(0),
            has_misuse: Cell::new(false),
            store: Cell::new(ptr::null_mut()),
            store_slots: Cell::new(0),
        }
    }

    /// Gives up to `wanted` blocks to `bin`, the one to use first last. Returns how many: none only
    /// if there is no memory. `bin` runs under the lock, and may not allocate.
    pub fn give(
        &self,
        (shard, class): (usize, usize),
        wanted: usize,
        mut bin: impl FnMut(*mut u8),
    ) -> usize {
        let _guard = self.lock.lock();
        let stored = self.stored.get();
        if stored > 0 {
            let count = wanted.min(stored);
            self.stored_blocks()[stored - count..]
                .iter()
                .for_each(|&block| bin(block));
            self.stored.set(stored - count);
            self.given.set(self.given.get() + count as u64);
            return count;
        }
        let Some(slab) = self.fullest().or_else(|| self.new_slab(shard, class)) else {
            return 0;
        };
        let count = self.give_from(slab, class, wanted, &mut bin);
        self.given.set(self.given.get() + count as u64);
        count
    }

    /// Takes blocks back; those beyond the store's capacity go into their slabs.
    fn take(&self, class: usize, blocks: impl ExactSizeIterator<Item = *mut u8>, place: Place) {
        let guard = self.lock.lock();
        let capacity = match place {
            Place::Store => self.store_capacity(class),
            Place::Slabs | Place::Aged => 0,
        };
        self.taken.set(self.taken.get() + blocks.len() as u64);
        self.is_touched.store(true, Ordering::Relaxed);
        let mut blocks = blocks;
        while self.stored.get() < capacity {
            let Some(block) = blocks.next() else { break };
            // SAFETY: below the capacity there are slots, of this depot alone.
            unsafe { self.store.get().add(self.stored.get()).write(block) };
            self.stored.set(self.stored.get() + 1);
        }
        if blocks.len() == 0 {
            drop(guard);
            if deadline::is_idle() {
                deadline::note(sys::now_ms());
            }
            return;
        }
        let now = sys::now_ms();
        let age = match place {
            Place::Aged => Age::Past,
            Place::Store | Place::Slabs => Age::Since(now),
        };
        for block in blocks {
            self.put_back(class, block, age);
        }
        drop(guard);
        deadline::note(now);
    }

    /// Gives back the pages of free blocks of slabs that have aged for `decay_ms`; the store's
    /// blocks too if no batch came in since the last purge. Returns the bytes that went back.
    pub fn purge(&self, class: usize, now: u32, decay_ms: u32) -> usize {
        let mut guard = self.lock.lock();
        if !self.is_touched.swap(false, Ordering::Relaxed) || decay_ms == 0 {
            self.empty_store(class);
        }
        let mut purged = 0;
        // Each is looked at once: a busy class goes on adding.
        let mut looks = self.slabs.get();
        while let Some(slab) = self.aging.first() {
            if looks == 0 || !deadline::has_passed(slab.stamp.get(), now, decay_ms) {
                break;
            }
            looks -= 1;
            self.aging.remove(slab);
            slab.is_aging.set(false);
            let pages = whole_pages(free_pages(slab, class) & slab.dirty_pages.get());
            if pages == 0 && slab.used.get() > 0 {
                continue;
            }
            // Off the lists, no thread takes blocks from it; blocks that come back only set bits.
            self.unlist(slab);
            slab.bucket.set(PURGING);
            let used = slab.used.get();
            drop(guard);
            let gone = purge_pages(slab, pages);
            guard = self.lock.lock();
            slab.dirty_pages.set(slab.dirty_pages.get() & !gone);
            purged += gone.count_ones() as usize * PAGE_BYTES;
            if slab.used.get() == 0 && !self.has_misuse.get() {
                self.release(slab, Age::Past);
            } else {
                self.relist(slab, class);
                // Pages that the kernel refused, locked ones, are offered again.
                if slab.used.get() < used || gone != pages {
                    slab.is_aging.set(true);
                    self.age(slab, Age::Since(sys::now_ms()));
                }
            }
        }
        purged
    }

    /// True if [`Depot::purge`] has slabs or stored blocks to look at.
    pub fn has_aging(&self) -> bool {
        let _guard = self.lock.lock();
        !self.aging.is_empty() || self.stored.get() > 0
    }

    /// Statistics of the depot; the caller adds the blocks in bins.
    pub fn stats(&self, class: usize) -> ClassStats {
        let _guard = self.lock.lock();
        ClassStats {
            block_bytes: BLOCK_BYTES[class % CLASSES],
            slabs: self.slabs.get(),
            out_blocks: self.out.get(),
            stored_blocks: self.stored.get(),
            binned_blocks: 0,
            given_blocks: self.given.get(),
            taken_blocks: self.taken.get(),
        }
    }

    /// Puts the store's blocks into their slabs: they have aged already.
    fn empty_store(&self, class: usize) {
        for &block in self.stored_blocks() {
            self.put_back(class, block, Age::Past);
        }
        self.stored.set(0);
    }

    fn stored_blocks(&self) -> &[*mut u8] {
        match self.stored.get() {
            0 => &[],
            // SAFETY: the first slots are filled, and only changed under the lock.
            stored => unsafe { slice::from_raw_parts(self.store.get(), stored) },
        }
    }

    /// Blocks that may be stored, at most. The slots are allocated at the first use: most classes
    /// of most shards never need them.
    fn store_capacity(&self, class: usize) -> usize {
        let wanted = profile::current().numbers().depot_capacity(class);
        if self.store.get().is_null()
            && let Some(slots) = META.allocate(wanted * size_of::<*mut u8>())
        {
            self.store.set(slots.cast());
            self.store_slots.set(wanted);
        }
        wanted.min(self.store_slots.get())
    }

    fn fullest(&self) -> Option<&'static Unit> {
        self.partial.iter().rev().find_map(List::first)
    }

    fn new_slab(&self, shard: usize, class: usize) -> Option<&'static Unit> {
        let run = POOL.take(SLAB_UNITS, SLAB_UNITS)?;
        #[cfg(feature = "hardened")]
        crate::hardened::guard(run, true);
        let slab = run.chunk.unit(run.first);
        let blocks = blocks_a_slab(class);
        for (word, bits) in slab.bits().iter().enumerate() {
            bits.set(low_bits(blocks.saturating_sub(word * 64)));
        }
        run.chunk.shards[run.first % UNITS].store(low_u8(shard), Ordering::Relaxed);
        slab.used.set(0);
        slab.first_word.set(0);
        // Pages that earlier users left dirty are resident already.
        slab.dirty_pages
            .set(if run.is_clean { 0 } else { u16::MAX });
        slab.bucket.set(UNLISTED);
        slab.is_aging.set(false);
        slab.set(Kind::Slab, class);
        chunk_map::set_class(run.base().addr(), class);
        self.slabs.set(self.slabs.get() + 1);
        self.relist(slab, class);
        Some(slab)
    }

    /// Takes blocks out of a slab's bits, the lowest first, as many as one look at its words gives.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn give_from(
        &self,
        slab: &'static Unit,
        class: usize,
        wanted: usize,
        bin: &mut impl FnMut(*mut u8),
    ) -> usize {
        let (base, block_bytes) = (slab.base(), BLOCK_BYTES[class % CLASSES]);
        let words = slab.bits();
        let mut batch = [0_u16; BATCH_MAX];
        let wanted = wanted.min(BATCH_MAX);
        let mut count = 0;
        let mut word = usize::from(slab.first_word.get());
        while count < wanted && word < WORDS {
            let bits = words[word].get();
            if bits == 0 {
                word += 1;
                continue;
            }
            let bit = pick(bits);
            words[word].set(bits & !(1 << bit));
            batch[count] = low_u16(word * 64 + bit as usize);
            count += 1;
        }
        slab.first_word.set(low_u8(word.min(WORDS - 1)));
        let mut pages = slab.dirty_pages.get();
        for &index in batch[..count].iter().rev() {
            let offset = usize::from(index) * block_bytes;
            pages |= pages_of(offset, block_bytes);
            // SAFETY: blocks of a slab lie within its unit.
            let block = unsafe { base.add(offset) };
            #[cfg(feature = "hardened")]
            crate::hardened::mark_fresh(block, block_bytes);
            bin(block);
        }
        slab.dirty_pages.set(pages);
        slab.used.set(slab.used.get() + low_u16(count));
        self.out.set(self.out.get() + count);
        self.relist(slab, class);
        count
    }

    /// Sets a block's bit. A pointer that is no block of this class that is out is reported and
    /// ignored.
    fn put_back(&self, class: usize, block: *mut u8, age: Age) {
        let slab = Chunk::holding(block).unit_at(block.addr());
        let offset = block.addr() % UNIT_BYTES;
        let index = index_in_slab(class, offset);
        let is_start = index * BLOCK_BYTES[class % CLASSES] == offset;
        if !is_start || index >= blocks_a_slab(class) || slab.class() != class {
            report::misuse("free of a pointer into a block", block, class);
            return;
        }
        let (word, bit) = (index / 64 % WORDS, 1_u64 << (index % 64));
        let bits = &slab.bits()[word];
        if bits.get() & bit != 0 {
            self.has_misuse.set(true);
            report::misuse("double free", block, class);
            return;
        }
        bits.set(bits.get() | bit);
        if word < usize::from(slab.first_word.get()) {
            slab.first_word.set(low_u8(word));
        }
        slab.used.set(slab.used.get() - 1);
        self.out.set(self.out.get() - 1);
        if slab.bucket.get() == PURGING {
            return;
        }
        // The last slab stays until it has aged: its pages are resident, and the next blocks of
        // this class would touch others.
        let is_last = self.slabs.get() == 1;
        if slab.used.get() == 0 && !is_last && !self.has_misuse.get() {
            self.release(slab, age);
            return;
        }
        self.relist(slab, class);
        if !slab.is_aging.replace(true) {
            self.age(slab, age);
        }
    }

    fn age(&self, slab: &'static Unit, age: Age) {
        slab.stamp.set(age.stamp());
        match age {
            Age::Since(_) => self.aging.push_back(slab),
            Age::Past => self.aging.push_front(slab),
        }
    }

    /// Puts an empty slab into the pool, where it goes on aging.
    fn release(&self, slab: &'static Unit, age: Age) {
        self.unlist(slab);
        if slab.is_aging.replace(false) {
            self.aging.remove(slab);
        }
        self.slabs.set(self.slabs.get() - 1);
        // The unit behind a guarded slab may have been dirty before.
        let is_dirty = slab.dirty_pages.get() != 0 || SLAB_UNITS > 1;
        chunk_map::set_class(slab.base().addr(), 0);
        slab.set(Kind::None, 0);
        let run = Run {
            chunk: slab.chunk(),
            first: slab.index(),
            units: SLAB_UNITS,
            is_clean: !is_dirty,
            had_slab: true,
        };
        #[cfg(feature = "hardened")]
        crate::hardened::guard(run, false);
        POOL.put_aged(run, age);
    }

    fn unlist(&self, slab: &'static Unit) {
        if let Some(list) = self.partial.get(usize::from(slab.bucket.get())) {
            list.remove(slab);
        }
        slab.bucket.set(UNLISTED);
    }

    fn relist(&self, slab: &'static Unit, class: usize) {
        let bucket = bucket_of(slab, class);
        if bucket != slab.bucket.get() {
            self.unlist(slab);
            slab.bucket.set(bucket);
            if let Some(list) = self.partial.get(usize::from(bucket)) {
                list.push_front(slab);
            }
        }
    }
}

/// Blocks that are given at once at the most.
const BATCH_MAX: usize = 128;

/// The lowest of the bits, which are not 0 …
#[cfg(not(feature = "hardened"))]
fn pick(bits: u64) -> u32 {
    bits.trailing_zeros()
}

/// … or any of them: an attacker that can have a block freed must not know the next one's address.
#[cfg(feature = "hardened")]
fn pick(bits: u64) -> u32 {
    let turn = crate::hardened::chance() % u64::BITS;
    (bits.rotate_right(turn).trailing_zeros() + turn) % u64::BITS
}

/// The list for a slab: by quarters of its blocks that are out, none for a full one.
fn bucket_of(slab: &Unit, class: usize) -> u8 {
    let (used, blocks) = (usize::from(slab.used.get()), blocks_a_slab(class));
    if used >= blocks {
        return UNLISTED;
    }
    low_u8(used * BUCKETS / blocks.max(1))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "blocks of a slab: at most 4,096"
)]
fn low_u16(number: usize) -> u16 {
    number as u16
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "words and buckets: at most 64"
)]
fn low_u8(number: usize) -> u8 {
    number as u8
}
