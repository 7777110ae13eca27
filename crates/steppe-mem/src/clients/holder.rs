//! A connection, and the scope in which the memory of its tasks counts for it.
//!
//! A thread sums the bytes that client leases reserve and give back, and those that it allocates and frees. At the end
//! of a scope the difference since its beginning goes to its holder, less that of scopes within it. So a reservation
//! costs an addition to a cell of its thread, and a poll of a task two locked additions at most.
//!
//! Memory of pooled buffers does not count as allocated: it comes back to the pool of the thread, whichever task
//! took it from the allocator, and is charged by its reservation.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use super::client::{Client, Shares};
use crate::alloc::thread_block_bytes;
use crate::limits::{CLIENT_SHARE_BYTES_MIN, FLUSH_BYTES, UNSEEN_PART};
use crate::lock::lock;

/// A connection, or a client that it speaks for.
#[derive(Debug)]
pub struct Holder {
    shares: Arc<Shares>,
    client: Arc<Client>,
    kind: &'static str,
    /// For a client named by a proxy: the proxy's connection.
    connection: Option<Arc<Holder>>,
    /// Bytes reserved in its scope.
    charged_bytes: AtomicI64,
    /// The part of `charged_bytes` that its client knows of.
    flushed_bytes: AtomicI64,
    /// Bytes allocated in its scope and not freed there.
    live_bytes: AtomicI64,
    /// Memory of this holder counts toward no client's share, whatever the address.
    is_exempt: AtomicBool,
    is_shed: AtomicBool,
    /// The holder has left its client: later charges are not reported to it.
    has_ended: AtomicBool,
    /// Wakes the task of the connection.
    task: Mutex<Option<Waker>>,
}

/// State of a thread; in one place, which each end of a scope looks up once.
struct ThreadScope {
    /// Bytes reserved by client leases, and not given to a holder yet.
    reserved: Cell<i64>,
    /// Bytes allocated that count for no open scope: for pooled buffers, and in scopes that have ended.
    counted_elsewhere: Cell<i64>,
    /// The holder whose scope the thread is in.
    current: Cell<Option<Arc<Holder>>>,
}

thread_local! {
    // Constant and without a destructor: usable wherever memory is allocated. A thread that ends is in no scope.
    static THREAD: ManuallyDrop<ThreadScope> = const {
        ManuallyDrop::new(ThreadScope {
            reserved: Cell::new(0),
            counted_elsewhere: Cell::new(0),
            current: Cell::new(None),
        })
    };
}

impl ThreadScope {
    fn swap_current(&self, place: &mut Option<Arc<Holder>>) {
        *place = self.current.replace(place.take());
    }

    /// Bytes that the thread has allocated, as far as they count for open scopes.
    fn live_bytes(&self) -> i64 {
        thread_block_bytes().wrapping_sub(self.counted_elsewhere.get())
    }

    fn count_elsewhere(&self, bytes: i64) {
        let counted = self.counted_elsewhere.get().wrapping_add(bytes);
        self.counted_elsewhere.set(counted);
    }
}

/// Counts bytes that a client lease reserved, or (negative) gave back.
pub(crate) fn count_reserved(bytes: i64) {
    THREAD.with(|thread| {
        let reserved = thread.reserved.get().wrapping_add(bytes);
        thread.reserved.set(reserved);
    });
}

/// Counts bytes of pooled buffers that were allocated, or (negative) freed.
pub(crate) fn count_pooled(bytes: i64) {
    THREAD.with(|thread| thread.count_elsewhere(bytes));
}

/// True if the client of the present scope may start new work of `bytes`; true outside of a scope.
pub(crate) fn may_admit(bytes: u64) -> bool {
    with_current(|holder| holder.is_none_or(|holder| holder.may_admit(bytes)))
}

/// The same as [`may_admit`] for a mere look: the client is not counted as held back.
pub(crate) fn has_share_for(bytes: u64) -> bool {
    with_current(|holder| holder.is_none_or(|holder| holder.has_share_for(bytes)))
}

/// Asks if the client of the present scope may reserve `bytes` more, for a task that waits until it may. `ticket`: the
/// ticket of its place, if it waits already.
///
/// # Errors
/// The ticket of the task's place, if it has to wait.
pub(crate) fn poll_may_reserve(
    cx: &Context<'_>,
    bytes: u64,
    ticket: Option<u32>,
) -> Result<(), u32> {
    with_current(|holder| {
        holder.map_or(Ok(()), |holder| holder.poll_may_reserve(cx, bytes, ticket))
    })
}

/// The holder whose scope the thread is in.
pub(crate) fn current() -> Option<Arc<Holder>> {
    THREAD.with(|thread| {
        let current = thread.current.take();
        thread.current.set(current.clone());
        current
    })
}

/// Calls `see` with the present holder. `see` must not begin or end a scope.
fn with_current<T>(see: impl FnOnce(Option<&Holder>) -> T) -> T {
    THREAD.with(|thread| {
        let current = thread.current.take();
        let seen = see(current.as_deref());
        thread.current.set(current);
        seen
    })
}

/// The scope of a holder on this thread, until this is dropped.
pub(super) struct HolderScope<'a> {
    /// The holder itself between scopes; within this one, the holder of the scope around it.
    place: &'a mut Option<Arc<Holder>>,
    /// Sums of the thread at the beginning of the scope: reserved, and live.
    reserved: i64,
    live: i64,
}

impl<'a> HolderScope<'a> {
    pub(super) fn enter(place: &'a mut Option<Arc<Holder>>) -> Self {
        THREAD.with(|thread| {
            thread.swap_current(place);
            Self {
                place,
                reserved: thread.reserved.get(),
                live: thread.live_bytes(),
            }
        })
    }
}

impl Drop for HolderScope<'_> {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            thread.swap_current(self.place);
            let reserved = thread.reserved.get().wrapping_sub(self.reserved);
            let allocated = thread.live_bytes().wrapping_sub(self.live);
            if reserved | allocated == 0 {
                return;
            }
            // These bytes count for no scope around this one.
            thread.reserved.set(self.reserved);
            thread.count_elsewhere(allocated);
            if let Some(holder) = self.place {
                holder.add(reserved, allocated);
            }
        });
    }
}

impl Holder {
    pub(super) fn new(
        shares: Arc<Shares>,
        client: Arc<Client>,
        kind: &'static str,
        connection: Option<Arc<Self>>,
    ) -> Self {
        Self {
            shares,
            client,
            kind,
            connection,
            charged_bytes: AtomicI64::new(0),
            flushed_bytes: AtomicI64::new(0),
            live_bytes: AtomicI64::new(0),
            is_exempt: AtomicBool::new(false),
            is_shed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            task: Mutex::new(None),
        }
    }

    /// Runs `work` in the scope of this holder.
    pub fn within<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let mut own = Some(Arc::clone(self));
        let _scope = HolderScope::enter(&mut own);
        work()
    }

    /// True if the connection was told to close, because the budget was in debt.
    #[must_use]
    pub fn is_shed(&self) -> bool {
        self.is_shed.load(Ordering::Relaxed)
    }

    /// Lifts the limit of this holder from now on: it works for others.
    pub fn exempt(&self) {
        self.is_exempt.store(true, Ordering::Relaxed);
    }

    /// The connection's protocol.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Bytes charged to the holder or allocated for it, whichever are more: allocated bytes are mostly charged as well.
    pub(super) fn held_bytes(&self) -> u64 {
        self.charged_bytes().max(unsigned(&self.live_bytes))
    }

    pub(super) fn charged_bytes(&self) -> u64 {
        unsigned(&self.charged_bytes)
    }

    /// True for a connection that was not told to close yet.
    pub(super) fn can_shed(&self) -> bool {
        self.connection.is_none() && lock(&self.task).is_some() && !self.is_shed()
    }

    pub(super) fn shed(&self) {
        self.is_shed.store(true, Ordering::Relaxed);
        let task = lock(&self.task).clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Takes this holder's charge off its client, and wakes tasks that waited for room.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        let flushed = self.flushed_bytes.swap(0, Ordering::Relaxed);
        self.client
            .charged_bytes
            .fetch_sub(flushed, Ordering::Relaxed);
        self.client.queue.wake_for(flushed.unsigned_abs());
    }

    /// Sets the task that is woken when the connection is shed.
    pub(super) fn set_task(&self, task: &Waker) {
        *lock(&self.task) = Some(task.clone());
    }

    /// True if its tasks are to end, because the connection was told to close.
    pub(super) fn is_over(&self) -> bool {
        self.is_shed() || self.connection.as_ref().is_some_and(|of| of.is_shed())
    }

    /// True if `task` is paused: the budget is in debt. `ticket`: that of its place in the queue of paused tasks.
    pub(super) fn pauses(&self, task: &Waker, ticket: &mut Option<u32>) -> bool {
        self.shares.pause.holds(task, ticket)
    }

    fn add(&self, reserved: i64, allocated: i64) {
        if allocated != 0 {
            self.live_bytes.fetch_add(allocated, Ordering::Relaxed);
        }
        if reserved != 0 {
            self.charge(reserved);
        }
        if let Some(connection) = &self.connection {
            let both = reserved + allocated;
            connection.live_bytes.fetch_add(both, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were reserved, or (negative) given back.
    pub(crate) fn charge(&self, bytes: i64) {
        let charged = self.charged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let change = charged - self.flushed_bytes.load(Ordering::Relaxed);
        if self.is_due(change.unsigned_abs()) && !self.has_ended.load(Ordering::Relaxed) {
            self.flushed_bytes.fetch_add(change, Ordering::Relaxed);
            self.client
                .charged_bytes
                .fetch_add(change, Ordering::Relaxed);
            if change < 0 {
                self.client.queue.wake_for(change.unsigned_abs());
            }
        }
    }

    /// True if a change of so many bytes must be reported to the client: a large one, or one that makes up a share if
    /// each of the client's connections has it.
    fn is_due(&self, bytes: u64) -> bool {
        if bytes >= FLUSH_BYTES {
            return true;
        }
        let connections = self.client.connections.load(Ordering::Relaxed);
        bytes * connections >= self.shares.bytes() / UNSEEN_PART
            && !self.client.is_exempt.load(Ordering::Relaxed)
    }

    /// [`poll_may_reserve`] for this holder.
    pub(crate) fn poll_may_reserve(
        &self,
        cx: &Context<'_>,
        bytes: u64,
        ticket: Option<u32>,
    ) -> Result<(), u32> {
        let queue = &self.client.queue;
        if let Some(ticket) = ticket.filter(|&ticket| queue.has(ticket)) {
            return Err(ticket);
        }
        // A task that was woken has had its turn; others queue behind those that wait.
        let is_its_turn = ticket.is_some() || queue.len() == 0;
        if self.may_reserve(bytes) && is_its_turn {
            return Ok(());
        }
        let ticket = queue.push(cx.waker());
        // After the push: a task that sees the count looks at the queues.
        self.note_held_back();
        Err(ticket)
    }

    /// True if the client may start new work of `bytes`: the last quarter of its share is for work in progress.
    pub(crate) fn may_admit(&self, bytes: u64) -> bool {
        let may = self.has_share_for(bytes);
        if !may {
            self.note_held_back();
        }
        may
    }

    /// The same for a mere look: the client is not counted as held back.
    pub(crate) fn has_share_for(&self, bytes: u64) -> bool {
        self.may_hold(bytes, self.share_bytes() / 4 * 3)
    }

    fn note_held_back(&self) {
        self.client.note_held_back();
        self.shares.note_held_back();
    }

    fn may_reserve(&self, bytes: u64) -> bool {
        self.may_hold(bytes, self.share_bytes())
    }

    /// True if the client holds at most `share` bytes with `bytes` more, or holds nothing yet, or has no share.
    fn may_hold(&self, bytes: u64, share: u64) -> bool {
        let is_exempt = [&self.client.is_exempt, &self.is_exempt];
        if is_exempt.iter().any(|is| is.load(Ordering::Relaxed)) {
            return true;
        }
        let held = self.client.charged_bytes();
        held == 0 || held.saturating_add(bytes) <= share
    }

    /// Bytes that the client may hold.
    fn share_bytes(&self) -> u64 {
        self.shares.bytes().max(CLIENT_SHARE_BYTES_MIN)
    }
}

fn unsigned(bytes: &AtomicI64) -> u64 {
    u64::try_from(bytes.load(Ordering::Relaxed)).unwrap_or(0)
}
