//! Who waits for bytes of a budget: woken in the order of arrival.
//!
//! A waker may belong to a task that has gone since. To lose no wake-up to
//! one, a waiter that finds bytes wakes the next, and workers wake the first
//! now and then ([`crate::Account::wake_waiting`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Length of `queue`, to be read without its lock.
    count: AtomicUsize,
    queue: Mutex<VecDeque<Waker>>,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Queues `waker` unless the same task is queued already.
    pub(crate) fn push(&self, waker: &Waker) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.iter().any(|queued| queued.will_wake(waker)) {
            queue.push_back(waker.clone());
        }
        self.count.store(queue.len(), Ordering::SeqCst);
    }

    pub(crate) fn wake_one(&self) {
        if self.is_empty() {
            return;
        }
        let waker = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = queue.pop_front();
            self.count.store(queue.len(), Ordering::SeqCst);
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
