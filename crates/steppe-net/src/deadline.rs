//! Deadlines of connections that are cheap to reset.
//!
//! A runtime's timer takes a lock and a slot of the timer wheel each time it is
//! set, and a connection resets its deadline several times a request. Here a reset
//! is one store; a sweep every [`DEADLINE_TICK`] scans all deadlines and wakes the
//! tasks whose deadline has passed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock;
use crate::limits::DEADLINE_TICK;

/// The deadlines of one worker.
#[derive(Debug, Clone, Default)]
pub struct Deadlines(Rc<Table>);

/// The deadline of one task; unset at first.
#[derive(Debug)]
pub struct Deadline {
    entry: Rc<DeadlineEntry>,
    table: Rc<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: RefCell<Vec<Rc<DeadlineEntry>>>,
    /// Notified when the table is no longer empty: an empty table needs no sweeps.
    occupied: Notify,
}

#[derive(Debug)]
struct DeadlineEntry {
    at: Cell<Option<Instant>>,
    /// True once a sweep found that it has passed, until it is reset.
    is_late: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// Index in the table.
    index: Cell<usize>,
}

impl Deadlines {
    /// Adds a deadline for one task.
    #[must_use]
    pub fn add(&self) -> Deadline {
        let mut entries = self.0.entries.borrow_mut();
        let entry = Rc::new(DeadlineEntry {
            at: Cell::new(None),
            is_late: Cell::new(false),
            waker: RefCell::new(None),
            index: Cell::new(entries.len()),
        });
        entries.push(entry.clone());
        if entries.len() == 1 {
            self.0.occupied.notify_one();
        }
        Deadline {
            entry,
            table: self.0.clone(),
        }
    }

    /// Sweeps until the worker ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one task of a worker that finds late deadlines"
    )]
    pub async fn run(&self) {
        loop {
            if self.0.entries.borrow().is_empty() {
                self.0.occupied.notified().await;
            }
            tokio::time::sleep(DEADLINE_TICK).await;
            self.sweep(clock::now());
        }
    }

    /// Wakes every task with a deadline, to let it see that the node drains.
    pub fn wake_all(&self) {
        for entry in self.0.entries.borrow().iter() {
            if let Some(waker) = &*entry.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// Wakes the tasks whose deadline is not after `now`.
    fn sweep(&self, now: Instant) {
        for entry in self.0.entries.borrow().iter() {
            if entry.at.get().is_some_and(|at| at <= now) {
                entry.is_late.set(true);
                if let Some(waker) = &*entry.waker.borrow() {
                    waker.wake_by_ref();
                }
            }
        }
    }
}

impl Deadline {
    /// Sets it to `now + after`.
    pub fn set(&self, now: Instant, after: Duration) {
        self.set_at(now.checked_add(after));
    }

    /// Sets it, or clears it.
    pub fn set_at(&self, at: Option<Instant>) {
        // Setting the same instant again must not undo what the sweep found.
        if self.entry.at.replace(at) != at {
            self.entry.is_late.set(false);
        }
    }

    /// Clears it: it never passes.
    pub fn clear(&self) {
        self.set_at(None);
    }

    /// The instant that it is set to.
    #[must_use]
    pub fn at(&self) -> Option<Instant> {
        self.entry.at.get()
    }

    /// Ready once a sweep found that it has passed: at most a tick late.
    ///
    /// Does not read the clock, so it is cheap to call on every poll of a task.
    pub fn poll_passed(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.entry.is_late.get() {
            return Poll::Ready(());
        }
        self.watch(cx);
        Poll::Pending
    }

    fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.entry.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut entries = self.table.entries.borrow_mut();
        let index = self.entry.index.get();
        entries.swap_remove(index);
        if let Some(moved) = entries.get(index) {
            moved.index.set(index);
        }
        // After a peak of connections the table shrinks again.
        if entries.len() * 4 < entries.capacity() {
            let room = entries.len() * 2;
            entries.shrink_to(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use steppe_testkit::virtual_time;
    use tokio::task::spawn_local;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn only_late_tasks_are_woken() {
        let deadlines = Deadlines::default();
        let (first, second, third) = (deadlines.add(), deadlines.add(), deadlines.add());
        let (count, now) = (Arc::new(Count::default()), Instant::now());
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        first.set(now, Duration::from_secs(10));
        second.set(now, Duration::from_secs(20));
        for deadline in [&first, &second, &third] {
            assert!(deadline.poll_passed(&mut cx).is_pending());
        }
        assert_eq!(deadlines.0.entries.borrow().len(), 3);
        deadlines.sweep(now + Duration::from_secs(5));
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        deadlines.sweep(now + Duration::from_secs(15));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(first.poll_passed(&mut cx).is_ready());
        first.set(now, Duration::from_secs(30));
        deadlines.sweep(now + Duration::from_secs(25));
        assert_eq!(
            count.0.load(Ordering::SeqCst),
            2,
            "moved on, so only the second"
        );
        drop(second);
        deadlines.sweep(now + Duration::from_secs(35));
        assert_eq!(count.0.load(Ordering::SeqCst), 3);
        assert_eq!(deadlines.0.entries.borrow().len(), 2);
    }

    /// A task that waits for a deadline of `deadlines`, and how long it waited.
    fn wait(deadlines: &Deadlines) -> (Rc<Deadline>, tokio::task::JoinHandle<Duration>) {
        let (deadline, began_at) = (Rc::new(deadlines.add()), clock::now());
        let awaited = Rc::clone(&deadline);
        let waiting = spawn_local(async move {
            std::future::poll_fn(|cx| awaited.poll_passed(cx)).await;
            clock::now() - began_at
        });
        (deadline, waiting)
    }

    #[test]
    fn a_deadline_passes_when_it_is_due_and_at_most_a_tick_later() {
        virtual_time::run(async {
            let deadlines = Deadlines::default();
            let sweeping = deadlines.clone();
            spawn_local(async move { sweeping.run().await });
            // Nothing ticks before there is a deadline.
            virtual_time::pass(Duration::from_millis(1_003)).await;
            let (after, tick) = (Duration::from_secs(10), DEADLINE_TICK);
            let ((kept, keeping), (moved, moving), (cleared, clearing)) =
                (wait(&deadlines), wait(&deadlines), wait(&deadlines));
            for deadline in [&kept, &moved, &cleared] {
                deadline.set(clock::now(), after);
            }
            virtual_time::pass(Duration::from_secs(9)).await;
            moved.set(clock::now(), after);
            cleared.clear();
            virtual_time::pass(Duration::from_millis(999)).await;
            assert!(!keeping.is_finished());
            virtual_time::pass(tick).await;
            let waited = keeping.await.expect("it ends");
            assert!((after..=after + tick).contains(&waited), "{waited:?}");
            virtual_time::pass(Duration::from_secs(10)).await;
            let (waited, after) = (moving.await.expect("it ends"), Duration::from_secs(19));
            assert!((after..=after + tick).contains(&waited), "{waited:?}");
            assert!(!clearing.is_finished());
        });
    }
}
