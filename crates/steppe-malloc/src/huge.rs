//! The record of a mapping that is one block.
//!
//! ```text
//!   base          block_bytes                      padding_bytes
//!   │ block ──────────────────────────── │ tail ───── │ untouched ─── │ the next mapping
//!   └ a multiple of 4 MiB                  tail_bytes                 └ where it shares, another one
//! ```
//! The tail is the rest of an earlier, longer block of the mapping: resident, and free (`large/tails.rs`).
//!
//! Invariant: a record is live (one block; in `large`'s list of tails if it has one), retained (in `large`'s list,
//! without an owner), a place (mapped, without memory, in `places`' lists, or in `large`'s of those whose memory the
//! kernel did not take) or spare (no mapping), and it is never unmapped: code that finds one in the map of chunks may
//! read it.

use core::cell::Cell;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::list::{Link, Linked};
use crate::sync::Lock;

pub(crate) const SPARE: u8 = 0;
pub(crate) const LIVE: u8 = 1;
pub(crate) const RETAINED: u8 = 2;
pub(crate) const PLACE: u8 = 3;

/// The record of a mapping that is one block.
pub(crate) struct Huge {
    pub base: Cell<*mut u8>,
    /// Bytes of the block, in whole pages.
    pub block_bytes: Cell<usize>,
    /// Bytes of the mapping behind the block.
    pub padding_bytes: Cell<usize>,
    /// Bytes of the padding, from its start, that may be resident; of a live record only.
    pub tail_bytes: Cell<usize>,
    /// Held while the tail goes back, and while the block is freed or resized.
    pub tail_lock: Lock,
    /// True if the mapping may be part of one of the kernel's with its neighbors; see `places`.
    pub shares: Cell<bool>,
    pub state: AtomicU8,
    /// Time since which the record is retained, or has its tail.
    pub stamp: Cell<u32>,
    /// True if the memory reads as zeros.
    pub is_clean: Cell<bool>,
    /// The record of a sampled block, else 0; see `heap_profile`.
    pub sample: Cell<u32>,
    link: Link<Huge>,
}

impl Linked<0> for Huge {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Huge {
    /// Bytes that may be used at `pointer`, the block's start; 0 for any other pointer.
    pub fn usable_bytes(&self, pointer: *const u8) -> usize {
        let is_live = self.state.load(Ordering::Relaxed) == LIVE;
        let is_start = core::ptr::eq(pointer, self.base.get());
        if is_live && is_start {
            self.block_bytes.get()
        } else {
            0
        }
    }

    /// Bytes of the mapping.
    pub fn mapped_bytes(&self) -> usize {
        self.block_bytes.get() + self.padding_bytes.get()
    }

    /// Makes the block `bytes` long within its mapping.
    pub fn set_block_bytes(&self, bytes: usize) {
        let mapped = self.mapped_bytes();
        self.block_bytes.set(bytes);
        self.padding_bytes.set(mapped.saturating_sub(bytes));
    }
}
