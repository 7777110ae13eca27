//! The budget: a tree of byte accounts, and reservations that give back.
//!
//! Invariant: what all leases hold of an account, reserved or free, never
//! exceeds its limit, nor that of an account above it.
//!
//! Workers draw bytes in chunks into a lease of their own, so that a
//! reservation is one compare-and-swap on a cache line that only its worker
//! writes. Chunks that lie free are reclaimed from every worker before anybody
//! is refused.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use crate::limits::{DRAW_BYTES, LEASE_FREE_BYTES_MAX};
use crate::waiters::Waiters;

/// The account of the whole node: the root of the tree.
#[derive(Debug, Clone)]
pub struct Budget(Account);

/// One account of the tree. Clones name the same account.
#[derive(Debug, Clone)]
pub struct Account(Arc<Node>);

/// A worker's own share of an account, from which it reserves. Clones share it.
#[derive(Debug, Clone)]
pub struct Lease(Arc<Slot>);

/// Bytes of an account, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    lease: Lease,
    bytes: usize,
}

/// The budget has no room for this many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("over budget: no room for {bytes} bytes")]
pub struct OverBudget {
    /// What was asked for.
    pub bytes: u64,
}

/// What an account holds, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountReport {
    /// Its name, unique among its siblings.
    pub name: String,
    /// Its own limit; accounts above it may refuse earlier.
    pub limit_bytes: Option<u64>,
    /// Bytes reserved now, in this account and below it.
    pub reserved_bytes: u64,
    /// Most bytes ever drawn at once: at least what was reserved at the peak,
    /// at most a chunk a worker above it.
    pub peak_bytes: u64,
    /// Reservations that were refused here or below.
    pub refused: u64,
    /// Accounts below, in the order in which they were made.
    pub children: Vec<AccountReport>,
}

#[derive(Debug)]
struct Node {
    name: String,
    /// `u64::MAX`: none of its own.
    limit_bytes: u64,
    /// Bytes that leases hold here and below, reserved or free.
    drawn_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    refused: AtomicU64,
    parent: Option<Account>,
    children: Mutex<Vec<Weak<Node>>>,
    slots: Mutex<Vec<Weak<Slot>>>,
    /// Tasks that this account refused.
    waiters: Waiters,
    /// Tasks in all queues of the tree: only the root's is used.
    waiting: AtomicUsize,
}

/// Aligned so that no two workers write the same pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    /// Drawn, and not reserved.
    free_bytes: AtomicU64,
    account: Account,
    root: Account,
}

impl Budget {
    /// A budget of `limit_bytes` for the whole node.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self(Account(Arc::new(Node::new(
            "node".to_owned(),
            limit_bytes,
            None,
        ))))
    }

    /// The root account.
    #[must_use]
    pub fn root(&self) -> &Account {
        &self.0
    }

    /// The whole tree, for people.
    #[must_use]
    pub fn report(&self) -> AccountReport {
        self.0.report()
    }
}

impl Account {
    /// An account below this one. `limit_bytes`: `None` for none of its own.
    #[must_use]
    pub fn child(&self, name: impl Into<String>, limit_bytes: Option<u64>) -> Self {
        let node = Node::new(
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

    /// A share of this account for one worker.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let mut root = self;
        while let Some(parent) = &root.0.parent {
            root = parent;
        }
        let slot = Arc::new(Slot {
            free_bytes: AtomicU64::new(0),
            account: self.clone(),
            root: root.clone(),
        });
        let mut slots = lock(&self.0.slots);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        drop(slots);
        Lease(slot)
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

    /// Bytes that could still be drawn here, as far as every account above has them.
    #[must_use]
    pub fn headroom_bytes(&self) -> u64 {
        let left = |node: &Node| {
            node.limit_bytes
                .saturating_sub(node.drawn_bytes.load(Ordering::Relaxed))
        };
        self.ancestry().map(left).min().unwrap_or(0)
    }

    /// Wakes the longest waiting task of every account of this tree, by its root.
    ///
    /// Releases wake tasks; this makes up for a wake-up that went to a task that
    /// no longer wanted it. Workers call it from their housekeeping.
    pub fn wake_waiting(&self) {
        self.wake_below(&self.0.waiting);
    }

    fn wake_below(&self, total: &AtomicUsize) {
        self.0.waiters.wake_one(total);
        self.children()
            .iter()
            .for_each(|child| child.wake_below(total));
    }

    /// Tasks that wait for bytes anywhere in the tree of this root account.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    fn report(&self) -> AccountReport {
        AccountReport {
            name: self.0.name.clone(),
            limit_bytes: (self.0.limit_bytes != u64::MAX).then_some(self.0.limit_bytes),
            reserved_bytes: self.reserved_bytes(),
            peak_bytes: self.0.peak_bytes.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
            children: self.children().iter().map(Self::report).collect(),
        }
    }

    fn ancestry(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&*self.0), |node| node.parent.as_ref().map(|p| &*p.0))
    }

    fn children(&self) -> Vec<Self> {
        lock(&self.0.children)
            .iter()
            .filter_map(Weak::upgrade)
            .map(Account)
            .collect()
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        lock(&self.0.slots)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn free_bytes(&self) -> u64 {
        let own: u64 = self
            .slots()
            .iter()
            .map(|slot| slot.free_bytes.load(Ordering::Relaxed))
            .sum();
        own + self.children().iter().map(Self::free_bytes).sum::<u64>()
    }

    /// Charges `bytes` here and to every account above.
    ///
    /// # Errors
    /// How many accounts up the one stands that has no room.
    fn draw(&self, bytes: u64) -> Result<(), usize> {
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

    fn give_back(&self, bytes: u64) {
        self.ancestry().for_each(|node| node.discharge(bytes));
    }

    /// Gives back what lies free in the leases of this account and below it.
    fn reclaim(&self) {
        for slot in self.slots() {
            let free = slot.free_bytes.swap(0, Ordering::AcqRel);
            self.give_back(free);
        }
        self.children().iter().for_each(Self::reclaim);
    }

    /// Draws just `bytes`, after free chunks were taken back from everybody
    /// below the account that refused.
    ///
    /// # Errors
    /// The account that has no room all the same.
    fn draw_after_reclaim(&self, bytes: u64) -> Result<(), Self> {
        let mut reclaimed = None;
        loop {
            let Err(level) = self.draw(bytes) else {
                return Ok(());
            };
            let refusing = self.above(level);
            // Room was made there, and somebody was quicker, or the rest is in use.
            if reclaimed.is_some_and(|reclaimed| level <= reclaimed) {
                return Err(refusing);
            }
            refusing.reclaim();
            reclaimed = Some(level);
        }
    }

    fn above(&self, level: usize) -> Self {
        let mut account = self.clone();
        for _ in 0..level {
            let Some(parent) = account.0.parent.clone() else {
                break;
            };
            account = parent;
        }
        account
    }
}

impl Node {
    fn new(name: String, limit_bytes: u64, parent: Option<Account>) -> Self {
        Self {
            name,
            limit_bytes,
            drawn_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            parent,
            children: Mutex::default(),
            slots: Mutex::default(),
            waiters: Waiters::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    fn charge(&self, bytes: u64) -> bool {
        let charged = self
            .drawn_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |drawn| {
                drawn
                    .checked_add(bytes)
                    .filter(|&drawn| drawn <= self.limit_bytes)
            });
        if let Ok(before) = charged {
            self.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
        }
        charged.is_ok()
    }

    fn discharge(&self, bytes: u64) {
        let before = self.drawn_bytes.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(
            before >= bytes,
            "{} gives back {bytes} of {before}",
            self.name
        );
    }
}

impl Lease {
    /// Reserves `bytes`.
    ///
    /// # Errors
    /// [`OverBudget`] where the account, or one above it, has no room; it is
    /// counted as a refusal.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        if self.0.take(bytes as u64).is_ok() {
            return Ok(Reservation {
                lease: self.clone(),
                bytes,
            });
        }
        self.0.account.ancestry().for_each(|node| {
            node.refused.fetch_add(1, Ordering::Relaxed);
        });
        Err(OverBudget {
            bytes: bytes as u64,
        })
    }

    /// Reserves `bytes`, or wakes the task when somebody gave some back.
    ///
    /// # Cancel safety
    /// A task that stops polling loses nothing.
    pub fn poll_reserve(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<Reservation> {
        let Err(refusing) = self.0.take(bytes as u64) else {
            return Poll::Ready(Reservation {
                lease: self.clone(),
                bytes,
            });
        };
        let total = &self.0.root.0.waiting;
        refusing.0.waiters.push(cx.waker(), total);
        // Bytes that came back before the queue had us would wake nobody.
        if self.0.take(bytes as u64).is_ok() {
            refusing.0.waiters.wake_one(total);
            return Poll::Ready(Reservation {
                lease: self.clone(),
                bytes,
            });
        }
        Poll::Pending
    }

    /// The root of the tree that this lease belongs to.
    #[must_use]
    pub fn root(&self) -> &Account {
        &self.0.root
    }

    /// The account that this lease draws from.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.0.account
    }
}

impl Slot {
    /// Takes `bytes` out of what is free, or out of what can be drawn.
    ///
    /// # Errors
    /// The account that has no room.
    fn take(&self, bytes: u64) -> Result<(), Account> {
        if self.take_free(bytes) {
            return Ok(());
        }
        let chunk = bytes.max(DRAW_BYTES);
        if !self.is_wanted() && self.account.draw(chunk).is_ok() {
            self.free_bytes.fetch_add(chunk - bytes, Ordering::AcqRel);
            return Ok(());
        }
        self.account.draw_after_reclaim(bytes)
    }

    /// Somebody in the tree waits for bytes.
    fn is_wanted(&self) -> bool {
        self.root.0.waiting.load(Ordering::SeqCst) > 0
    }

    fn take_free(&self, bytes: u64) -> bool {
        self.free_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |free| {
                free.checked_sub(bytes)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let free = self.free_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let wanted = self.is_wanted();
        if free <= LEASE_FREE_BYTES_MAX && !wanted {
            return;
        }
        let keep = if wanted { 0 } else { DRAW_BYTES };
        let free = self.free_bytes.swap(0, Ordering::AcqRel);
        let kept = free.min(keep);
        self.free_bytes.fetch_add(kept, Ordering::AcqRel);
        self.account.give_back(free - kept);
        if wanted {
            let total = &self.root.0.waiting;
            self.account
                .ancestry()
                .for_each(|node| node.waiters.wake_one(total));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.account.give_back(*self.free_bytes.get_mut());
    }
}

impl Reservation {
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The lease that the bytes came from.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// [`OverBudget`]; what was held is kept.
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if self.lease.0.take(bytes as u64).is_err() {
            return Err(OverBudget {
                bytes: bytes as u64,
            });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Gives `bytes` back.
    ///
    /// # Panics
    /// Where fewer bytes are held.
    pub fn shrink(&mut self, bytes: usize) {
        assert!(
            bytes <= self.bytes,
            "shrinking {} bytes by {bytes}",
            self.bytes
        );
        self.bytes -= bytes;
        self.lease.0.give_back(bytes as u64);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.lease.0.give_back(self.bytes as u64);
        }
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

/// A panic while a list of weak handles was edited leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::{Wake, Waker};
    use std::thread;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_reservation_is_seen_in_every_account_above_and_given_back() {
        let budget = Budget::new(MIB);
        let listener = budget.root().child("listener", None);
        let route = listener.child("route", Some(MIB / 2));
        let held = route.lease().try_reserve(1000).expect("there is room");
        assert_eq!(route.reserved_bytes(), 1000);
        assert_eq!(listener.reserved_bytes(), 1000);
        assert_eq!(budget.root().reserved_bytes(), 1000);
        drop(held);
        assert_eq!(budget.root().reserved_bytes(), 0);
        assert_eq!(
            budget.root().0.drawn_bytes.load(Ordering::SeqCst),
            0,
            "the lease is gone too"
        );
    }

    #[test]
    fn the_limit_of_each_level_holds() {
        let budget = Budget::new(MIB);
        let small = budget.root().child("small", Some(300_000)).lease();
        let large = budget.root().child("large", None).lease();
        let held = small.try_reserve(300_000).expect("just its limit");
        assert_eq!(small.try_reserve(1).err(), Some(OverBudget { bytes: 1 }));
        let rest = MIB - 300_000;
        let _rest = large
            .try_reserve(usize::try_from(rest).expect("64 bits"))
            .expect("the rest");
        assert!(large.try_reserve(1).is_err());
        drop(held);
        assert!(large.try_reserve(300_000).is_ok());
        assert_eq!(budget.report().refused, 2);
        assert_eq!(budget.report().peak_bytes, MIB);
    }

    #[test]
    fn free_chunks_of_other_workers_are_reclaimed_before_a_refusal() {
        let budget = Budget::new(2 * DRAW_BYTES);
        let account = budget.root().child("bodies", None);
        let (first, second) = (account.lease(), account.lease());
        let a = first.try_reserve(1).expect("draws a chunk");
        let b = second.try_reserve(1).expect("draws the other");
        let most = usize::try_from(2 * DRAW_BYTES - 2).expect("small");
        let c = second.try_reserve(most).expect("reclaims what lies free");
        assert!(first.try_reserve(1).is_err(), "every byte is in use");
        drop((a, b, c));
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn a_waiting_task_is_woken_by_a_release() {
        let budget = Budget::new(DRAW_BYTES);
        let lease = budget.root().child("bodies", None).lease();
        let all = lease
            .try_reserve(usize::try_from(DRAW_BYTES).expect("small"))
            .expect("room");
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(flag.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(lease.poll_reserve(&mut cx, 10).is_pending());
        assert!(lease.poll_reserve(&mut cx, 10).is_pending(), "queued once");
        assert_eq!(budget.root().waiting(), 1);
        drop(all);
        assert!(flag.0.load(Ordering::SeqCst));
        assert!(lease.poll_reserve(&mut cx, 10).is_ready());
    }

    #[test]
    fn a_full_account_keeps_no_wake_up_from_another() {
        let budget = Budget::new(4 * MIB);
        let full = budget.root().child("full", Some(MIB)).lease();
        let other = budget.root().child("other", None).lease();
        let mib = usize::try_from(MIB).expect("small");
        let (_kept, given_back) = (full.try_reserve(mib), other.try_reserve(3 * mib));
        let flags = [(); 5].map(|()| Arc::new(Flag::default()));
        let wakers = flags.clone().map(Waker::from);
        for waker in &wakers[..4] {
            assert!(
                full.poll_reserve(&mut Context::from_waker(waker), 1)
                    .is_pending()
            );
        }
        assert!(
            other
                .poll_reserve(&mut Context::from_waker(&wakers[4]), 1)
                .is_pending()
        );
        drop(given_back);
        assert!(
            flags[4].0.load(Ordering::SeqCst),
            "those of the full account stay asleep"
        );
    }

    #[test]
    fn many_threads_never_exceed_the_limit_and_leave_nothing_behind() {
        let budget = Budget::new(MIB);
        let account = budget.root().child("bodies", None);
        thread::scope(|scope| {
            for worker in 0..4usize {
                let (lease, budget) = (account.lease(), &budget);
                scope.spawn(move || {
                    let mut held = std::collections::VecDeque::new();
                    for round in 0..20_000usize {
                        held.extend(lease.try_reserve(1 + (round * 7919 + worker) % 50_000).ok());
                        if held.len() > 40 {
                            held.pop_front();
                        }
                        assert!(budget.root().0.drawn_bytes.load(Ordering::SeqCst) <= MIB);
                    }
                });
            }
        });
        assert_eq!(budget.root().0.drawn_bytes.load(Ordering::SeqCst), 0);
        assert!(
            budget.report().refused > 0,
            "the test must press against the limit"
        );
    }

    #[test]
    fn shrinking_and_growing_keep_the_account_exact() {
        let budget = Budget::new(MIB);
        let lease = budget.root().child("queue", None).lease();
        let mut held = lease.try_reserve(100).expect("room");
        held.try_grow(50).expect("room");
        held.shrink(120);
        assert_eq!((held.bytes(), budget.root().reserved_bytes()), (30, 30));
        assert!(held.try_grow(usize::try_from(MIB).expect("small")).is_err());
        assert_eq!(held.bytes(), 30);
    }
}
