//! The hash index of entries: buckets of eight slots, a cache line each, two of them for every hash.
//!
//! Invariant: every slot refers to a live entry, so no evicted entry is found. An entry goes to the emptier
//! of its two buckets; if both are full, an entry of the first is evicted. So neither a lookup nor an
//! insertion goes beyond two buckets, and nearly all slots can be used (Azar et al., "Balanced
//! Allocations").

/// Slots of a bucket.
pub(super) const WAYS: usize = 8;

/// The position of an entry: its ring, and the word of the ring that it begins at. Zero stands for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(u32);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket([u64; WAYS]);

/// The index.
#[derive(Debug)]
pub(super) struct Index {
    buckets: Box<[Bucket]>,
    /// Hashes of entries that were evicted from probation: S3-FIFO's ghosts.
    ghosts: Box<[u32]>,
}

impl Position {
    const RING_BITS: u32 = 2;

    /// The position of the entry that begins at byte `at` of a ring.
    pub(super) fn new(ring: usize, at: usize) -> Self {
        let word = u32::try_from(at / 8).expect("a ring has less than 8 GiB");
        let ring = u32::try_from(ring).expect("three rings");
        Self((word << Self::RING_BITS | ring) + 1)
    }

    /// Index of the ring.
    pub(super) fn ring(self) -> usize {
        ((self.0 - 1) & ((1 << Self::RING_BITS) - 1)) as usize
    }

    /// Offset in the ring of the entry's first byte.
    pub(super) fn at(self) -> usize {
        ((self.0 - 1) >> Self::RING_BITS) as usize * 8
    }
}

impl Index {
    /// An index with room for about `entries` entries.
    pub(super) fn new(entries: usize) -> Self {
        Self {
            buckets: vec![Bucket([0; WAYS]); entries.div_ceil(WAYS).max(1)].into_boxed_slice(),
            ghosts: vec![0; entries.max(1)].into_boxed_slice(),
        }
    }

    /// Bytes of the buckets and ghosts.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets) + size_of_val(&*self.ghosts)
    }

    /// The position in the buckets of a hash for which `is_it` is true.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Position) -> bool) -> Option<Position> {
        let buckets = self.buckets_of(hash).into_iter();
        buckets
            .flat_map(|bucket| &self.buckets[bucket].0)
            .filter(|&&slot| slot != 0 && tag(slot) == tag(hash))
            .filter_map(|&slot| position(slot))
            .find(|&position| is_it(position))
    }

    /// Adds an entry. If its buckets are full, it takes the slot that `worst` chooses, and the position in
    /// that slot is returned.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        position_of_new: Position,
        worst: impl Fn([Position; WAYS]) -> usize,
    ) -> Option<Position> {
        let [first, second] = self.buckets_of(hash);
        let used = |bucket: usize| {
            self.buckets[bucket]
                .0
                .iter()
                .filter(|slot| **slot != 0)
                .count()
        };
        let emptier = if used(second) < used(first) {
            second
        } else {
            first
        };
        let slots = &mut self.buckets[emptier].0;
        if let Some(free) = slots.iter_mut().find(|slot| **slot == 0) {
            *free = slot(hash, position_of_new);
            return None;
        }
        let victim = worst(slots.map(|slot| position(slot).expect("a full bucket has no zero")));
        let evicted = position(slots[victim]);
        slots[victim] = slot(hash, position_of_new);
        evicted
    }

    /// Updates the position of an entry that has moved.
    pub(super) fn move_entry(&mut self, hash: u64, from: Position, to: Position) {
        if let Some(found) = self.slot(hash, from) {
            *found = slot(hash, to);
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, hash: u64, of: Position) {
        if let Some(found) = self.slot(hash, of) {
            *found = 0;
        }
    }

    /// Adds the hash of an evicted entry to the ghosts.
    pub(super) fn add_ghost(&mut self, hash: u64) {
        let place = bucket_of(hash, self.ghosts.len());
        self.ghosts[place] = ghost(hash);
    }

    /// True if the key was evicted recently; forgets it then.
    pub(super) fn take_ghost(&mut self, hash: u64) -> bool {
        let place = &mut self.ghosts[bucket_of(hash, self.ghosts.len())];
        let is_ghost = *place == ghost(hash);
        if is_ghost {
            *place = 0;
        }
        is_ghost
    }

    /// Removes all entries and ghosts.
    pub(super) fn clear(&mut self) {
        self.buckets.fill(Bucket([0; WAYS]));
        self.ghosts.fill(0);
    }

    /// The buckets of a hash: one by its upper half, one by its lower half, mixed.
    fn buckets_of(&self, hash: u64) -> [usize; 2] {
        let mixed = hash.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(32);
        [hash, mixed].map(|hash| bucket_of(hash, self.buckets.len()))
    }

    fn slot(&mut self, hash: u64, of: Position) -> Option<&mut u64> {
        let wanted = slot(hash, of);
        let has = |bucket: &usize| self.buckets[*bucket].0.contains(&wanted);
        let bucket = self.buckets_of(hash).into_iter().find(has)?;
        self.buckets[bucket]
            .0
            .iter_mut()
            .find(|slot| **slot == wanted)
    }
}

/// The bucket for the upper half of a hash; the lower half is compared before the entry is read.
fn bucket_of(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

fn tag(hash: u64) -> u64 {
    hash & 0xffff_ffff
}

fn slot(hash: u64, position: Position) -> u64 {
    u64::from(position.0) << 32 | tag(hash)
}

fn position(slot: u64) -> Option<Position> {
    let number = u32::try_from(slot >> 32).ok()?;
    (number != 0).then_some(Position(number))
}

/// The ghost of a hash: never zero, which stands for none.
fn ghost(hash: u64) -> u32 {
    u32::try_from(tag(hash)).unwrap_or_default() | 1
}
