//! Size classes of pooled buffers.
//!
//! Classes double from 1 KiB to 256 KiB, then go in four steps a doubling up to 64 MiB.

use crate::limits::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, HEAP_CLASS_BYTES_MAX};

/// Steps a doubling above [`HEAP_CLASS_BYTES_MAX`].
const STEPS: usize = 4;
const HEAP_CLASSES: usize = (HEAP_CLASS_BYTES_MAX.ilog2() - BUFFER_BYTES_MIN.ilog2()) as usize + 1;
const MAPPED_CLASSES: usize =
    (BUFFER_BYTES_MAX.ilog2() - HEAP_CLASS_BYTES_MAX.ilog2()) as usize * STEPS;

/// A size of pooled buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The number of classes.
    pub const COUNT: usize = HEAP_CLASSES + MAPPED_CLASSES;

    /// The smallest class that holds `bytes`; the largest class if none does.
    #[must_use]
    pub fn holding(bytes: usize) -> Self {
        let bytes = bytes.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        if bytes <= HEAP_CLASS_BYTES_MAX {
            let doublings = bytes.next_power_of_two().ilog2() - BUFFER_BYTES_MIN.ilog2();
            return Self::at(doublings as usize);
        }
        // Within the doubling (2^k, 2^(k+1)], the steps end at 2^k × 5/4, 6/4, 7/4, 8/4.
        let base_log2 = (bytes - 1).ilog2();
        let step_bytes = (1usize << base_log2) / STEPS;
        let step = (bytes - (1 << base_log2)).div_ceil(step_bytes);
        let doubling = (base_log2 - HEAP_CLASS_BYTES_MAX.ilog2()) as usize;
        Self::at(HEAP_CLASSES + doubling * STEPS + step - 1)
    }

    /// Every class, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self::at)
    }

    /// Bytes that a buffer of this class holds.
    #[must_use]
    pub fn bytes(self) -> usize {
        let index = self.index();
        if index < HEAP_CLASSES {
            return BUFFER_BYTES_MIN << index;
        }
        let (doubling, step) = (
            (index - HEAP_CLASSES) / STEPS,
            (index - HEAP_CLASSES) % STEPS,
        );
        let base = HEAP_CLASS_BYTES_MAX << doubling;
        base + base / STEPS * (step + 1)
    }

    /// Position among [`SizeClass::all`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// True if a buffer of this class is a mapping of its own.
    #[must_use]
    pub fn is_mapped(self) -> bool {
        self.index() >= HEAP_CLASSES
    }

    fn at(index: usize) -> Self {
        debug_assert!(index < Self::COUNT);
        Self(u8::try_from(index).expect("COUNT is below 256"))
    }
}

const _: () = assert!(SizeClass::COUNT < 256);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_and_hold_what_they_are_asked_for() {
        let sizes: Vec<usize> = SizeClass::all().map(SizeClass::bytes).collect();
        assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
        assert_eq!(sizes[0], BUFFER_BYTES_MIN);
        assert_eq!(sizes[SizeClass::COUNT - 1], BUFFER_BYTES_MAX);
        for class in SizeClass::all() {
            assert_eq!(SizeClass::holding(class.bytes()), class);
            if class.index() + 1 < SizeClass::COUNT {
                assert_eq!(
                    SizeClass::holding(class.bytes() + 1).index(),
                    class.index() + 1
                );
            }
        }
    }

    #[test]
    fn waste_above_the_heap_classes_is_at_most_a_quarter() {
        for bytes in (HEAP_CLASS_BYTES_MAX + 1..BUFFER_BYTES_MAX).step_by(12_345) {
            let waste = SizeClass::holding(bytes).bytes() - bytes;
            assert!(waste <= bytes / 4, "{bytes} wastes {waste}");
        }
    }
}
