//! The owner of an address: a chunk, a single large block, or none.
//!
//! ```text
//!  address ─┬─ in the window (256 GiB from 64 GiB on): CLASS_OF_UNIT[unit]  one byte   ← free's way
//!           │                                          WINDOW[chunk]        one word
//!           └─ elsewhere (valgrind, sanitizers, full window): a tree of two levels, one word a chunk
//! ```
//! Addresses are chosen, not reserved: each chunk is mapped at an address of the window, by a hint
//! that the kernel follows as long as nothing is there. So free finds a block's class by subtraction
//! and one load, `ulimit -v` counts nothing that is not used, and where hints are not followed
//! everything works, only slower.
//!
//! Invariant: a unit's class is not 0 exactly while it is a slab inside the window. An address whose chunk has no entry
//! is not this allocator's.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use crate::chunk::{CHUNK_BYTES, Chunk, UNIT_BYTES};
use crate::huge::Huge;
use crate::meta::META;
use crate::sync::Lock;
use crate::sys;

/// Start of the window: above the addresses of programs, their break and sanitizers' low shadows, below those where the
/// kernel maps (39-bit address spaces of aarch64 included).
const WINDOW_BASE: usize = 1 << 36;
const WINDOW_BYTES: usize = 1 << 38;
const WINDOW_UNITS: usize = WINDOW_BYTES / UNIT_BYTES;
const WINDOW_CHUNKS: usize = WINDOW_BYTES / CHUNK_BYTES;

/// User space of x86-64 and aarch64 has 47 or 48 bits.
const ADDRESS_BITS: u32 = 48;
const LEAF_CHUNKS: usize = 1 << 13;
const LEAVES: usize = (1 << ADDRESS_BITS) / CHUNK_BYTES / LEAF_CHUNKS;

/// Hints that are tried for a mapping, each twice as far on as the one before: 2^12 places, 16 GiB.
const STRAY_HINTS_MAX: usize = 12;
/// Mappings in a row none of whose hints was followed before the window is given up: there is none.
const STRAY_CALLS_MAX: usize = 4;
/// Chunks that the first of a process may be away from the window's start: 2^14, chosen at random.
const START_CHUNKS: usize = 1 << 14;

static CLASS_OF_UNIT: [AtomicU8; WINDOW_UNITS] = [const { AtomicU8::new(0) }; WINDOW_UNITS];
static WINDOW: [AtomicPtr<()>; WINDOW_CHUNKS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; WINDOW_CHUNKS];
static ELSEWHERE: [AtomicPtr<Leaf>; LEAVES] = [const { AtomicPtr::new(ptr::null_mut()) }; LEAVES];

pub(crate) static CHUNK_MAP: ChunkMap = ChunkMap {
    lock: Lock::new(),
    start: Cell::new(usize::MAX),
    first_free: Cell::new(0),
    stray_calls: Cell::new(0),
    mapped_bytes: AtomicUsize::new(0),
    mapped_bytes_peak: AtomicUsize::new(0),
};

type Leaf = [AtomicPtr<()>; LEAF_CHUNKS];

/// Entries are pointers to chunks, or with this bit to single large blocks …
const HUGE: usize = 1;
/// … or this: a foreign mapping was found there.
const BLOCKED: *mut () = ptr::without_provenance_mut(2);

/// The owner of an address.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Nobody,
    Chunk(&'static Chunk),
    Huge(&'static Huge),
}

/// The map of the window: its occupied places.
pub(crate) struct ChunkMap {
    pub lock: Lock,
    /// The place where searches begin, chosen at random once.
    start: Cell<usize>,
    /// No place before this one is free.
    first_free: Cell<usize>,
    stray_calls: Cell<usize>,
    mapped_bytes: AtomicUsize,
    mapped_bytes_peak: AtomicUsize,
}

// SAFETY: the cells are touched under the lock only.
unsafe impl Sync for ChunkMap {}

/// The class of the slab that an address of the window is in, 0 if it is in no slab; `None`: it is not in the window.
#[inline(always)]
pub(crate) fn class_in_window(address: usize) -> Option<usize> {
    let unit = (address / UNIT_BYTES).wrapping_sub(WINDOW_BASE / UNIT_BYTES);
    let class = CLASS_OF_UNIT.get(unit)?;
    Some(usize::from(class.load(Ordering::Relaxed)))
}

/// The class of the slab of the window that an address is in; 0 for everything else.
#[inline(always)]
pub(crate) fn class_at(address: usize) -> usize {
    class_in_window(address).unwrap_or(0)
}

/// Notes the class of a unit. Outside the window nothing is noted: free looks into the chunk.
#[expect(clippy::cast_possible_truncation, reason = "there are 41 classes")]
pub(crate) fn set_class(address: usize, class: usize) {
    let unit = (address / UNIT_BYTES).wrapping_sub(WINDOW_BASE / UNIT_BYTES);
    if let Some(noted) = CLASS_OF_UNIT.get(unit) {
        noted.store(class as u8, Ordering::Relaxed);
    }
}

/// The owner of an address, by its entry in the map.
pub(crate) fn owner(address: usize) -> Owner {
    let Some(entry) = entry(address) else {
        return Owner::Nobody;
    };
    let entry = entry.load(Ordering::Acquire);
    if entry.is_null() || entry == BLOCKED {
        return Owner::Nobody;
    }
    if entry.addr() & HUGE != 0 {
        let huge = entry.map_addr(|address| address & !HUGE).cast::<Huge>();
        // SAFETY: entries with this bit are records of `large`, which are never unmapped.
        return Owner::Huge(unsafe { &*huge });
    }
    // SAFETY: other entries are chunks, mapped as long as they are entered.
    Owner::Chunk(unsafe { &*entry.cast::<Chunk>() })
}

/// Enters the owner of the chunk-sized place at `address`, or removes it (null). False: no memory for the entry.
fn enter(address: usize, entry_value: *mut ()) -> bool {
    if entry(address).is_none() && !grow(address) {
        return false;
    }
    match entry(address) {
        Some(entry) => {
            entry.store(entry_value, Ordering::Release);
            true
        }
        None => false,
    }
}

fn entry(address: usize) -> Option<&'static AtomicPtr<()>> {
    let chunk = address / CHUNK_BYTES;
    let place = chunk.wrapping_sub(WINDOW_BASE / CHUNK_BYTES);
    if let Some(entry) = WINDOW.get(place) {
        return Some(entry);
    }
    let leaf = ELSEWHERE.get(chunk / LEAF_CHUNKS)?.load(Ordering::Acquire);
    if leaf.is_null() {
        return None;
    }
    // SAFETY: a leaf is a record of `meta`, never unmapped, zeroed (all null) when it was made.
    let leaf: &'static Leaf = unsafe { &*leaf };
    leaf.get(chunk % LEAF_CHUNKS)
}

/// Makes the leaf for an address; under the lock.
fn grow(address: usize) -> bool {
    let Some(root) = ELSEWHERE.get(address / CHUNK_BYTES / LEAF_CHUNKS) else {
        return false;
    };
    match META.allocate(size_of::<Leaf>()) {
        Some(leaf) => {
            root.store(leaf.cast(), Ordering::Release);
            true
        }
        None => false,
    }
}

impl ChunkMap {
    /// Maps zeroed memory at a multiple of [`CHUNK_BYTES`] and of `align`, and enters the value that `owner` returns
    /// for its address. `None`: no memory.
    pub fn map(
        &self,
        bytes: usize,
        align: usize,
        owner: impl FnOnce(*mut u8) -> *mut (),
    ) -> Option<*mut u8> {
        let _guard = self.lock.lock();
        let base = self.map_in_window(bytes, align).or_else(|| {
            let align = align.max(CHUNK_BYTES);
            sys::map_aligned(bytes, align)
        })?;
        if !enter(base.addr(), owner(base)) {
            // SAFETY: just mapped; no other thread has the address.
            unsafe { sys::unmap(base, bytes) };
            return None;
        }
        self.block_rest(base.addr(), bytes);
        self.count(bytes, 0);
        Some(base)
    }

    /// The entry of a huge block's record.
    pub fn huge_entry(huge: &'static Huge) -> *mut () {
        ptr::from_ref(huge)
            .map_addr(|address| address | HUGE)
            .cast_mut()
            .cast()
    }

    /// Forgets and unmaps a mapping of [`ChunkMap::map`]. False, and nothing changed: the process has as many mappings
    /// as it may, and this would cut one in two.
    ///
    /// # Safety
    /// `base` and `bytes` are that mapping, whole, and it is not used any more.
    pub unsafe fn unmap(&self, base: *mut u8, bytes: usize) -> bool {
        let _guard = self.lock.lock();
        // SAFETY: promised by the caller. Under the lock: no thread maps there in between.
        let is_gone = unsafe { sys::unmap(base, bytes) };
        if is_gone {
            self.leave(base.addr(), bytes);
            self.count(0, bytes);
        }
        is_gone
    }

    /// Makes a single block's mapping `new` bytes long, where it stands or, if it has to, elsewhere. Returns the
    /// mapping's address then; `None`: nothing changed.
    ///
    /// # Safety
    /// `base` and `old` are a mapping of [`ChunkMap::map`], whole; if it moves the old address is not used again.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub unsafe fn resize(
        &self,
        base: *mut u8,
        old: usize,
        new: usize,
        huge: &'static Huge,
    ) -> Option<*mut u8> {
        let _guard = self.lock.lock();
        let (old_places, new_places) = (old.div_ceil(CHUNK_BYTES), new.div_ceil(CHUNK_BYTES));
        let has_room = new_places <= old_places
            || self.are_free(
                base.addr() + old_places * CHUNK_BYTES,
                new_places - old_places,
            );
        // SAFETY: promised by the caller.
        let target = if has_room && unsafe { sys::resize(base, old, new) } {
            base.addr()
        } else {
            let target = match self.find(0, new_places, 1) {
                Some(place) => WINDOW_BASE + place * CHUNK_BYTES,
                None => Self::find_elsewhere(new)?,
            };
            // SAFETY: promised by the caller.
            unsafe { sys::relocate(base, old, new, target) }.then_some(target)?
        };
        self.leave(base.addr(), old);
        enter(target, Self::huge_entry(huge));
        self.block_rest(target, new);
        self.count(new, old);
        Some(base.with_addr(target))
    }

    /// True if an address is in a chunk or a huge block.
    pub fn contains(&self, address: usize) -> bool {
        let _guard = self.lock.lock();
        let mut start = address / CHUNK_BYTES * CHUNK_BYTES;
        // A long mapping has its entry at its start, and blocks the places behind it.
        while entry(start).is_some_and(|entry| entry.load(Ordering::Acquire) == BLOCKED) {
            start -= CHUNK_BYTES;
        }
        let bytes = match owner(start) {
            Owner::Chunk(chunk) => chunk.mapped_bytes.get(),
            Owner::Huge(huge) => huge.mapped_bytes(),
            Owner::Nobody => 0,
        };
        address - start < bytes
    }

    /// Bytes mapped now, and at most so far.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let now = self.mapped_bytes.load(Ordering::Relaxed);
        (now, self.mapped_bytes_peak.load(Ordering::Relaxed))
    }

    fn count(&self, more: usize, less: usize) {
        let now = self.mapped_bytes.load(Ordering::Relaxed) + more - less;
        self.mapped_bytes.store(now, Ordering::Relaxed);
        let peak = self.mapped_bytes_peak.load(Ordering::Relaxed).max(now);
        self.mapped_bytes_peak.store(peak, Ordering::Relaxed);
    }

    fn map_in_window(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        // Places are counted from the window's start, which is a multiple of no more than this.
        if align > WINDOW_BASE {
            return None;
        }
        if self.start.get() == usize::MAX {
            let start = usize::try_from(sys::random() >> 8).unwrap_or(0) % START_CHUNKS;
            self.start.set(start);
            self.first_free.set(start);
        }
        let (places, align) = (
            bytes.div_ceil(CHUNK_BYTES),
            align.div_ceil(CHUNK_BYTES).max(1),
        );
        if self.stray_calls.get() >= STRAY_CALLS_MAX {
            return None;
        }
        let mut from = 0;
        for stray_hints in 0..STRAY_HINTS_MAX {
            let place = self.find(from, places, align)?;
            let wanted = WINDOW_BASE + place * CHUNK_BYTES;
            let base = sys::map(wanted, bytes)?;
            if base.addr() == wanted {
                self.stray_calls.set(0);
                if places == 1 && stray_hints > 0 {
                    // A foreign long mapping lies before it.
                    self.first_free.set(place);
                }
                return Some(base);
            }
            // SAFETY: just mapped, at another address than the requested one.
            unsafe { sys::unmap(base, bytes) };
            if places == 1 {
                WINDOW[place % WINDOW_CHUNKS].store(BLOCKED, Ordering::Relaxed);
            }
            from = place + places.max(1 << stray_hints);
        }
        self.stray_calls.set(self.stray_calls.get() + 1);
        None
    }

    /// The first of `places` free places in a row from `from` on, at a multiple of `align` places.
    fn find(&self, from: usize, places: usize, align: usize) -> Option<usize> {
        let is_free = |place: usize| {
            WINDOW
                .get(place)
                .map(|e| e.load(Ordering::Relaxed).is_null())
        };
        let mut first = self.first_free.get();
        while is_free(first) == Some(false) {
            first += 1;
        }
        self.first_free.set(first);
        let mut start = first.max(from).next_multiple_of(align);
        'search: loop {
            for place in (start..start + places).rev() {
                if !is_free(place)? {
                    start = (place + 1).next_multiple_of(align);
                    continue 'search;
                }
            }
            return Some(start);
        }
    }

    /// A free place outside the window. Another thread may have taken it since: the move checks that.
    fn find_elsewhere(bytes: usize) -> Option<usize> {
        let place = sys::map_aligned(bytes, CHUNK_BYTES)?;
        // SAFETY: just mapped; no other thread has the address.
        unsafe { sys::unmap(place, bytes) };
        // Makes the leaf for the entry.
        enter(place.addr(), ptr::null_mut()).then_some(place.addr())
    }

    fn are_free(&self, address: usize, places: usize) -> bool {
        let place = (address / CHUNK_BYTES).wrapping_sub(WINDOW_BASE / CHUNK_BYTES);
        (place..place.saturating_add(places)).all(|place| {
            WINDOW
                .get(place)
                .is_some_and(|entry| entry.load(Ordering::Relaxed).is_null())
        })
    }

    /// Blocks the places of a long mapping behind its first one.
    fn block_rest(&self, base: usize, bytes: usize) {
        for address in (base + CHUNK_BYTES..base + bytes).step_by(CHUNK_BYTES) {
            enter(address, BLOCKED);
        }
    }

    fn leave(&self, base: usize, bytes: usize) {
        for address in (base..base + bytes).step_by(CHUNK_BYTES) {
            enter(address, ptr::null_mut());
        }
        let place = (base / CHUNK_BYTES).wrapping_sub(WINDOW_BASE / CHUNK_BYTES);
        if place >= self.start.get() {
            self.first_free.set(self.first_free.get().min(place));
        }
    }
}
