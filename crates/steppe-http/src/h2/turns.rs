//! A scheduler of content over the streams of a connection that takes less than they have. Spec:
//! RFC 9218.
//!
//! Content that a connection was handed can't be put in another order, and is kept for as long as the peer takes
//! nothing. So it is handed little at a time, and nothing while the connection is blocked. The most urgent goes
//! first; among equals the one that waits longest, unless it is to be sent whole: that one goes on until it is.
//!
//! Heads wait for their turns, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::priority::Priority;
use crate::limits::{CONTENT_PARTS_HANDED_MAX, H2_CONNECTION_SEND_BYTES_MAX};

/// The order among the streams of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Rc<TurnState>);

#[derive(Debug, Default)]
struct TurnState {
    /// The peer takes nothing at the moment.
    is_blocked: Cell<bool>,
    /// Bytes handed over since the connection's task looked last.
    handed: Cell<usize>,
    /// Turns that were taken in all.
    taken: Cell<u64>,
    /// Times that the task had written all that it was handed.
    written: Cell<u64>,
    /// `None` where it was woken: it keeps its place until it comes.
    waiting: RefCell<BTreeMap<TurnOrder, Option<Waker>>>,
    /// Those that wait for the window of the connection, which holds up no heads.
    without_window: RefCell<BTreeMap<TurnOrder, Waker>>,
}

/// The least goes first: by urgency, then by the turn that it began or had last, then by stream.
type TurnOrder = (u8, u64, u32);

/// A stream's.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    priority: Priority,
    stream: u32,
    /// When it began, or had its last.
    last: u64,
    /// While it waits.
    place: Option<TurnOrder>,
    /// While it waits for the window of the connection.
    place_without_window: Option<TurnOrder>,
    /// Turns that others had while it waited.
    passed: u64,
}

impl Turns {
    /// A turn for the stream with this number.
    pub(super) fn of(&self, stream: u32, priority: Priority) -> Turn {
        Turn {
            turns: self.clone(),
            priority,
            stream,
            last: self.0.taken.get(),
            place: None,
            place_without_window: None,
            passed: 0,
        }
    }

    /// Times that the task had written all that it was handed. See [`Turn::poll_written`].
    pub(super) fn writings(&self) -> u64 {
        self.0.written.get()
    }

    /// True when nothing waits for its turn.
    pub(super) fn is_free(&self) -> bool {
        !self.0.is_blocked.get() && self.0.waiting.borrow().is_empty()
    }

    /// The peer has not taken all that was handed over.
    pub(super) fn block(&self) {
        self.0.is_blocked.set(true);
    }

    /// Marks the connection as writable again.
    pub(super) fn go_on(&self) {
        self.0.is_blocked.set(false);
        self.0.handed.set(0);
        self.0.written.set(self.0.written.get() + 1);
        self.wake();
    }

    /// The connection is over: those that wait are to see that.
    pub(super) fn end(&self) {
        self.0.is_blocked.set(false);
        self.0.handed.set(0);
        self.0.written.set(u64::MAX);
        let waiting = self.0.waiting.take();
        waiting.into_values().flatten().for_each(Waker::wake);
        let waiting = self.0.without_window.take();
        waiting.into_values().for_each(Waker::wake);
    }

    /// The window of the connection is open: as many as may write go on, the most urgent first.
    pub(super) fn open_window(&self) {
        let mut waiting = self.0.without_window.borrow_mut();
        for _ in 0..CONTENT_PARTS_HANDED_MAX {
            let Some((_, waker)) = waiting.pop_first() else {
                return;
            };
            waker.wake();
        }
    }

    /// Wakes as many as there is room for, the most urgent first.
    fn wake(&self) {
        if self.0.is_blocked.get() {
            return;
        }
        let mut waiting = self.0.waiting.borrow_mut();
        let first = waiting.values_mut().take(CONTENT_PARTS_HANDED_MAX);
        first.filter_map(Option::take).for_each(Waker::wake);
    }
}

impl Turn {
    /// Turns that others had while it waited: it moves while it is nobody's fault but theirs.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Ready when the task has written all since it had done so `written` times.
    pub(super) fn poll_written(&mut self, cx: &mut Context<'_>, written: u64) -> Poll<()> {
        self.leave();
        if self.turns.0.written.get() > written {
            self.pass();
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    /// Ready when the stream may hand content over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.leave();
        let state = &*self.turns.0;
        let place = self.next_place();
        let waiting = state.waiting.borrow();
        let is_free = !state.is_blocked.get() && state.handed.get() < H2_CONNECTION_SEND_BYTES_MAX;
        let is_first = (waiting.first_key_value()).is_none_or(|(first, _)| place < *first);
        if is_free && is_first {
            return Poll::Ready(());
        }
        drop(waiting);
        self.wait(cx);
        Poll::Pending
    }

    /// Its place among those that wait.
    fn next_place(&self) -> TurnOrder {
        (self.priority.urgency, self.last, self.stream)
    }

    /// Waits until the window of the connection opens.
    pub(super) fn wait_for_window(&mut self, cx: &mut Context<'_>) {
        self.leave();
        let place = self.next_place();
        let state = &*self.turns.0;
        let waker = cx.waker().clone();
        state.without_window.borrow_mut().insert(place, waker);
        self.place_without_window = Some(place);
        self.passed = state.taken.get();
        self.pass();
    }

    /// Changes the priority of what is not handed over.
    pub(super) fn set_priority(&mut self, priority: Priority) {
        self.leave();
        self.priority = priority;
    }

    /// Waits until the connection has written more, or for others.
    pub(super) fn wait(&mut self, cx: &mut Context<'_>) {
        let state = &*self.turns.0;
        let place = self.next_place();
        let waker = Some(cx.waker().clone());
        state.waiting.borrow_mut().insert(place, waker);
        self.place = Some(place);
        self.passed = state.taken.get();
    }

    /// Waits no more.
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.turns.0.waiting.borrow_mut().remove(&place);
        }
        if let Some(place) = self.place_without_window.take() {
            self.turns.0.without_window.borrow_mut().remove(&place);
        }
    }

    /// Notes that the stream handed over so many bytes.
    pub(super) fn take(&mut self, bytes: usize) {
        let state = &*self.turns.0;
        state.handed.set(state.handed.get() + bytes);
        state.taken.set(state.taken.get() + 1);
        if self.priority.is_incremental {
            self.last = state.taken.get();
        }
    }

    /// Passes the turn on: the stream has nothing that the peer would take.
    pub(super) fn pass(&self) {
        self.turns.wake();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
        self.pass();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const SHARED: Priority = Priority::SHARED;
    const WHOLE: Priority = Priority {
        is_incremental: false,
        ..SHARED
    };
    const URGENT: Priority = Priority {
        urgency: 0,
        ..SHARED
    };

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The order in which streams of these numbers and priorities hand over parts, in `rounds` looks of
    /// a connection that takes one part each time.
    fn order(streams: &[(u32, Priority)], rounds: usize) -> Vec<u32> {
        let turns = Turns::default();
        turns.block();
        let waker = Waker::from(Arc::new(Woken::default()));
        let mut cx = Context::from_waker(&waker);
        let mut all: Vec<_> = (streams.iter())
            .map(|&(stream, priority)| turns.of(stream, priority))
            .collect();
        let mut order = Vec::new();
        for _ in 0..rounds {
            assert!(all.iter_mut().all(|turn| turn.poll(&mut cx).is_pending()));
            turns.0.is_blocked.set(false);
            turns.0.handed.set(0);
            let mut ready = (all.iter_mut()).filter_map(|turn| {
                let is_ready = turn.poll(&mut cx).is_ready();
                is_ready.then_some(turn)
            });
            let first = ready.next().expect("one goes first");
            first.take(H2_CONNECTION_SEND_BYTES_MAX);
            order.push(first.stream);
            turns.0.is_blocked.set(true);
        }
        order
    }

    #[test]
    fn equals_share_and_the_urgent_go_first() {
        let shared = [(1, SHARED), (3, SHARED), (5, SHARED)];
        assert_eq!(order(&shared, 6), [1, 3, 5, 1, 3, 5]);
        assert_eq!(order(&[(1, SHARED), (3, URGENT)], 3), [3, 3, 3]);
        assert_eq!(order(&[(1, WHOLE), (3, WHOLE)], 3), [1, 1, 1]);
        assert_eq!(order(&[(1, SHARED), (3, WHOLE)], 4), [1, 3, 3, 3]);
    }

    #[test]
    fn no_more_wake_than_there_is_room_for() {
        let turns = Turns::default();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        turns.block();
        let mut all: Vec<_> = (0..10).map(|stream| turns.of(stream, SHARED)).collect();
        assert!(all.iter_mut().all(|turn| turn.poll(&mut cx).is_pending()));
        turns.block();
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        turns.go_on();
        assert_eq!(woken.0.load(Ordering::Relaxed), CONTENT_PARTS_HANDED_MAX);
        // One is gone: the next goes on.
        drop(all.remove(0));
        assert_eq!(
            woken.0.load(Ordering::Relaxed),
            CONTENT_PARTS_HANDED_MAX + 1
        );
        turns.end();
        assert_eq!(woken.0.load(Ordering::Relaxed), 10);
        assert!(all[8].poll(&mut cx).is_ready());
        all[8].take(H2_CONNECTION_SEND_BYTES_MAX);
        assert!(all[7].poll(&mut cx).is_pending() && all[7].passed() > 0);
        drop(all);
        assert!(turns.0.waiting.borrow().is_empty());
    }
}
