//! State that the task, the streams and the pool of a server's connection share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;

use crate::h2::link::Link;
use crate::limits::UPSTREAM_STREAMS_MAX;

/// State of a connection that its task, its streams and the pool share.
pub(super) struct Shared {
    pub(super) link: Rc<Link>,
    /// The scheme of requests on it.
    pub(super) scheme: &'static [u8],
    /// A stream was opened on it before.
    pub(super) is_used: Cell<bool>,
    /// No further stream begins: by the server's GOAWAY, or since the connection has ended.
    is_closed: Cell<bool>,
    /// The pool has let go of it.
    pub(super) is_abandoned: Cell<bool>,
    /// Requests that began, which gives them their order.
    begun: Cell<u32>,
    /// Requests that wait to be sent, by their order.
    waiting: RefCell<BTreeMap<u32, Waker>>,
    /// The pool's, for when it closes, or its limit of streams changes.
    pub(super) pool: RefCell<Option<Waker>>,
}

impl Shared {
    pub(super) fn new(link: Rc<Link>, scheme: &'static [u8]) -> Self {
        Self {
            link,
            scheme,
            is_used: Cell::new(false),
            is_closed: Cell::new(false),
            is_abandoned: Cell::new(false),
            begun: Cell::new(0),
            waiting: RefCell::default(),
            pool: RefCell::default(),
        }
    }

    /// True when no further stream is opened.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// The next place in the order of requests.
    pub(super) fn next_place(&self) -> u32 {
        let place = self.begun.get().wrapping_add(1);
        self.begun.set(place);
        place
    }

    /// The server's SETTINGS have come.
    pub(super) fn is_peer_known(&self) -> bool {
        self.link.connection.borrow().peer().is_known
    }

    /// Streams that may be opened beside those that are open. Before the server's SETTINGS its limit is not known, and
    /// it would refuse what is beyond (RFC 9113 §5.1.2): one stream begins then, and other requests wait in the pool.
    pub(super) fn capacity(&self) -> usize {
        if self.is_closed.get() {
            return 0;
        }
        let peer = *self.link.connection.borrow().peer();
        let most = match (peer.is_known, peer.concurrent_streams_max) {
            (false, _) => 1,
            (true, None) => UPSTREAM_STREAMS_MAX,
            (true, Some(most)) => (most as usize).min(UPSTREAM_STREAMS_MAX),
        };
        most.saturating_sub(self.link.open())
    }

    /// Wakes the request with this place when it may be sent, or can't be any more.
    pub(super) fn wait(&self, place: u32, waker: &Waker) {
        self.waiting.borrow_mut().insert(place, waker.clone());
    }

    /// The request with this place waits no more.
    pub(super) fn leave(&self, place: u32) {
        self.waiting.borrow_mut().remove(&place);
    }

    /// Wakes the first request that waits, if a stream can be opened for it.
    pub(super) fn wake_first(&self) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty()
            && self.link.connection.borrow().can_open().is_ok()
            && let Some((_, waker)) = waiting.pop_first()
        {
            waker.wake();
        }
    }

    /// Wakes all requests that wait.
    pub(super) fn wake_waiting(&self) {
        self.waiting.take().into_values().for_each(Waker::wake);
    }

    /// Tells the pool, which looks at what has changed.
    pub(super) fn wake_pool(&self) {
        if let Some(waker) = &*self.pool.borrow() {
            waker.wake_by_ref();
        }
    }

    /// No further stream is opened: the pool is told.
    pub(super) fn close(&self) {
        self.wake_waiting();
        if !self.is_closed.replace(true) {
            self.wake_pool();
        }
    }
}
