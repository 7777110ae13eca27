//! The cache as workers share it: shards by hash, each behind a lock that is held for one lookup or one
//! insertion.
//!
//! All workers share one cache rather than having one each: servers are asked for a name once, whichever
//! worker its queries come to, and the bytes don't depend on the number of workers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::limits::{CACHE_BYTES_MAX, CACHE_SHARD_BYTES_MIN, CACHE_SHARDS_MAX};
use crate::siphash::SipKey;
use crate::wire::Rcode;

use super::key::Key;
use super::lookup::{Lookup, ServePolicy};
use super::shard::{Flush, Moment, NewEntry, NotCached, ServedAt, Shard, ShardStats};

/// A cache of responses, shared by workers.
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Locked]>,
    hash_key: SipKey,
    start: Instant,
    failures_void_at: AtomicU32,
}

/// Aligned so that no two shards' locks share a pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Locked(Mutex<Shard>);

/// The cache's time at `start`, in seconds: above 0, so that a response from a snapshot can be older than the
/// process.
const START_SECONDS: u32 = 1 << 28;

impl Cache {
    /// A cache of `bytes` in all, at least [`CACHE_SHARD_BYTES_MIN`]. Pages become resident as entries fill
    /// them. `hash_key` has to be random and secret, so that no client can choose names of one bucket.
    #[must_use]
    pub fn new(bytes: usize, hash_key: SipKey, start: Instant) -> Self {
        let bytes = bytes.clamp(CACHE_SHARD_BYTES_MIN, CACHE_BYTES_MAX);
        let shards = (bytes / (2 * CACHE_SHARD_BYTES_MIN)).clamp(1, CACHE_SHARDS_MAX);
        let shard = || Locked(Mutex::new(Shard::new(bytes / shards - size_of::<Locked>())));
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
            hash_key,
            start,
            failures_void_at: AtomicU32::new(0),
        }
    }

    /// Looks for a response. A hit is copied to the front of `out`, which has room for
    /// [`crate::limits::CACHED_BODY_BYTES_MAX`], with its TTLs aged.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn lookup(
        &self,
        key: &Key<'_>,
        policy: &ServePolicy,
        now: Instant,
        out: &mut [u8],
    ) -> Lookup {
        let hash = key.hash(&self.hash_key);
        let moment = self.moment(now);
        self.shard(hash).lookup(key, hash, moment, policy, out)
    }

    /// Caches a response in place of the entry that the key has.
    ///
    /// # Errors
    /// [`NotCached`]. If the response is too large, the entry that the key has is removed all the same.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn insert(
        &self,
        key: &Key<'_>,
        new: &NewEntry<'_>,
        policy: &ServePolicy,
        now: Instant,
    ) -> Result<(), NotCached> {
        let hash = key.hash(&self.hash_key);
        let moment = self.moment(now);
        self.shard(hash).insert(key, hash, new, moment, policy)
    }

    /// Caches a response if the key has none yet.
    ///
    /// # Errors
    /// [`NotCached`].
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn insert_absent(
        &self,
        key: &Key<'_>,
        new: &NewEntry<'_>,
        policy: &ServePolicy,
        now: Instant,
    ) -> Result<(), NotCached> {
        let hash = key.hash(&self.hash_key);
        let moment = self.moment(now);
        let mut shard = self.shard(hash);
        if shard.has(key, hash) {
            return Err(NotCached::Newer);
        }
        shard.insert(key, hash, new, moment, policy)
    }

    /// Caches the failure of servers to answer. RFC 9520: the question is not asked again for a while. A
    /// stale response that may still be served stays: RFC 8767 §5.
    ///
    /// # Errors
    /// [`NotCached`].
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn insert_failure(
        &self,
        key: &Key<'_>,
        failure: (Rcode, u16),
        policy: &ServePolicy,
        now: Instant,
    ) -> Result<(), NotCached> {
        let hash = key.hash(&self.hash_key);
        let moment = self.moment(now);
        self.shard(hash)
            .insert_failure(key, hash, failure, moment, policy)
    }

    /// Keeps a response that may still be served from being refreshed for a while, after servers failed to answer.
    pub fn quiet(&self, key: &Key<'_>, policy: &ServePolicy, now: Instant) {
        let hash = key.hash(&self.hash_key);
        let moment = self.moment(now);
        self.shard(hash)
            .quiet(key, hash, ServedAt { moment, policy });
    }

    /// Voids all cached failures, when servers are back.
    pub fn void_failures(&self, now: Instant) {
        let now = self.moment(now).now;
        self.failures_void_at.fetch_max(now, Ordering::Relaxed);
    }

    /// Removes entries, and returns their number. Each shard is locked while it is walked over.
    pub fn flush(&self, flush: &Flush) -> u64 {
        self.locks().map(|mut shard| shard.flush(flush)).sum()
    }

    /// Counts, summed over all shards.
    #[must_use]
    pub fn stats(&self) -> ShardStats {
        let add = |sum: ShardStats, shard: MutexGuard<'_, Shard>| {
            let stats = shard.stats();
            ShardStats {
                entries: sum.entries + stats.entries,
                used_bytes: sum.used_bytes + stats.used_bytes,
                insertions: sum.insertions + stats.insertions,
                evictions: sum.evictions + stats.evictions,
                moves: sum.moves + stats.moves,
                refused: sum.refused + stats.refused,
            }
        };
        self.locks().fold(ShardStats::default(), add)
    }

    /// Bytes of all shards.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.locks().map(|shard| shard.bytes()).sum::<usize>() + size_of_val(&*self.shards)
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Calls `each` with every response of a shard, which is locked meanwhile. Failures are left out.
    pub(super) fn for_each(
        &self,
        shard: usize,
        now: Instant,
        each: impl FnMut(&Key<'_>, &NewEntry<'_>),
    ) {
        let now = self.moment(now).now;
        if let Some(shard) = self.shards.get(shard) {
            lock(shard).for_each(now, each);
        }
    }

    fn moment(&self, now: Instant) -> Moment {
        let seconds = now.saturating_duration_since(self.start).as_secs();
        Moment {
            now: START_SECONDS.saturating_add(u32::try_from(seconds).unwrap_or(u32::MAX)),
            failures_void_at: self.failures_void_at.load(Ordering::Relaxed),
        }
    }

    /// Locks the shard of a hash. The hash is mixed first, since the index uses its upper bits as they are.
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = ((mixed * self.shards.len() as u64) >> 32) as usize;
        lock(&self.shards[index])
    }

    fn locks(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }
}

/// Locks a shard. A thread that panicked in it left it usable: at worst an entry is lost.
fn lock(shard: &Locked) -> MutexGuard<'_, Shard> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}
