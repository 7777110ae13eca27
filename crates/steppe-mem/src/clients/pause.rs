//! Tasks of connections stand still while the budget is in debt: none takes more, until those that were told to close
//! have given back what they held.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

use super::queue::ClientQueue;

/// Tasks that are not polled.
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
        // With the one of `holds`: a task that has its place too late for this wake sees the end.
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Has the tasks look again at what they are to do.
    pub(super) fn wake(&self) {
        self.tasks.wake(usize::MAX);
    }

    /// True when a task is to stand still; it is woken at the end. `ticket`: of its place among the others, once it has
    /// one.
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
