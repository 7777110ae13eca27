//! The pages of a slab: which its blocks lie in, which could go back, and giving them back.
//!
//! ```text
//!  page    0        1        2        3               15
//!       ┌────────┬────────┬────────┬────────┬─  …  ─┬────────┐
//!       │ b0 b1 b│2 b3 b4 │b5 b6 b7│ b8 b9 …│       │        │   blocks of a class
//!       └────────┴────────┴────────┴────────┴─  …  ─┴────────┘
//! ```
//! Invariant: `dirty_pages` of a slab has each page that a block was taken from since the page went
//! back. A page on which a block is out (b2: two pages) stays.

use crate::chunk::Unit;
use crate::size_class::{BLOCK_BYTES, CLASSES, blocks_a_slab};
use crate::sys::{self, PAGE_BYTES};

/// The pages that bytes of a slab lie in.
pub fn pages_of(offset: usize, bytes: usize) -> u16 {
    let (first, last) = (offset / PAGE_BYTES, (offset + bytes - 1) / PAGE_BYTES);
    u16::MAX << first & u16::MAX >> (15 - last.min(15))
}

/// The pages of a slab on which every block is free.
pub fn free_pages(slab: &Unit, class: usize) -> u16 {
    let (blocks, block_bytes) = (blocks_a_slab(class), BLOCK_BYTES[class % CLASSES]);
    let mut used = 0;
    for (word, bits) in slab.bits().iter().enumerate() {
        let mut out = !bits.get() & low_bits(blocks.saturating_sub(word * 64));
        while out != 0 {
            let index = word * 64 + out.trailing_zeros() as usize;
            used |= pages_of(index * block_bytes, block_bytes);
            out &= out - 1;
        }
        if used == u16::MAX {
            break;
        }
    }
    !used
}

/// The part of `pages` that makes up whole pages of the system.
pub fn whole_pages(pages: u16) -> u16 {
    let step = (sys::page_bytes() / PAGE_BYTES).clamp(1, 16);
    let group = u16::MAX >> (16 - step);
    (0..16).step_by(step).fold(0, |whole, first| {
        let wanted = group << first;
        whole | if pages & wanted == wanted { wanted } else { 0 }
    })
}

/// Gives pages of a slab back. Returns those that the kernel took.
pub fn purge_pages(slab: &Unit, mut pages: u16) -> u16 {
    let mut gone = 0;
    while pages != 0 {
        let first = pages.trailing_zeros() as usize;
        let length = (pages >> first).trailing_ones() as usize;
        let span = pages_of(first * PAGE_BYTES, length * PAGE_BYTES);
        // SAFETY: the pages lie within the slab.
        let start = unsafe { slab.base().add(first * PAGE_BYTES) };
        // SAFETY: whole pages of a slab on which no block is out, and which is in no list.
        if unsafe { slab.chunk().purge(start, length * PAGE_BYTES) } {
            gone |= span;
        }
        pages &= !span;
    }
    gone
}

/// The lowest `count` bits, at most all.
pub fn low_bits(count: usize) -> u64 {
    match count {
        0 => 0,
        64.. => u64::MAX,
        _ => (1 << count) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::UNIT_BYTES;

    #[test]
    fn pages_are_those_that_bytes_touch() {
        assert_eq!(pages_of(0, 16), 0b1);
        assert_eq!(pages_of(4080, 32), 0b11);
        assert_eq!(pages_of(4096, 4096), 0b10);
        assert_eq!(pages_of(0, UNIT_BYTES), u16::MAX);
        assert_eq!(pages_of(UNIT_BYTES - 16, 16), 1 << 15);
    }

    #[test]
    fn low_bits_are_as_many_as_asked_for() {
        assert_eq!(low_bits(0), 0);
        assert_eq!(low_bits(3), 0b111);
        assert_eq!(low_bits(64), u64::MAX);
        assert_eq!(low_bits(1000), u64::MAX);
    }
}
