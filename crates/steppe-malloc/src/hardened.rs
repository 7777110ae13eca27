//! The hardened build: misuse ends the process with a message.
//!
//! ```text
//!   block, with the program     │ …                      │ fence │   live bit 1
//!   block, free                 │ mark │ mark │ …                │   live bit 0
//! ```
//! A free must find the block's live bit set and its fence whole, an allocation the marks as the free left them. The
//! next block of 64 is chosen at random. Marks and fences are a secret of the process mixed with the address: a write
//! past a block's end breaks its fence, and one into a free block its marks. An inaccessible guard unit lies behind
//! each slab.
//!
//! Invariant: a live bit is set exactly while the program has the block.
//!
//! Leaves out: writes past a block's end that end before its class's, and those into a free block
//! behind its first 16 bytes.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::chunk::{Chunk, UNIT_BYTES, Unit, WORDS};
use crate::pool::Run;
use crate::report;
use crate::size_class::{BLOCK_BYTES, CLASSES, blocks_a_slab, index_in_slab};
use crate::sys;

static SECRET: AtomicU64 = AtomicU64::new(0);

fn mark(block: *mut u8) -> u64 {
    let mut secret = SECRET.load(Ordering::Relaxed);
    if secret == 0 {
        secret = sys::random() | 1;
        SECRET.store(secret, Ordering::Relaxed);
    }
    (block.addr() as u64 ^ secret).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number that is hard to guess from outside. Two threads at once may get the same.
pub(crate) fn chance() -> u32 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let mut state = STATE.load(Ordering::Relaxed);
    if state == 0 {
        state = sys::random() | 1;
    }
    // xorshift64 (Marsaglia 2003).
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.store(state, Ordering::Relaxed);
    u32::try_from(state >> 32).unwrap_or(0)
}

/// Checks a block that is about to be handed out.
pub(crate) fn on_allocate(block: *mut u8, class: usize) {
    // SAFETY: a free block of at least 16 bytes, aligned to 16, which no thread uses.
    let words = unsafe { block.cast::<[u64; 2]>().read() };
    let expected = mark(block);
    if words != [expected, !expected] {
        report::misuse(
            "write to a free block, or past the end of the block before it",
            block,
            class,
        );
    }
    // The program may show what it finds in a block, and marks are made of the secret.
    // SAFETY: as above.
    unsafe { block.cast::<[u64; 2]>().write([0, 0]) };
    if let Some((bits, bit)) = place(block, class) {
        bits.fetch_or(bit, Ordering::Relaxed);
    }
    // SAFETY: the last word of a block that is not handed out yet.
    unsafe { fence(block, class).write(expected.rotate_left(32)) };
}

/// The last word of a block.
fn fence(block: *mut u8, class: usize) -> *mut u64 {
    let bytes = BLOCK_BYTES[class % CLASSES].max(16);
    // SAFETY: the block has `bytes` bytes.
    unsafe { block.add(bytes - 8).cast() }
}

/// Checks a block that the program gives back. False: it is none of its blocks.
pub(crate) fn on_free(block: *mut u8, class: usize) -> bool {
    let Some((bits, bit)) = place(block, class) else {
        report::misuse("free of a pointer into a block", block, class);
        return false;
    };
    if bits.fetch_and(!bit, Ordering::Relaxed) & bit == 0 {
        report::misuse("double free", block, class);
        return false;
    }
    // SAFETY: the last word of a block that the program has just given back.
    if unsafe { fence(block, class).read() } != mark(block).rotate_left(32) {
        report::misuse("write past the end of a block", block, class);
    }
    mark_fresh(block, BLOCK_BYTES[class % CLASSES]);
    true
}

/// Marks a free block.
pub(crate) fn mark_fresh(block: *mut u8, _bytes: usize) {
    let mark = mark(block);
    // SAFETY: a free block of at least 16 bytes, aligned to 16, which no thread uses.
    unsafe { block.cast::<[u64; 2]>().write([mark, !mark]) };
}

/// Forbids or allows the unit behind a slab.
pub(crate) fn guard(run: Run, is_guarded: bool) {
    // SAFETY: a slab has two units, and the second is never used.
    let behind = unsafe { run.base().add(UNIT_BYTES) };
    if is_guarded && !run.is_clean {
        // Pages that earlier users left there would stay resident for as long as the slab lives.
        // SAFETY: as above.
        unsafe { sys::purge(behind, UNIT_BYTES) };
    }
    // SAFETY: as above.
    unsafe { sys::protect(behind, UNIT_BYTES, !is_guarded) };
    let unit: &Unit = run.chunk.unit(run.first);
    for word in unit.live() {
        word.store(0, Ordering::Relaxed);
    }
}

/// The live bit of a block. `None`: not a block's start.
fn place(block: *mut u8, class: usize) -> Option<(&'static AtomicU64, u64)> {
    let unit = Chunk::holding(block).unit_at(block.addr());
    let offset = block.addr() % UNIT_BYTES;
    let index = index_in_slab(class, offset);
    let is_block = index * BLOCK_BYTES[class % CLASSES] == offset && index < blocks_a_slab(class);
    is_block.then(|| (&unit.live()[index / 64 % WORDS], 1 << (index % 64)))
}
