//! Connections of a pool on which nothing is under way.
//!
//! Invariant: one that its server ends is closed as soon as the runtime is told, not when somebody
//! wants it: until then it would take a descriptor, its charge, and a socket in CLOSE_WAIT.
//!
//! Leaves out which are worth keeping otherwise: that is the pool's.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Connected;
use super::target::TargetState;

/// Idle connections, the one used last at the end.
#[derive(Debug)]
pub(super) struct IdleConnections {
    kept: RefCell<Vec<Idle>>,
    /// Told when something came on one of them.
    moved: Arc<Moved>,
    waker: Waker,
}

#[derive(Debug)]
struct Idle {
    connected: Box<Connected>,
    since: Instant,
}

/// Wakes the task that looks after the connections: one waker for all, so that to watch one more
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

impl IdleConnections {
    /// None yet, and a task that looks after them. Must be called on a worker.
    pub(super) fn new() -> Rc<Self> {
        let moved = Arc::new(Moved::default());
        let idle = Rc::new(Self {
            kept: RefCell::default(),
            waker: Waker::from(Arc::clone(&moved)),
            moved: Arc::clone(&moved),
        });
        spawn_local(look_after(Rc::downgrade(&idle), moved));
        idle
    }

    /// Keeps one more, `most` of them at once; says how many there are then.
    pub(super) fn put(&self, connected: Box<Connected>, most: usize, now: Instant) -> usize {
        let mut kept = self.kept.borrow_mut();
        if self.is_quiet(&connected) {
            if kept.len() >= most {
                kept.remove(0);
            }
            kept.push(Idle {
                connected,
                since: now,
            });
        }
        kept.len()
    }

    /// Takes the one that was used last: the others may close for want of use.
    pub(super) fn take(&self, state: &Arc<TargetState>) -> Option<Box<Connected>> {
        let mut kept = self.kept.borrow_mut();
        loop {
            let at = kept
                .iter()
                .rposition(|idle| Arc::ptr_eq(&idle.connected.state, state))?;
            let connected = kept.remove(at).connected;
            if connected.connection.is_quiet(Waker::noop()) {
                return Some(connected);
            }
        }
    }

    /// Closes those that have ended, or that `is_kept` is not for; says how many are left.
    pub(super) fn sweep(&self, is_kept: impl Fn(&Connected, Instant) -> bool) -> usize {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|idle| is_kept(&idle.connected, idle.since) && self.is_quiet(&idle.connected));
        if kept.len() * 4 < kept.capacity() {
            let room = kept.len() * 2;
            kept.shrink_to(room);
        }
        kept.len()
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
    }

    pub(super) fn len(&self) -> usize {
        self.kept.borrow().len()
    }

    /// Whether nothing has come; what comes later will be noticed.
    fn is_quiet(&self, connected: &Connected) -> bool {
        connected.connection.is_quiet(&self.waker)
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        // The task finds nothing to look after, and ends.
        self.moved.0.notify_one();
    }
}

async fn look_after(idle: Weak<IdleConnections>, moved: Arc<Moved>) {
    loop {
        moved.0.notified().await;
        let Some(idle) = idle.upgrade() else {
            return;
        };
        idle.sweep(|_, _| true);
    }
}
