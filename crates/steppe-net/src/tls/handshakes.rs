//! Handshakes in progress on one worker: how many there may be, and whose turn it is.
//!
//! Invariants: of too many, the oldest that waits for its client gives way, which is no client that
//! answers; where all wait for this worker, the youngest does. A turn of the event loop has one
//! step of one handshake at most, so that connections which are established are served between
//! any two.

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
    /// Of these, those that wait for their turn here.
    waiting_for_turn: Cell<usize>,
    turns: Rc<Turns>,
}

/// Whose turn it is among all handshakes of a worker.
#[derive(Debug)]
pub struct Turns(Semaphore);

#[derive(Debug)]
struct Entry {
    state: Cell<State>,
    waits_for_turn: Cell<bool>,
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
            waiting_for_turn: Cell::new(0),
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
            waits_for_turn: Cell::new(false),
            waker: RefCell::default(),
        });
        let mut queue = inner.queue.borrow_mut();
        queue.push_back(Rc::clone(&entry));
        inner.in_progress.set(inner.in_progress.get() + 1);
        if inner.in_progress.get() > count_max.max(1) {
            inner.evict(inner.oldest_that_waits(&queue).unwrap_or(&entry));
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
    /// The oldest that waits for its client, but for the youngest of all.
    fn oldest_that_waits<'a>(&self, queue: &'a VecDeque<Rc<Entry>>) -> Option<&'a Rc<Entry>> {
        // Otherwise a crowd that all wait here would be searched for each that joins it.
        if self.waiting_for_turn.get() + 1 >= self.in_progress.get() {
            return None;
        }
        let mut older = queue.iter().take(queue.len() - 1);
        older.find(|entry| entry.state.get() == State::InProgress && !entry.waits_for_turn.get())
    }

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
    /// # Errors
    /// It was evicted meanwhile, and the step was not done.
    ///
    /// # Cancel safety
    /// The turn passes on.
    pub async fn step<T>(&self, step: impl FnOnce() -> T) -> Result<T, Evicted> {
        let waiting = WaitingForTurn::new(self);
        let turn = self.handshakes.0.turns.0.acquire().await;
        drop(waiting);
        if self.entry.state.get() == State::Evicted {
            return Err(Evicted);
        }
        let done = step();
        // Everybody who is ready runs before the next one's turn.
        tokio::task::yield_now().await;
        drop(turn);
        Ok(done)
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

/// Counts a handshake among those that wait for their turn.
struct WaitingForTurn<'a>(&'a InProgress);

impl<'a> WaitingForTurn<'a> {
    fn new(handshake: &'a InProgress) -> Self {
        let waiting = &handshake.handshakes.0.waiting_for_turn;
        waiting.set(waiting.get() + 1);
        handshake.entry.waits_for_turn.set(true);
        Self(handshake)
    }
}

impl Drop for WaitingForTurn<'_> {
    fn drop(&mut self) {
        let waiting = &self.0.handshakes.0.waiting_for_turn;
        waiting.set(waiting.get() - 1);
        self.0.entry.waits_for_turn.set(false);
    }
}

/// A handshake gave way to others.
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
    fn who_waits_here_does_not_give_way_to_whoever_comes() {
        let handshakes = Handshakes::new(Rc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let _turn = handshakes.0.turns.0.try_acquire().expect("it is free");
        let (first, second) = (handshakes.begin(2), handshakes.begin(2));
        {
            let mut step = std::pin::pin!(first.step(|| ()));
            assert!(step.as_mut().poll(&mut cx).is_pending());
            let _third = handshakes.begin(2);
            assert!(first.poll_evicted(&mut cx).is_pending());
            assert!(second.poll_evicted(&mut cx).is_ready());
        }
        let fourth = handshakes.begin(2);
        let mut steps = [&first, &fourth].map(|one| Box::pin(one.step(|| ())));
        assert!(
            steps
                .iter_mut()
                .all(|step| step.as_mut().poll(&mut cx).is_pending())
        );
        let fifth = handshakes.begin(2);
        assert!(fifth.poll_evicted(&mut cx).is_ready());
        assert!(first.poll_evicted(&mut cx).is_pending());
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
                    let done = slot.step(|| log.borrow_mut().push('h')).await;
                    done.expect("there is room");
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
