//! Hash of a stream number: two multiplications, where the standard library's hash takes fifty instructions. A
//! forwarded call is looked up about forty times.
//!
//! Invariant: a peer can't find numbers that collide. It chooses which of its streams stay open, so with a hash
//! without a secret it could turn the table into a list.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// The secret of one table's hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    mask: u64,
    factor: u64,
}

/// The hasher of one number.
#[derive(Debug)]
pub(super) struct NumberHasher {
    keys: Keys,
    hash: u64,
}

impl Keys {
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        Self {
            mask: random.hash_one(0),
            factor: random.hash_one(1) | 1,
        }
    }
}

impl BuildHasher for Keys {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher {
            keys: *self,
            hash: 0,
        }
    }
}

impl Hasher for NumberHasher {
    fn write_u32(&mut self, number: u32) {
        let factor = self.keys.factor;
        let masked = self.keys.mask ^ self.hash ^ u64::from(number);
        // A single round would cluster numbers at equal distances.
        self.hash = fold(fold(masked, factor), factor);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// The halves of the product, combined by XOR.
#[expect(clippy::cast_possible_truncation, reason = "each half is taken")]
fn fold(number: u64, factor: u64) -> u64 {
    let product = u128::from(number) * u128::from(factor);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::connection::StreamId;

    /// Streams spread over a table of twice their number, and over hashbrown's tags.
    #[test]
    fn numbers_spread_whatever_their_distance() {
        const COUNT: u32 = 4_096;
        for step in [1, 2, 16, 1 << 12, 1 << 13, 1 << 19] {
            let keys = Keys::random();
            let hashes = (0..COUNT).map(|at| keys.hash_one(StreamId(1 + at * step)));
            let hashes: Vec<u64> = hashes.collect();
            let places: HashSet<_> = hashes.iter().map(|hash| hash % 8_192).collect();
            let tags: HashSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
            // A random function has 3,223 places, and all 128 tags.
            assert!(places.len() > 3_000, "{step}: {} places", places.len());
            assert!(tags.len() > 120, "{step}: {} tags", tags.len());
        }
    }

    #[test]
    fn tables_have_secrets_of_their_own() {
        let [one, other] = [Keys::random(), Keys::random()];
        let differs = |number: &u32| one.hash_one(number) != other.hash_one(number);
        assert!((1..100).all(|number| differs(&number)));
    }
}
