//! Hit-for-pass: resources whose last response was not stored. Requests for one are forwarded at once for a while,
//! rather than each after the fetch of another.
//!
//! A mark is one word in a table of fixed size: a newer one overwrites it, and its tag tells it from others in its
//! slot. A mark that is lost costs one wait.

use std::hash::RandomState;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::credentials::Credentials;
use super::key::CacheKey;
use crate::limits::{CACHE_PASS_SECONDS, CACHE_PASSES};

/// The marks of one cache, by a hash of key and credentials: private responses to visitors with credentials say
/// nothing of those to others.
pub(crate) struct HitForPass {
    marks: Box<[AtomicU64]>,
    hasher: RandomState,
    /// Times of marks are seconds from here on.
    epoch: OnceLock<Instant>,
}

impl Default for HitForPass {
    fn default() -> Self {
        let marks = std::iter::repeat_with(AtomicU64::default);
        Self {
            marks: marks.take(CACHE_PASSES).collect(),
            hasher: RandomState::new(),
            epoch: OnceLock::new(),
        }
    }
}

impl HitForPass {
    /// Memory of the table.
    pub(crate) const BYTES: usize = size_of::<u64>() * CACHE_PASSES;

    /// True if requests for `key` with such credentials are not to wait for each other's responses.
    pub(crate) fn is_marked(&self, key: &CacheKey, credentials: Credentials, now: Instant) -> bool {
        let (mark, tag) = self.slot(key, credentials);
        let mark = mark.load(Ordering::Relaxed);
        let until = mark & u64::from(u32::MAX);
        mark >> 32 == tag && self.seconds(now) < until
    }

    /// Marks `key` for [`CACHE_PASS_SECONDS`].
    pub(crate) fn mark(&self, key: &CacheKey, credentials: Credentials, now: Instant) {
        let until = self.seconds(now) + CACHE_PASS_SECONDS;
        let (mark, tag) = self.slot(key, credentials);
        mark.store(tag << 32 | until, Ordering::Relaxed);
    }

    /// The slot of a mark, and the tag that tells it from others there.
    fn slot(&self, key: &CacheKey, credentials: Credentials) -> (&AtomicU64, u64) {
        let hash = key.hash_with(&self.hasher, credentials);
        let slot = usize::try_from(hash % CACHE_PASSES as u64).expect("it is less than a length");
        (&self.marks[slot], hash >> 32)
    }

    fn seconds(&self, now: Instant) -> u64 {
        let epoch = self.epoch.get_or_init(|| now);
        now.saturating_duration_since(*epoch).as_secs()
    }
}
