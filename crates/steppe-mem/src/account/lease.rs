//! A worker's lease of an account, and the reservations made from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use super::{Account, LeaseSlot, Purpose, Waiter};
use crate::alloc::signed;
use crate::clients::{Holder, count_reserved, current, has_share_for, may_admit, poll_may_reserve};
use crate::waiters::{BytesWanted, TreeWaiters};

/// A worker's own share of an account, from which it reserves. Clones share it.
#[derive(Debug, Clone)]
pub struct Lease {
    slot: Arc<LeaseSlot>,
    /// The holder that reservations count for, in any scope; `None`: by the purpose of the slot.
    holder: Option<Arc<Holder>>,
}

/// Bytes of an account, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    lease: Lease,
    bytes: usize,
}

/// Bytes to reserve while about so many more are free.
#[derive(Debug, Clone, Copy)]
pub struct LeavingRoom {
    /// Bytes to reserve.
    pub bytes: usize,
    /// Bytes that must be free beyond them.
    pub leaving: u64,
}

/// The budget has no room for this many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("over budget: no room for {bytes} bytes")]
pub struct OverBudget {
    /// The requested size.
    pub bytes: u64,
}

impl Account {
    /// A share of this account for one worker.
    #[must_use]
    pub fn lease(&self) -> Lease {
        Lease::new(self, Purpose::Node)
    }

    /// A share of this account for one worker, of which each reservation counts for the client in whose
    /// [scope](crate::Holder::run) it is made and given back.
    #[must_use]
    pub fn client_lease(&self) -> Lease {
        Lease::new(self, Purpose::Client)
    }
}

impl Lease {
    /// Reserves `bytes`.
    ///
    /// # Errors
    /// [`OverBudget`] if the account, or one above it, has no room; it is counted as a refusal.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        self.reserve(bytes).ok_or_else(|| {
            self.slot.account.ancestry().for_each(|node| {
                node.refused.fetch_add(1, Ordering::Relaxed);
            });
            OverBudget {
                bytes: bytes as u64,
            }
        })
    }

    /// [`Lease::try_reserve`] for new work of a client, such as a connection.
    ///
    /// # Errors
    /// [`OverBudget`] also if the client holds three quarters of its share.
    pub fn try_admit(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        if !self.may_admit(bytes as u64) {
            return Err(OverBudget {
                bytes: bytes as u64,
            });
        }
        self.try_reserve(bytes)
    }

    /// True while the client in scope has `bytes` of its share left for new work.
    #[must_use]
    pub fn has_share_for(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        match &self.holder {
            _ if self.slot.root.is_half_free() => true,
            Some(holder) => holder.has_share_for(bytes),
            None => self.slot.purpose == Purpose::Node || has_share_for(bytes),
        }
    }

    /// Reserves `bytes` if there is room for them.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        self.slot
            .take(bytes as u64)
            .then(|| Reservation::new(self, bytes))
    }

    /// Reserves `bytes`, or queues the task, which is woken once they are drawn for it.
    ///
    /// `waiter` is its place in the queue: the task passes the same one at every poll, and drops it when it no longer
    /// waits. A poll in between costs one lock; one with other bytes than before keeps the place's age.
    ///
    /// # Cancel safety
    /// A task that stops polling and drops its `waiter` loses no bytes, neither its own nor other tasks'.
    pub fn poll_reserve(
        &self,
        cx: &mut Context<'_>,
        bytes: usize,
        waiter: &mut Waiter,
    ) -> Poll<Reservation> {
        if !waiter.has_place() {
            ready!(self.poll_share(cx, bytes as u64, waiter));
            if self.slot.take_cached(bytes as u64) {
                return Poll::Ready(Reservation::new(self, bytes));
            }
        }
        let wanted = BytesWanted {
            bytes: bytes as u64,
            leaving: 0,
        };
        if !waiter.has_place() {
            self.account().make_room(wanted.bytes);
        }
        ready!(waiter.poll(&self.slot, wanted, cx.waker()));
        Poll::Ready(Reservation::new(self, bytes))
    }

    /// [`Lease::poll_reserve`] for a task of low priority, which waits until others need less.
    ///
    /// # Cancel safety
    /// As [`Lease::poll_reserve`].
    pub fn poll_reserve_leaving(
        &self,
        cx: &mut Context<'_>,
        room: LeavingRoom,
        waiter: &mut Waiter,
    ) -> Poll<Reservation> {
        let LeavingRoom { bytes, leaving } = room;
        let wanted = BytesWanted {
            bytes: bytes as u64,
            leaving,
        };
        if !waiter.has_place() {
            ready!(self.poll_share(cx, wanted.bytes, waiter));
            self.account()
                .make_room(wanted.bytes.saturating_add(leaving));
        }
        if !waiter.has_place()
            && self.account().headroom_bytes() >= wanted.bytes.saturating_add(leaving)
            && self.slot.take(wanted.bytes)
        {
            return Poll::Ready(Reservation::new(self, bytes));
        }
        ready!(waiter.poll(&self.slot, wanted, cx.waker()));
        Poll::Ready(Reservation::new(self, bytes))
    }

    /// The root of the tree that this lease belongs to.
    #[must_use]
    pub fn root(&self) -> &Account {
        &self.slot.root
    }

    /// The account that this lease draws from.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.slot.account
    }

    /// The same lease for the memory of `holder`: each reservation counts for its client in whichever scope it is made
    /// and given back. For memory that is passed from task to task.
    #[must_use]
    pub fn of_holder(&self, holder: &Arc<Holder>) -> Self {
        Self {
            slot: Arc::clone(&self.slot),
            holder: Some(Arc::clone(holder)),
        }
    }

    /// [`Lease::of_holder`] of the holder in whose scope this is called; the same lease outside of one.
    #[must_use]
    pub fn of_present_holder(&self) -> Self {
        match current() {
            Some(holder) => self.of_holder(&holder),
            None => self.clone(),
        }
    }

    fn new(account: &Account, purpose: Purpose) -> Self {
        let slot = account.add_slot(purpose);
        Self { slot, holder: None }
    }

    /// True if the client in scope may start new work of `bytes`.
    fn may_admit(&self, bytes: u64) -> bool {
        if self.slot.root.is_half_free() {
            return true;
        }
        match &self.holder {
            Some(holder) => holder.may_admit(bytes),
            None => self.slot.purpose == Purpose::Node || may_admit(bytes),
        }
    }

    /// Ready if the client in scope may hold `bytes` more.
    fn poll_share(&self, cx: &Context<'_>, bytes: u64, waiter: &mut Waiter) -> Poll<()> {
        let is_free = self.holder.is_none() && self.slot.purpose == Purpose::Node;
        if is_free || self.slot.root.is_half_free() {
            waiter.set_ticket(None);
            return Poll::Ready(());
        }
        let may = match &self.holder {
            Some(holder) => holder.poll_may_reserve(cx, bytes, waiter.ticket()),
            None => poll_may_reserve(cx, bytes, waiter.ticket()),
        };
        waiter.set_ticket(may.err());
        match may {
            Ok(()) => Poll::Ready(()),
            Err(_) => Poll::Pending,
        }
    }

    /// Counts reserved (or, negative, returned) bytes for a client.
    fn count(&self, bytes: i64) {
        match &self.holder {
            Some(holder) => holder.charge(bytes),
            None if self.slot.purpose == Purpose::Client => count_reserved(bytes),
            None => {}
        }
    }

    /// All waiting tasks of the tree.
    pub(crate) fn waiting(&self) -> &TreeWaiters<Account> {
        self.slot.waiting()
    }

    /// True if both are clones of the same lease.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slot, &other.slot)
    }
}

impl Reservation {
    /// A reservation of bytes that are drawn.
    fn new(lease: &Lease, bytes: usize) -> Self {
        lease.count(signed(bytes));
        Self::counted(lease, bytes)
    }

    /// A reservation of bytes that are counted already.
    fn counted(lease: &Lease, bytes: usize) -> Self {
        Self {
            lease: lease.clone(),
            bytes,
        }
    }

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

    /// Counts the reservation from now on for the client in whose scope this is called, in whichever scope it is given
    /// back: for memory that another task frees.
    pub fn bind(&mut self) {
        let lease = &mut self.lease;
        if lease.holder.is_none() && lease.slot.purpose == Purpose::Client {
            lease.holder = current();
        }
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// [`OverBudget`]; the present bytes stay reserved.
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let lease = &self.lease;
        if !lease.slot.take(bytes as u64) {
            return Err(OverBudget {
                bytes: bytes as u64,
            });
        }
        lease.count(signed(bytes));
        self.bytes += bytes;
        Ok(())
    }

    /// Gives `bytes` back.
    ///
    /// # Panics
    /// If fewer bytes are held.
    pub fn shrink(&mut self, bytes: usize) {
        assert!(
            bytes <= self.bytes,
            "shrinking {} bytes by {bytes}",
            self.bytes
        );
        self.bytes -= bytes;
        self.lease.count(-signed(bytes));
        self.lease.slot.give_back(bytes as u64);
    }

    /// Takes `bytes` off as a reservation of their own.
    ///
    /// # Panics
    /// If fewer bytes are held.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        assert!(
            bytes <= self.bytes,
            "splitting {bytes} bytes off {}",
            self.bytes
        );
        self.bytes -= bytes;
        Self::counted(&self.lease, bytes)
    }

    /// Adds the reservation to `all`, which is of the same lease.
    ///
    /// # Panics
    /// As [`Reservation::join`].
    pub fn join_into(self, all: &mut Option<Self>) {
        match all {
            Some(all) => all.join(self),
            None => *all = Some(self),
        }
    }

    /// Takes over the bytes of `other`.
    ///
    /// # Panics
    /// If `other` is of another lease.
    pub fn join(&mut self, mut other: Self) {
        assert!(self.lease.is(&other.lease), "joining another lease");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.lease.count(-signed(self.bytes));
        self.lease.slot.give_back(self.bytes as u64);
    }
}
