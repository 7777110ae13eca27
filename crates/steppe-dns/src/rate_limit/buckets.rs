//! Token buckets in a table of fixed size, which all workers share.
//!
//! A bucket is one word: a tag of 24 bits of its owner's hash, and 40 bits with the microsecond at which it is full
//! again. This is the generic cell rate algorithm (ITU-T I.371 Annex A, virtual scheduling): the tokens that a
//! bucket lacks are the time until then. A hash chooses a set of eight buckets, which are a cache line. A new owner
//! takes the bucket that lacks the fewest tokens, mostly a full one; so the owners that ask most keep their buckets,
//! however many others come.
//!
//! Invariant: an access reads one set, writes one word at most, and neither locks nor allocates. If other workers
//! change the word each time that it tries, the access passes uncounted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::BUCKETS_PER_TABLE;

/// A table of [`BUCKETS_PER_TABLE`] buckets.
#[derive(Debug)]
pub struct Buckets(Box<[Set]>);

/// The rate of a bucket, which holds the tokens of one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a second, 1 at least.
    pub per_second: u32,
}

/// The decision of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The bucket had enough tokens, and they were taken.
    Within,
    /// The bucket had too few tokens, and none was taken.
    Beyond,
}

#[derive(Debug)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

const WAYS: usize = 8;
const SETS: usize = BUCKETS_PER_TABLE / WAYS;
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const SECOND_US: u64 = 1_000_000;

/// Largest difference between the clocks of two workers: each reads its own once a turn.
const SKEW_US: u64 = SECOND_US;

/// Tries before an access passes uncounted; each failed because another worker changed the word.
const TRIES: usize = 4;

const _: () = assert!(SETS.is_power_of_two() && SETS * WAYS == BUCKETS_PER_TABLE);

impl Rate {
    /// Microseconds in which so many tokens are refilled, 1 at least.
    fn us(self, tokens: u32) -> u64 {
        (u64::from(tokens) * SECOND_US).div_ceil(u64::from(self.per_second).max(1))
    }
}

impl Buckets {
    /// Bytes of a table.
    pub const BYTES: usize = BUCKETS_PER_TABLE * size_of::<u64>();

    /// A table of full buckets.
    #[must_use]
    pub fn new() -> Self {
        let set = |_| Set(std::array::from_fn(|_| AtomicU64::new(0)));
        Self((0..SETS).map(set).collect())
    }

    /// Takes tokens of the bucket of `hash`, which holds those of one second. `now_us` counts from a moment that
    /// all workers share.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn take(&self, hash: u64, rate: Rate, tokens: u32, now_us: u64) -> Verdict {
        let set = self.set(hash);
        let tag = tag(hash);
        for _ in 0..TRIES {
            let (slot, seen) = set.find(tag, now_us, SECOND_US);
            let lacking = match seen & !TIME_MASK == tag {
                true => ahead(seen, now_us, SECOND_US),
                false => 0,
            };
            let lacks = lacking + rate.us(tokens);
            if lacks > SECOND_US {
                return Verdict::Beyond;
            }
            if slot.replace(seen, tag | (now_us + lacks) & TIME_MASK) {
                break;
            }
        }
        Verdict::Within
    }

    /// Marks `hash` for `us` microseconds from now on.
    pub fn mark(&self, hash: u64, us: u64, now_us: u64) {
        let set = self.set(hash);
        for _ in 0..TRIES {
            let (slot, seen) = set.find(tag(hash), now_us, us);
            if slot.replace(seen, tag(hash) | (now_us + us) & TIME_MASK) {
                return;
            }
        }
    }

    /// True while `hash` is marked by [`Self::mark`], for `us` microseconds at most.
    #[must_use]
    pub fn is_marked(&self, hash: u64, us: u64, now_us: u64) -> bool {
        let words = self.set(hash).0.iter();
        let mut words = words.map(|word| word.load(Ordering::Relaxed));
        words.any(|word| word & !TIME_MASK == tag(hash) && ahead(word, now_us, us) > 0)
    }

    fn set(&self, hash: u64) -> &Set {
        &self.0[usize::try_from(hash).unwrap_or(usize::MAX) & (SETS - 1)]
    }
}

impl Default for Buckets {
    fn default() -> Self {
        Self::new()
    }
}

/// A word of a set.
struct Slot<'a>(&'a AtomicU64);

impl Set {
    /// The word of this tag, else the word that a new owner takes; and its value.
    fn find(&self, tag: u64, now_us: u64, us_max: u64) -> (Slot<'_>, u64) {
        let words = self
            .0
            .iter()
            .map(|word| (Slot(word), word.load(Ordering::Relaxed)));
        let rank = |(_, word): &(Slot<'_>, u64)| match word & !TIME_MASK == tag {
            true => 0,
            false => 1 + ahead(*word, now_us, us_max),
        };
        words.min_by_key(rank).expect("a set has words")
    }
}

impl Slot<'_> {
    /// Changes the word from `seen` to `new`. False if another worker has changed it meanwhile.
    fn replace(&self, seen: u64, new: u64) -> bool {
        let order = Ordering::Relaxed;
        self.0.compare_exchange(seen, new, order, order).is_ok()
    }
}

/// The tag of a hash, which tells the owners of a set's buckets apart.
fn tag(hash: u64) -> u64 {
    hash & !TIME_MASK
}

/// Microseconds from now until the time of a word, which was at most `us_max` ahead of the clock that wrote it.
/// A time further ahead than that clock can be of this one is long ago, since 40 bits wrap: 0.
fn ahead(word: u64, now_us: u64, us_max: u64) -> u64 {
    let ahead = word.wrapping_sub(now_us) & TIME_MASK;
    if ahead <= us_max + SKEW_US { ahead } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10 };

    fn taken(buckets: &Buckets, hash: u64, times: usize, now_us: u64) -> usize {
        let take = |_: &usize| buckets.take(hash, RATE, 1, now_us) == Verdict::Within;
        (0..times).filter(take).count()
    }

    #[test]
    fn a_second_may_come_at_once_and_then_as_much_as_the_rate() {
        let buckets = Buckets::new();
        assert_eq!(taken(&buckets, 7, 100, 5), 10);
        assert_eq!(taken(&buckets, 7, 100, 5 + 300_000), 3);
        assert_eq!(taken(&buckets, 7, 100, 5 + 60 * SECOND_US), 10);
        assert_eq!(
            buckets.take(8, RATE, 11, 0),
            Verdict::Beyond,
            "more than a second's"
        );
    }

    #[test]
    fn who_asks_most_stays_known_while_others_come() {
        let buckets = Buckets::new();
        assert_eq!(taken(&buckets, 7, 100, 0), 10);
        // All of the same set.
        for other in 1..10_000_u64 {
            assert_eq!(taken(&buckets, 7 | other << TIME_BITS, 1, 0), 1);
        }
        assert_eq!(taken(&buckets, 7, 100, 0), 0);
    }

    #[test]
    fn a_time_long_ago_is_no_time_to_come() {
        let buckets = Buckets::new();
        assert_eq!(taken(&buckets, 7, 100, 0), 10);
        for later in [
            TIME_MASK - 2 * SECOND_US,
            TIME_MASK / 2,
            TIME_MASK + 3 * SECOND_US,
        ] {
            assert_eq!(taken(&buckets, 7, 100, later), 10, "{later}");
        }
    }

    #[test]
    fn a_mark_ends() {
        let buckets = Buckets::new();
        assert!(!buckets.is_marked(7, 100, 0));
        buckets.mark(7, 100, 50);
        assert!(buckets.is_marked(7, 100, 149) && !buckets.is_marked(7, 100, 150));
        assert!(!buckets.is_marked(7 | 1 << TIME_BITS, 100, 60));
    }

    #[test]
    fn a_worker_whose_clock_is_behind_finds_no_full_bucket() {
        let buckets = Buckets::new();
        assert_eq!(taken(&buckets, 7, 100, 5_000), 10);
        assert_eq!(taken(&buckets, 7, 100, 0), 0);
        buckets.mark(8, 100, 5_000);
        assert!(buckets.is_marked(8, 100, 0));
    }

    #[test]
    fn workers_count_together() {
        let buckets = Buckets::new();
        let within = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| taken(&buckets, 7, 1000, 0)));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        let within: usize = within.iter().sum();
        // An access at the same time as those of other workers may pass uncounted, now and then.
        assert!((10..200).contains(&within), "{within}");
    }
}
