//! The stored responses of one cache, and its fetches in flight.
//!
//! All workers share them: sharded by key, each shard behind a lock that is held for a look-up or a change of one
//! key. A fetch in flight stands beside the stored responses of its key, so that later requests join it, whatever
//! their workers.
//!
//! Invariants: while a shard is locked, nothing is reserved, and nothing dropped that a task may wait for. A fetch that
//! stands in its entry was not invalidated: the response that it publishes is up to date.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::iter;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steppe_mem::{Account, Evict, Lease, Reservation};

use super::background::BackgroundFetches;
use super::credentials::Presented;
use super::hit_for_pass::HitForPass;
use super::in_flight::InFlight;
use super::key::{CacheKey, KeyInput};
use super::queues::Queues;
use super::stats::Stats;
use super::stored::StoredResponse;
use crate::config;
use crate::limits::{CACHE_GHOSTS, CACHE_VARIANTS_MAX};

const SHARDS: usize = 16;

/// The stored responses of one filter.
pub(crate) struct Store {
    pub(crate) name: String,
    pub(crate) settings: config::Cache,
    pub(crate) stats: Stats,
    pub(super) account: Account,
    /// Stored responses are charged to it.
    pub(super) lease: Lease,
    hasher: RandomState,
    shards: [Mutex<StoreShard>; SHARDS],
    queues: Mutex<Queues>,
    pub(crate) hit_for_pass: HitForPass,
    pub(crate) background: Arc<BackgroundFetches>,
    _charge: Option<Reservation>,
}

type StoreShard = HashMap<u64, Vec<CacheEntry>>;

/// The stored responses of a key, the newest last, and its fetches in flight.
#[derive(Debug)]
struct CacheEntry {
    key: Arc<CacheKey>,
    variants: Vec<Arc<StoredResponse>>,
    fetches: Vec<Arc<InFlight>>,
}

/// The key of a request, and the stored response that the request selects.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) key: Arc<CacheKey>,
    pub(crate) stored: Option<Arc<StoredResponse>>,
}

/// The part of a request in a fetch.
#[derive(Debug)]
pub(super) enum Role {
    /// The request begins this fetch.
    Leader(Arc<InFlight>),
    /// The request joins this fetch of another one.
    Follower(Arc<InFlight>),
}

impl Store {
    /// A store that is charged below `node`.
    pub(crate) fn new(name: &str, settings: config::Cache, node: &Account) -> Arc<Self> {
        let bytes = u64::try_from(settings.bytes).unwrap_or(u64::MAX);
        let account = node.child(format!("cache {name}"), Some(bytes));
        let lease = account.lease();
        let fixed = size_of::<u32>() * CACHE_GHOSTS + HitForPass::BYTES;
        let store = Arc::new(Self {
            name: name.to_owned(),
            stats: Stats::default(),
            _charge: lease.try_reserve(fixed).ok(),
            lease,
            settings,
            hasher: RandomState::new(),
            shards: [const { Mutex::new(()) }; SHARDS].map(|_| Mutex::default()),
            queues: Mutex::default(),
            hit_for_pass: HitForPass::default(),
            background: Arc::default(),
            account,
        });
        let evicting: std::sync::Weak<Self> = Arc::downgrade(&store);
        store.account.set_evicting(evicting);
        store
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, StoreShard> {
        let at = usize::try_from(hash >> 60).expect("four bits");
        lock(&self.shards[at])
    }

    /// The newest stored response that a request selects. `None` where the request names no host, or the budget has no
    /// room for a copy of its key.
    pub(crate) fn find(&self, request: KeyInput<'_>) -> Option<Found> {
        let found = request.with_key(&self.hasher, |key| {
            let shard = self.shard(key.hash);
            let entries = shard.get(&key.hash).map_or(&[][..], Vec::as_slice);
            let Some(entry) = entries.iter().find(|entry| entry.key.borrowed() == key) else {
                drop(shard);
                return Some(Found {
                    key: Arc::new(key.to_key(&self.lease)?),
                    stored: None,
                });
            };
            let mut newest_first = entry.variants.iter().rev();
            let stored = newest_first.find(|stored| stored.variant.matches(&request.head.fields));
            Some(Found {
                key: Arc::clone(&entry.key),
                stored: stored.cloned(),
            })
        });
        found.flatten()
    }

    /// Finds a fetch of `key` that `may_join` admits for a request with `asked`, or enters a new one.
    pub(super) fn lead_or_follow(
        &self,
        key: &Arc<CacheKey>,
        asked: Presented<'_>,
        may_join: impl Fn(&InFlight) -> bool,
    ) -> Role {
        let mut shard = self.shard(key.hash);
        let entries = shard.entry(key.hash).or_default();
        let at = entries.iter().position(|entry| entry.key == *key);
        let at = at.unwrap_or_else(|| {
            entries.push(CacheEntry {
                key: Arc::clone(key),
                variants: Vec::new(),
                fetches: Vec::new(),
            });
            entries.len() - 1
        });
        let entry = &mut entries[at];
        let mut fetches = entry.fetches.iter();
        if let Some(fetch) = fetches.find(|fetch| fetch.is_likely_for(asked) && may_join(fetch)) {
            return Role::Follower(Arc::clone(fetch));
        }
        // The response is likely to vary by the same fields as the last one.
        let last = entry.variants.last();
        let expected = last.map(|last| last.variant.for_request(asked.fields));
        let fetch = InFlight::new(Arc::clone(key), asked.credentials, expected);
        entry.fetches.push(Arc::clone(&fetch));
        Role::Leader(fetch)
    }

    /// Takes out a fetch, and publishes its response, in the place of the one of the same variant. A fetch that was
    /// invalidated has been taken out: it publishes nothing.
    pub(super) fn end_fetch(&self, fetch: &Arc<InFlight>, published: Option<Arc<StoredResponse>>) {
        let replaced = self.change(fetch.key.hash, |entries| {
            let stored = published.as_ref();
            let replaced = stored.and_then(|stored| publish(entries, fetch, stored));
            for entry in entries {
                entry.fetches.retain(|other| !Arc::ptr_eq(other, fetch));
            }
            replaced
        });
        if let (Some(stored), Some(replaced)) = (published, replaced.flatten()) {
            let mut queues = lock(&self.queues);
            replaced.iter().for_each(|old| queues.forget(old));
            queues.push(&stored);
            drop(queues);
            self.stats.count_stored();
        }
    }

    /// Invalidates the stored responses of a URI and of `references`, of all routes, and the fetches in flight (RFC
    /// 9111 §4.4).
    pub(crate) fn invalidate(&self, base: &CacheKey, references: &[Vec<u8>]) {
        for uri in iter::once(&*base.uri).chain(references.iter().map(Vec::as_slice)) {
            let is_meant = |key: &CacheKey, _: Option<&StoredResponse>| *key.uri == *uri;
            let hash = self.hasher.hash_one(uri);
            let taken = self.change(hash, |entries| take_out(entries, is_meant));
            self.forget(&taken.unwrap_or_default());
        }
    }

    /// Takes responses out of the eviction queues.
    fn forget(&self, taken: &[Arc<StoredResponse>]) {
        let mut queues = lock(&self.queues);
        taken.iter().for_each(|old| queues.forget(old));
    }

    /// Takes out every stored response that `is_meant` holds for, and the fetches of keys for which it holds without
    /// one; counts the responses. Looks at every entry of the store.
    pub(super) fn forget_where(
        &self,
        is_meant: impl Fn(&CacheKey, Option<&StoredResponse>) -> bool,
    ) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let mut shard = lock(shard);
            let entries = shard.values_mut();
            let taken: Vec<_> = entries
                .flat_map(|entries| take_out(entries, &is_meant))
                .collect();
            shard.retain(|_, entries| !entries.is_empty());
            drop(shard);
            self.forget(&taken);
            count += taken.len();
        }
        count
    }

    /// Changes the entries of keys with `hash`, and takes out those that are empty then. `None` where there are none.
    fn change<T>(&self, hash: u64, change: impl FnOnce(&mut Vec<CacheEntry>) -> T) -> Option<T> {
        let mut shard = self.shard(hash);
        let entries = shard.get_mut(&hash)?;
        let changed = change(entries);
        entries.retain(|entry| !entry.is_empty());
        if entries.is_empty() {
            shard.remove(&hash);
        }
        Some(changed)
    }

    /// Number of stored responses.
    pub(super) fn len(&self) -> usize {
        lock(&self.queues).len()
    }

    /// Takes out a stored response that is no longer valid.
    pub(super) fn supersede(&self, stored: &Arc<StoredResponse>) {
        if let Some(taken) = self.take(stored) {
            lock(&self.queues).forget(&taken);
        }
    }

    /// Takes a stored response out of its entry.
    fn take(&self, stored: &Arc<StoredResponse>) -> Option<Arc<StoredResponse>> {
        let taken = self.change(stored.key.hash, |entries| {
            entries.iter_mut().find_map(|entry| {
                let mut variants = entry.variants.iter();
                let at = variants.position(|other| Arc::ptr_eq(other, stored))?;
                Some(entry.variants.remove(at))
            })
        });
        taken.flatten()
    }

    /// Evicts one stored response; returns the memory that this frees, or `None` where nothing is stored.
    fn evict_one(&self) -> Option<u64> {
        let stored = lock(&self.queues).pop()?;
        drop(self.take(&stored));
        self.stats.count_evicted();
        let bytes = stored.mark.bytes.load(Ordering::Relaxed) as u64;
        // Memory of a response that is being read is freed later.
        let is_read = Arc::strong_count(&stored) > 1;
        Some(if is_read { 1 } else { bytes })
    }

    /// True if more than half of the cache is being read or fetched: evicting what is stored would make little room.
    pub(super) fn is_full_of_readers(&self) -> bool {
        const READ_PART: u64 = 2;
        self.read_bytes() > self.settings.bytes as u64 / READ_PART
    }

    /// Memory that evicting everything would leave: of responses that are being read or fetched.
    fn read_bytes(&self) -> u64 {
        let queued = lock(&self.queues).bytes() as u64;
        self.account.reserved_bytes().saturating_sub(queued)
    }

    /// Evicts for `bytes` of content where less than an eighth of the node's budget is free for others.
    pub(super) fn leave_room(&self, bytes: usize) {
        const FREE_PART: u64 = 8;
        let root = self.lease.root();
        let least = root.limit_bytes() / FREE_PART + bytes as u64;
        if root.headroom_bytes() < least {
            self.evict(bytes as u64);
        }
    }
}

/// Takes out of each entry the stored responses that `is_meant` holds for, and its fetches where it holds without one;
/// then entries that are empty.
fn take_out(
    entries: &mut Vec<CacheEntry>,
    is_meant: impl Fn(&CacheKey, Option<&StoredResponse>) -> bool,
) -> Vec<Arc<StoredResponse>> {
    let mut taken = Vec::new();
    for entry in entries.iter_mut() {
        let variants = &mut entry.variants;
        taken.extend(variants.extract_if(.., |stored| is_meant(&entry.key, Some(stored))));
        if is_meant(&entry.key, None) {
            entry.fetches.drain(..).for_each(|fetch| fetch.invalidate());
        }
    }
    entries.retain(|entry| !entry.is_empty());
    taken
}

/// Takes out the oldest keys of one URI beyond [`CACHE_VARIANTS_MAX`]: clients may invent the values of forwarding
/// fields, and each key is compared. The newest key, and keys with fetches, stay.
fn take_excess(entries: &mut Vec<CacheEntry>) -> Vec<Arc<StoredResponse>> {
    let mut excess = entries.len().saturating_sub(CACHE_VARIANTS_MAX);
    let mut taken = Vec::new();
    let newest = entries.len().saturating_sub(1);
    let mut at = 0;
    entries.retain_mut(|entry| {
        let goes = excess > 0 && at < newest && entry.fetches.is_empty();
        at += 1;
        if goes {
            excess -= 1;
            taken.append(&mut entry.variants);
        }
        !goes
    });
    taken
}

/// Publishes the response of `fetch` in its entry; returns the responses that it replaces. `None` where the fetch was
/// invalidated.
fn publish(
    entries: &mut Vec<CacheEntry>,
    fetch: &Arc<InFlight>,
    stored: &Arc<StoredResponse>,
) -> Option<Vec<Arc<StoredResponse>>> {
    let is_current =
        |entry: &&mut CacheEntry| entry.fetches.iter().any(|own| Arc::ptr_eq(own, fetch));
    let variants = &mut entries.iter_mut().find(is_current)?.variants;
    let is_same = |other: &mut Arc<StoredResponse>| other.variant == stored.variant;
    let mut replaced: Vec<_> = variants.extract_if(.., is_same).collect();
    if variants.len() >= CACHE_VARIANTS_MAX {
        replaced.push(variants.remove(0));
    }
    variants.push(Arc::clone(stored));
    replaced.extend(take_excess(entries));
    Some(replaced)
}

impl CacheEntry {
    fn is_empty(&self) -> bool {
        self.variants.is_empty() && self.fetches.is_empty()
    }
}

impl Evict for Store {
    fn evict(&self, bytes: u64) -> u64 {
        let most = (self.settings.bytes as u64).saturating_sub(self.read_bytes());
        if self.lease.root().headroom_bytes() >= bytes && most < bytes {
            // Evicting everything still wouldn't fit the reservation below the cache's own limit.
            return 0;
        }
        let mut evicted = 0;
        while evicted < bytes {
            match self.evict_one() {
                Some(bytes) => evicted += bytes,
                None => break,
            }
        }
        evicted
    }
}

/// Locks although another thread has panicked: each change leaves the data usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
