//! How much content a peer may send before it is taken, on all streams of a connection.
//!
//! Every stream has the same window, and the connection's is that of all of its streams together:
//! a stream that nobody takes from holds up no other. What a stream may send is charged while it
//! is open. Where a few streams fill their windows again and again and the budget has room, all
//! windows grow, up to where those of all streams together are a quarter of the budget.
//!
//! Windows never shrink, and begin at the protocol's own 65,535: a peer may have sent more than a
//! smaller one allows before it hears of that, and the `h2` crate (0.4.20) then owes it a
//! WINDOW_UPDATE that it never sends.

use std::cell::RefCell;
use std::rc::Rc;

use steppe_mem::{Lease, OverBudget, Reservation};

use crate::head::ContentLength;
use crate::limits::{STREAM_WINDOW_BYTES_MAX, STREAM_WINDOW_BYTES_MIN};

/// Windows of one connection.
#[derive(Debug, Clone)]
pub(super) struct Windows(Rc<RefCell<Sizes>>);

/// In bytes.
#[derive(Debug)]
struct Sizes {
    lease: Lease,
    streams_max: u32,
    /// Of each stream, now and at most.
    stream: u32,
    stream_max: u32,
    /// Streams that may send.
    open: usize,
    /// What their windows have grown by since they began; `None` where they have not.
    grown: Option<Reservation>,
    /// Content that had come in all when windows changed last.
    since: u64,
    /// The peer was not told yet that they have.
    is_untold: bool,
}

/// The window of one stream, until the peer sends nothing more that is kept.
#[derive(Debug)]
pub(super) struct Window {
    windows: Windows,
    /// When it began.
    bytes: u32,
    _charge: Reservation,
}

/// What a peer is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) stream: u32,
    pub(super) connection: u32,
}

impl Windows {
    /// Of a connection of at most `streams_max` streams.
    pub(super) fn new(lease: Lease, streams_max: usize) -> Self {
        let share = lease.account().limit_bytes() / 4 / streams_max.max(1) as u64;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Self(Rc::new(RefCell::new(Sizes {
            lease,
            streams_max: u32::try_from(streams_max).unwrap_or(u32::MAX),
            stream: STREAM_WINDOW_BYTES_MIN,
            stream_max: share.clamp(STREAM_WINDOW_BYTES_MIN, STREAM_WINDOW_BYTES_MAX),
            open: 0,
            grown: None,
            since: 0,
            is_untold: false,
        })))
    }

    /// Those that hold now.
    pub(super) fn now(&self) -> Change {
        self.0.borrow().now()
    }

    /// A stream that may send begins: as much as its window, or as its head says.
    ///
    /// # Errors
    /// Where the budget has no room for that.
    pub(super) fn open(&self, length: ContentLength) -> Result<Window, OverBudget> {
        let mut sizes = self.0.borrow_mut();
        let bytes = match length {
            ContentLength::Empty => 0,
            ContentLength::Known(bytes) => bytes.min(sizes.stream.into()),
            ContentLength::Unknown => sizes.stream.into(),
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let window = Window {
            windows: self.clone(),
            bytes: sizes.stream,
            _charge: sizes.lease.try_reserve(bytes)?,
        };
        sizes.open += 1;
        Ok(window)
    }

    /// `content` bytes have come in all: what the peer is to be told, until it was.
    pub(super) fn change(&self, content: u64) -> Option<Change> {
        let mut sizes = self.0.borrow_mut();
        sizes.is_untold |= sizes.grow(content);
        sizes.is_untold.then(|| sizes.now())
    }

    /// The peer was told of the last change.
    pub(super) fn told(&self) {
        self.0.borrow_mut().is_untold = false;
    }
}

impl Sizes {
    fn now(&self) -> Change {
        Change {
            stream: self.stream,
            connection: (self.stream.saturating_mul(self.streams_max)).min(i32::MAX.unsigned_abs()),
        }
    }

    /// Whether windows have grown.
    fn grow(&mut self, content: u64) -> bool {
        const FILLED: u64 = 4;
        let filled = u64::from(self.stream) * self.open.max(1) as u64 * FILLED;
        if self.open == 0 || content - self.since < filled {
            return false;
        }
        self.since = content;
        let account = self.lease.account();
        let is_roomy = account.headroom_bytes() > account.limit_bytes() / 2;
        let stream = self.stream.saturating_mul(2).min(self.stream_max);
        if !is_roomy || stream == self.stream {
            return false;
        }
        let more = self.open * (stream - self.stream) as usize;
        let is_charged = match &mut self.grown {
            Some(grown) => grown.try_grow(more).is_ok(),
            None => {
                self.grown = self.lease.try_reserve(more).ok();
                self.grown.is_some()
            }
        };
        if is_charged {
            self.stream = stream;
        }
        is_charged
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut sizes = self.windows.0.borrow_mut();
        sizes.open -= 1;
        let more = (sizes.stream - self.bytes) as usize;
        if sizes.open == 0 {
            sizes.grown = None;
        } else if let Some(grown) = &mut sizes.grown {
            grown.shrink(more.min(grown.bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    const MIN: u64 = STREAM_WINDOW_BYTES_MIN as u64;

    #[test]
    fn each_stream_that_may_send_is_charged_what_it_may() {
        let budget = Budget::new(4 << 20);
        let windows = Windows::new(budget.root().lease(), 100);
        let first = windows.now();
        assert_eq!(u64::from(first.stream), MIN);
        assert_eq!(u64::from(first.connection), 100 * MIN);
        let reserved = || budget.root().reserved_bytes();
        let small = windows.open(ContentLength::Known(7)).expect("room");
        let large = windows.open(ContentLength::Known(1 << 40)).expect("room");
        assert_eq!(reserved(), MIN + 7);
        drop((small, large));
        let mut open = Vec::new();
        while let Ok(window) = windows.open(ContentLength::Unknown) {
            open.push(window);
        }
        assert!(reserved() + MIN > 4 << 20, "refused at the limit alone");
        drop(open);
        assert_eq!((reserved(), windows.0.borrow().open), (0, 0));
    }

    #[test]
    fn a_change_is_told_until_the_peer_has_it() {
        let budget = Budget::new(256 << 20);
        let windows = Windows::new(budget.root().lease(), 100);
        let _window = windows.open(ContentLength::Unknown).expect("room");
        assert_eq!(windows.change(0), None);
        let change = windows.change(4 * MIN);
        assert_eq!(change.map(|change| u64::from(change.stream)), Some(2 * MIN));
        assert_eq!(windows.change(4 * MIN), change, "it was not told yet");
        windows.told();
        assert_eq!(windows.change(4 * MIN), None);
    }

    #[test]
    fn windows_grow_while_there_is_room() {
        let budget = Budget::new(256 << 20);
        let windows = Windows::new(budget.root().lease(), 100);
        let first = windows.open(ContentLength::Unknown).expect("room");
        let mut content = 0;
        let mut grow = |windows: &Windows| {
            let mut changes = 0;
            for _ in 0..1000 {
                content += MIN;
                changes += u32::from(windows.change(content).is_some());
                windows.told();
            }
            changes
        };
        assert_eq!(
            grow(&windows),
            4,
            "up to a hundredth of a quarter of 256 MiB"
        );
        assert_eq!(u64::from(windows.now().stream), (64 << 20) / 100);
        let reserved = || budget.root().reserved_bytes();
        assert_eq!(reserved(), u64::from(windows.now().stream));
        let second = windows.open(ContentLength::Unknown).expect("room");
        assert_eq!(reserved(), 2 * u64::from(windows.now().stream));
        drop(first);
        assert_eq!(reserved(), u64::from(windows.now().stream));
        drop(second);
        assert_eq!(reserved(), 0);
        // Others have more than half.
        let windows = Windows::new(budget.root().lease(), 100);
        let _others = budget.root().lease().try_reserve(160 << 20).expect("room");
        let _third = windows.open(ContentLength::Unknown).expect("room");
        assert_eq!(grow(&windows), 0);
    }
}
