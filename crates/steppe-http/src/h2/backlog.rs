//! DATA frames and header lists that have come and were not taken, by stream.
//!
//! The `h2` crate keeps a record of each, which a window does not bound: a frame of one byte costs as much as one of
//! 256. Beyond a few they are charged, and where there is no room for more, or they are too many, nothing further is
//! read from the peer until some are taken. The table of records grows and never shrinks, so its charge stays for as
//! long as the connection. Header lists (trailers, heads of responses) are charged what they were measured to take.
//!
//! Frames of streams that nobody takes from are not counted: the crate discards them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use steppe_mem::{Lease, Reservation, Waiter};

use crate::limits::{DATA_FRAME_BYTES, DATA_FRAMES_CHARGED, DATA_FRAMES_WAITING_MAX};

/// Shared by what reads frames and by what takes them.
#[derive(Debug, Clone)]
pub(super) struct Backlog(Rc<Waiting>);

#[derive(Debug)]
struct Waiting {
    lease: Lease,
    streams: RefCell<BTreeMap<u32, Held>>,
    /// Records of all streams.
    records: Cell<usize>,
    /// For the table of records.
    table: RefCell<Option<Reservation>>,
    lists: RefCell<Lists>,
    /// The waker of the connection's task, while nothing is read.
    reader: RefCell<Option<Waker>>,
}

/// Records of one stream that wait.
#[derive(Debug, Default)]
struct Held {
    frames: usize,
    /// One of all its frames so far was not empty.
    has_content: bool,
    lists: usize,
    list_bytes: usize,
}

/// Charges of header lists.
#[derive(Debug, Default)]
struct Lists {
    charge: Option<Reservation>,
    /// Taken by the crate, and not charged yet.
    owed: usize,
    waiter: Waiter,
}

impl Backlog {
    pub(super) fn new(lease: Lease) -> Self {
        Self(Rc::new(Waiting {
            lease,
            streams: RefCell::default(),
            records: Cell::new(0),
            table: RefCell::default(),
            lists: RefCell::default(),
            reader: RefCell::default(),
        }))
    }

    /// Frames of `stream` are taken from now on, until it is closed.
    pub(super) fn open(&self, stream: u32) {
        self.0.streams.borrow_mut().entry(stream).or_default();
    }

    /// Nothing more is taken from `stream`.
    pub(super) fn close(&self, stream: u32) {
        let held = self.0.streams.borrow_mut().remove(&stream);
        if let Some(held) = held {
            self.forget(&held);
        }
    }

    /// A DATA frame has come, with a payload of so many bytes.
    pub(super) fn add_frame(&self, stream: u32, bytes: usize) {
        self.add(stream, |held| {
            held.frames += 1;
            held.has_content |= bytes > 0;
        });
    }

    /// True once a DATA frame of `stream` came that was not empty. Padding counts as content.
    pub(super) fn has_content(&self, stream: u32) -> bool {
        (self.0.streams.borrow().get(&stream)).is_some_and(|held| held.has_content)
    }

    /// A header list has come that takes so many bytes, of which `charge` was reserved for it.
    pub(super) fn add_list(&self, stream: u32, bytes: usize, charge: Option<Reservation>) {
        let is_kept = self.add(stream, |held| {
            held.lists += 1;
            held.list_bytes += bytes;
        });
        if is_kept {
            let mut lists = self.0.lists.borrow_mut();
            lists.owed += bytes - charge.as_ref().map_or(0, Reservation::bytes).min(bytes);
            if let Some(charge) = charge {
                charge.join_into(&mut lists.charge);
            }
        }
    }

    fn add(&self, stream: u32, add: impl FnOnce(&mut Held)) -> bool {
        let mut streams = self.0.streams.borrow_mut();
        let Some(held) = streams.get_mut(&stream) else {
            return false;
        };
        add(held);
        self.0.records.set(self.0.records.get() + 1);
        true
    }

    /// A DATA frame was taken.
    pub(super) fn take_frame(&self, stream: u32) {
        if let Some(held) = self.0.streams.borrow_mut().get_mut(&stream)
            && held.frames > 0
        {
            held.frames -= 1;
            self.release(1, 0);
        }
    }

    /// True while a header list waits to be taken.
    pub(super) fn has_list(&self, stream: u32) -> bool {
        (self.0.streams.borrow().get(&stream)).is_some_and(|held| held.lists > 0)
    }

    /// A header list was taken: the oldest of its stream, charged as all of them on average.
    pub(super) fn take_list(&self, stream: u32) {
        if let Some(held) = self.0.streams.borrow_mut().get_mut(&stream)
            && held.lists > 0
        {
            let bytes = held.list_bytes / held.lists;
            held.lists -= 1;
            held.list_bytes -= bytes;
            self.release(1, bytes);
        }
    }

    fn forget(&self, held: &Held) {
        self.release(held.frames + held.lists, held.list_bytes);
    }

    fn release(&self, records: usize, list_bytes: usize) {
        let left = self.0.records.get() - records;
        self.0.records.set(left);
        let mut lists = self.0.lists.borrow_mut();
        let owed = lists.owed.min(list_bytes);
        lists.owed -= owed;
        if let Some(charge) = &mut lists.charge {
            charge.shrink((list_bytes - owed).min(charge.bytes()));
        }
        drop(lists);
        if left <= DATA_FRAMES_CHARGED / 2 || list_bytes > 0 {
            self.wake();
        }
    }

    /// Ready while more may be read.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let room = match self.poll_lists(cx) {
            Poll::Ready(()) if self.has_records_left() => Poll::Ready(()),
            _ => Poll::Pending,
        };
        *self.0.reader.borrow_mut() = room.is_pending().then(|| cx.waker().clone());
        room
    }

    fn poll_lists(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut lists = self.0.lists.borrow_mut();
        let Lists {
            charge,
            owed,
            waiter,
        } = &mut *lists;
        if *owed > 0 {
            let paid = ready!(self.0.lease.poll_reserve(cx, *owed, waiter));
            *owed = 0;
            paid.join_into(charge);
        }
        *waiter = Waiter::default();
        Poll::Ready(())
    }

    /// The table has room for the records that there are and one more, and is charged.
    fn has_records_left(&self) -> bool {
        let records = self.0.records.get();
        let mut table = self.0.table.borrow_mut();
        let charged = table.as_ref().map_or(0, Reservation::bytes) / DATA_FRAME_BYTES;
        let is_full = records >= DATA_FRAMES_WAITING_MAX;
        let needed = records + usize::from(!is_full);
        let lacking = needed.saturating_sub(DATA_FRAMES_CHARGED + charged);
        if lacking == 0 {
            return !is_full;
        }
        let bytes = lacking.next_multiple_of(DATA_FRAMES_CHARGED) * DATA_FRAME_BYTES;
        let is_charged = match &mut *table {
            Some(table) => table.try_grow(bytes).is_ok(),
            None => {
                *table = self.0.lease.try_reserve(bytes).ok();
                table.is_some()
            }
        };
        is_charged && !is_full
    }

    /// Nothing is read until some are taken.
    pub(super) fn is_full(&self) -> bool {
        self.0.reader.borrow().is_some()
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

    const STREAM: u32 = 1;

    #[test]
    fn frames_that_wait_are_charged_and_stop_the_reader() {
        let budget = Budget::new(64 << 20);
        let backlog = Backlog::new(budget.root().lease());
        let mut cx = Context::from_waker(Waker::noop());
        backlog.open(STREAM);
        let mut read = 0;
        while backlog.poll_room(&mut cx).is_ready() {
            backlog.add_frame(STREAM, 1);
            read += 1;
        }
        assert_eq!(read, DATA_FRAMES_WAITING_MAX);
        let charged = (read - DATA_FRAMES_CHARGED) * DATA_FRAME_BYTES;
        let reserved = || budget.root().reserved_bytes();
        assert_eq!(reserved(), charged as u64);
        (0..read).for_each(|_| backlog.take_frame(STREAM));
        assert!(backlog.poll_room(&mut cx).is_ready() && !backlog.is_full());
        assert_eq!(reserved(), charged as u64, "the table does not shrink");
        (0..DATA_FRAMES_WAITING_MAX).for_each(|_| backlog.add_frame(STREAM, 1));
        assert!(backlog.poll_room(&mut cx).is_pending() && backlog.is_full());
        backlog.close(STREAM);
        assert!(backlog.poll_room(&mut cx).is_ready() && !backlog.is_full());
        // Without memory for more, those that are free are all.
        let budget = Budget::new(64 << 20);
        let backlog = Backlog::new(budget.root().lease());
        let _others = budget.root().lease().try_reserve(64 << 20).expect("room");
        backlog.open(STREAM);
        (0..DATA_FRAMES_CHARGED).for_each(|_| backlog.add_frame(STREAM, 1));
        assert!(backlog.poll_room(&mut cx).is_pending() && backlog.is_full());
    }

    /// One that is reset takes what it had with it, and nothing of others.
    #[test]
    fn a_stream_that_ends_leaves_the_frames_of_others() {
        let budget = Budget::new(64 << 20);
        let backlog = Backlog::new(budget.root().lease());
        let mut cx = Context::from_waker(Waker::noop());
        backlog.open(1);
        backlog.open(3);
        (0..DATA_FRAMES_WAITING_MAX).for_each(|_| backlog.add_frame(1, 1));
        backlog.add_frame(3, 1);
        backlog.close(3);
        assert!(backlog.poll_room(&mut cx).is_pending());
        // Nobody takes from these any more, and the crate keeps none.
        backlog.add_frame(3, 1);
        backlog.close(1);
        assert!(backlog.poll_room(&mut cx).is_ready());
        assert_eq!(backlog.0.records.get(), 0);
    }

    #[test]
    fn header_lists_are_charged_until_they_are_taken() {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let backlog = Backlog::new(lease.clone());
        let mut cx = Context::from_waker(Waker::noop());
        let reserved = || budget.root().reserved_bytes();
        backlog.open(STREAM);
        backlog.add_list(STREAM, 1000, lease.try_reserve(1000).ok());
        backlog.add_list(STREAM, 500, None);
        assert!(backlog.poll_room(&mut cx).is_ready());
        assert_eq!(reserved(), 1500);
        backlog.take_list(STREAM);
        assert_eq!(reserved(), 750);
        backlog.take_list(STREAM);
        assert_eq!(reserved(), 0);
        // Without memory, nothing more is read until it is taken.
        let _others = lease.try_reserve(1 << 20).expect("room");
        backlog.add_list(STREAM, 500, None);
        assert!(backlog.poll_room(&mut cx).is_pending() && backlog.is_full());
        backlog.close(STREAM);
        assert!(backlog.poll_room(&mut cx).is_ready() && !backlog.is_full());
    }
}
