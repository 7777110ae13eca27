//! Token buckets by key.
//!
//! Each is the generic cell rate algorithm: all that is kept of a key is its theoretical arrival time
//! (ITU-T I.371), one word that workers change by compare-and-swap. Keys lie in a table of a fixed size,
//! in sets of eight: a key that is new takes the place of the one whose bucket is fullest, and has no more
//! than that one had, so that many keys make limits stricter, never wider.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sets::set_of;
use crate::config::Rate;

/// Theoretical arrival times by key.
pub(super) struct Buckets {
    pub(super) slots: Box<[BucketSlot]>,
    /// Nanoseconds in which one token comes.
    interval: u64,
    /// Nanoseconds in which a bucket fills.
    pub(super) capacity: u64,
}

#[derive(Default)]
pub(super) struct BucketSlot {
    /// Hash of a key; 0: none.
    key: AtomicU64,
    /// When its bucket is full again.
    full_at: AtomicU64,
}

impl Buckets {
    pub(super) fn new(rate: &Rate, entries: usize) -> Self {
        let per = u64::try_from(rate.per.as_nanos()).unwrap_or(u64::MAX);
        let interval = (per / u64::from(rate.requests.max(1))).max(1);
        Self {
            slots: std::iter::repeat_with(BucketSlot::default)
                .take(entries)
                .collect(),
            interval,
            capacity: interval.saturating_mul(u64::from(rate.burst.max(1))),
        }
    }

    /// Takes a token of `key` at `now`, in nanoseconds.
    ///
    /// # Errors
    /// The time until there is one.
    pub(super) fn take(&self, key: u64, now: u64) -> Result<(), u64> {
        // 0 says that a slot is free.
        let slot = self.slot(key.max(1));
        let mut full_at = slot.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now).saturating_add(self.interval);
            let beyond = (next - now).saturating_sub(self.capacity);
            if beyond > 0 {
                return Err(beyond);
            }
            let taken = slot.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Ok(()),
                Err(other) => full_at = other,
            }
        }
    }

    /// The slot of a key, which may have been another's until now.
    fn slot(&self, key: u64) -> &BucketSlot {
        let set = set_of(&self.slots, key);
        loop {
            if let Some(slot) = set
                .iter()
                .find(|slot| slot.key.load(Ordering::Relaxed) == key)
            {
                return slot;
            }
            let fullest = set
                .iter()
                .min_by_key(|slot| slot.full_at.load(Ordering::Relaxed));
            let slot = fullest.expect("a set has slots");
            let had = slot.key.load(Ordering::Relaxed);
            let swapped = slot
                .key
                .compare_exchange(had, key, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::WAYS;
    use super::*;

    fn buckets(requests: u32, burst: u32, entries: usize) -> Buckets {
        let rate = Rate {
            requests,
            per: Duration::from_secs(1),
            burst,
        };
        Buckets::new(&rate, entries)
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let buckets = buckets(10, 20, 64);
        let passed = |now| (0..100).filter(|_| buckets.take(7, now).is_ok()).count();
        assert_eq!(passed(0), 20);
        assert_eq!(passed(SECOND), 10);
        assert_eq!(passed(SECOND), 0);
        assert_eq!(buckets.take(7, SECOND), Err(SECOND / 10));
        assert_eq!(passed(100 * SECOND), 20);
    }

    #[test]
    fn keys_have_buckets_of_their_own() {
        let buckets = buckets(1, 1, 64);
        assert!(buckets.take(1, 0).is_ok());
        assert!(buckets.take(2, 0).is_ok());
        assert!(buckets.take(1, 0).is_err());
    }

    #[test]
    fn too_many_keys_make_limits_stricter_never_wider() {
        let buckets = buckets(1, 1, WAYS);
        let keys = (1..=100).map(|key: u64| key << 40);
        let passed = keys.filter(|key| buckets.take(*key, 0).is_ok()).count();
        assert_eq!(passed, WAYS);
    }

    #[test]
    fn threads_share_one_limit() {
        let buckets = buckets(1, 100, 64);
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let is_ok = buckets.take(9, 0).is_ok();
                        passed.fetch_add(u64::from(is_ok), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 100);
    }
}
