//! Marsaglia's xorshift32 with the shifts 13, 17 and 5: three pairs of instructions a number, so
//! that the allocator's share of a loop stays visible.

/// A state that is never 0.
pub struct Random(u32);

impl Random {
    /// `seed` 0 is another seed: the generator would stay there.
    pub const fn new(seed: u32) -> Self {
        Self(if seed == 0 { 0x9e37_79b9 } else { seed })
    }

    /// The next number.
    #[inline]
    pub const fn draw(&mut self) -> u32 {
        let mut x = self.0;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.0 = x;
        x
    }

    /// A number in `0..bound`; `bound` is below 2^32.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "bounds are small")]
    pub const fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        // Marsaglia, Xorshift RNGs (2003), section 3, from the seed that it names.
        assert_eq!(Random::new(2_463_534_242).draw(), 723_471_715);
    }

    #[test]
    fn zero_is_left() {
        assert_ne!(Random::new(0).draw(), 0);
    }
}
