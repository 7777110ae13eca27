//! DATA frames that have come and were not taken.
//!
//! The `h2` crate keeps a record of each, which a window does not bound: a frame of one byte costs as
//! much as one of 256. Beyond a few they are charged, and where there is no room for more, or
//! they are too many, nothing further is read from the peer until some are taken.
//!
//! A stream that ends takes frames with it that nobody took, and nobody knows how many: all are
//! forgotten then. What a peer gains by that is bounded by the crate's own budget of frames.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use steppe_mem::{Lease, Reservation};

use crate::limits::{DATA_FRAME_BYTES, DATA_FRAMES_CHARGED, DATA_FRAMES_WAITING_MAX};

/// Shared by what reads frames and by what takes them.
#[derive(Debug, Clone)]
pub(super) struct Backlog(Rc<Waiting>);

#[derive(Debug)]
struct Waiting {
    lease: Lease,
    frames: Cell<usize>,
    charge: RefCell<Option<Reservation>>,
    /// Of the connection's task, while nothing is read.
    reader: RefCell<Option<Waker>>,
}

impl Backlog {
    pub(super) fn new(lease: Lease) -> Self {
        Self(Rc::new(Waiting {
            lease,
            frames: Cell::new(0),
            charge: RefCell::default(),
            reader: RefCell::default(),
        }))
    }

    /// So many have come.
    pub(super) fn add(&self, frames: usize) {
        self.0.frames.set(self.0.frames.get() + frames);
    }

    /// One was taken.
    pub(super) fn take(&self) {
        let frames = self.0.frames.get().saturating_sub(1);
        self.0.frames.set(frames);
        if frames == 0 {
            self.0.charge.replace(None);
        }
        if frames <= DATA_FRAMES_CHARGED / 2 {
            self.wake();
        }
    }

    /// A stream has ended, and what it had with it.
    pub(super) fn forget(&self) {
        self.0.frames.set(0);
        self.0.charge.replace(None);
        self.wake();
    }

    /// Ready while more may be read.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waiting = &*self.0;
        let frames = waiting.frames.get();
        let charged = waiting
            .charge
            .borrow()
            .as_ref()
            .map_or(0, Reservation::bytes);
        if frames < DATA_FRAMES_CHARGED + charged / DATA_FRAME_BYTES
            || (frames < DATA_FRAMES_WAITING_MAX && self.grow())
        {
            waiting.reader.take();
            return Poll::Ready(());
        }
        *waiting.reader.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Nothing is read until some are taken.
    pub(super) fn is_full(&self) -> bool {
        self.0.reader.borrow().is_some()
    }

    fn grow(&self) -> bool {
        const BYTES: usize = DATA_FRAMES_CHARGED * DATA_FRAME_BYTES;
        let mut charge = self.0.charge.borrow_mut();
        match &mut *charge {
            Some(charge) => charge.try_grow(BYTES).is_ok(),
            None => {
                *charge = self.0.lease.try_reserve(BYTES).ok();
                charge.is_some()
            }
        }
    }

    fn wake(&self) {
        if let Some(reader) = self.0.reader.take() {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    #[test]
    fn frames_that_wait_are_charged_and_stop_the_reader() {
        let budget = Budget::new(64 << 20);
        let backlog = Backlog::new(budget.root().lease());
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = 0;
        while backlog.poll_room(&mut cx).is_ready() {
            backlog.add(1);
            read += 1;
        }
        assert_eq!(read, DATA_FRAMES_WAITING_MAX);
        let charged = (read - DATA_FRAMES_CHARGED) * DATA_FRAME_BYTES;
        assert_eq!(budget.root().reserved_bytes(), charged as u64);
        (0..read).for_each(|_| backlog.take());
        assert!(backlog.poll_room(&mut cx).is_ready() && !backlog.is_full());
        assert_eq!(budget.root().reserved_bytes(), 0);
        backlog.add(DATA_FRAMES_WAITING_MAX);
        assert!(backlog.poll_room(&mut cx).is_pending() && backlog.is_full());
        backlog.forget();
        assert!(backlog.poll_room(&mut cx).is_ready() && !backlog.is_full());
        // Without memory for more, those that are free are all.
        let _others = budget.root().lease().try_reserve(64 << 20).expect("room");
        backlog.add(DATA_FRAMES_CHARGED);
        assert!(backlog.poll_room(&mut cx).is_pending() && backlog.is_full());
    }
}
