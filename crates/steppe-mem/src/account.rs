//! The budget: a tree of byte accounts, and reservations that give back on drop.
//!
//! Invariant: the bytes that all leases hold of an account, reserved or free, never exceed its limit, nor that of an
//! account above it. A [`ForcedCharge`] may exceed it; as long as it does, nothing is reserved.
//!
//! Workers draw bytes in chunks into a lease of their own, so that a reservation is one compare-and-swap on a cache
//! line that only its worker writes. Free chunks are reclaimed from every worker before a reservation is refused, and
//! while a task waits for bytes no lease keeps any. The [evictable](Evict) memory of an account is given up then, too.
//!
//! Lock order: children or slots of an account, then the queues of its tree. No function that could lock is called
//! while children or slots are locked.

mod forced;
mod lease;
mod waiter;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub use forced::ForcedCharge;
pub use lease::{Lease, LeavingRoom, OverBudget, Reservation};
pub use waiter::Waiter;

use crate::limits::{DRAW_BYTES, LEASE_FREE_BYTES_MAX};
use crate::lock::lock;
use crate::waiters::{AccountQueue, ByteSource, TreeWaiters};

/// An account of the tree. Clones name the same account.
#[derive(Debug, Clone)]
pub struct Account(Arc<AccountNode>);

/// Evictable memory of an account, a cache: given up before a reservation is refused.
pub trait Evict: fmt::Debug + Send + Sync {
    /// Gives up about `bytes`; returns how many it gave up, 0 if nothing is left.
    ///
    /// Called on any thread, in the middle of any reservation: it must neither reserve nor wait for a task that
    /// reserves.
    fn evict(&self, bytes: u64) -> u64;
}

/// A snapshot of an account, for status pages and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountReport {
    /// The account's name, unique among its siblings.
    pub name: String,
    /// The account's own limit; accounts above it may refuse earlier.
    pub limit_bytes: Option<u64>,
    /// Bytes reserved now, in this account and below it.
    pub reserved_bytes: u64,
    /// Peak of drawn bytes: at least the peak of reserved bytes, at most a chunk a worker above it.
    pub peak_bytes: u64,
    /// Reservations that were refused here or below.
    pub refused: u64,
    /// Accounts below, in the order in which they were made.
    pub children: Vec<AccountReport>,
}

#[derive(Debug)]
pub(crate) struct AccountNode {
    name: String,
    /// The account's own limit; `u64::MAX`: none.
    limit_bytes: u64,
    /// Bytes that leases hold here and below, reserved or free.
    drawn_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    refused: AtomicU64,
    parent: Option<Account>,
    children: Mutex<Vec<Weak<AccountNode>>>,
    slots: Mutex<Vec<Weak<LeaseSlot>>>,
    /// Root only: evictable bytes of the whole tree, as last measured.
    evictable_bytes: AtomicU64,
    /// The cache of this account, which gives up memory on demand.
    evicting: Mutex<Option<Weak<dyn Evict>>>,
    /// Tasks that this account refused.
    queue: AccountQueue,
    /// All waiting tasks of the tree, shared by its accounts.
    waiting: Arc<TreeWaiters<Account>>,
}

/// The state of a lease. Aligned so that no two workers write the same pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LeaseSlot {
    /// Bytes drawn and not reserved.
    free_bytes: AtomicU64,
    account: Account,
    root: Account,
    waiting: Arc<TreeWaiters<Account>>,
    purpose: Purpose,
}

/// The party that a lease's reservations count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The node: reservations count for no client.
    Node,
    /// The client in whose scope the lease is used.
    Client,
}

impl Account {
    /// The root of a tree with `limit_bytes` for the whole node.
    pub(crate) fn root_of(limit_bytes: u64) -> Self {
        Self(Arc::new(AccountNode::new(
            "node".to_owned(),
            limit_bytes,
            None,
        )))
    }

    /// Measures the evictable bytes here and below.
    pub(crate) fn measure_evictable(&self) {
        let bytes = self.kept_bytes();
        self.0.evictable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes by which forced charges exceed the limit of this account.
    pub(crate) fn debt_bytes(&self) -> u64 {
        self.0.debt_bytes()
    }

    /// Creates an account below this one. `limit_bytes`: `None` for none of its own.
    #[must_use]
    pub fn child(&self, name: impl Into<String>, limit_bytes: Option<u64>) -> Self {
        let node = AccountNode::new(
            name.into(),
            limit_bytes.unwrap_or(u64::MAX),
            Some(self.clone()),
        );
        let child = Self(Arc::new(node));
        let mut children = lock(&self.0.children);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        drop(children);
        child
    }

    fn add_slot(&self, purpose: Purpose) -> Arc<LeaseSlot> {
        let slot = Arc::new(LeaseSlot::new(self.clone(), self.root().clone(), purpose));
        let mut slots = lock(&self.0.slots);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        drop(slots);
        slot
    }

    /// The account of this name below this one, with its present limit; created with `limit_bytes` if there is none.
    #[must_use]
    pub fn child_named(&self, name: &str, limit_bytes: Option<u64>) -> Self {
        let known = self.children().into_iter().find(|it| it.0.name == name);
        known.unwrap_or_else(|| self.child(name, limit_bytes))
    }

    /// Sets the cache that gives up memory of this account before a reservation is refused. It replaces the one set
    /// before: an account has one cache.
    pub fn set_evicting(&self, evicting: Weak<dyn Evict>) {
        *lock(&self.0.evicting) = Some(evicting);
    }

    /// The limit of this account, or of the nearest above it that has one.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.ancestry()
            .map(|node| node.limit_bytes)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Bytes reserved now, in this account and below it.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.0
            .drawn_bytes
            .load(Ordering::Relaxed)
            .saturating_sub(self.free_bytes())
    }

    /// Bytes that could still be drawn here, by the limits of this account and of each above.
    #[must_use]
    pub fn headroom_bytes(&self) -> u64 {
        self.ancestry()
            .map(AccountNode::left_bytes)
            .min()
            .unwrap_or(0)
    }

    /// True if half of this account's own limit is free or evictable.
    pub(crate) fn is_half_free(&self) -> bool {
        let evictable = self.0.evictable_bytes.load(Ordering::Relaxed);
        self.0.left_bytes().saturating_add(evictable) >= self.0.limit_bytes / 2
    }

    /// Evictable bytes here and below.
    fn kept_bytes(&self) -> u64 {
        if lock(&self.0.evicting).is_some() {
            return self.0.drawn_bytes.load(Ordering::Relaxed);
        }
        let mut bytes = 0;
        each(&self.0.children, |child| bytes += Self(child).kept_bytes());
        bytes
    }

    /// Tasks that wait for bytes anywhere in the tree of this account.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.count()
    }

    pub(crate) fn report(&self) -> AccountReport {
        let children: Vec<_> = self.children().iter().map(Self::report).collect();
        let below: u64 = children.iter().map(|child| child.reserved_bytes).sum();
        AccountReport {
            name: self.0.name.clone(),
            limit_bytes: (self.0.limit_bytes != u64::MAX).then_some(self.0.limit_bytes),
            // Some bytes were given back since the accounts below were read.
            reserved_bytes: self.reserved_bytes().max(below),
            peak_bytes: self.0.peak_bytes.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
            children,
        }
    }

    fn root(&self) -> &Self {
        let mut root = self;
        while let Some(parent) = &root.0.parent {
            root = parent;
        }
        root
    }

    fn ancestry(&self) -> impl Iterator<Item = &AccountNode> {
        std::iter::successors(Some(&*self.0), |node| node.parent.as_ref().map(|p| &*p.0))
    }

    fn children(&self) -> Vec<Self> {
        lock(&self.0.children)
            .iter()
            .filter_map(Weak::upgrade)
            .map(Account)
            .collect()
    }

    fn free_bytes(&self) -> u64 {
        let mut bytes = 0;
        each(&self.0.slots, |slot| {
            bytes += slot.free_bytes.load(Ordering::Relaxed);
        });
        each(&self.0.children, |child| bytes += Self(child).free_bytes());
        bytes
    }

    /// Charges `bytes` here and to every account above.
    ///
    /// # Errors
    /// The number of levels from here up to the account that has no room.
    fn draw(&self, bytes: u64) -> Result<(), usize> {
        self.draw_unseen(bytes).inspect_err(|&level| {
            // The bytes charged for a moment may have caused a refusal, and that task may wait now.
            if self
                .ancestry()
                .take(level)
                .any(|node| !node.queue.is_empty())
            {
                self.0.waiting.grant(self);
            }
        })
    }

    /// Takes `bytes` off here and off every account above, and grants them to waiting tasks.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.ancestry().for_each(|node| node.discharge(bytes));
        self.grant_waiting();
    }

    /// Grants free bytes, here and above, to tasks that wait for them.
    pub(crate) fn grant_waiting(&self) {
        if self.ancestry().any(|node| !node.queue.is_empty()) {
            self.0.waiting.grant(self);
        }
    }

    /// Gives back the free bytes of the leases of this account and below it.
    pub fn reclaim(&self) {
        each(&self.0.slots, |slot| slot.flush());
        each(&self.0.children, |child| Self(child).reclaim());
    }

    /// Draws exactly `bytes`, after free chunks were reclaimed from all leases below the account that refused.
    fn draw_after_reclaim(&self, bytes: u64) -> bool {
        let mut reclaimed = None;
        loop {
            let Err(level) = self.draw(bytes) else {
                return true;
            };
            // Another task took the reclaimed bytes, or the rest is in use.
            let is_reclaimed = reclaimed.is_some_and(|reclaimed| level <= reclaimed);
            // While a task waits, no lease keeps free bytes.
            if is_reclaimed || self.0.waiting.is_any() {
                return self.draw_after_eviction(bytes);
            }
            self.above(level).reclaim();
            reclaimed = Some(level);
        }
    }

    /// Draws exactly `bytes`, after evictable memory below the account that refused was given up.
    fn draw_after_eviction(&self, bytes: u64) -> bool {
        loop {
            let Err(level) = self.draw(bytes) else {
                return true;
            };
            if !self.above(level).evict(bytes) {
                return false;
            }
        }
    }

    /// Reclaims free bytes and evicts until `bytes` could be drawn, or nothing evictable is left.
    pub(crate) fn make_room(&self, bytes: u64) {
        let mut reclaimed = None;
        while let Err(level) = self.find_room(bytes) {
            if reclaimed.is_none_or(|reclaimed| level > reclaimed) {
                self.above(level).reclaim();
                reclaimed = Some(level);
            } else if !self.above(level).evict(bytes) {
                return;
            }
        }
    }

    /// Evicts about `bytes` here and below; returns true if any were given up.
    fn evict(&self, bytes: u64) -> bool {
        let evicted = self.evict_below(bytes);
        if evicted > 0 {
            self.reclaim();
        }
        evicted > 0
    }

    fn evict_below(&self, bytes: u64) -> u64 {
        let evicting = lock(&self.0.evicting).as_ref().and_then(Weak::upgrade);
        let mut evicted = evicting.map_or(0, |evicting| evicting.evict(bytes));
        each(&self.0.children, |child| {
            if evicted < bytes {
                evicted += Self(child).evict_below(bytes - evicted);
            }
        });
        evicted
    }

    fn above(&self, level: usize) -> Self {
        let mut account = self;
        for _ in 0..level {
            account = account.0.parent.as_ref().expect("a level below the depth");
        }
        account.clone()
    }
}

impl ByteSource for Account {
    fn depth(&self) -> usize {
        self.ancestry().count()
    }

    fn queue_above(&self, level: usize) -> &AccountQueue {
        let node = self.ancestry().nth(level);
        &node.expect("a level below the depth").queue
    }

    fn find_room(&self, bytes: u64) -> Result<(), usize> {
        let lacking = self.ancestry().position(|node| node.left_bytes() < bytes);
        lacking.map_or(Ok(()), Err)
    }

    fn draw_unseen(&self, bytes: u64) -> Result<(), usize> {
        for (level, node) in self.ancestry().enumerate() {
            if !node.charge(bytes) {
                self.ancestry()
                    .take(level)
                    .for_each(|node| node.discharge(bytes));
                return Err(level);
            }
        }
        Ok(())
    }

    fn reclaim_tree(&self) {
        self.root().reclaim();
    }

    fn waiting_tasks(&self) -> &TreeWaiters<Self> {
        &self.0.waiting
    }
}

impl AccountNode {
    fn new(name: String, limit_bytes: u64, parent: Option<Account>) -> Self {
        let waiting = parent
            .as_ref()
            .map_or_else(Arc::default, |parent| Arc::clone(&parent.0.waiting));
        Self {
            name,
            limit_bytes,
            drawn_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            parent,
            children: Mutex::default(),
            slots: Mutex::default(),
            evictable_bytes: AtomicU64::new(0),
            evicting: Mutex::default(),
            queue: AccountQueue::default(),
            waiting,
        }
    }

    fn charge(&self, bytes: u64) -> bool {
        let charged = self
            .drawn_bytes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |drawn| {
                drawn
                    .checked_add(bytes)
                    .filter(|&drawn| drawn <= self.limit_bytes)
            });
        if let Ok(before) = charged {
            self.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
        }
        charged.is_ok()
    }

    fn charge_forced(&self, bytes: u64) {
        let before = self.drawn_bytes.fetch_add(bytes, Ordering::SeqCst);
        self.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
    }

    fn debt_bytes(&self) -> u64 {
        let drawn = self.drawn_bytes.load(Ordering::SeqCst);
        drawn.saturating_sub(self.limit_bytes)
    }

    fn left_bytes(&self) -> u64 {
        let drawn = self.drawn_bytes.load(Ordering::SeqCst);
        self.limit_bytes.saturating_sub(drawn)
    }

    fn discharge(&self, bytes: u64) {
        let before = self.drawn_bytes.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(
            before >= bytes,
            "{} gives back {bytes} of {before}",
            self.name
        );
    }
}

impl LeaseSlot {
    fn account(&self) -> &Account {
        &self.account
    }

    fn waiting(&self) -> &TreeWaiters<Account> {
        &self.waiting
    }

    fn new(account: Account, root: Account, purpose: Purpose) -> Self {
        Self {
            free_bytes: AtomicU64::new(0),
            waiting: Arc::clone(&account.0.waiting),
            account,
            root,
            purpose,
        }
    }

    /// Takes `bytes` out of the free ones, or draws them.
    fn take(&self, bytes: u64) -> bool {
        self.take_cached(bytes) || self.account.draw_after_reclaim(bytes)
    }

    /// Takes `bytes` out of the free ones, or draws a chunk for them if no task waits.
    fn take_cached(&self, bytes: u64) -> bool {
        if self.take_free(bytes) {
            return true;
        }
        let chunk = bytes.max(DRAW_BYTES);
        if self.waiting.is_any() || self.account.draw(chunk).is_err() {
            return false;
        }
        self.keep(chunk - bytes);
        true
    }

    fn take_free(&self, bytes: u64) -> bool {
        self.free_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |free| {
                free.checked_sub(bytes)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.keep(bytes) > LEASE_FREE_BYTES_MAX {
            let free = self.free_bytes.swap(0, Ordering::SeqCst);
            let kept = free.min(DRAW_BYTES);
            self.account.give_back(free - kept);
            self.keep(kept);
        }
    }

    /// Keeps `bytes` free, unless a task waits. Returns the free bytes.
    fn keep(&self, bytes: u64) -> u64 {
        let free = self.free_bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        // In this order: a task that starts to wait is counted before it looks here.
        if self.waiting.is_any() {
            self.flush();
            return 0;
        }
        free
    }

    /// Gives back all free bytes.
    fn flush(&self) {
        if self.free_bytes.load(Ordering::SeqCst) > 0 {
            self.account
                .give_back(self.free_bytes.swap(0, Ordering::SeqCst));
        }
    }
}

impl Drop for LeaseSlot {
    fn drop(&mut self) {
        self.account.give_back(*self.free_bytes.get_mut());
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.0.parent {
            write!(f, "{parent}/")?;
        }
        f.write_str(&self.0.name)
    }
}

/// Calls `visit` with each live entry of `list`, unlocked, and without an allocation.
///
/// From the end: entries only ever move to the front, so that none is missed.
fn each<T>(list: &Mutex<Vec<Weak<T>>>, mut visit: impl FnMut(Arc<T>)) {
    let mut index = lock(list).len();
    while index > 0 {
        index -= 1;
        let item = lock(list).get(index).and_then(Weak::upgrade);
        if let Some(item) = item {
            visit(item);
        }
    }
}

#[cfg(test)]
mod tests;
