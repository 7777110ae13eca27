//! State that the task, the streams and the pool of a server's connection share.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use http::uri::Scheme;
use steppe_mem::OverBudget;

use crate::h2::backlog::Backlog;
use crate::h2::turns::Turns;
use crate::h2::windows::{Window, Windows};
use crate::head::ContentLength;
use crate::limits::UPSTREAM_STREAMS_MAX;
use crate::metrics::Traffic;
use crate::upstream::channel::Established;

/// State of a connection that its task, its streams and the pool share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The scheme of requests on it.
    pub(super) scheme: Scheme,
    pub(super) traffic: Traffic,
    /// Streams whose exchange is not over.
    pub(super) open: Cell<usize>,
    /// A stream was opened on it before.
    pub(super) is_used: Cell<bool>,
    /// No further stream begins: by the server's GOAWAY, or since the connection has ended.
    pub(super) is_closed: Cell<bool>,
    /// The pool has let go of it.
    pub(super) is_abandoned: Cell<bool>,
    pub(super) windows: Windows,
    pub(super) turns: Turns,
    /// `None` where there is no connection.
    pub(super) backlog: RefCell<Option<Backlog>>,
    /// The server has said what it takes.
    pub(super) has_settings: Cell<bool>,
    /// Wakers of streams that wait for a stream to end.
    pub(super) waiting: RefCell<Vec<Waker>>,
    /// The pool's, for when it closes.
    pub(super) pool: RefCell<Option<Waker>>,
    /// The waker of the connection's task, for when it is abandoned.
    pub(super) task: RefCell<Option<Waker>>,
}

impl Shared {
    pub(super) fn new(connection: &Established) -> Self {
        let lease = connection.lease.clone();
        Self {
            scheme: if connection.is_secure {
                Scheme::HTTPS
            } else {
                Scheme::HTTP
            },
            traffic: connection.traffic.clone(),
            open: Cell::new(0),
            is_used: Cell::new(false),
            is_closed: Cell::new(false),
            is_abandoned: Cell::new(false),
            windows: Windows::new(lease, UPSTREAM_STREAMS_MAX),
            turns: Turns::default(),
            backlog: RefCell::default(),
            has_settings: Cell::new(false),
            waiting: RefCell::default(),
            pool: RefCell::default(),
            task: RefCell::default(),
        }
    }

    /// The window of a response, of which the server may have to be told.
    ///
    /// # Errors
    /// The budget has no room for it.
    pub(super) fn open_window(&self, length: ContentLength) -> Result<Window, OverBudget> {
        let window = self.windows.open(length, None)?;
        if self.windows.is_untold()
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
        Ok(window)
    }

    /// No further stream is opened: the pool is told.
    pub(super) fn close(&self) {
        self.wake_waiting();
        if !self.is_closed.replace(true)
            && let Some(waker) = self.pool.take()
        {
            waker.wake();
        }
    }

    /// The server has said what it takes.
    pub(super) fn settle(&self) {
        if !self.has_settings.replace(true) {
            self.wake_waiting();
        }
    }

    fn wake_waiting(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}
