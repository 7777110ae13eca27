//! What the parts of a server's connection tell each other.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// What the task of a connection, its streams and the pool know of it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Streams whose exchange is not over.
    pub(super) open: Cell<usize>,
    /// A stream was opened on it before.
    pub(super) is_used: Cell<bool>,
    /// It takes no further stream: the server says so, or it ended.
    pub(super) is_closed: Cell<bool>,
    /// The pool has let go of it.
    pub(super) is_abandoned: Cell<bool>,
    /// The pool's, for when it closes.
    pub(super) pool: RefCell<Option<Waker>>,
    /// Its task's, for when it is abandoned.
    pub(super) task: RefCell<Option<Waker>>,
}

impl Shared {
    /// No further stream is opened: the pool is told.
    pub(super) fn close(&self) {
        if !self.is_closed.replace(true)
            && let Some(waker) = self.pool.take()
        {
            waker.wake();
        }
    }
}
