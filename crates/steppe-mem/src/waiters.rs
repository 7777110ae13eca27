//! Who waits for bytes of an account: woken in the order of arrival.
//!
//! A task waits at the account that refused it. A waker may belong to a task
//! that has gone since, so workers wake the first now and then all the same
//! ([`crate::Account::wake_waiting`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<VecDeque<Waker>>);

impl Waiters {
    /// Queues `waker` unless the same task is queued already; `total` counts all queues of a tree.
    pub(crate) fn push(&self, waker: &Waker, total: &AtomicUsize) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.iter().any(|queued| queued.will_wake(waker)) {
            queue.push_back(waker.clone());
            total.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn wake_one(&self, total: &AtomicUsize) {
        let waker = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        if let Some(waker) = waker {
            total.fetch_sub(1, Ordering::SeqCst);
            waker.wake();
        }
    }
}
