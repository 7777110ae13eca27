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
