//! The pool of free units: one for the process; dirty units are taken first, and they decay.
//!
//! ```text
//!   by_dirty[n]  chunks whose longest run of dirty free units has n   ─┐ first: no page fault
//!   by_free[n]   chunks whose longest run of free units has n         ─┤ then
//!                a new chunk                                          ─┘ last
//! ```
//! The smallest sufficient run is taken, so chunks that are nearly empty get empty and go back whole. A unit that comes
//! back is dirty; after a decay time without use its memory goes back to the system, and its place stays.
//!
//! Invariant: a unit is free in `Chunk::free` or belongs to exactly one slab or run. While memory is
//! given back its unit is not free, so the system call needs no lock.

mod buckets;

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::chunk::book_pages;
use crate::chunk::{
    BOOK_UNITS, BY_DIRTY, BY_FREE, CHUNK_BYTES, Chunk, DIRTY, UNIT_BYTES, UNITS, span,
};
use crate::chunk_map::CHUNK_MAP;
use crate::deadline::{self, Age};
use crate::held::{self, DIRTY_UNITS};
use crate::list::List;
use crate::profile;
use crate::sync::Lock;
use crate::sys;
use buckets::{Buckets, first_run, longest_run, multiples};

/// Bytes of a chunk: less where 4 MiB at once can't be had.
const MAPPED_BYTES: [usize; 3] = [CHUNK_BYTES, CHUNK_BYTES / 4, CHUNK_BYTES / 16];
/// Bytes of a chunk's books.
const BOOK_BYTES: usize = BOOK_UNITS * UNIT_BYTES;
/// Empty chunks that are kept, so that a program at the edge of one does not map and unmap.
const SPARE_CHUNKS: usize = 1;

pub(crate) static POOL: Pool = Pool {
    lock: Lock::new(),
    by_free: Buckets::new(),
    by_dirty: Buckets::new(),
    dirty_chunks: List::new(),
    chunks: AtomicUsize::new(0),
    reserved_chunks: AtomicUsize::new(0),
};

pub(crate) struct Pool {
    pub lock: Lock,
    by_free: Buckets<BY_FREE>,
    by_dirty: Buckets<BY_DIRTY>,
    dirty_chunks: List<Chunk, DIRTY>,
    chunks: AtomicUsize,
    reserved_chunks: AtomicUsize,
}

// SAFETY: cells are touched under the lock only.
unsafe impl Sync for Pool {}

/// Units in a row, taken out of the pool.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub chunk: &'static Chunk,
    pub first: usize,
    pub units: usize,
    /// True if all of the run reads as zeros: none of its pages is resident.
    pub is_clean: bool,
    /// True if its first unit was a slab.
    pub had_slab: bool,
}

/// The result of a look for free units.
enum Found {
    Run(Run),
    Nothing,
}

impl Run {
    pub fn base(&self) -> *mut u8 {
        self.chunk.base_of(self.first)
    }

    fn mask(&self) -> u64 {
        span(self.first, self.units)
    }
}

impl Pool {
    /// Takes `units` units in a row, the first at a multiple of `align` units. `None`: no memory.
    pub fn take(&self, units: usize, align: usize) -> Option<Run> {
        loop {
            let guard = self.lock.lock();
            if let Found::Run(run) = self.take_free(units, align)? {
                return Some(run);
            }
            drop(guard);
            let chunk = new_chunk()?;
            let has_room = (chunk.usable.get().count_ones() as usize) >= units + align - 1;
            let _guard = self.lock.lock();
            self.chunks.fetch_add(1, Ordering::Relaxed);
            self.enter(chunk);
            if !has_room {
                return None;
            }
        }
    }

    /// Takes the units behind a run if they are free: the run can grow where it stands.
    pub fn extend(&self, chunk: &'static Chunk, first: usize, units: usize) -> bool {
        if first + units > UNITS {
            return false;
        }
        let _guard = self.lock.lock();
        let wanted = span(first, units);
        if chunk.free.get() & wanted != wanted || !held::take(clean_bytes(chunk, wanted)) {
            return false;
        }
        self.remove(chunk);
        self.set_free(chunk, chunk.free.get() & !wanted);
        self.enter(chunk);
        true
    }

    /// Puts units back, which decay from now on.
    pub fn put(&self, run: Run) {
        self.put_aged(run, Age::Since(sys::now_ms()));
    }

    /// Puts units back that have been free for a while already.
    pub fn put_aged(&self, run: Run, age: Age) {
        let guard = self.lock.lock();
        self.remove(run.chunk);
        let stamp = age.stamp();
        for unit in run.first..run.first + run.units {
            run.chunk.stamps[unit % UNITS].set(stamp);
        }
        run.chunk.free.set(run.chunk.free.get() | run.mask());
        if !run.is_clean {
            run.chunk.dirty.set(run.chunk.dirty.get() | run.mask());
        }
        if run.had_slab {
            run.chunk.note_unused_bits(run.first, stamp);
        }
        self.enter(run.chunk);
        drop(guard);
        let waits = !run.is_clean || run.had_slab;
        if waits && deadline::is_idle() {
            deadline::note(sys::now_ms());
        }
        let bytes = run.units * UNIT_BYTES;
        match run.is_clean {
            true => held::give(bytes),
            false => held::note_free(bytes),
        }
    }

    /// Gives back units that have been free for `decay_ms`, and chunks that are empty. Returns the bytes that went
    /// back.
    pub fn purge(&self, now: u32, decay_ms: u32) -> usize {
        let purged = self.purge_some(now, decay_ms, usize::MAX);
        self.unmap_empty();
        purged
    }

    /// Gives back `enough` bytes, or a chunk's more, of units that have been free for `decay_ms`. Returns the bytes
    /// that went back.
    pub fn purge_some(&self, now: u32, decay_ms: u32, enough: usize) -> usize {
        let mut purged = 0;
        let mut guard = self.lock.lock();
        let mut left = self.chunks.load(Ordering::Relaxed);
        while let Some(chunk) = self.dirty_chunks.first() {
            if left == 0 || purged >= enough {
                break;
            }
            left -= 1;
            let old = aged(chunk, now, decay_ms);
            let books = aged_books(chunk, now, decay_ms);
            let purged_units = old | unused_beside(chunk, old);
            let taken = purged_units | book_pages::units_of(books) & chunk.free.get();
            // Beside books that go back, units may be dirty that are not old yet.
            let young = chunk.dirty.get() & taken & !old;
            self.remove(chunk);
            // The next turn begins with another chunk: `enter` puts this one last.
            chunk.free.set(chunk.free.get() & !taken);
            chunk.stale_books.set(chunk.stale_books.get() & !books);
            self.enter(chunk);
            if old == 0 && books == 0 {
                continue;
            }
            drop(guard);
            let gone = purge_units(chunk, purged_units) & old;
            // SAFETY: those of their units that the chunk has were taken above.
            unsafe { chunk.purge_books(books) };
            let gone_bytes = gone.count_ones() as usize * UNIT_BYTES;
            held::give(gone_bytes);
            purged += gone_bytes;
            guard = self.lock.lock();
            self.remove(chunk);
            // A thread that took other units meanwhile has dropped these from `dirty`.
            chunk
                .dirty
                .set(chunk.dirty.get() & !old | old & !gone | young);
            chunk.free.set(chunk.free.get() | taken);
            self.enter(chunk);
        }
        drop(guard);
        purged
    }

    fn unmap_empty(&self) {
        while let Some(chunk) = self.take_empty() {
            // SAFETY: all of its units are free and it is in no list any more: no pointer into it is used.
            // `mapped_bytes` is the length of its mapping.
            if !unsafe { CHUNK_MAP.unmap(chunk.start(), chunk.mapped_bytes.get()) } {
                let _guard = self.lock.lock();
                self.chunks.fetch_add(1, Ordering::Relaxed);
                self.enter(chunk);
                return;
            }
            held::give(BOOK_BYTES);
        }
    }

    /// Maps chunks until `bytes` are free, or there is no memory.
    pub fn reserve(&self, bytes: usize) {
        self.reserved_chunks
            .store(bytes.div_ceil(CHUNK_BYTES), Ordering::Relaxed);
        for _ in 0..bytes.div_ceil(CHUNK_BYTES) {
            let Some(chunk) = new_chunk() else { return };
            let _guard = self.lock.lock();
            self.chunks.fetch_add(1, Ordering::Relaxed);
            self.enter(chunk);
        }
    }

    /// Bytes of free units with resident pages.
    pub fn dirty_bytes(&self) -> usize {
        DIRTY_UNITS.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// True when a chunk has something to give back.
    pub fn is_waiting(&self) -> bool {
        let _guard = self.lock.lock();
        !self.dirty_chunks.is_empty()
    }

    /// True if the pool has more than one chunk, and more than were mapped beforehand.
    pub fn has_grown(&self) -> bool {
        self.chunks() > SPARE_CHUNKS.max(self.reserved_chunks.load(Ordering::Relaxed))
    }

    /// Chunks there are.
    pub fn chunks(&self) -> usize {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Takes free units out of a chunk, if there are any. `None`: the limit on bytes held does not allow it.
    fn take_free(&self, units: usize, align: usize) -> Option<Found> {
        // A run of this length has an aligned place for the units wherever it starts.
        let length = units + align - 1;
        let by_dirty = self.by_dirty.at_least(length);
        let (chunk, among) = match by_dirty {
            Some(chunk) => (chunk, chunk.free.get() & chunk.dirty.get()),
            None => match self.by_free.at_least(length) {
                Some(chunk) => (chunk, chunk.free.get()),
                None => return Some(Found::Nothing),
            },
        };
        let Some(first) = first_run(among & multiples(align), among, units) else {
            return Some(Found::Nothing);
        };
        let mask = span(first, units);
        if !held::take(clean_bytes(chunk, mask)) {
            return None;
        }
        self.remove(chunk);
        let is_clean = chunk.dirty.get() & mask == 0;
        self.set_free(chunk, chunk.free.get() & !mask);
        self.enter(chunk);
        Some(Found::Run(Run {
            chunk,
            first,
            units,
            is_clean,
            had_slab: false,
        }))
    }

    /// Sets a chunk's free units. Units that are not free are not dirty for the pool either.
    #[expect(clippy::unused_self, reason = "the pool's lock guards the chunk")]
    fn set_free(&self, chunk: &'static Chunk, free: u64) {
        chunk.free.set(free);
        chunk.dirty.set(chunk.dirty.get() & free);
    }

    fn remove(&self, chunk: &'static Chunk) {
        self.by_free.remove(chunk, chunk.longest_free.get());
        if chunk.is_waiting.replace(false) {
            self.dirty_chunks.remove(chunk);
        }
        if chunk.longest_dirty.get() > 0 {
            self.by_dirty.remove(chunk, chunk.longest_dirty.get());
            let units = (chunk.free.get() & chunk.dirty.get()).count_ones() as usize;
            DIRTY_UNITS.fetch_sub(units, Ordering::Relaxed);
        }
    }

    /// Puts a chunk into the lists where it belongs.
    fn enter(&self, chunk: &'static Chunk) {
        let dirty = chunk.free.get() & chunk.dirty.get();
        chunk.longest_free.set(longest_run(chunk.free.get()));
        chunk.longest_dirty.set(longest_run(dirty));
        self.by_free.push(chunk, chunk.longest_free.get());
        if dirty != 0 {
            self.by_dirty.push(chunk, chunk.longest_dirty.get());
            DIRTY_UNITS.fetch_add(dirty.count_ones() as usize, Ordering::Relaxed);
        }
        if dirty != 0 || chunk.unused_books() != 0 {
            chunk.is_waiting.set(true);
            self.dirty_chunks.push_back(chunk);
        }
    }

    /// Takes out a chunk that is free and clean as a whole, if there are more than are kept.
    fn take_empty(&self) -> Option<&'static Chunk> {
        let _guard = self.lock.lock();
        let kept = SPARE_CHUNKS.max(self.reserved_chunks.load(Ordering::Relaxed));
        let mut found = 0;
        // Chunks that are cut short are empty with shorter runs.
        for list in self.by_free.lists.iter().rev() {
            let mut next = list.first();
            while let Some(chunk) = next {
                next = <List<Chunk, BY_FREE>>::next(chunk);
                if chunk.free.get() != chunk.usable.get() || chunk.dirty.get() != 0 {
                    continue;
                }
                found += 1;
                if found > kept {
                    self.remove(chunk);
                    self.chunks.fetch_sub(1, Ordering::Relaxed);
                    return Some(chunk);
                }
            }
        }
        None
    }
}

/// Bytes of a chunk's free `units` that are not resident.
fn clean_bytes(chunk: &Chunk, units: u64) -> usize {
    (units & !chunk.dirty.get()).count_ones() as usize * UNIT_BYTES
}

/// Free dirty units that have aged for `decay_ms`.
fn aged(chunk: &Chunk, now: u32, decay_ms: u32) -> u64 {
    let mut old = 0;
    let mut dirty = chunk.free.get() & chunk.dirty.get();
    while dirty != 0 {
        let unit = dirty.trailing_zeros() as usize;
        if deadline::has_passed(chunk.stamps[unit % UNITS].get(), now, decay_ms) {
            old |= 1 << unit;
        }
        dirty &= dirty - 1;
    }
    old
}

/// Pages of a chunk's books that no slab has needed for `decay_ms`.
fn aged_books(chunk: &Chunk, now: u32, decay_ms: u32) -> u16 {
    match deadline::has_passed(chunk.books_stamp.get(), now, decay_ms) {
        true => chunk.unused_books(),
        false => 0,
    }
}

/// Units never used, when the first units of a chunk go back: they are resident if they are parts of huge pages.
fn unused_beside(chunk: &Chunk, old: u64) -> u64 {
    match old != 0 && chunk.has_unused_pages.replace(false) {
        true => chunk.free.get() & !chunk.dirty.get(),
        false => 0,
    }
}

/// Gives units back. Returns those that the kernel took.
fn purge_units(chunk: &Chunk, mut units: u64) -> u64 {
    let mut gone = 0;
    while units != 0 {
        let first = units.trailing_zeros() as usize;
        let length = (units >> first).trailing_ones() as usize;
        // SAFETY: the caller holds these units: not free in the pool, and of no slab or run.
        if unsafe { chunk.purge(chunk.base_of(first), length * UNIT_BYTES) } {
            gone |= span(first, length);
        }
        units &= !span(first, length);
    }
    gone
}

fn new_chunk() -> Option<&'static Chunk> {
    if !held::take(BOOK_BYTES) {
        return None;
    }
    let mapped = MAPPED_BYTES.into_iter().find_map(|bytes| {
        let base = CHUNK_MAP.map(bytes, CHUNK_BYTES, |base| base.cast())?;
        Some((Chunk::holding(base), bytes))
    });
    let Some((chunk, bytes)) = mapped else {
        held::give(BOOK_BYTES);
        return None;
    };
    // If the kernel gives huge pages without a request, a chunk's first use would make 2 MiB resident.
    let wants_huge_pages = profile::huge_pages();
    sys::advise_huge_pages(chunk.start(), bytes, wants_huge_pages);
    chunk.may_have_huge_pages.set(wants_huge_pages);
    chunk.has_unused_pages.set(wants_huge_pages);
    chunk
        .wants_huge_pages
        .store(wants_huge_pages, Ordering::Relaxed);
    let units = bytes / UNIT_BYTES;
    chunk.mapped_bytes.set(bytes);
    chunk.usable.set(span(BOOK_UNITS, units - BOOK_UNITS));
    chunk.free.set(chunk.usable.get());
    Some(chunk)
}
