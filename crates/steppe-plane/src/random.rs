//! Pseudorandom numbers for the choice among peers and for back-off. They are not secret.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): the state is
//! a counter, so threads share a generator without a lock.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator of pseudorandom numbers.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// A generator with a random seed.
    pub(crate) fn new() -> Self {
        // The standard library seeds its hashers from the system, and differently each time.
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// A generator with this seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        mix(self.0.fetch_add(GAMMA, Ordering::Relaxed))
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the upper half of 128 bits")
    }
}

/// Mixes the bits of `value`.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(GAMMA);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_sequence() {
        let random = Random::seeded(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn numbers_are_below_their_bound_and_all_come() {
        let random = Random::new();
        let mut counts = [0; 7];
        for _ in 0..7000 {
            let number = usize::try_from(random.below(7)).expect("small");
            counts[number] += 1;
        }
        assert!(counts.iter().all(|&count| count > 500), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
