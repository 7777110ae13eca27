//! Chunks of 4 MiB, cut into 64 units; the first holds the metadata (the books) of the others.
//!
//! ```text
//!  chunk   ┌──────────┬────────┬────────┬─────────────────────────┬────────┬─ ─ ─┬─────────┐
//!  4 MiB   │ 0: books │ 1 slab │ 2 slab │ 3 … 6: a run            │ 7 free │     │ 63 slab │
//!          └────┬─────┴────────┴────────┴─────────────────────────┴────────┴─ ─ ─┴─────────┘
//!               │         64 KiB each: a slab has blocks of one class, a run is one block
//!               ├─ Chunk: which units are free, which of them dirty, since when
//!               ├─ 64 × Unit: what it is; as a slab: its class, blocks out, dirty pages, links
//!               └─ 4,096 bits a slab: which of its blocks are free
//! ```
//! No metadata of a block lies in or beside the block: a free block is never touched, its pages can go back while it is
//! free, and a program that writes past a block's end corrupts no books.
//!
//! Invariant: fields documented as the pool's are accessed under the pool's lock, a slab's under the lock of its
//! class's depot. A thread that holds a block of the unit may read `kind` and `class`: they don't change while one of
//! its blocks is out.

pub mod book_pages;

use core::cell::Cell;
#[cfg(feature = "hardened")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::list::{Link, Linked};
use crate::sys::{self, PAGE_BYTES};

/// `log2` of [`UNIT_BYTES`].
pub const UNIT_SHIFT: u32 = 16;
/// A slab, or a step of a run.
pub const UNIT_BYTES: usize = 1 << UNIT_SHIFT;
/// Units of a chunk: one bit each of a word.
pub const UNITS: usize = 64;
/// Bytes of a chunk, and its alignment.
pub const CHUNK_BYTES: usize = UNIT_BYTES * UNITS;
/// Units that the books take.
pub const BOOK_UNITS: usize = size_of::<Chunk>().div_ceil(UNIT_BYTES);
/// Units that a slab takes, the first at a multiple of this number: the slab's own, and in hardened builds an
/// inaccessible guard unit behind it.
pub const SLAB_UNITS: usize = if cfg!(feature = "hardened") { 2 } else { 1 };
/// Slabs that a chunk could have, were there no books.
const SLABS: usize = UNITS / SLAB_UNITS;
/// Words of bits of a slab: a bit for each block of 16 bytes.
pub const WORDS: usize = UNIT_BYTES / 16 / 64;

const _: () = assert!(UNIT_BYTES / PAGE_BYTES == u16::BITS as usize);

/// Number of a depot's lists of slabs with free blocks (the `L` of `Linked`) …
pub const PARTIAL: usize = 0;
/// … and of its list of slabs that got blocks back not long ago.
pub const AGING: usize = 1;

/// Number of the pool's lists of chunks by their longest free run …
pub const BY_FREE: usize = 0;
/// … of those by their longest dirty free run …
pub const BY_DIRTY: usize = 1;
/// … and of the list of chunks with dirty free units, or pages of books that no slab needs.
pub const DIRTY: usize = 2;

/// The use of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// In the pool, or part of a run behind its first unit, or the books.
    None = 0,
    /// Blocks of one class.
    Slab = 1,
    /// The first unit of a run that is one block.
    Run = 2,
}

/// The books of one unit.
#[repr(C, align(64))]
pub struct Unit {
    kind: AtomicU8,
    class: AtomicU8,
    /// The list of its depot that a slab is in; see `depot`.
    pub bucket: Cell<u8>,
    /// True while a slab is in its depot's list of aging slabs.
    pub is_aging: Cell<bool>,
    /// Blocks of a slab that are out: in bins, in the depot's store, with the program.
    pub used: Cell<u16>,
    /// Pages (of 4 KiB) of a slab that may be resident.
    pub dirty_pages: Cell<u16>,
    /// The time at which a slab entered the list of aging ones, in milliseconds.
    pub stamp: Cell<u32>,
    /// Units of a run.
    pub run_units: Cell<u16>,
    /// No word of bits before this one has a free block.
    pub first_word: Cell<u8>,
    /// The record of a sampled block, else 0; see `heap_profile`.
    pub sample: Cell<u32>,
    partial: Link<Unit>,
    aging: Link<Unit>,
}

/// The books of a chunk, at its start.
#[repr(C)]
pub struct Chunk {
    /// Units that are in the pool (bit `n`: unit `n`).
    pub free: Cell<u64>,
    /// Units in the pool with resident pages.
    pub dirty: Cell<u64>,
    /// Units that the chunk has: all but the books, fewer where memory was short.
    pub usable: Cell<u64>,
    /// Bytes mapped, from the start.
    pub mapped_bytes: Cell<usize>,
    /// True if huge pages were requested from the kernel when the chunk was mapped …
    pub may_have_huge_pages: Cell<bool>,
    /// … and the kernel still makes new huge pages there.
    pub wants_huge_pages: AtomicBool,
    /// True if units never used may be resident, as parts of huge pages; the pool's.
    pub has_unused_pages: Cell<bool>,
    /// Pages of the books with bits of former slabs, and the time since which the last unit is no slab.
    pub stale_books: Cell<u16>,
    pub books_stamp: Cell<u32>,
    /// True in the list of chunks with something to give back.
    pub is_waiting: Cell<bool>,
    /// Longest run of `free`, and of `free & dirty`: the lists that the chunk is in, 0 for none.
    pub longest_free: Cell<u8>,
    pub longest_dirty: Cell<u8>,
    by_free: Link<Chunk>,
    by_dirty: Link<Chunk>,
    among_dirty: Link<Chunk>,
    /// The shard whose depots a slab belongs to. Apart from the other books of a unit, which change all the time: this
    /// is read for each block that goes back, by any thread.
    pub shards: [AtomicU8; UNITS],
    /// The times at which units came to the pool, in milliseconds.
    pub stamps: [Cell<u32>; UNITS],
    units: [Unit; UNITS],
    bits: [[Cell<u64>; WORDS]; SLABS],
    /// Blocks that the program holds; each free is checked against these bits.
    #[cfg(feature = "hardened")]
    live: [[AtomicU64; WORDS]; SLABS],
}

impl Unit {
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.kind.load(Ordering::Relaxed) {
            1 => Kind::Slab,
            2 => Kind::Run,
            _ => Kind::None,
        }
    }

    /// The class of a slab, else 0.
    #[inline]
    pub fn class(&self) -> usize {
        usize::from(self.class.load(Ordering::Relaxed))
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are 41 classes")]
    pub fn set(&self, kind: Kind, class: usize) {
        self.class.store(class as u8, Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// The chunk that the unit is in.
    pub fn chunk(&self) -> &'static Chunk {
        Chunk::holding(core::ptr::from_ref(self).cast::<u8>().cast_mut())
    }

    /// The index of the unit in its chunk.
    pub fn index(&self) -> usize {
        let offset = core::ptr::from_ref(self).addr() - self.chunk().units.as_ptr().addr();
        offset / size_of::<Self>() % UNITS
    }

    /// The first byte of the unit's memory.
    pub fn base(&self) -> *mut u8 {
        self.chunk().base_of(self.index())
    }

    /// The bits of a slab's free blocks, one each, the lowest block first.
    pub fn bits(&self) -> &'static [Cell<u64>; WORDS] {
        &self.chunk().bits[self.index() / SLAB_UNITS % SLABS]
    }

    #[cfg(feature = "hardened")]
    pub fn live(&self) -> &'static [AtomicU64; WORDS] {
        &self.chunk().live[self.index() / SLAB_UNITS % SLABS]
    }
}

impl Chunk {
    /// The chunk that a pointer into one points into.
    ///
    /// The caller knows that the chunk exists: from the map of chunks, or since it holds one of the chunk's blocks or
    /// units. The pointer keeps its provenance, which must be the whole chunk's.
    #[inline]
    pub fn holding(pointer: *mut u8) -> &'static Self {
        let chunk = pointer.map_addr(|address| address & !(CHUNK_BYTES - 1));
        // SAFETY: a chunk starts at each multiple of its size that has one (the caller knows);
        // its books are zeroed or initialized memory and all their fields are cells or atomics.
        unsafe { &*chunk.cast::<Self>() }
    }

    /// The unit that an address of this chunk is in.
    #[inline]
    pub fn unit_at(&self, address: usize) -> &'static Unit {
        self.unit(address >> UNIT_SHIFT)
    }

    /// The unit of a number, modulo 64.
    #[inline]
    pub fn unit(&self, index: usize) -> &'static Unit {
        let chunk = Self::holding(core::ptr::from_ref(self).cast::<u8>().cast_mut());
        &chunk.units[index % UNITS]
    }

    /// The first byte of a unit's memory.
    #[inline]
    pub fn base_of(&self, index: usize) -> *mut u8 {
        // SAFETY: at most 63 units behind the start of a chunk of 64.
        unsafe { self.start().add(index % UNITS * UNIT_BYTES) }
    }

    /// Gives the memory of whole pages of the chunk back; they read as zeros afterwards. False: the kernel refused.
    ///
    /// The kernel unmaps a part of a huge page, but keeps all of its memory for as long as the rest is mapped, until
    /// memory is short; so a huge page has to be split before. And where pages are missing the kernel makes huge ones
    /// again in the background, resident as a whole (`max_ptes_none`), unless the chunk no longer asks for them.
    ///
    /// # Safety
    /// The pages are the chunk's, and their content is not used again.
    pub unsafe fn purge(&self, base: *mut u8, bytes: usize) -> bool {
        if self.may_have_huge_pages.get() {
            // SAFETY: promised by the caller.
            unsafe { sys::split_huge_pages(base, bytes) };
            if self.wants_huge_pages.swap(false, Ordering::Relaxed) {
                sys::advise_huge_pages(self.start(), self.mapped_bytes.get(), false);
            }
        }
        // SAFETY: promised by the caller.
        unsafe { sys::purge(base, bytes) }
    }

    /// The first byte of the chunk.
    pub fn start(&self) -> *mut u8 {
        core::ptr::from_ref(self).cast::<u8>().cast_mut()
    }
}

/// `units` bits from bit `first` on.
#[inline]
pub const fn span(first: usize, units: usize) -> u64 {
    debug_assert!(units > 0 && first + units <= UNITS);
    (u64::MAX >> (UNITS - units)) << first
}

impl Linked<PARTIAL> for Unit {
    fn link(&self) -> &Link<Self> {
        &self.partial
    }
}

impl Linked<AGING> for Unit {
    fn link(&self) -> &Link<Self> {
        &self.aging
    }
}

impl Linked<BY_FREE> for Chunk {
    fn link(&self) -> &Link<Self> {
        &self.by_free
    }
}

impl Linked<BY_DIRTY> for Chunk {
    fn link(&self) -> &Link<Self> {
        &self.by_dirty
    }
}

impl Linked<DIRTY> for Chunk {
    fn link(&self) -> &Link<Self> {
        &self.among_dirty
    }
}
