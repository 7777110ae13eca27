//! Connections of a pool that can take another exchange.
//!
//! Invariant: a connection that its server closes is closed here as soon as the runtime reports
//! it, not at the next checkout: until then it would hold a descriptor, its charge, and a socket
//! in CLOSE_WAIT.
//!
//! Non-goals: which are worth keeping otherwise, which the pool decides.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::channel::Channel;
use super::stream::{Open, PooledStream};
use super::target::TargetState;
use super::under_way::Guard;
use crate::limits::FREE_STREAMS_PART;

/// Connections with room for another stream, the one used last at the end.
#[derive(Debug)]
pub(super) struct IdleChannels {
    kept: RefCell<VecDeque<Kept>>,
    /// Where the shared connection is that a stream was opened on last.
    last: Cell<Option<usize>>,
    /// Shared connections without a stream, as far as streams were given back; counted anew by each sweep.
    unused: Cell<usize>,
    /// Servers whose shared connections have free streams enough for so many more requests.
    spare: RefCell<Vec<Spare>>,
    /// Notified when something came on one of them.
    moved: Arc<WatchWaker>,
    waker: Waker,
}

/// A connection that the pool keeps.
#[derive(Debug)]
pub(super) struct Kept {
    /// `None` while a stream is being opened on it.
    pub(super) channel: Option<Box<dyn Channel>>,
    pub(super) state: Arc<TargetState>,
    pub(super) server: usize,
    pub(super) open: Rc<Open>,
    /// Others wait for its capacity, which its server has not told yet.
    pub(super) under_way: Option<Guard>,
}

impl Kept {
    /// Streams that may be opened on it now.
    fn capacity(&self) -> usize {
        let channel = self.channel.as_ref();
        channel.map_or(0, |channel| channel.capacity())
    }
}

/// A server whose shared connections are far from full.
#[derive(Debug)]
struct Spare {
    state: Arc<TargetState>,
    /// Requests for which nothing has to be counted.
    requests: usize,
}

/// Wakes the task that watches the connections: one waker for all, so that to watch one more
/// allocates nothing.
#[derive(Debug, Default)]
struct WatchWaker(Notify);

impl Wake for WatchWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl IdleChannels {
    /// None yet, and a task that watches them. Must be called on a worker.
    pub(super) fn new() -> Rc<Self> {
        let moved = Arc::new(WatchWaker::default());
        let idle = Rc::new(Self {
            kept: RefCell::default(),
            last: Cell::default(),
            unused: Cell::new(0),
            spare: RefCell::default(),
            waker: Waker::from(Arc::clone(&moved)),
            moved: Arc::clone(&moved),
        });
        spawn_local(watch(Rc::downgrade(&idle), moved));
        idle
    }

    /// Keeps one more, `most` of them at once.
    pub(super) fn put(&self, mut connection: Kept, most: usize) {
        let mut kept = self.kept.borrow_mut();
        if self.is_quiet(&mut connection) {
            if kept.len() >= most
                && let Some(oldest) = kept.pop_front()
                && Rc::strong_count(&oldest.open) == 1
            {
                self.unused.set(self.unused.get().saturating_sub(1));
            }
            kept.push_back(connection);
        }
    }

    /// A stream of the connection to `state` that was used last, as long as it has room: the others may close for want
    /// of use.
    pub(super) fn open_stream(&self, state: &Arc<TargetState>) -> Option<PooledStream> {
        let mut kept = self.kept.borrow_mut();
        loop {
            let has_room = |kept: &Kept| Arc::ptr_eq(&kept.state, state) && kept.capacity() > 0;
            let last = (self.last.get()).filter(|&at| kept.get(at).is_some_and(has_room));
            let at = last.or_else(|| kept.iter().rposition(has_room))?;
            // One that is shared stays here, and is watched on.
            if !self.is_quiet(&mut kept[at]) {
                drop(kept.remove(at));
                continue;
            }
            let connection = &mut kept[at];
            let (server, open) = (connection.server, Rc::clone(&connection.open));
            let (stream, shared) = connection.channel.take()?.open_stream();
            if shared.is_some() {
                connection.channel = shared;
                self.last.set(Some(at));
                // The pool's own, and the one here.
                let was_unused = Rc::strong_count(&open) == 2;
                let unused = self.unused.get();
                self.unused
                    .set(unused.saturating_sub(usize::from(was_unused)));
            } else {
                drop(kept.remove(at));
            }
            return Some(PooledStream::new(stream, Arc::clone(state), server, open));
        }
    }

    /// True when few streams of the connections to `state` are free, which are shared. As long as many are, not each
    /// request counts them.
    pub(super) fn is_nearly_full(&self, state: &Arc<TargetState>) -> bool {
        let mut spare = self.spare.borrow_mut();
        let known = spare
            .iter()
            .position(|spare| Arc::ptr_eq(&spare.state, state));
        if let Some(known) = known {
            if let Some(left) = spare[known].requests.checked_sub(1) {
                spare[known].requests = left;
                return false;
            }
            spare.swap_remove(known);
        }
        let kept = self.kept.borrow();
        let (mut free, mut used) = (0, 0);
        for kept in kept.iter().filter(|kept| Arc::ptr_eq(&kept.state, state)) {
            free += kept.capacity();
            // One is the pool's own.
            used += Rc::strong_count(&kept.open) - 1;
        }
        let needed = (free + used) / FREE_STREAMS_PART;
        if free > needed {
            spare.push(Spare {
                state: Arc::clone(state),
                requests: free - needed - 1,
            });
        }
        free < needed || (free == 0 && used > 0)
    }

    /// A stream of a shared connection was given back.
    pub(super) fn touch(&self, open: &Rc<Open>, now: Instant) {
        open.used_at.set(now);
        // The pool's own, and the caller's.
        if Rc::strong_count(open) == 2 {
            self.unused.set(self.unused.get() + 1);
        }
    }

    /// Closes those that have ended, or that `is_kept` is not for; those that wait for the capacity of one that is known
    /// now are told.
    pub(super) fn sweep(&self, is_kept: impl Fn(&Kept) -> bool) {
        let mut kept = self.kept.borrow_mut();
        kept.retain_mut(|kept| is_kept(kept) && self.is_quiet(kept));
        for kept in &mut *kept {
            kept.under_way.take_if(|_| {
                (kept.channel.as_ref()).is_none_or(|channel| channel.knows_capacity())
            });
        }
        if kept.len() * 4 < kept.capacity() {
            let room = kept.len() * 2;
            kept.shrink_to(room);
        }
        self.spare.borrow_mut().clear();
        self.recount(&kept);
    }

    fn recount(&self, kept: &VecDeque<Kept>) {
        let is_unused = |kept: &&Kept| Rc::strong_count(&kept.open) == 1;
        self.unused.set(kept.iter().filter(is_unused).count());
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
        self.unused.set(0);
    }

    pub(super) fn len(&self) -> usize {
        self.kept.borrow().len()
    }

    /// The number of shared connections that carry no exchange.
    pub(super) fn unused(&self) -> usize {
        self.unused.get()
    }

    /// True when nothing has come; what comes later wakes the task that watches.
    fn is_quiet(&self, kept: &mut Kept) -> bool {
        let channel = kept.channel.as_mut();
        let mut cx = Context::from_waker(&self.waker);
        channel.is_some_and(|channel| channel.is_quiet(&mut cx))
    }
}

impl Drop for IdleChannels {
    fn drop(&mut self) {
        // The task finds nothing to watch, and ends.
        self.moved.0.notify_one();
    }
}

async fn watch(idle: Weak<IdleChannels>, moved: Arc<WatchWaker>) {
    loop {
        moved.0.notified().await;
        let Some(idle) = idle.upgrade() else {
            return;
        };
        idle.sweep(|_| true);
    }
}
