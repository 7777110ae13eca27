//! Queries that wait for a connection to a server to take them.
//!
//! Invariant: queries that wait are charged, and there are no more than one connection may have out.

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
    /// Task that takes the queries.
    task: RefCell<Option<Waker>>,
    /// True once a response has come.
    has_answered: Cell<bool>,
}

impl StreamQueue {
    /// The queue of a connection; `bytes` are charged for the connection itself.
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

    /// Moves all queries to `into`, in place of those that were taken before and have been sent.
    pub(super) fn take(&self, into: &mut Vec<u8>) {
        charged::clear(into, &mut self.charge.borrow_mut());
        let mut bytes = self.bytes.borrow_mut();
        if !bytes.is_empty() {
            std::mem::swap(into, &mut bytes);
        }
    }

    /// Sets the task that is woken when a query is added.
    pub(super) fn watch(&self, task: &Waker) {
        let mut watching = self.task.borrow_mut();
        if !watching.as_ref().is_some_and(|known| known.will_wake(task)) {
            *watching = Some(task.clone());
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.get()
    }

    /// Notes that a response has come. True if it is the first.
    pub(super) fn answered(&self) -> bool {
        !self.has_answered.replace(true)
    }
}
