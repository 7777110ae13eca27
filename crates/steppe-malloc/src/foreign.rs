//! Blocks of glibc's own `malloc` that reach our `free`.
//!
//! A library that does not meet the preloaded `malloc` hands out such blocks: one opened with `RTLD_DEEPBIND`, or by
//! `dlmopen`, or one that calls `__libc_malloc`. glibc lays a block out the same since 2.26:
//!
//! ```text
//!   pointer − 16  │ offset, of a mapping alone │ bytes of the chunk, with flags in the low three bits │
//!   pointer       │ the block …                                                                       │
//!   + bytes − 16  │ …                          │ bytes of the next chunk; bit 0: this one is in use   │
//! ```
//! A block is glibc's if its chunk and its surroundings are consistent: the next chunk calls it in use, and it lies
//! between the first and the present program break (the main arena), in a heap whose arena knows the heap (a thread's
//! arena), or it is a mapping of whole pages with the header of one. glibc's `free` itself checks less.
//!
//! Invariant: memory is read only after the kernel said that it can be, and none is written here.
//!
//! Left out, and reported as misuse: blocks of the main arena where that is not at the program break. glibc maps the
//! arena if the break can't grow, and in each further namespace; such a block has no sign of its owner.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::probe;

/// Bytes before a block: two words.
const HEADER_BYTES: usize = 16;
const CHUNK_BYTES_MIN: usize = 32;
const CHUNK_ALIGN: usize = 16;
/// `PREV_INUSE`, `IS_MMAPPED` and `NON_MAIN_ARENA` of glibc's malloc.c.
const PREVIOUS_IN_USE: usize = 1;
const IS_MAPPING: usize = 2;
const IS_IN_ARENA: usize = 4;
const FLAGS: usize = 7;
/// `HEAP_MAX_SIZE` of glibc's arena.c: heaps of arenas start at multiples of it.
const HEAP_BYTES: usize = 64 << 20;
/// Words of `heap_info`: its arena, and the bytes of the heap in use.
const HEAP_ARENA_WORD: usize = 0;
const HEAP_BYTES_WORD: usize = 2;

/// glibc's `free`; null: not known, and no block is taken for glibc's.
static FREE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The program break before glibc moved it.
static FIRST_BREAK: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Has blocks of glibc freed from now on. Called while the library is loaded, before glibc's own `malloc` is used: its
/// main arena begins at the present program break.
///
/// # Safety
/// The function is glibc's `free`.
pub unsafe fn adopt(free: *mut c_void) {
    FIRST_BREAK.store(probe::program_break(), Ordering::Relaxed);
    FREE.store(free, Ordering::Release);
}

/// Frees a pointer that is not of this allocator. False: it is not known to be a block of glibc.
pub(crate) fn free(pointer: *mut u8) -> bool {
    if usable_bytes(pointer) == 0 {
        return false;
    }
    let free = FREE.load(Ordering::Acquire);
    type Free = unsafe extern "C" fn(*mut u8);
    // SAFETY: `adopt` was promised glibc's `free`.
    let free = unsafe { core::mem::transmute::<*mut c_void, Free>(free) };
    // SAFETY: a block of glibc, which the caller gives up.
    unsafe { free(pointer) };
    true
}

/// Bytes that may be used at a pointer that is not of this allocator; 0 if it is not known to be a block of glibc.
pub(crate) fn usable_bytes(pointer: *mut u8) -> usize {
    let address = pointer.addr();
    let is_possible = !FREE.load(Ordering::Acquire).is_null()
        && address.is_multiple_of(CHUNK_ALIGN)
        && address > HEADER_BYTES;
    if !is_possible {
        return 0;
    }
    Chunk::at(address - HEADER_BYTES).map_or(0, |chunk| chunk.usable_bytes())
}

/// The header of a possible chunk.
struct Chunk {
    start: usize,
    offset: usize,
    bytes: usize,
    flags: usize,
}

impl Chunk {
    fn at(start: usize) -> Option<Self> {
        let (offset, size) = (probe::word(start)?, probe::word(start + 8)?);
        let (bytes, flags) = (size & !FLAGS, size & FLAGS);
        let is_possible =
            bytes >= CHUNK_BYTES_MIN && bytes.is_multiple_of(CHUNK_ALIGN) && bytes < 1 << 47;
        is_possible.then_some(Self {
            start,
            offset,
            bytes,
            flags,
        })
    }

    fn usable_bytes(&self) -> usize {
        let (is_whole, unused) = match self.flags & (IS_MAPPING | IS_IN_ARENA) {
            0 => (self.is_at_break() && self.is_in_use(), 8),
            IS_IN_ARENA => (self.is_in_heap() && self.is_in_use(), 8),
            IS_MAPPING => (self.is_mapping(), HEADER_BYTES),
            _ => (false, 0),
        };
        if is_whole { self.bytes - unused } else { 0 }
    }

    fn end(&self) -> usize {
        self.start + self.bytes
    }

    /// True if the next chunk's header says so; the last chunk of an arena has a next one too.
    fn is_in_use(&self) -> bool {
        probe::word(self.end() + 8).is_some_and(|size| size & PREVIOUS_IN_USE != 0)
    }

    fn is_at_break(&self) -> bool {
        let start = FIRST_BREAK.load(Ordering::Relaxed);
        start <= self.start && self.end() + HEADER_BYTES <= probe::program_break()
    }

    /// True if the heap names its arena, and the arena, which lies in the first of its heaps, names itself.
    fn is_in_heap(&self) -> bool {
        let heap = self.start - self.start % HEAP_BYTES;
        let named = |heap: usize| {
            let arena = probe::word(heap + HEAP_ARENA_WORD * 8)?;
            (arena % 8 == 0 && arena != 0).then_some(arena)
        };
        let Some(arena) = named(heap) else {
            return false;
        };
        let bytes = probe::word(heap + HEAP_BYTES_WORD * 8).unwrap_or(0);
        let is_inside = bytes <= HEAP_BYTES && self.end() + HEADER_BYTES <= heap + bytes;
        is_inside && named(arena - arena % HEAP_BYTES) == Some(arena)
    }

    /// True if the chunk passes glibc's own test before it unmaps one, and its first and last words are readable.
    fn is_mapping(&self) -> bool {
        let page_bytes = probe::page_bytes();
        let Some(base) = self.start.checked_sub(self.offset) else {
            return false;
        };
        let within_page = (self.start + HEADER_BYTES) % page_bytes;
        self.flags == IS_MAPPING
            && base.is_multiple_of(page_bytes)
            && (self.offset + self.bytes).is_multiple_of(page_bytes)
            && (within_page == 0 || within_page.is_power_of_two())
            && probe::word(base).is_some()
            && probe::word(self.end() - 8).is_some()
    }
}
