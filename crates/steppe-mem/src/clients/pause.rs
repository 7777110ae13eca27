//! Paused tasks of connections, while the budget is in debt: none takes more, until the connections that were told to
//! close have given back their memory.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

use super::queue::ClientQueue;

/// The switch, and the tasks that wait for its end.
#[derive(Debug, Default)]
pub(super) struct Pause {
    is_on: AtomicBool,
    tasks: ClientQueue,
}

impl Pause {
    pub(super) fn begin(&self) {
        self.is_on.store(true, Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        // Pairs with the fence of `holds`: a task that is queued too late for this wake sees the end.
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Wakes all tasks, to check the state again.
    pub(super) fn wake(&self) {
        self.tasks.wake(usize::MAX);
    }

    /// True if a task is paused; it is woken at the end. `ticket`: that of its place in the queue, once it has one.
    pub(super) fn holds(&self, task: &Waker, ticket: &mut Option<u32>) -> bool {
        if !self.is_on.load(Ordering::SeqCst) {
            return false;
        }
        if ticket.is_none_or(|ticket| !self.tasks.has(ticket)) {
            *ticket = Some(self.tasks.push(task));
        }
        // The end may have come before the task had its place.
        fence(Ordering::SeqCst);
        self.is_on.load(Ordering::SeqCst)
    }
}
