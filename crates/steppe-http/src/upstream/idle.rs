//! Connections of a pool that can take another exchange.
//!
//! Invariant: a connection that its server closes is closed here as soon as the runtime reports
//! it, not at the next checkout: until then it would hold a descriptor, its charge, and a socket
//! in CLOSE_WAIT.
//!
//! Non-goals: which are worth keeping otherwise, which the pool decides.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::channel::Channel;
use super::stream::{Open, PooledStream};
use super::target::TargetState;
use crate::limits::FREE_STREAMS_PART;

/// Connections with room for another stream, the one used last at the end.
#[derive(Debug)]
pub(super) struct IdleChannels {
    kept: RefCell<Vec<Kept>>,
    /// Notified when something came on one of them.
    moved: Arc<Moved>,
    waker: Waker,
}

/// A connection that the pool keeps.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) channel: Box<dyn Channel>,
    pub(super) state: Arc<TargetState>,
    pub(super) server: usize,
    pub(super) open: Rc<Open>,
    pub(super) since: Instant,
}

/// Wakes the task that watches the connections: one waker for all, so that to watch one more
/// allocates nothing.
#[derive(Debug, Default)]
struct Moved(Notify);

impl Wake for Moved {
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
        let moved = Arc::new(Moved::default());
        let idle = Rc::new(Self {
            kept: RefCell::default(),
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
            if kept.len() >= most {
                kept.remove(0);
            }
            kept.push(connection);
        }
    }

    /// A stream of the connection to `state` that was used last: the others may close for
    /// want of use.
    pub(super) fn open_stream(&self, state: &Arc<TargetState>) -> Option<PooledStream> {
        let mut kept = self.kept.borrow_mut();
        loop {
            let has_room =
                |kept: &Kept| Arc::ptr_eq(&kept.state, state) && kept.channel.capacity() > 0;
            let at = kept.iter().rposition(has_room)?;
            let mut connection = kept.remove(at);
            // One that is shared stays here, and is watched on.
            if !self.is_quiet(&mut connection) {
                continue;
            }
            let (stream, shared) = connection.channel.open_stream();
            let Some(channel) = shared else {
                let Kept {
                    state,
                    server,
                    open,
                    ..
                } = connection;
                return Some(PooledStream::new(stream, state, server, open));
            };
            let open = Rc::clone(&connection.open);
            let stream = PooledStream::new(stream, Arc::clone(state), connection.server, open);
            kept.insert(
                at,
                Kept {
                    channel,
                    ..connection
                },
            );
            return Some(stream);
        }
    }

    /// True when few streams of the connections to `state` are free, which are shared.
    pub(super) fn is_nearly_full(&self, state: &Arc<TargetState>) -> bool {
        let kept = self.kept.borrow();
        let (mut free, mut used) = (0, 0);
        for kept in kept.iter().filter(|kept| Arc::ptr_eq(&kept.state, state)) {
            free += kept.channel.capacity();
            // One is the pool's own.
            used += Rc::strong_count(&kept.open) - 1;
        }
        free < (free + used) / FREE_STREAMS_PART || (free == 0 && used > 0)
    }

    /// A connection that is kept while it is used was of use just `now`.
    pub(super) fn touch(&self, open: &Rc<Open>, now: Instant) {
        let mut kept = self.kept.borrow_mut();
        if let Some(kept) = kept.iter_mut().find(|kept| Rc::ptr_eq(&kept.open, open)) {
            kept.since = now;
        }
    }

    /// Closes those that have ended, or that `is_kept` is not for.
    pub(super) fn sweep(&self, is_kept: impl Fn(&Kept) -> bool) {
        let mut kept = self.kept.borrow_mut();
        kept.retain_mut(|kept| is_kept(kept) && self.is_quiet(kept));
        if kept.len() * 4 < kept.capacity() {
            let room = kept.len() * 2;
            kept.shrink_to(room);
        }
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
    }

    pub(super) fn len(&self) -> usize {
        self.kept.borrow().len()
    }

    /// The number of shared connections that carry no exchange.
    pub(super) fn unused(&self) -> usize {
        let kept = self.kept.borrow();
        let is_unused = |kept: &&Kept| Rc::strong_count(&kept.open) == 1;
        kept.iter().filter(is_unused).count()
    }

    /// True when nothing has come; what comes later wakes the task that watches.
    fn is_quiet(&self, kept: &mut Kept) -> bool {
        kept.channel.is_quiet(&mut Context::from_waker(&self.waker))
    }
}

impl Drop for IdleChannels {
    fn drop(&mut self) {
        // The task finds nothing to watch, and ends.
        self.moved.0.notify_one();
    }
}

async fn watch(idle: Weak<IdleChannels>, moved: Arc<Moved>) {
    loop {
        moved.0.notified().await;
        let Some(idle) = idle.upgrade() else {
            return;
        };
        idle.sweep(|_| true);
    }
}
