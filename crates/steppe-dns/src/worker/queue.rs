//! Queries that wait for a connection to a server to take them.
//!
//! Invariant: what waits is charged, and no more waits than a connection's worth of queries.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use steppe_mem::{Lease, OverBudget, Reservation};

use super::charged;
use crate::limits::STREAM_QUEUE_BYTES_MAX;

/// A query could not be sent.
#[derive(Debug)]
pub(super) struct NotSent;

/// The queue of one connection, each message with its length before it (RFC 1035 §4.2.2).
#[derive(Debug)]
pub(super) struct StreamQueue {
    bytes: RefCell<Vec<u8>>,
    charge: RefCell<Reservation>,
    /// Who takes them.
    task: RefCell<Option<Waker>>,
    /// Whether anything has come back.
    has_answered: Cell<bool>,
}

impl StreamQueue {
    /// The queue of a connection that takes `bytes` by itself.
    pub(super) fn new(lease: &Lease, bytes: usize) -> Result<Self, OverBudget> {
        Ok(Self {
            bytes: RefCell::default(),
            charge: RefCell::new(lease.try_reserve(bytes)?),
            task: RefCell::default(),
            has_answered: Cell::new(false),
        })
    }

    /// Adds a message.
    pub(super) fn push(&self, message: &[u8]) -> Result<(), NotSent> {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.len() + 2 + message.len() > STREAM_QUEUE_BYTES_MAX {
            return Err(NotSent);
        }
        let mut charge = self.charge.borrow_mut();
        charged::push(&mut bytes, &mut charge, message).map_err(|_| NotSent)?;
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
        Ok(())
    }

    /// Takes all that waits, in place of what was taken before and has been sent.
    pub(super) fn take(&self, into: &mut Vec<u8>) {
        charged::clear(into, &mut self.charge.borrow_mut());
        let mut bytes = self.bytes.borrow_mut();
        if !bytes.is_empty() {
            std::mem::swap(into, &mut bytes);
        }
    }

    /// Has `task` woken for what is added.
    pub(super) fn watch(&self, task: &Waker) {
        let mut watching = self.task.borrow_mut();
        if !watching.as_ref().is_some_and(|known| known.will_wake(task)) {
            *watching = Some(task.clone());
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.get()
    }

    /// A response has come. Says whether it is the first.
    pub(super) fn answered(&self) -> bool {
        !self.has_answered.replace(true)
    }
}
