//! Receive windows of a connection and its streams: the content that a peer may send before it is taken.
//!
//! Every stream has the same window. The connection's begins as that of one stream, and opens as far as that of all
//! its streams together while half of the budget is free: a stream that is not read holds up no other then. Where
//! the budget is short, streams share what the connection has. All that they may send is charged. Where a few streams
//! fill their windows again and again and the budget has room, all windows grow, up to where those of all streams
//! together are a quarter of the budget.
//!
//! Content goes on with the charge of its window where there is no other for it, and the window opens again once it is
//! charged anew. A small piece takes a buffer for itself, which is more than its part of that charge: where many of
//! them have used it up, and the budget has no room, content waits, and its connection is not read meanwhile.
//!
//! A window is charged with more than its size: content stays in the memory that frames were read into, in blocks
//! that are not filled to their ends.
//!
//! Windows never shrink, and begin at the protocol's own 65,535: a peer may have sent more than a smaller one allows
//! before it hears of that.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_mem::{Lease, LeavingRoom, OverBudget, Reservation, SizeClass, Waiter};

use crate::head::ContentLength;
use crate::limits::{RESPONSES_LEAVE, STREAM_WINDOW_BYTES_MAX, STREAM_WINDOW_BYTES_MIN};

/// Windows of one connection.
#[derive(Debug, Clone)]
pub(super) struct Windows(Rc<RefCell<Sizes>>);

/// In bytes.
#[derive(Debug)]
struct Sizes {
    lease: Lease,
    streams_max: u32,
    /// The window of each stream, now and at most.
    stream: u32,
    stream_max: u32,
    /// The window of the connection.
    connection: u32,
    /// Streams that may send.
    open: usize,
    /// The sum of what streams may send, each by itself.
    wanted: u64,
    /// Bytes whose charge went on with their content, and is not made anew.
    lent: u64,
    /// For what the peer may send.
    charge: Option<Reservation>,
    /// Content that had come in all when windows grew last.
    since: u64,
    /// Bytes of the budget that are left to others when a window opens again.
    reopening_leaves: u64,
    /// There is a change to announce: any, and one of each stream.
    is_unannounced: bool,
    is_stream_unannounced: bool,
}

/// The window of one stream, until the peer sends nothing more that is kept.
#[derive(Debug)]
pub(super) struct Window {
    windows: Windows,
    /// The charge when it began, and the size of windows then.
    began: (u64, u32),
    lent: u64,
}

/// A change of windows to announce to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// `None`: as before.
    pub(super) stream: Option<u32>,
    pub(super) connection: u32,
}

/// Bytes charged for so much content. A frame of 16 KiB with its header takes a block of 20.
pub(super) fn charged_bytes(content: usize) -> usize {
    content.saturating_add(content / 4)
}

impl Windows {
    /// Windows of a connection of at most `streams_max` streams.
    pub(super) fn new(lease: Lease, streams_max: usize) -> Self {
        let share = lease.account().limit_bytes() / 4 / streams_max.max(1) as u64;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Self(Rc::new(RefCell::new(Sizes {
            lease,
            streams_max: u32::try_from(streams_max).unwrap_or(u32::MAX),
            stream: STREAM_WINDOW_BYTES_MIN,
            stream_max: share.clamp(STREAM_WINDOW_BYTES_MIN, STREAM_WINDOW_BYTES_MAX),
            connection: STREAM_WINDOW_BYTES_MIN,
            open: 0,
            wanted: 0,
            lent: 0,
            charge: None,
            since: 0,
            reopening_leaves: 0,
            is_unannounced: false,
            is_stream_unannounced: false,
        })))
    }

    /// Windows of a connection with a server, which slow readers of its responses keep.
    pub(super) fn toward_server(lease: Lease, streams_max: usize) -> Self {
        let leaves = lease.account().limit_bytes() / RESPONSES_LEAVE;
        let windows = Self::new(lease, streams_max);
        windows.0.borrow_mut().reopening_leaves = leaves;
        windows
    }

    /// The lease that windows are charged to, whatever a reload makes of the connection's settings.
    pub(super) fn lease(&self) -> Lease {
        self.0.borrow().lease.clone()
    }

    /// Bytes charged in addition when a stream of this `length` begins.
    pub(super) fn lacking_bytes(&self, length: ContentLength) -> usize {
        if length == ContentLength::Empty {
            return 0;
        }
        let sizes = self.0.borrow();
        let wanted = sizes.wanted + sizes.wanted_by(length);
        let charged = sizes.charge.as_ref().map_or(0, Reservation::bytes);
        sizes.needed(wanted).saturating_sub(charged)
    }

    /// A stream that may send begins: as much as its window, or as its head says. `charge` is what it
    /// is known to lack, of the same lease.
    ///
    /// # Errors
    /// Where the connection's window allows for more than is charged, and the budget has no room.
    pub(super) fn open(
        &self,
        length: ContentLength,
        charge: Option<Reservation>,
    ) -> Result<Window, OverBudget> {
        let mut sizes = self.0.borrow_mut();
        let bytes = sizes.wanted_by(length);
        sizes.wanted += bytes;
        if let Some(more) = charge {
            sizes.add(more);
        }
        if let Err(error) = sizes.settle() {
            sizes.wanted -= bytes;
            return Err(error);
        }
        sizes.open += 1;
        Ok(Window {
            windows: self.clone(),
            began: (bytes, sizes.stream),
            lent: 0,
        })
    }

    /// Changes windows after `content` bytes have come in all; `None`: there is nothing to announce.
    pub(super) fn change(&self, content: u64) -> Option<Change> {
        let mut sizes = self.0.borrow_mut();
        sizes.grow(content);
        sizes.widen();
        let is_of_streams = std::mem::take(&mut sizes.is_stream_unannounced);
        std::mem::take(&mut sizes.is_unannounced).then(|| Change {
            stream: is_of_streams.then_some(sizes.stream),
            connection: sizes.connection,
        })
    }
}

impl Sizes {
    /// The first window of a stream.
    fn wanted_by(&self, length: ContentLength) -> u64 {
        match length {
            ContentLength::Empty => 0,
            ContentLength::Known(bytes) => bytes.min(self.stream.into()),
            ContentLength::Unknown => self.stream.into(),
        }
    }

    /// The charge where streams may send `wanted`: no more can come than either allows.
    fn needed(&self, wanted: u64) -> usize {
        let needed = wanted.min(self.connection.into());
        charged_bytes(usize::try_from(needed.saturating_sub(self.lent)).unwrap_or(usize::MAX))
    }

    fn add(&mut self, more: Reservation) {
        more.join_into(&mut self.charge);
    }

    /// Charges what is needed, and gives back what is not.
    fn settle(&mut self) -> Result<(), OverBudget> {
        let needed = self.needed(self.wanted);
        match &mut self.charge {
            Some(_) if needed == 0 => self.charge = None,
            Some(charge) if needed < charge.bytes() => charge.shrink(charge.bytes() - needed),
            Some(charge) => charge.try_grow(needed - charge.bytes())?,
            None if needed == 0 => {}
            None => self.charge = Some(self.lease.try_reserve(needed)?),
        }
        Ok(())
    }

    /// The part of the budget that windows may still take: half of it is for received content.
    fn spare(&self) -> u64 {
        let account = self.lease.account();
        (account.headroom_bytes()).saturating_sub(account.limit_bytes() / 2)
    }

    /// Opens the connection's window as far as those of its streams, or as there is room.
    fn widen(&mut self) {
        let most = self.stream.saturating_mul(self.streams_max);
        let most = most.min(i32::MAX.unsigned_abs());
        if self.wanted.min(most.into()) <= self.connection.into() {
            return;
        }
        let spare = self.spare();
        if spare < STREAM_WINDOW_BYTES_MIN.into() {
            return;
        }
        let connection = u64::from(self.connection) + spare / 5 * 4;
        let connection = connection.min(self.wanted).min(most.into());
        let connection = u32::try_from(connection).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut self.connection, connection);
        match self.settle() {
            Ok(()) => self.is_unannounced |= connection > before,
            Err(_) => self.connection = before,
        }
    }

    /// Doubles the window of each stream, where they fill them.
    fn grow(&mut self, content: u64) {
        const FILLED: u64 = 4;
        let filled = u64::from(self.stream) * self.open.max(1) as u64 * FILLED;
        if self.open == 0 || content - self.since < filled {
            return;
        }
        self.since = content;
        let stream = self.stream.saturating_mul(2).min(self.stream_max);
        if stream == self.stream || self.spare() == 0 {
            return;
        }
        let before = (self.stream, self.wanted);
        self.wanted += self.open as u64 * u64::from(stream - self.stream);
        self.stream = stream;
        match self.settle() {
            Ok(()) => (self.is_unannounced, self.is_stream_unannounced) = (true, true),
            Err(_) => (self.stream, self.wanted) = before,
        }
    }
}

impl Window {
    /// The charge of `bytes` that have come: they go on with it. `None` where it has none for them.
    pub(super) fn lend(&mut self, bytes: usize) -> Option<Reservation> {
        self.lend_charge(bytes, charged_bytes(bytes))
    }

    /// Like [`Window::lend`], for a piece that has a buffer for itself: the charge of that.
    pub(super) fn lend_block(&mut self, bytes: usize) -> Option<Reservation> {
        self.lend_charge(bytes, SizeClass::holding(bytes).bytes())
    }

    fn lend_charge(&mut self, bytes: usize, charged: usize) -> Option<Reservation> {
        let mut sizes = self.windows.0.borrow_mut();
        let charge = sizes
            .charge
            .as_mut()
            .filter(|charge| charge.bytes() >= charged)?;
        let lent = charge.split(charged);
        sizes.lent += bytes as u64;
        self.lent += bytes as u64;
        Some(lent)
    }

    /// Takes back the charge of `bytes` that did not go on.
    pub(super) fn take_back(&mut self, lent: Reservation, bytes: usize) {
        let mut sizes = self.windows.0.borrow_mut();
        sizes.add(lent);
        sizes.lent -= bytes as u64;
        self.lent -= bytes as u64;
    }

    /// True when other streams, or a missing charge, may keep the peer from sending.
    pub(super) fn is_short(&self) -> bool {
        let sizes = self.windows.0.borrow();
        self.lent > 0 || sizes.wanted > sizes.connection.into()
    }

    /// Ready when `bytes` of what was lent are charged anew.
    pub(super) fn poll_recharge(
        &mut self,
        cx: &mut Context<'_>,
        bytes: usize,
        waiter: &mut Waiter,
    ) -> Poll<()> {
        let mut sizes = self.windows.0.borrow_mut();
        let charged = charged_bytes(bytes);
        let more = ready!(match sizes.reopening_leaves {
            0 => sizes.lease.poll_reserve(cx, charged, waiter),
            leaving => {
                let bytes = charged;
                let room = LeavingRoom { bytes, leaving };
                sizes.lease.poll_reserve_leaving(cx, room, waiter)
            }
        });
        sizes.add(more);
        let bytes = (bytes as u64).min(self.lent);
        sizes.lent -= bytes;
        self.lent -= bytes;
        // Less than what was lent in small pieces, each rounded.
        let _ = sizes.settle();
        Poll::Ready(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut sizes = self.windows.0.borrow_mut();
        let (bytes, stream) = self.began;
        sizes.open -= 1;
        sizes.wanted -= bytes + u64::from(sizes.stream - stream);
        sizes.lent -= self.lent;
        // What can't be charged now is at the next occasion.
        let _ = sizes.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use steppe_mem::{Budget, Buffer};

    use super::*;

    const MIN: u64 = STREAM_WINDOW_BYTES_MIN as u64;

    fn charged(content: u64) -> u64 {
        content + content / 4
    }

    fn windows(budget: &Budget) -> Windows {
        Windows::new(budget.root().lease(), 100)
    }

    fn connection(windows: &Windows) -> u64 {
        windows.0.borrow().connection.into()
    }

    #[test]
    fn what_may_come_is_charged() {
        let budget = Budget::new(4 << 20);
        let windows = windows(&budget);
        let reserved = || budget.root().reserved_bytes();
        assert_eq!((connection(&windows), reserved()), (MIN, 0));
        let small = windows.open(ContentLength::Known(7), None).expect("room");
        assert_eq!(reserved(), charged(7));
        let large = windows
            .open(ContentLength::Known(1 << 40), None)
            .expect("room");
        assert_eq!(
            reserved(),
            charged(MIN),
            "they share until the window is opened"
        );
        let change = windows.change(0).expect("there is room");
        assert_eq!((change.stream, change.connection.into()), (None, MIN + 7));
        assert_eq!(reserved(), charged(MIN + 7));
        drop((small, large));
        assert_eq!((reserved(), windows.0.borrow().open), (0, 0));
    }

    /// However many streams there are, and whatever others hold.
    #[test]
    fn streams_share_where_the_budget_is_short() {
        let budget = Budget::new(4 << 20);
        let windows = windows(&budget);
        let open: Vec<_> = (0..100)
            .map(|_| {
                windows
                    .open(ContentLength::Unknown, None)
                    .expect("they share")
            })
            .collect();
        windows.change(0);
        let wide = connection(&windows);
        assert!(wide > (1 << 20) && wide <= 4 << 20, "{wide}");
        let reserved = || budget.root().reserved_bytes();
        assert_eq!(reserved(), charged(wide));
        assert!(open.iter().all(Window::is_short));
        drop(open);
        assert_eq!(reserved(), 0);
        // The peer may send that much now, and there is no room for it.
        let _others = budget.root().lease().try_reserve(4 << 20).expect("room");
        assert!(windows.open(ContentLength::Unknown, None).is_err());
        assert!(windows.open(ContentLength::Empty, None).is_ok());
    }

    #[test]
    fn what_came_goes_on_with_its_charge_and_the_window_waits() {
        const ALL: usize = 4 << 20;
        for (windows, used) in [
            (Windows::new as fn(Lease, usize) -> Windows, ALL),
            (Windows::toward_server, ALL / 8 * 7),
        ] {
            wait_beside(windows, used);
        }
    }

    /// The window of a stream waits while others hold the rest of `used` bytes.
    fn wait_beside(windows: fn(Lease, usize) -> Windows, used: usize) {
        let budget = Budget::new(4 << 20);
        let windows = windows(budget.root().lease(), 100);
        let mut window = windows.open(ContentLength::Unknown, None).expect("room");
        let others = budget
            .root()
            .lease()
            .try_reserve(used - charged_bytes(65_535));
        let _others = others.expect("room");
        let lent = window.lend(10_000).expect("it is charged");
        assert_eq!(lent.bytes(), 12_500);
        let mut cx = Context::from_waker(Waker::noop());
        let mut waiter = Waiter::default();
        let mut recharge = |window: &mut Window| window.poll_recharge(&mut cx, 10_000, &mut waiter);
        assert!(recharge(&mut window).is_pending());
        assert!(window.lent > 0 && window.lend(60_000).is_none());
        drop(lent);
        assert!(recharge(&mut window).is_ready());
        assert!(window.lent == 0 && window.lend(60_000).is_some());
        drop(window);
        assert_eq!(budget.root().reserved_bytes(), used as u64 - charged(MIN));
    }

    #[test]
    fn a_change_is_announced_once() {
        let budget = Budget::new(256 << 20);
        let windows = windows(&budget);
        let _window = windows.open(ContentLength::Unknown, None).expect("room");
        assert_eq!(windows.change(0), None);
        let change = windows.change(4 * MIN).expect("they were filled");
        assert_eq!(change.stream.map(u64::from), Some(2 * MIN));
        assert_eq!(windows.change(4 * MIN), None);
    }

    #[test]
    fn a_small_piece_has_a_buffer_of_its_window() {
        let budget = Budget::new(4 << 20);
        let windows = windows(&budget);
        let mut window = windows.open(ContentLength::Unknown, None).expect("room");
        let all = (4 << 20) - charged_bytes(65_535);
        let _others = budget.root().lease().try_reserve(all).expect("room");
        let mut block = window.lend_block(1).expect("it is charged");
        assert_eq!(block.bytes(), 1024);
        assert!(Buffer::take_of(&mut block, 1).is_ok());
        let blocks = std::iter::from_fn(|| window.lend_block(1)).count();
        assert_eq!(blocks, charged_bytes(65_535) / 1024 - 1);
    }

    #[test]
    fn windows_grow_while_there_is_room() {
        let budget = Budget::new(256 << 20);
        let windows = windows(&budget);
        let first = windows.open(ContentLength::Unknown, None).expect("room");
        let mut content = 0;
        let mut grow = |windows: &Windows| {
            let mut changes = 0;
            for _ in 0..1000 {
                content += MIN;
                let change = windows.change(content);
                changes += u32::from(change.is_some_and(|change| change.stream.is_some()));
            }
            changes
        };
        assert_eq!(
            grow(&windows),
            4,
            "up to a hundredth of a quarter of 256 MiB"
        );
        let stream = u64::from(windows.0.borrow().stream);
        assert_eq!(stream, (64 << 20) / 100);
        let reserved = || budget.root().reserved_bytes();
        assert_eq!(
            (reserved(), connection(&windows)),
            (charged(stream), stream)
        );
        let second = windows.open(ContentLength::Unknown, None).expect("room");
        windows.change(1000 * MIN);
        let both = 2 * stream;
        assert_eq!((reserved(), connection(&windows)), (charged(both), both));
        drop(first);
        assert_eq!(reserved(), charged(stream));
        drop(second);
        assert_eq!(reserved(), 0);
        // Others have more than half.
        let windows = Windows::new(budget.root().lease(), 100);
        let _others = budget.root().lease().try_reserve(160 << 20).expect("room");
        let _third = windows.open(ContentLength::Unknown, None).expect("room");
        assert_eq!(grow(&windows), 0);
    }
}
