//! Tasks of one client that wait for it to hold less: first in, first out.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use crate::lock::lock;

/// Bytes for which one more task is woken: about the smallest reservation of a task.
const BYTES_A_TASK: u64 = 16 << 10;

#[derive(Debug, Default)]
pub(super) struct ClientQueue {
    /// The queue's length: written under the lock, read without it to see that no task waits.
    len: AtomicUsize,
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    wakers: VecDeque<Waker>,
    /// The ticket of the first task; the others follow in order. It wraps.
    first: u32,
}

impl ClientQueue {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// True if the task with this ticket still waits.
    pub(super) fn has(&self, ticket: u32) -> bool {
        let tasks = lock(&self.tasks);
        (ticket.wrapping_sub(tasks.first) as usize) < tasks.wakers.len()
    }

    /// Puts a task last. Returns its ticket.
    pub(super) fn push(&self, task: &Waker) -> u32 {
        let mut tasks = lock(&self.tasks);
        let place = u32::try_from(tasks.wakers.len()).unwrap_or(u32::MAX);
        tasks.wakers.push_back(task.clone());
        self.len.store(tasks.wakers.len(), Ordering::Relaxed);
        tasks.first.wrapping_add(place)
    }

    /// Wakes the first tasks, as many as `bytes` suffice for, one at least.
    pub(super) fn wake_for(&self, bytes: u64) {
        let count = usize::try_from(bytes / BYTES_A_TASK).unwrap_or(usize::MAX);
        self.wake(count.max(1));
    }

    /// Wakes the first `count` tasks.
    pub(super) fn wake(&self, count: usize) {
        if self.len() == 0 {
            return;
        }
        let mut tasks = lock(&self.tasks);
        let count = count.min(tasks.wakers.len());
        let woken: Vec<_> = tasks.wakers.drain(..count).collect();
        tasks.first = tasks.first.wrapping_add(u32::try_from(count).unwrap_or(0));
        if tasks.wakers.is_empty() {
            tasks.wakers = VecDeque::new();
        }
        self.len.store(tasks.wakers.len(), Ordering::Relaxed);
        drop(tasks);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_tell_who_still_waits() {
        let queue = ClientQueue::default();
        let tickets = [(); 3].map(|()| queue.push(Waker::noop()));
        assert_eq!(tickets.map(|ticket| queue.has(ticket)), [true; 3]);
        queue.wake_for(0);
        assert_eq!(tickets.map(|ticket| queue.has(ticket)), [false, true, true]);
        let last = queue.push(Waker::noop());
        queue.wake_for(2 * BYTES_A_TASK);
        assert_eq!(tickets.map(|ticket| queue.has(ticket)), [false; 3]);
        assert!(queue.has(last));
        queue.wake(usize::MAX);
        assert!(!queue.has(last) && queue.len() == 0);
    }
}
