//! State of a connection that its task and its streams share, on either side.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use steppe_h2::Connection;
use steppe_mem::{Buffer, OverBudget, Reservation, Waiter};

use super::inbox::Inbox;
use super::section::HeadSection;
use super::turns::Turns;
use super::windows::Windows;
use crate::metrics::{CountedStream, Traffic};

/// State of a connection that its task and its streams share.
pub(super) struct Link {
    pub(super) connection: RefCell<Connection<HeadSection, Inbox>>,
    pub(super) windows: Windows,
    pub(super) turns: Turns,
    pub(super) traffic: Traffic,
    /// Streams whose exchange is not over.
    open: Cell<usize>,
    /// The charge of as many places as there were streams at once.
    places: RefCell<Option<Reservation>>,
    /// Received octets wait for memory: the peer is not to blame for its silence.
    pub(super) is_starved: Cell<bool>,
    /// The connection's task.
    task: RefCell<Option<Waker>>,
}

impl Link {
    pub(super) fn new(
        connection: Connection<HeadSection, Inbox>,
        windows: Windows,
        traffic: Traffic,
    ) -> Self {
        Self {
            connection: RefCell::new(connection),
            windows,
            turns: Turns::default(),
            traffic,
            open: Cell::new(0),
            places: RefCell::default(),
            is_starved: Cell::new(false),
            task: RefCell::default(),
        }
    }

    /// Streams whose exchange is not over.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    /// Wakes the connection's task, which is that of `cx`, from now on.
    pub(super) fn register(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        match &mut *task {
            Some(known) => known.clone_from(cx.waker()),
            None => *task = Some(cx.waker().clone()),
        }
    }

    /// Wakes the connection's task: there is something to write, or a stream has ended.
    pub(super) fn wake(&self) {
        if let Some(task) = self.task.borrow().as_ref() {
            task.wake_by_ref();
        }
    }

    /// Keeps the charge of a stream's place, if there are more streams than ever before: what a stream leaves behind is
    /// for the next one.
    pub(super) fn keep_place(&self, place: Reservation) {
        let places = &mut *self.places.borrow_mut();
        let charged_bytes = places.as_ref().map_or(0, Reservation::bytes);
        if self.open.get() * place.bytes() > charged_bytes {
            place.join_into(places);
        }
    }

    /// Charges places of `bytes` each for the open streams.
    ///
    /// # Errors
    /// The budget has no room for another one.
    pub(super) fn reserve_places(&self, bytes: usize) -> Result<(), OverBudget> {
        let places = &mut *self.places.borrow_mut();
        let charged_bytes = places.as_ref().map_or(0, Reservation::bytes);
        let lacking = (self.open.get() * bytes).saturating_sub(charged_bytes);
        if lacking > 0 {
            (self.windows.lease().try_reserve(lacking)?).join_into(places);
        }
        Ok(())
    }

    /// Ready when the connection has memory for `bytes` of output, after it had none.
    pub(super) fn poll_room(
        &self,
        cx: &mut Context<'_>,
        bytes: usize,
        waiter: &mut Waiter,
    ) -> Poll<()> {
        let lease = self.windows.lease();
        let buffer = ready!(Buffer::poll_take(cx, &lease, bytes, waiter));
        self.connection.borrow_mut().give_room(buffer);
        Poll::Ready(())
    }
}

/// Counts a stream for as long as its exchange lasts.
pub(super) struct OpenStream {
    pub(super) link: Rc<Link>,
    _counted: CountedStream,
}

impl OpenStream {
    pub(super) fn new(link: &Rc<Link>) -> Self {
        link.open.set(link.open.get() + 1);
        Self {
            link: Rc::clone(link),
            _counted: link.traffic.stream(),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = &self.link.open;
        open.set(open.get() - 1);
        self.link.wake();
    }
}
