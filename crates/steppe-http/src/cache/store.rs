//! Where stored responses are found, by whom they are made, and what becomes of them.
//!
//! Shared by all workers: sharded by key, each shard behind a lock that is held for a look-up or a change of
//! one key. A response that is being fetched stands beside those that are stored, so that whoever else
//! wants it follows it: one is fetched, whatever the number of workers.
//!
//! Invariant: nothing is reserved, and nothing dropped that somebody may wait for, while a shard is locked.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steppe_mem::{Account, Evict, Lease, Reservation};

use super::background::BackgroundFetches;
use super::credentials::Presented;
use super::fill::Fill;
use super::hit_for_pass::HitForPass;
use super::key::{self, CacheKey, KeyInput};
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
    /// What is stored is charged to it.
    pub(super) lease: Lease,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    queues: Mutex<Queues>,
    pub(crate) hit_for_pass: HitForPass,
    pub(crate) background: Arc<BackgroundFetches>,
    _charge: Option<Reservation>,
}

type Shard = HashMap<u64, Vec<Entry>>;

/// What is stored of a key, the newest last, and what is on its way.
#[derive(Debug)]
struct Entry {
    key: Arc<CacheKey>,
    variants: Vec<Arc<StoredResponse>>,
    fills: Vec<Arc<Fill>>,
}

/// What there is for a request.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) key: Arc<CacheKey>,
    pub(crate) stored: Option<Arc<StoredResponse>>,
}

/// Who fetches a response.
#[derive(Debug)]
pub(crate) enum Role {
    /// Whoever asks.
    Leader(Arc<Fill>),
    /// Somebody else is about to have it.
    Follower(Arc<Fill>),
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

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
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

    /// Says who fetches `key` for a request with the fields and credentials `asked`. `joins`: whether it
    /// takes what a fill is about to have.
    pub(crate) fn lead_or_follow(
        &self,
        key: &Arc<CacheKey>,
        asked: Presented<'_>,
        joins: impl Fn(&Fill) -> bool,
    ) -> Role {
        let mut shard = self.shard(key.hash);
        let entries = shard.entry(key.hash).or_default();
        let at = entries
            .iter()
            .position(|entry| *entry.key == **key);
        let at = at.unwrap_or_else(|| {
            entries.push(Entry {
                key: Arc::clone(key),
                variants: Vec::new(),
                fills: Vec::new(),
            });
            entries.len() - 1
        });
        let entry = &mut entries[at];
        let mut fills = entry.fills.iter();
        if let Some(fill) = fills.find(|fill| fill.may_be_for(asked) && joins(fill)) {
            return Role::Follower(Arc::clone(fill));
        }
        // What it will vary by is likely what the last one varied by.
        let last = entry.variants.last();
        let fill = Fill::new(
            last.map(|last| last.variant.for_request(asked.fields)),
            asked.credentials,
        );
        entry.fills.push(Arc::clone(&fill));
        Role::Leader(fill)
    }

    /// A fill is over, or of no use to others any more.
    pub(super) fn end_fill(&self, key: &CacheKey, fill: &Arc<Fill>) {
        self.change(key, |entry| {
            entry.fills.retain(|other| !Arc::ptr_eq(other, fill));
        });
    }

    /// A fill has not begun: nobody is to wait for it.
    pub(crate) fn abandon(&self, key: &CacheKey, fill: &Arc<Fill>) {
        self.end_fill(key, fill);
        fill.fail(503);
    }

    /// Stores a response, in the place of the one that the same requests select.
    pub(super) fn insert(&self, stored: &Arc<StoredResponse>) {
        let mut replaced = Vec::new();
        let mut shard = self.shard(stored.key.hash);
        let entries = shard.entry(stored.key.hash).or_default();
        let key = &stored.key;
        let at = entries.iter().position(|entry| entry.key == *key);
        let at = at.unwrap_or_else(|| {
            entries.push(Entry {
                key: Arc::clone(key),
                variants: Vec::with_capacity(1),
                fills: Vec::new(),
            });
            entries.len() - 1
        });
        let variants = &mut entries[at].variants;
        let is_same = |other: &mut Arc<StoredResponse>| other.variant == stored.variant;
        replaced.extend(variants.extract_if(.., is_same));
        if variants.len() >= CACHE_VARIANTS_MAX {
            replaced.push(variants.remove(0));
        }
        variants.push(Arc::clone(stored));
        replaced.extend(take_excess(entries));
        drop(shard);
        let mut queues = lock(&self.queues);
        replaced.iter().for_each(|old| queues.forget(old));
        queues.push(stored);
        drop(queues);
        self.stats.count_stored();
    }

    /// Forgets what is stored of a URI, whatever route it was for, and what is on its way (RFC 9111 §4.4).
    pub(crate) fn invalidate(&self, base: &CacheKey, references: &[Vec<u8>]) {
        use std::hash::BuildHasher;
        self.forget(base.hash, |entry| entry.key.uri == base.uri);
        for uri in references {
            let hash = self.hasher.hash_one(&uri[..]);
            self.forget(hash, |entry| *entry.key.uri == **uri);
        }
    }

    /// What a field of a response to a request for `base` refers to, where it is within the same origin.
    pub(crate) fn reference(base: &CacheKey, reference: &[u8]) -> Option<Vec<u8>> {
        key::same_origin(base, reference)
    }

    /// Forgets responses; says how many.
    fn forget(&self, hash: u64, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let mut shard = self.shard(hash);
        let Some(entries) = shard.get_mut(&hash) else {
            return 0;
        };
        let forgotten = take_out(entries, |entry, _| is_meant(entry));
        if entries.is_empty() {
            shard.remove(&hash);
        }
        drop(shard);
        self.forgotten(&forgotten)
    }

    fn forgotten(&self, forgotten: &[Arc<StoredResponse>]) -> usize {
        let mut queues = lock(&self.queues);
        forgotten.iter().for_each(|old| queues.forget(old));
        forgotten.len()
    }

    /// Forgets the responses that are meant; says how many. A look at every one.
    pub(super) fn forget_where(
        &self,
        is_meant: impl Fn(&CacheKey, Option<&StoredResponse>) -> bool,
    ) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let mut shard = lock(shard);
            let mut forgotten = Vec::new();
            for entries in shard.values_mut() {
                let is_meant =
                    |entry: &Entry, stored: Option<&StoredResponse>| is_meant(&entry.key, stored);
                forgotten.extend(take_out(entries, is_meant));
            }
            shard.retain(|_, entries| !entries.is_empty());
            drop(shard);
            count += self.forgotten(&forgotten);
        }
        count
    }

    fn change(&self, key: &CacheKey, change: impl FnOnce(&mut Entry)) {
        let mut shard = self.shard(key.hash);
        let Some(entries) = shard.get_mut(&key.hash) else {
            return;
        };
        if let Some(entry) = entries
            .iter_mut()
            .find(|entry| *entry.key == *key)
        {
            change(entry);
        }
        entries.retain(|entry| !entry.is_empty());
        if entries.is_empty() {
            shard.remove(&key.hash);
        }
    }

    /// Responses that are stored.
    pub(super) fn len(&self) -> usize {
        lock(&self.queues).len()
    }

    /// Forgets one that does not hold any more.
    pub(super) fn supersede(&self, stored: &Arc<StoredResponse>) {
        if let Some(taken) = self.take(stored) {
            lock(&self.queues).forget(&taken);
        }
    }

    /// Takes it out of its entry.
    fn take(&self, stored: &Arc<StoredResponse>) -> Option<Arc<StoredResponse>> {
        let mut taken = None;
        self.change(&stored.key, |entry| {
            let mut variants = entry.variants.iter();
            let at = variants.position(|other| Arc::ptr_eq(other, stored));
            taken = at.map(|at| entry.variants.remove(at));
        });
        taken
    }

    /// Gives one up; says how much memory goes with it. `None`: there is none.
    fn evict_one(&self) -> Option<u64> {
        let stored = lock(&self.queues).pop()?;
        drop(self.take(&stored));
        self.stats.count_evicted();
        let bytes = stored.mark.bytes.load(Ordering::Relaxed) as u64;
        // Where somebody reads it, it goes later.
        Some(if Arc::strong_count(&stored) == 1 {
            bytes
        } else {
            1
        })
    }

    /// Whether so much is read, or on its way, that giving up what is stored would make little room.
    pub(super) fn is_full_of_what_is_read(&self) -> bool {
        const READ_PART: u64 = 2;
        self.read_bytes() > self.settings.bytes as u64 / READ_PART
    }

    /// What giving up all that is stored would leave.
    fn read_bytes(&self) -> u64 {
        let queued = lock(&self.queues).bytes() as u64;
        self.account.reserved_bytes().saturating_sub(queued)
    }

    /// Keeps an eighth of the node's budget free for everybody else.
    pub(super) fn leave_room(&self, bytes: usize) {
        const FREE_PART: u64 = 8;
        let root = self.lease.root();
        let least = root.limit_bytes() / FREE_PART + bytes as u64;
        if root.headroom_bytes() < least {
            self.evict(bytes as u64);
        }
    }
}

/// Takes out what is meant of each entry, and what is on its way there; and entries that are empty then.
fn take_out(
    entries: &mut Vec<Entry>,
    is_meant: impl Fn(&Entry, Option<&StoredResponse>) -> bool,
) -> Vec<Arc<StoredResponse>> {
    let mut taken = Vec::new();
    for entry in entries.iter_mut() {
        let meant: Vec<_> = entry
            .variants
            .iter()
            .map(|stored| is_meant(entry, Some(stored)))
            .collect();
        let mut meant = meant.into_iter();
        taken.extend(
            entry
                .variants
                .extract_if(.., |_| meant.next() == Some(true)),
        );
        if is_meant(entry, None) {
            entry.fills.drain(..).for_each(|fill| fill.doom());
        }
    }
    entries.retain(|entry| !entry.is_empty());
    taken
}

/// Takes out the oldest resources of one URI where there are more than may be: values of what trusted proxies say
/// may be clients' to invent, and each is compared. The newest, and those on their way, stay.
fn take_excess(entries: &mut Vec<Entry>) -> Vec<Arc<StoredResponse>> {
    let mut excess = entries.len().saturating_sub(CACHE_VARIANTS_MAX);
    let mut taken = Vec::new();
    let newest = entries.len().saturating_sub(1);
    let mut at = 0;
    entries.retain_mut(|entry| {
        let goes = excess > 0 && at < newest && entry.fills.is_empty();
        at += 1;
        if goes {
            excess -= 1;
            taken.append(&mut entry.variants);
        }
        !goes
    });
    taken
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.variants.is_empty() && self.fills.is_empty()
    }
}

impl Evict for Store {
    fn evict(&self, bytes: u64) -> u64 {
        let most = (self.settings.bytes as u64).saturating_sub(self.read_bytes());
        if self.lease.root().headroom_bytes() >= bytes && most < bytes {
            // It would all go, and its own limit would leave no room all the same.
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

/// A panic elsewhere leaves what it changed usable.
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
