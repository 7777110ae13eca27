//! Requests in flight by key.
//!
//! A word has the key's tag above and its requests below. A set has room for eight keys that have some; a
//! further one shares the place of the one that has the fewest, so that many keys make limits stricter, never
//! wider.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sets::set_of;

/// Bits of a word that count requests: more than connections can bring.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Counts of all keys.
pub(super) struct RequestsInFlight {
    slots: Box<[AtomicU64]>,
    limit: u64,
}

/// A request in flight, as long as it is.
pub(super) struct RequestPlace {
    table: Arc<RequestsInFlight>,
    at: usize,
}

impl RequestsInFlight {
    pub(super) fn new(limit: u32, entries: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: std::iter::repeat_with(AtomicU64::default)
                .take(entries)
                .collect(),
            limit: limit.into(),
        })
    }

    /// A place for a request of `key`; `None`: there are as many as may be.
    pub(super) fn enter(self: &Arc<Self>, key: u64) -> Option<RequestPlace> {
        let set = set_of(&self.slots, key);
        let first = (set.as_ptr().addr() - self.slots.as_ptr().addr()) / size_of::<AtomicU64>();
        let tag = key >> COUNT_BITS;
        loop {
            let words = || {
                set.iter()
                    .map(|slot| slot.load(Ordering::SeqCst))
                    .enumerate()
            };
            let own = words().find(|&(_, word)| counts(word, tag));
            let emptiest = words().min_by_key(|&(_, word)| word & COUNT_MASK);
            let (at, word) = own.or(emptiest).expect("a set has slots");
            if word & COUNT_MASK >= self.limit {
                return None;
            }
            let next = match word & COUNT_MASK {
                0 => (tag << COUNT_BITS) + 1,
                _ => word + 1,
            };
            // Each of two workers stores to its place and then looks for the other's: in one order for both, or
            // neither would see the other, both places would stay, and the next request would look for ever.
            let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
            if set[at]
                .compare_exchange(word, next, success, failure)
                .is_err()
            {
                continue;
            }
            let place = RequestPlace {
                table: Arc::clone(self),
                at: first + at,
            };
            // Two workers may have begun to count one key in two places: one of them goes.
            let mut others = words().filter(|&(other, _)| other != at);
            let is_twice = counts(next, tag) && others.any(|(_, word)| counts(word, tag));
            if !is_twice {
                return Some(place);
            }
            drop(place);
        }
    }
}

/// True when a word counts requests of the key with this tag.
fn counts(word: u64, tag: u64) -> bool {
    word >> COUNT_BITS == tag && word & COUNT_MASK > 0
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        // The count is not 0 while there is a place.
        self.table.slots[self.at].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::WAYS;
    use super::*;

    #[test]
    fn so_many_are_in_flight_and_who_leaves_makes_room() {
        let table = RequestsInFlight::new(2, 64);
        let key = 77 << 40;
        let places: Vec<_> = (0..3).map(|_| table.enter(key)).collect();
        assert!(places[1].is_some() && places[2].is_none());
        assert!(table.enter(78 << 40).is_some());
        drop(places);
        assert!(table.enter(key).is_some());
    }

    #[test]
    fn too_many_keys_make_limits_stricter_never_wider() {
        let table = RequestsInFlight::new(1, WAYS);
        let keys = (1..=100).map(|key: u64| key << 40);
        let places: Vec<_> = keys.filter_map(|key| table.enter(key)).collect();
        assert_eq!(places.len(), WAYS);
        drop(places);
        let left = table.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        assert_eq!(left.map(|word| word & COUNT_MASK).sum::<u64>(), 0);
    }

    /// Requests of each place, in order.
    fn requests(table: &RequestsInFlight) -> Vec<u64> {
        let words = table.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        words.map(|word| word & COUNT_MASK).collect()
    }

    #[test]
    fn who_leaves_makes_room_in_whatever_set_it_was() {
        let table = RequestsInFlight::new(1, 64);
        for set in 0..8 {
            let key = set << 61 | 1 << 40;
            let place = table.enter(key).expect("room");
            let mut expected = vec![0; 64];
            expected[usize::try_from(set).expect("small") * WAYS] = 1;
            assert_eq!(requests(&table), expected);
            drop(place);
            assert_eq!(requests(&table), [0; 64]);
        }
    }

    #[test]
    fn a_key_without_requests_leaves_its_place_to_another() {
        let table = RequestsInFlight::new(1, WAYS);
        let mut places: Vec<_> = (1..=8).map(|key| table.enter(key << 40)).collect();
        assert!(table.enter(9 << 40).is_none());
        // The place that is left has the greatest key.
        places.pop();
        assert!(table.enter(9 << 40).is_some());
    }

    #[test]
    fn a_key_is_counted_where_it_has_requests() {
        let table = RequestsInFlight::new(2, WAYS);
        let key = 7 << 40;
        let other = table.enter(8 << 40);
        let second = table.enter(key);
        drop((other, second));
        // Its earlier place, which is empty now, still has its tag.
        let first = table.enter(key).expect("room");
        let again = table.enter(key).expect("room");
        assert_eq!(requests(&table), [2, 0, 0, 0, 0, 0, 0, 0]);
        assert!(table.enter(key).is_none());
        drop(first);
        drop(again);
        // Here the empty one comes first.
        let other = table.enter(8 << 40);
        let second = table.enter(key);
        drop(other);
        table.slots[0].store(key >> COUNT_BITS << COUNT_BITS, Ordering::Relaxed);
        let again = table.enter(key);
        assert_eq!(requests(&table), [0, 2, 0, 0, 0, 0, 0, 0]);
        drop((second, again));
    }

    #[test]
    fn threads_share_one_limit() {
        let table = RequestsInFlight::new(3, 64);
        let most = AtomicU64::new(0);
        let now = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let Some(place) = table.enter(9 << 40) else {
                            continue;
                        };
                        let there = now.fetch_add(1, Ordering::Relaxed) + 1;
                        most.fetch_max(there, Ordering::Relaxed);
                        now.fetch_sub(1, Ordering::Relaxed);
                        drop(place);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((1..=3).contains(&most), "{most}");
    }
}
