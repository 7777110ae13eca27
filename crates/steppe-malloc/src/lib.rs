//! A general-purpose allocator: fast, lean, and it gives memory back while idle.
//!
//! As a `#[global_allocator]` it is [`SteppeMalloc`]; `steppe-malloc-abi` makes the library of it that
//! C programs link or preload. `docs/malloc.md` is for those who use it, this page for those who
//! change it.
//!
//! # The way of a block
//! ```text
//!   thread A              thread B                      shared, each behind a lock of its own
//!  ┌─────────┐           ┌─────────┐
//!  │ heap    │           │ heap    │                one depot a class and shard
//!  │ 16  ▮▮▯ │           │ 16  ▮▯▯ │   batches     ┌─────────────────────┐  units   ┌───────────┐
//!  │ 32  ▮▯▯ │ ◀───────▶ │ 32  ▯▯▯ │ ◀───────────▶ │ store ▮▮▮▮▯▯        │ ◀──────▶ │ pool      │
//!  │ …       │           │ …       │               │ slabs 0110… 1111…   │          │ of free   │
//!  │ 112 ▮▮▮ │           │ 112 ▮▯▯ │               └─────────────────────┘          │ units     │
//!  └─────────┘           └─────────┘                                                └─────┬─────┘
//!   a bin a class: an array of pointers, last in, first out             4 MiB chunks      │ decay
//!   no lock, no call, no shared line                                                the system
//! ```
//! From the fast to the slow, and in this order to be read: [`size_class`] which block serves a
//! request; `heap` a thread's bins, with `tls`, where it finds them; `depot` what threads share of a
//! class, where blocks change threads and slabs their blocks; `chunk` how memory is cut and where its
//! books are; `pool` free units and their decay; `chunk_map` whose an address is; `large` what has no
//! class, with `huge`. Beside them: `decay` who gives back, and `deadline` when; [`profile`] the
//! numbers, `start` the first block, `settings`, [`stats`],
//! [`heap_profile`], `hardened`, `fork`; and at the bottom `list`, `meta`, `sync`, `report`, `sys`.
//! [`raw`] joins them.
//!
//! # What happens to 100 bytes that another thread frees
//! 1. Thread A calls `malloc(100)`. Seven granules of 16 bytes: class 7, blocks of 112 bytes. The top
//!    of A's bin of class 7 is the block, and the top steps down: 16 instructions (`heap`, `pop`).
//! 2. The bin was filled before: A's first request found it empty, so the depot of class 7 in A's
//!    shard gave a batch: two blocks, then four, up to half a bin. It had nothing in store, so the
//!    blocks came from its fullest slab, the lowest addresses first:
//!    ```text
//!    unit of 64 KiB: 585 blocks of 112 bytes                    its books, at the chunk's start
//!    ┌─────┬─────┬─────┬─────┬─────┬─ ─ ─┬─────┬──────┐         class 7, shard 0, used 4
//!    │  0  │  1  │  2  │  3  │  4  │     │ 584 │ rest │         dirty pages 0000000000000001
//!    └─────┴─────┴─────┴─────┴─────┴─ ─ ─┴─────┴──────┘         bits 00001111…1  (1: free)
//!    ```
//! 3. A hands the block to thread B, and B calls `free`. The address less the window's start, divided
//!    by 64 KiB, is the unit; the byte of this unit in `CLASS_OF_UNIT` says class 7. The top of *B's*
//!    bin of class 7 steps up and holds the pointer: 17 instructions, and neither the block nor its
//!    books were touched. B's next `malloc(100)` gets this block.
//! 4. If B only frees, its bin gets full (128 blocks here). The older half goes back: each block to the
//!    depot of the shard that its slab belongs to, which a byte in the chunk's books tells. There it is
//!    put into the store, from where A's next batch takes it: one lock for 64 blocks on either side.
//! 5. If A does not come, the store gets full too, and the block's bit in its slab is set: the slab has
//!    one used block less. If it was out of use for a second, the pages whose blocks are all free go
//!    back to the system; if none of its blocks is out any more, the unit goes to the pool, where any
//!    class or run may take it, and from there to the system after another second.
//! 6. A bit that is set already is a double free: it is reported, and nothing else happens.
//!
//! # Invariants of the whole
//! - A block is in exactly one place: with the program, in one bin, in one store, or a set bit.
//! - Nothing is written into free blocks, so free pages may go and come back as zeros. (The hardened
//!   build does write into those that are in bins and stores.)
//! - What grows is bounded by a peak: heaps by threads that lived at once, books by memory that was
//!   mapped at once. Nothing grows with the number of calls.
//! - It does not read a clock, a lock or another thread's line on the short ways.
//!
//! # Limits
//! A sleeping thread keeps its bins (at most 16 KiB a class, see [`profile`]; `raw::on_idle` empties
//! them). Threads that a fork's child does not have leave theirs to nobody. A program that writes to
//! freed memory, or frees what has been handed out again, is not found out by the normal build.
#![cfg_attr(not(any(miri, loom, test)), no_std)]
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

mod chunk;
mod chunk_map;
mod deadline;
mod decay;
mod depot;
mod file;
mod fork;
#[cfg(feature = "hardened")]
mod hardened;
mod heap;
pub mod heap_profile;
mod huge;
mod large;
mod list;
mod meta;
mod pool;
pub mod profile;
pub mod raw;
mod report;
mod settings;
pub mod size_class;
mod start;
pub mod stats;
mod sync;
mod sys;
mod tls;

use core::alloc::{GlobalAlloc, Layout};

/// The allocator as a `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SteppeMalloc;

// SAFETY: blocks have at least the size and alignment asked for and are nobody else's until they are
// given back; nothing here unwinds.
unsafe impl GlobalAlloc for SteppeMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= raw::ALIGN {
            raw::allocate(layout.size())
        } else {
            raw::allocate_aligned(layout.align(), layout.size())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: promised by the caller.
        unsafe { raw::free(block) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= raw::ALIGN {
            return raw::allocate_zeroed(layout.size());
        }
        let block = raw::allocate_aligned(layout.align(), layout.size());
        if !block.is_null() {
            // SAFETY: just handed out, with as many bytes.
            unsafe { core::ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= raw::ALIGN {
            // SAFETY: promised by the caller.
            return unsafe { raw::reallocate(block, new_size) };
        }
        let new = raw::allocate_aligned(layout.align(), new_size);
        if !new.is_null() {
            let bytes = layout.size().min(new_size);
            // SAFETY: both blocks have as many bytes, and the new one is nobody else's.
            unsafe { core::ptr::copy_nonoverlapping(block, new, bytes) };
            // SAFETY: promised by the caller.
            unsafe { raw::free(block) };
        }
        new
    }
}
