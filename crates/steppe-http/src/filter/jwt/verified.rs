//! Tokens that were verified: what is the same is not verified again before it expires.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use steppe_mem::{Account, Lease, Reservation};

use crate::filter::table_of;
use crate::filter::token::Token;

/// Tokens by a hash of their text, each in the one place that it may have.
pub(super) struct Verified {
    places: Box<[Mutex<Option<Entry>>]>,
    _charge: Option<Reservation>,
    hasher: RandomState,
    lease: Lease,
}

struct Entry {
    token: Arc<Token>,
    /// Of the set of keys that verified it: one that is gone vouches for nobody.
    generation: u64,
    _charge: Reservation,
}

impl Verified {
    pub(super) fn new(places: usize, account: &Account) -> Self {
        let bytes = size_of::<Mutex<Option<Entry>>>();
        let (places, charge) = table_of(account, (places, 0), bytes);
        Self {
            places: std::iter::repeat_with(Mutex::default)
                .take(places)
                .collect(),
            _charge: charge,
            hasher: RandomState::new(),
            lease: account.lease(),
        }
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

    /// Remembers it, where the budget has room.
    pub(super) fn put(&self, token: &Arc<Token>, generation: u64) {
        // Values of a tree take several times their text.
        let bytes = 8 * token.text.len();
        if let (Some(place), Ok(charge)) = (self.place(&token.text), self.lease.try_reserve(bytes))
        {
            let mut entry = place.lock().unwrap_or_else(PoisonError::into_inner);
            *entry = Some(Entry {
                token: Arc::clone(token),
                generation,
                _charge: charge,
            });
        }
    }

    fn place(&self, text: &str) -> Option<&Mutex<Option<Entry>>> {
        let hash = u128::from(self.hasher.hash_one(text));
        let at = (hash * self.places.len() as u128) >> u64::BITS;
        self.places.get(usize::try_from(at).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use steppe_mem::Budget;

    use super::*;

    fn token(text: &str, ends_at: u64) -> Arc<Token> {
        Arc::new(Token {
            text: text.into(),
            claims: Map::new(),
            ends_at,
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
    fn what_a_token_takes_is_charged_and_where_there_is_no_room_it_is_forgotten() {
        let budget = Budget::new(1 << 20);
        let verified = Verified::new(1, budget.root());
        let text = "x".repeat(64 << 10);
        let before = budget.root().reserved_bytes();
        verified.put(&token(&text, 1), 0);
        assert!(verified.get(&text, 0, 0).is_some());
        assert!(budget.root().reserved_bytes() - before >= 512 << 10);
        let long = "y".repeat(128 << 10);
        verified.put(&token(&long, 1), 0);
        assert!(verified.get(&long, 0, 0).is_none());
        assert!(verified.get(&text, 0, 0).is_some());
    }
}
