//! A task's place in the queue for bytes.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::LeaseSlot;
use crate::waiters::{BytesWanted, WaitingTask};

/// A task's place in the queue for bytes: empty until it has to wait.
///
/// The task keeps it between polls and drops it when it no longer waits; bytes drawn for it go to the next task then. A
/// place that is kept without being polled may hold bytes back.
#[derive(Debug, Default)]
pub struct Waiter {
    /// The lease of its place; `None`: it has no place.
    slot: Option<Arc<LeaseSlot>>,
    index: u32,
    /// Set while the task waits for its client to fall below its share: `index` is the ticket there.
    is_held_back: bool,
}

const _: () = assert!(size_of::<Waiter>() <= 16);

impl Waiter {
    /// True if the task has a place in a queue, or bytes that were drawn for it, or waits for its client to hold less.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.has_place() || self.is_held_back
    }

    /// True if the task has a place in a queue, or bytes that were drawn for it.
    pub(crate) fn has_place(&self) -> bool {
        self.slot.is_some()
    }

    /// The ticket in the queue of tasks whose client holds its share.
    pub(super) fn ticket(&self) -> Option<u32> {
        self.is_held_back.then_some(self.index)
    }

    /// Sets the ticket in that queue; `None`: the task is not in it.
    pub(super) fn set_ticket(&mut self, ticket: Option<u32>) {
        self.is_held_back = ticket.is_some();
        self.index = ticket.unwrap_or(self.index);
    }

    /// Polls for the bytes `wanted`, from the task's place if it has one.
    pub(super) fn poll(
        &mut self,
        slot: &Arc<LeaseSlot>,
        wanted: BytesWanted,
        waker: &Waker,
    ) -> Poll<()> {
        let ticket = None;
        let mut task = WaitingTask {
            wanted,
            waker,
            ticket,
        };
        let Some(known) = &self.slot else {
            return self.register(slot, task);
        };
        if Arc::ptr_eq(known, slot) {
            match slot.waiting().poll(self.index, wanted, waker) {
                Some(Poll::Pending) => return Poll::Pending,
                Some(Poll::Ready(granted)) => {
                    self.slot = None;
                    slot.account().give_back(granted - wanted.bytes);
                    return Poll::Ready(());
                }
                None => {}
            }
        }
        // The task wants other bytes than before.
        task.ticket = self.leave();
        self.register(slot, task)
    }

    fn register(&mut self, slot: &Arc<LeaseSlot>, task: WaitingTask<'_>) -> Poll<()> {
        let Some(index) = slot.waiting().register(slot.account(), task) else {
            self.slot = None;
            return Poll::Ready(());
        };
        self.slot = Some(Arc::clone(slot));
        self.index = index;
        Poll::Pending
    }

    /// Gives the place up, and its bytes to the next task.
    fn leave(&mut self) -> Option<u64> {
        let slot = self.slot.take()?;
        let left = slot.waiting().remove(self.index);
        match left.granted_bytes {
            Some(bytes) => slot.account().give_back(bytes),
            // Other tasks may have waited behind it.
            None => slot.account().grant_waiting(),
        }
        drop(left.waker);
        Some(left.ticket)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}
