//! Queues of tasks that wait for bytes of an account, and the order of their grants.
//!
//! Bytes that come back are drawn for a waiting task before it is woken, so that
//! it is woken once and no other task takes them meanwhile. A task is queued at the
//! account that refused it, by size, apart from those that wait for more to be free than they take;
//! each queue is first in, first out. A request
//! that does not fit lets smaller ones pass: a peer may choose its size, and one
//! large request would stop all others.
//!
//! Invariant: for the first task of each queue there is no room. Two rules keep it:
//! - A task that gives bytes back to an account looks at its queue afterwards, and
//!   one that queues tries to draw again afterwards, so one of them sees the other.
//! - A queue of which the first task moved to an account above is looked at again
//!   when that task got its bytes, left, or moved down.
//!
//! Cost: all queues of a tree share one lock, which is only taken while a task
//! waits. A release tries the first task of each size, a refusal none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::limits::{BUFFER_BYTES_MAX, WAITED_BYTES_MIN, WAITER_BYTES, WAKES_MAX};
use crate::lock::lock;

/// An account, as the source of the bytes that tasks wait for.
pub(crate) trait ByteSource: Clone {
    /// Accounts from this one up to the root, both counted.
    fn depth(&self) -> usize;

    /// The queue of the account `level` above this one: its own at 0.
    fn queue_above(&self, level: usize) -> &AccountQueue;

    /// Checks that this account and each above it have `bytes` left.
    ///
    /// # Errors
    /// The number of levels from here up to the account that lacks them.
    fn find_room(&self, bytes: u64) -> Result<(), usize>;

    /// Charges `bytes` here and to every account above, for a caller that has locked the queues.
    ///
    /// # Errors
    /// The number of levels from here up to the account that lacks them.
    fn draw_unseen(&self, bytes: u64) -> Result<(), usize>;

    /// Gives back the free bytes of all leases of the tree.
    fn reclaim_tree(&self);

    /// All waiting tasks of the tree.
    fn waiting_tasks(&self) -> &TreeWaiters<Self>;
}

/// All waiting tasks of one tree of accounts.
#[derive(Debug)]
pub(crate) struct TreeWaiters<A> {
    /// Tasks that are queued, or about to be.
    count: AtomicUsize,
    entries: Mutex<WaiterSlab<A>>,
}

/// The queues of the tasks that one account refused.
#[derive(Debug, Default)]
pub(crate) struct AccountQueue {
    count: AtomicUsize,
    /// The queues, locked only while [`TreeWaiters::entries`] is locked.
    lists: Mutex<[WaiterList; 2 * SIZES]>,
}

/// A list through [`WaiterSlab`].
#[derive(Debug, Clone, Copy)]
struct WaiterList {
    first: u32,
    last: u32,
}

/// A slab: entries are reused, so that waiting again allocates nothing.
#[derive(Debug)]
struct WaiterSlab<A> {
    slab: Vec<WaiterEntry<A>>,
    /// Free entries, linked by `next`.
    free: u32,
    in_use: usize,
    next_ticket: u64,
}

#[derive(Debug)]
struct WaiterEntry<A> {
    account: Option<A>,
    waker: Option<Waker>,
    /// Bytes wanted, or drawn for it once it is granted.
    bytes: u64,
    /// Bytes that must be free beyond `bytes` for a grant, without being drawn.
    leaving: u64,
    /// Number in the order of arrival.
    ticket: u64,
    prev: u32,
    next: u32,
    state: WaiterState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    /// In no queue.
    Free,
    /// In the queue of the account so many levels above its own.
    Queued { level: u8 },
    /// The bytes are drawn for the task.
    Granted,
}

/// The bytes that a task waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BytesWanted {
    pub(crate) bytes: u64,
    /// Bytes that must be free beyond `bytes`, without being drawn.
    pub(crate) leaving: u64,
}

/// A task that asks for bytes which are not there at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingTask<'a> {
    pub(crate) wanted: BytesWanted,
    pub(crate) waker: &'a Waker,
    /// The age of the place that it had before.
    pub(crate) ticket: Option<u64>,
}

/// The result of drawing bytes for a waiting task.
enum DrawAttempt {
    Granted,
    /// The account where it was queued has no room.
    Stayed,
    /// An account above that one has none, and it is queued there now.
    MovedUp,
    /// An account below that one has none, and it is queued there now.
    MovedDown,
}

/// A task that leaves its place.
pub(crate) struct Left {
    pub(crate) waker: Option<Waker>,
    pub(crate) ticket: u64,
    /// Bytes drawn for it.
    pub(crate) granted_bytes: Option<u64>,
}

/// Sizes that are queued apart: powers of two from the smallest to the largest buffer.
const SIZES: usize = (BUFFER_BYTES_MAX.ilog2() - WAITED_BYTES_MIN.ilog2()) as usize + 1;
const NONE: u32 = u32::MAX;

// The slab doubles when it grows; an account is a pointer.
const _: () = assert!(2 * size_of::<WaiterEntry<Arc<()>>>() <= WAITER_BYTES);

impl<A> Default for TreeWaiters<A> {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            entries: Mutex::default(),
        }
    }
}

impl<A: ByteSource> TreeWaiters<A> {
    /// True while any task of the tree waits. While it is, no lease keeps free bytes.
    pub(crate) fn is_any(&self) -> bool {
        self.count() > 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts a debt like a waiting task.
    pub(crate) fn begin_debt(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the count of a debt.
    pub(crate) fn end_debt(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    fn entries(&self) -> MutexGuard<'_, WaiterSlab<A>> {
        lock(&self.entries)
    }

    /// Draws the wanted bytes of `account`, or queues the task and returns its index.
    pub(crate) fn register(&self, account: &A, task: WaitingTask<'_>) -> Option<u32> {
        // From here on no lease keeps free bytes. Those kept before are given back by the first task that waits; tasks
        // that come meanwhile are in the queue by then.
        if self.count.fetch_add(1, Ordering::SeqCst) == 0 {
            account.reclaim_tree();
        }
        let mut entries = self.entries();
        let index = entries.insert(account, task);
        let left = entries
            .draw_or_queue(index)
            .then(|| entries.remove(index).waker);
        drop(entries);
        self.count.fetch_sub(1, Ordering::SeqCst);
        left.is_none().then_some(index)
    }

    /// The bytes that were drawn for the task, at least those `wanted`. `None` if it waits for another amount.
    pub(crate) fn poll(&self, index: u32, wanted: BytesWanted, waker: &Waker) -> Option<Poll<u64>> {
        let mut entries = self.entries();
        let entry = entries.at(index);
        // A waker's drop may run code that takes this lock: it is dropped after the unlock.
        let (polled, dropped) =
            if entry.state == WaiterState::Granted && entry.bytes >= wanted.bytes {
                let granted = entry.bytes;
                (Poll::Ready(granted), entries.remove(index).waker)
            } else if entry.state != WaiterState::Granted
                && (entry.bytes, entry.leaving) == (wanted.bytes, wanted.leaving)
            {
                let is_same = entry.waker.as_ref().is_some_and(|old| old.will_wake(waker));
                let old = if is_same {
                    None
                } else {
                    entry.waker.replace(waker.clone())
                };
                (Poll::Pending, old)
            } else {
                return None;
            };
        drop(entries);
        drop(dropped);
        Some(polled)
    }

    /// Takes a task out of its place.
    pub(crate) fn remove(&self, index: u32) -> Left {
        self.entries().remove(index)
    }

    /// Grants room of `account`, and of those above it, to tasks that wait for it.
    pub(crate) fn grant(&self, account: &A) {
        let mut account = account.clone();
        loop {
            let mut wakers = [const { None }; WAKES_MAX];
            let is_done = self.entries().grant(&mut account, &mut wakers);
            wakers.into_iter().flatten().for_each(Waker::wake);
            if is_done {
                return;
            }
        }
    }
}

impl AccountQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

impl Default for WaiterList {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
        }
    }
}

impl<A> Default for WaiterSlab<A> {
    fn default() -> Self {
        Self {
            slab: Vec::new(),
            free: NONE,
            in_use: 0,
            next_ticket: 0,
        }
    }
}

impl<A: ByteSource> WaiterSlab<A> {
    fn at(&mut self, index: u32) -> &mut WaiterEntry<A> {
        &mut self.slab[index as usize]
    }

    fn insert(&mut self, account: &A, task: WaitingTask<'_>) -> u32 {
        let WaitingTask {
            wanted,
            waker,
            ticket,
        } = task;
        let ticket = ticket.unwrap_or(self.next_ticket);
        self.next_ticket += 1;
        self.in_use += 1;
        let entry = WaiterEntry {
            account: Some(account.clone()),
            waker: Some(waker.clone()),
            bytes: wanted.bytes,
            leaving: wanted.leaving,
            ticket,
            prev: NONE,
            next: NONE,
            state: WaiterState::Free,
        };
        if self.free == NONE {
            let index = u32::try_from(self.slab.len()).expect("fewer tasks than 2^32");
            self.slab.push(entry);
            return index;
        }
        let index = self.free;
        self.free = self.at(index).next;
        *self.at(index) = entry;
        index
    }

    fn remove(&mut self, index: u32) -> Left {
        self.unlink(index);
        let free = self.free;
        let entry = self.at(index);
        let left = Left {
            waker: entry.waker.take(),
            ticket: entry.ticket,
            granted_bytes: (entry.state == WaiterState::Granted).then_some(entry.bytes),
        };
        entry.account = None;
        entry.state = WaiterState::Free;
        entry.next = free;
        self.free = index;
        self.in_use -= 1;
        if self.in_use == 0 {
            // A burst's memory is not kept after its last task.
            self.free = NONE;
            self.slab.clear();
            self.slab.shrink_to(WAKES_MAX);
        }
        left
    }

    /// Grants bytes to tasks until no request fits: true then. False once `wakers` is full; the caller wakes them,
    /// outside of the lock, and calls again.
    fn grant(&mut self, account: &mut A, wakers: &mut [Option<Waker>]) -> bool {
        let mut wakers = wakers.iter_mut();
        'path: loop {
            for level in 0..account.depth() {
                match self.grant_at(account, level) {
                    None => {}
                    Some((moved, waker)) => {
                        // Other tasks may have waited behind it, at any account above its own.
                        *account = moved;
                        if let Some(waker) = waker {
                            let place = wakers.next().expect("it returns when they are full");
                            *place = Some(waker);
                            if wakers.len() == 0 {
                                return false;
                            }
                        }
                        continue 'path;
                    }
                }
            }
            return true;
        }
    }

    /// Grants the oldest request that fits, of those queued at the account `level` above `account`. Returns its own
    /// account, and its waker; no waker if it moved to an account below.
    fn grant_at(&mut self, account: &A, level: usize) -> Option<(A, Option<Waker>)> {
        let queue = account.queue_above(level);
        let mut sizes = [SIZES; 2];
        while !queue.is_empty() {
            let ((group, size), index) = self.oldest(queue, sizes)?;
            match self.attempt(index) {
                // No room for this size means none for larger ones.
                DrawAttempt::Stayed | DrawAttempt::MovedUp => sizes[group] = size,
                DrawAttempt::MovedDown => return Some((self.account(index), None)),
                DrawAttempt::Granted => {
                    let waker = self.at(index).waker.take();
                    return Some((self.account(index), waker));
                }
            }
        }
        None
    }

    /// The first task in ticket order among the smallest `sizes` of each group, with its group and
    /// size.
    ///
    /// The first group takes all free bytes, the second one leaves some.
    fn oldest(&self, queue: &AccountQueue, sizes: [usize; 2]) -> Option<((usize, usize), u32)> {
        let lists = lock(&queue.lists);
        let both = (0..sizes[0])
            .map(|size| (0, size))
            .chain((0..sizes[1]).map(|size| (1, size)));
        both.map(|(group, size)| ((group, size), lists[group * SIZES + size].first))
            .filter(|&(_, first)| first != NONE)
            .min_by_key(|&(_, first)| self.slab[first as usize].ticket)
    }

    fn attempt(&mut self, index: u32) -> DrawAttempt {
        let before = self.at(index).state;
        if self.draw_or_queue(index) {
            self.at(index).state = WaiterState::Granted;
            return DrawAttempt::Granted;
        }
        match (before, self.at(index).state) {
            (WaiterState::Queued { level: before }, WaiterState::Queued { level })
                if level < before =>
            {
                DrawAttempt::MovedDown
            }
            (before, after) if before == after => DrawAttempt::Stayed,
            _ => DrawAttempt::MovedUp,
        }
    }

    /// Draws for `index` and takes it out of its queue, or leaves it in the queue of the
    /// account that refuses.
    fn draw_or_queue(&mut self, index: u32) -> bool {
        let account = self.account(index);
        let WaiterEntry { bytes, leaving, .. } = *self.at(index);
        // Keep the waiter count above zero here.
        account.waiting_tasks().count.fetch_add(1, Ordering::SeqCst);
        let is_drawn = loop {
            let room = account.find_room(bytes.saturating_add(leaving));
            let Err(level) = room.and_then(|()| account.draw_unseen(bytes)) else {
                self.unlink(index);
                break true;
            };
            let state = WaiterState::Queued {
                level: u8::try_from(level).expect("accounts are few levels deep"),
            };
            if self.at(index).state == state {
                break false;
            }
            // Bytes that came back before it was queued there granted nothing to it: it tries again.
            self.unlink(index);
            self.link(index, &account, level);
        };
        account.waiting_tasks().count.fetch_sub(1, Ordering::SeqCst);
        is_drawn
    }

    fn account(&mut self, index: u32) -> A {
        let account = self.at(index).account.as_ref();
        account.expect("a waiting task has an account").clone()
    }

    /// Queues the task at the account `level` above its own: first if it is the oldest, else last.
    fn link(&mut self, index: u32, account: &A, level: usize) {
        let queue = account.queue_above(level);
        let mut lists = lock(&queue.lists);
        let list = &mut lists[self.at(index).size()];
        let ticket = self.at(index).ticket;
        let is_oldest = list.first != NONE && ticket < self.at(list.first).ticket;
        let (prev, next) = if is_oldest {
            (NONE, list.first)
        } else {
            (list.last, NONE)
        };
        self.join(list, prev, index);
        self.join(list, index, next);
        self.at(index).state = WaiterState::Queued {
            level: u8::try_from(level).expect("accounts are few levels deep"),
        };
        queue.count.fetch_add(1, Ordering::SeqCst);
        account.waiting_tasks().count.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes the task out of its queue, if it is in one.
    fn unlink(&mut self, index: u32) {
        let WaiterState::Queued { level } = self.at(index).state else {
            return;
        };
        let account = self.account(index);
        let queue = account.queue_above(usize::from(level));
        let mut lists = lock(&queue.lists);
        let list = &mut lists[self.at(index).size()];
        let (prev, next) = (self.at(index).prev, self.at(index).next);
        self.join(list, prev, next);
        let entry = self.at(index);
        (entry.prev, entry.next, entry.state) = (NONE, NONE, WaiterState::Free);
        queue.count.fetch_sub(1, Ordering::SeqCst);
        account.waiting_tasks().count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes `next` follow `prev`; [`NONE`] is the list's end.
    fn join(&mut self, list: &mut WaiterList, prev: u32, next: u32) {
        match prev {
            NONE => list.first = next,
            _ => self.at(prev).next = next,
        }
        match next {
            NONE => list.last = prev,
            _ => self.at(next).prev = prev,
        }
    }
}

impl<A> WaiterEntry<A> {
    /// Index of its list: by size, those that leave bytes free behind the others. As a rule, all of these leave the
    /// same number.
    fn size(&self) -> usize {
        let log2 = self.bytes.max(1).next_power_of_two().ilog2();
        let size = (log2.saturating_sub(WAITED_BYTES_MIN.ilog2()) as usize).min(SIZES - 1);
        if self.leaving == 0 {
            size
        } else {
            SIZES + size
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_a_list_of_its_group() {
        let size = |bytes, leaving| {
            let entry = WaiterEntry::<()> {
                account: None,
                waker: None,
                bytes,
                leaving,
                ticket: 0,
                prev: NONE,
                next: NONE,
                state: WaiterState::Free,
            };
            entry.size()
        };
        let (least, most) = (WAITED_BYTES_MIN as u64, BUFFER_BYTES_MAX as u64);
        assert_eq!([size(0, 0), size(least, 0), size(least + 1, 0)], [0, 0, 1]);
        // Sizes above any buffer's share the largest list of their group.
        for bytes in [most, most + 1, 1 << 40] {
            assert_eq!(size(bytes, 0), SIZES - 1, "{bytes}");
            assert_eq!(size(bytes, 1), 2 * SIZES - 1, "{bytes}");
        }
        assert_eq!(size(least, 1), SIZES);
    }
}
