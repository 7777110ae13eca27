//! The idle connections of a pool.
//!
//! Invariant: a connection that its server closes is closed here as soon as the runtime reports
//! it, not at the next checkout: until then it would hold a descriptor, its charge, and a socket
//! in CLOSE_WAIT.
//!
//! Non-goals: idle timeouts and limits, which are the pool's.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Connected;
use super::target::TargetState;

/// Idle connections, the most recently used last.
#[derive(Debug)]
pub(super) struct IdleConnections {
    kept: RefCell<Vec<Idle>>,
    /// Notified when one of them becomes readable.
    moved: Arc<Moved>,
    waker: Waker,
}

#[derive(Debug)]
struct Idle {
    connected: Box<Connected>,
    since: Instant,
}

/// Wakes the task that watches the connections. All share one waker, so that watching another one
/// does not allocate.
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
    /// No connections, and a task that watches them. Must be called on a worker.
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

    /// Adds a connection, keeps at most `most`, and returns their number.
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

    /// Takes the most recently used one, so that surplus ones reach their idle timeout.
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

    /// Closes those that their server closed or that `is_kept` rejects; returns how many are left.
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

    /// Whether it is not readable; registers the waker otherwise.
    fn is_quiet(&self, connected: &Connected) -> bool {
        connected.connection.is_quiet(&self.waker)
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        // The task finds the connections dropped, and ends.
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
