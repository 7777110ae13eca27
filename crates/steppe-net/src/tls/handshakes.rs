//! Handshakes in progress on one worker: how many there may be, and whose turn it is.
//!
//! Invariants: of too many, the oldest gives way, which is no client that answers; and a turn of
//! the event loop has one step of one handshake at most, so that connections which are
//! established are served between any two.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Semaphore;

/// The handshakes of one listener on one worker.
#[derive(Debug, Clone)]
pub struct Handshakes(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The oldest first; those that are over are dropped when they get to the front.
    queue: RefCell<VecDeque<Rc<Entry>>>,
    in_progress: Cell<usize>,
    turns: Rc<Turns>,
}

/// Whose turn it is among all handshakes of a worker.
#[derive(Debug)]
pub struct Turns(Semaphore);

#[derive(Debug)]
struct Entry {
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InProgress,
    Evicted,
    Over,
}

/// A handshake in progress.
#[derive(Debug)]
pub struct InProgress {
    entry: Rc<Entry>,
    handshakes: Handshakes,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Handshakes {
    /// None yet, of those that take `turns`.
    #[must_use]
    pub fn new(turns: Rc<Turns>) -> Self {
        Self(Rc::new(Inner {
            queue: RefCell::default(),
            in_progress: Cell::new(0),
            turns,
        }))
    }

    /// How many are in progress.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.in_progress.get()
    }

    /// Begins one; where more than `count_max` are in progress then, the oldest is evicted.
    #[must_use]
    pub fn begin(&self, count_max: usize) -> InProgress {
        let inner = &self.0;
        let entry = Rc::new(Entry {
            state: Cell::new(State::InProgress),
            waker: RefCell::default(),
        });
        let mut queue = inner.queue.borrow_mut();
        queue.push_back(Rc::clone(&entry));
        inner.in_progress.set(inner.in_progress.get() + 1);
        while inner.in_progress.get() > count_max.max(1) {
            let Some(oldest) = queue.pop_front() else {
                break;
            };
            inner.evict(&oldest);
        }
        inner.compact(&mut queue);
        drop(queue);
        InProgress {
            entry,
            handshakes: self.clone(),
        }
    }
}

impl Inner {
    fn evict(&self, entry: &Entry) {
        if entry.state.get() == State::InProgress {
            entry.state.set(State::Evicted);
            self.in_progress.set(self.in_progress.get() - 1);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }

    /// Drops those that are over: at the front, and all of them once they are most of it.
    fn compact(&self, queue: &mut VecDeque<Rc<Entry>>) {
        let is_over = |entry: &Rc<Entry>| entry.state.get() != State::InProgress;
        while queue.front().is_some_and(is_over) {
            queue.pop_front();
        }
        if queue.len() > 2 * self.in_progress.get() + 64 {
            queue.retain(|entry| !is_over(entry));
        }
    }
}

impl InProgress {
    /// Ready when it has to give way.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.entry.state.get() == State::Evicted {
            return Poll::Ready(());
        }
        let mut waker = self.entry.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Does a step that takes long, when it is this handshake's turn.
    ///
    /// # Cancel safety
    /// The turn passes on.
    pub async fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        let turn = self.handshakes.0.turns.0.acquire().await;
        let done = step();
        // Everybody who is ready runs before the next one's turn.
        tokio::task::yield_now().await;
        drop(turn);
        done
    }

    /// Waits for `ready`, unless it has to give way before.
    ///
    /// # Errors
    /// It was evicted.
    pub async fn unless_evicted<T>(
        &self,
        mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Evicted> {
        poll_fn(|cx| match ready(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => self.poll_evicted(cx).map(|()| Err(Evicted)),
        })
        .await
    }
}

/// A handshake gave way to younger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted;

impl Drop for InProgress {
    fn drop(&mut self) {
        let inner = &self.handshakes.0;
        if self.entry.state.replace(State::Over) == State::InProgress {
            inner.in_progress.set(inner.in_progress.get() - 1);
        }
        inner.compact(&mut inner.queue.borrow_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way_and_what_is_over_is_forgotten() {
        let handshakes = Handshakes::new(Rc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let first = handshakes.begin(2);
        let second = handshakes.begin(2);
        assert!(first.poll_evicted(&mut cx).is_pending());
        let third = handshakes.begin(2);
        assert!(first.poll_evicted(&mut cx).is_ready());
        assert!(second.poll_evicted(&mut cx).is_pending());
        drop(second);
        let fourth = handshakes.begin(2);
        assert!(third.poll_evicted(&mut cx).is_pending());
        assert_eq!(handshakes.count(), 2);
        drop((first, third, fourth));
        assert_eq!(handshakes.count(), 0);
        for _ in 0..1000 {
            let _short = handshakes.begin(2);
        }
        assert!(handshakes.0.queue.borrow().len() < 70);
    }

    #[test]
    fn between_two_steps_everybody_else_runs() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let local = tokio::task::LocalSet::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        local.block_on(&runtime.expect("a runtime"), async {
            let handshakes = Handshakes::new(Rc::default());
            let mut tasks = Vec::new();
            for _ in 0..8 {
                let (log, slot) = (Rc::clone(&log), handshakes.begin(100));
                tasks.push(tokio::task::spawn_local(async move {
                    slot.step(|| log.borrow_mut().push('h')).await;
                }));
            }
            let log = Rc::clone(&log);
            tasks.push(tokio::task::spawn_local(async move {
                for _ in 0..8 {
                    log.borrow_mut().push('e');
                    tokio::task::yield_now().await;
                }
            }));
            for task in tasks {
                task.await.expect("it ends");
            }
        });
        let log: String = log.borrow().iter().collect();
        assert!(!log.contains("hh"), "{log}");
    }
}
