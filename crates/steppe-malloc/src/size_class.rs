//! Size classes: from the size of a request to the class of its block.
//!
//! ```text
//! class     1   2  …   8 |   9   10   11   12 |  13 …  16 | … |    37     38     39     40
//! bytes    16  32  … 128 | 160  192  224  256 | 320 … 512 | … | 20480  24576  28672  32768
//!          steps of 16   | four a doubling
//! ```
//! Invariant: `class_of(size)` is the smallest class whose blocks hold `size` bytes. Finer steps were
//! tried elsewhere and cost resident pages: each class in use has a partly filled page of its own.
//!
//! Leaves out: requests above [`SMALL_BYTES_MAX`], see `large`.

use crate::chunk::UNIT_BYTES;

/// One more than the highest class; class 0 has no blocks, and sends every request to the slow
/// path.
pub const CLASSES: usize = 41;
/// The largest block of a class.
pub const SMALL_BYTES_MAX: usize = 32 << 10;
/// Sizes up to this are looked up in a table, by their number of granules.
pub const TABLE_BYTES_MAX: usize = 1 << 10;
/// Common divisor of all block sizes and addresses: the alignment that C demands of `malloc` on
/// 64-bit machines.
pub const GRANULE_BYTES: usize = 16;
/// Entries of a table of classes by granules.
pub const GRANULES: usize = TABLE_BYTES_MAX / GRANULE_BYTES + 1;

/// Classes up to here are a granule apart.
const LINEAR_CLASSES: usize = 8;
/// `log2` of the largest block size of these classes.
const LINEAR_SHIFT: u32 = 7;

/// The block size of each class, in bytes.
pub const BLOCK_BYTES: [usize; CLASSES] = block_bytes();
/// The class of a request of up to `index` granules.
pub const CLASS_OF_GRANULES: [u8; GRANULES] = class_of_granules();
/// Rounded-up reciprocals in units of 2^-32, see [`index_in_slab`].
static RECIPROCALS: [u64; CLASSES] = reciprocals();

const _: () = assert!(BLOCK_BYTES[CLASSES - 1] == SMALL_BYTES_MAX);
const _: () = assert!(class_of(SMALL_BYTES_MAX) == CLASSES - 1);

/// The class whose blocks hold `bytes`, at most [`SMALL_BYTES_MAX`].
#[inline]
#[must_use]
pub const fn class_of(bytes: usize) -> usize {
    if bytes <= LINEAR_CLASSES * GRANULE_BYTES {
        let class = bytes.div_ceil(GRANULE_BYTES);
        return if class == 0 { 1 } else { class };
    }
    let last = bytes - 1;
    let shift = last.ilog2();
    let quarter = (last >> (shift - 2)) & 3;
    LINEAR_CLASSES + (shift - LINEAR_SHIFT) as usize * 4 + quarter + 1
}

/// Blocks of a class that a slab has.
#[inline]
#[must_use]
pub fn blocks_a_slab(class: usize) -> usize {
    match BLOCK_BYTES.get(class) {
        Some(&bytes) if bytes > 0 => UNIT_BYTES / bytes,
        _ => 0,
    }
}

/// The block that the byte at `offset` of a slab is in: `offset / BLOCK_BYTES[class]`.
///
/// A multiplication: the reciprocal is too large by less than 2^-32, offsets are below 2^16, so the
/// product is too large by less than 2^-16, which is less than one block's share (2^-15) of the next
/// number.
#[inline]
#[must_use]
pub fn index_in_slab(class: usize, offset: usize) -> usize {
    let reciprocal = RECIPROCALS.get(class).copied().unwrap_or(0);
    ((offset as u64 * reciprocal) >> 32) as usize
}

const fn block_bytes() -> [usize; CLASSES] {
    let mut sizes = [0; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        sizes[class] = if class <= LINEAR_CLASSES {
            class * GRANULE_BYTES
        } else {
            let above = class - LINEAR_CLASSES - 1;
            (above % 4 + 5) << (LINEAR_SHIFT as usize + above / 4 - 2)
        };
        class += 1;
    }
    sizes
}

#[expect(clippy::cast_possible_truncation, reason = "there are 41 classes")]
const fn class_of_granules() -> [u8; GRANULES] {
    let mut classes = [0; GRANULES];
    let mut granules = 0;
    while granules < GRANULES {
        classes[granules] = class_of(granules * GRANULE_BYTES) as u8;
        granules += 1;
    }
    classes
}

const fn reciprocals() -> [u64; CLASSES] {
    let mut reciprocals = [0; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        reciprocals[class] = (1 << 32) / BLOCK_BYTES[class] as u64 + 1;
        class += 1;
    }
    reciprocals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        for bytes in 0..=SMALL_BYTES_MAX {
            let class = class_of(bytes);
            assert!(BLOCK_BYTES[class] >= bytes, "{bytes}");
            assert!(class == 1 || BLOCK_BYTES[class - 1] < bytes, "{bytes}");
        }
    }

    #[test]
    fn the_table_agrees() {
        for bytes in 0..=TABLE_BYTES_MAX {
            let class = CLASS_OF_GRANULES[bytes.div_ceil(GRANULE_BYTES)];
            assert_eq!(usize::from(class), class_of(bytes), "{bytes}");
        }
    }

    #[test]
    fn multiplication_divides() {
        for (class, &bytes) in BLOCK_BYTES.iter().enumerate().skip(1) {
            for offset in 0..UNIT_BYTES {
                assert_eq!(index_in_slab(class, offset), offset / bytes);
            }
        }
    }
}
