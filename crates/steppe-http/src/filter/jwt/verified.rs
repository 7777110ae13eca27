//! Tokens that were verified: what is the same is not verified again before it expires.
//!
//! Invariant: tokens that are kept take at most a share of the budget, and are given up before a request is refused
//! for want of memory. A token that has expired, or whose keys are no longer in force, is given up within a sweep.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use steppe_mem::{Account, Evict, Reservation};

use crate::filter::table_of;
use crate::filter::token::Token;
use crate::limits::JWT_KEPT_SHARE;

/// Tokens by a hash of their text, each in the one place that it may have.
pub(super) struct Verified {
    places: Box<[Mutex<Option<VerifiedToken>>]>,
    _charge: Option<Reservation>,
    hasher: RandomState,
    /// Bytes of all tokens that are kept, and the most that they may take.
    kept_bytes: AtomicU64,
    kept_bytes_max: u64,
    /// Unix seconds before which no token that is kept expires.
    earliest_end: AtomicU64,
    /// The generation of the key set at the last sweep.
    swept_generation: AtomicU64,
    /// The place that is given up next.
    hand: AtomicUsize,
}

struct VerifiedToken {
    token: Arc<Token>,
    /// The generation of the key set that verified it: tokens of earlier ones are not trusted.
    generation: u64,
}

impl Verified {
    pub(super) fn new(places: usize, account: &Account) -> Arc<Self> {
        let bytes = size_of::<Mutex<Option<VerifiedToken>>>();
        let (places, charge) = table_of(account, places, 0, bytes);
        let verified = Arc::new(Self {
            places: std::iter::repeat_with(Mutex::default)
                .take(places)
                .collect(),
            _charge: charge,
            hasher: RandomState::new(),
            kept_bytes: AtomicU64::new(0),
            kept_bytes_max: account.limit_bytes() / JWT_KEPT_SHARE,
            earliest_end: AtomicU64::new(u64::MAX),
            swept_generation: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
        });
        let evicting: std::sync::Weak<Self> = Arc::downgrade(&verified);
        account.set_evicting(evicting);
        verified
    }

    /// The token of this text, if it is still good.
    pub(super) fn get(&self, text: &str, now: u64, generation: u64) -> Option<Arc<Token>> {
        let place = self.place(text)?;
        // Held for a comparison.
        let entry = place.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entry.as_ref()?;
        let token = &entry.token;
        let is_current = entry.generation == generation && token.ends_at > now;
        (is_current && *token.text == *text).then(|| Arc::clone(token))
    }

    /// Keeps it, where its share of the budget has room.
    pub(super) fn put(&self, token: &Arc<Token>, generation: u64) {
        let Some(place) = self.place(&token.text) else {
            return;
        };
        if token.bytes() > self.kept_bytes_max {
            return;
        }
        self.kept_bytes.fetch_add(token.bytes(), Ordering::Relaxed);
        let entry = VerifiedToken {
            token: Arc::clone(token),
            generation,
        };
        let replaced = place
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(entry);
        self.gave_up(replaced);
        self.earliest_end
            .fetch_min(token.ends_at, Ordering::Relaxed);
        let more = self.kept_bytes.load(Ordering::Relaxed);
        self.give_up(more.saturating_sub(self.kept_bytes_max));
    }

    /// Gives up tokens that have expired `now`, in Unix seconds, and those of other keys than `generation`'s. It looks
    /// at every place where there is one, and at none otherwise.
    pub(super) fn sweep(&self, now: u64, generation: u64) {
        let is_swept = self.swept_generation.swap(generation, Ordering::Relaxed) == generation;
        if is_swept && now < self.earliest_end.load(Ordering::Relaxed) {
            return;
        }
        // Of those that are put from here on, each lowers it by itself.
        self.earliest_end.store(u64::MAX, Ordering::Relaxed);
        let mut earliest = u64::MAX;
        for place in &self.places {
            let mut entry = place.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = |entry: &mut VerifiedToken| {
                entry.token.ends_at <= now || entry.generation != generation
            };
            let over = entry.take_if(is_over);
            if let Some(entry) = &*entry {
                earliest = earliest.min(entry.token.ends_at);
            }
            drop(entry);
            self.gave_up(over);
        }
        self.earliest_end.fetch_min(earliest, Ordering::Relaxed);
    }

    /// Gives up kept tokens of at least `bytes`, as far as there are any, from place to place; says how many bytes
    /// nobody holds any more.
    fn give_up(&self, bytes: u64) -> u64 {
        let (mut given_up, mut freed) = (0, 0);
        for _ in 0..self.places.len() {
            if given_up >= bytes || self.kept_bytes.load(Ordering::Relaxed) == 0 {
                break;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % self.places.len();
            let entry = self.places[at]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(entry) = &entry {
                given_up += entry.token.bytes();
                let is_last = Arc::strong_count(&entry.token) == 1;
                freed += if is_last { entry.token.bytes() } else { 0 };
            }
            self.gave_up(entry);
        }
        freed
    }

    /// The place's lock is not held: a reservation that ends grants bytes to others.
    fn gave_up(&self, entry: Option<VerifiedToken>) {
        if let Some(entry) = entry {
            self.kept_bytes
                .fetch_sub(entry.token.bytes(), Ordering::Relaxed);
        }
    }

    fn place(&self, text: &str) -> Option<&Mutex<Option<VerifiedToken>>> {
        let hash = u128::from(self.hasher.hash_one(text));
        let at = (hash * self.places.len() as u128) >> u64::BITS;
        self.places.get(usize::try_from(at).ok()?)
    }
}

impl Evict for Verified {
    fn evict(&self, bytes: u64) -> u64 {
        // Those that exchanges hold yet are given up, too, but free nothing: more go for them.
        let mut freed = 0;
        while freed < bytes && self.kept_bytes.load(Ordering::Relaxed) > 0 {
            let before = self.kept_bytes.load(Ordering::Relaxed);
            freed += self.give_up(bytes - freed);
            if self.kept_bytes.load(Ordering::Relaxed) >= before {
                break;
            }
        }
        freed
    }
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verified")
            .field("places", &self.places.len())
            .field("kept_bytes", &self.kept_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use steppe_mem::{Account, Budget};

    use super::*;

    fn token(text: &str, ends_at: u64) -> Arc<Token> {
        Arc::new(Token {
            text: text.into(),
            claims: Map::new(),
            ends_at,
            charge: None,
        })
    }

    /// One that takes `bytes` of `account`.
    fn charged(account: &Account, text: &str, (bytes, ends_at): (usize, u64)) -> Arc<Token> {
        Arc::new(Token {
            text: text.into(),
            claims: Map::new(),
            ends_at,
            charge: Some(account.lease().try_reserve(bytes).expect("room")),
        })
    }

    #[test]
    fn a_token_is_good_until_it_ends_for_its_text_and_its_keys() {
        let budget = Budget::new(1 << 20);
        // All tokens have the one place.
        let verified = Verified::new(1, budget.root());
        verified.put(&token("a", 100), 3);
        let is_known = |text, now, generation| verified.get(text, now, generation).is_some();
        assert!(is_known("a", 99, 3));
        assert!(!is_known("a", 100, 3));
        assert!(!is_known("a", 99, 2) && !is_known("a", 99, 4));
        assert!(!is_known("b", 99, 3));
        verified.put(&token("b", 100), 3);
        assert!(is_known("b", 99, 3) && !is_known("a", 99, 3));
    }

    #[test]
    fn tokens_lie_all_over_the_table() {
        let budget = Budget::new(1 << 20);
        let verified = Verified::new(1 << 10, budget.root());
        let texts: Vec<_> = (0..64).map(|at| format!("token {at}")).collect();
        (texts.iter()).for_each(|text| verified.put(&token(text, 1), 0));
        let known = texts
            .iter()
            .filter(|text| verified.get(text, 0, 0).is_some());
        // Two of them may share a place, as one in thirty does.
        assert!(known.count() > 32);
    }

    #[test]
    fn kept_tokens_take_no_more_than_their_share() {
        let budget = Budget::new(1 << 20);
        let verified = Verified::new(64, budget.root());
        let before = budget.root().reserved_bytes();
        for at in 0..64 {
            verified.put(&charged(budget.root(), &at.to_string(), (10 << 10, 1)), 0);
            let kept = budget.root().reserved_bytes() - before;
            assert!(kept <= (1 << 20) / JWT_KEPT_SHARE, "{kept}");
        }
        assert!(budget.root().reserved_bytes() > before);
        // What takes more than all of it pushes none out.
        let kept = budget.root().reserved_bytes();
        verified.put(&charged(budget.root(), "large", (100 << 10, 1)), 0);
        assert_eq!(budget.root().reserved_bytes(), kept);
    }

    #[test]
    fn tokens_that_expired_and_those_of_other_keys_are_given_up_by_a_sweep() {
        let budget = Budget::new(16 << 20);
        let verified = Verified::new(64, budget.root());
        let before = budget.root().reserved_bytes();
        let kept = || (budget.root().reserved_bytes() - before) / 1000;
        // Three tokens at three places.
        let mut places = Vec::new();
        let texts = (0..).map(|at: u32| at.to_string()).filter(|text| {
            let place = std::ptr::from_ref(verified.place(text).expect("a place"));
            let is_new = !places.contains(&place);
            places.push(place);
            is_new
        });
        let texts: Vec<_> = texts.take(3).collect();
        for (text, ends_at) in texts.iter().zip([10, 20, 30]) {
            verified.put(&charged(budget.root(), text, (1000, ends_at)), 1);
        }
        verified.sweep(9, 1);
        assert_eq!(kept(), 3);
        verified.sweep(10, 1);
        assert_eq!(kept(), 2);
        verified.sweep(20, 1);
        assert_eq!(kept(), 1);
        verified.sweep(21, 2);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn kept_tokens_give_way_to_others_that_need_the_memory() {
        let budget = Budget::new(1 << 20);
        let account = budget.root().child("tokens", None);
        let verified = Verified::new(64, &account);
        for at in 0..8 {
            verified.put(&charged(&account, &at.to_string(), (4 << 10, 1)), 0);
        }
        let held = charged(&account, "held", (4 << 10, 1));
        verified.put(&held, 0);
        let all_but_held = (1 << 20) - (4 << 10) - 64 * size_of::<Mutex<Option<VerifiedToken>>>();
        let lease = budget.root().lease();
        let all = lease.try_reserve(all_but_held).expect("tokens give way");
        assert_eq!(verified.kept_bytes.load(Ordering::Relaxed), 0);
        drop(all);
    }
}
