//! Standing credit on its way back, and the driver that tells of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use steppe_mem::Reservation;

use super::stream::wait;
use crate::connection::{Connection, StreamId};

/// What whoever holds a message tells the driver. A lock of its own: messages are dropped while
/// that of the link is held.
#[derive(Debug)]
pub(crate) struct Returns {
    told: Mutex<Told>,
    /// Standing credit, for as long as the connection or a message on it lives.
    _standing: Reservation,
}

#[derive(Debug, Default)]
struct Told {
    /// Of messages that were dropped: an entry costs no more than they did.
    costs: Vec<(StreamId, u64)>,
    driver: Option<Waker>,
}

impl Returns {
    pub(super) fn new(standing: Reservation) -> Self {
        Self {
            told: Mutex::default(),
            _standing: standing,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver look at what is new.
    pub(super) fn wake(&self) {
        let driver = self.lock().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// A message was dropped.
    pub(super) fn give_back(&self, stream: StreamId, cost: u64) {
        let mut told = self.lock();
        match told.costs.last_mut() {
            Some((last, sum)) if *last == stream => *sum += cost,
            _ => told.costs.push((stream, cost)),
        }
        drop(told);
        self.wake();
    }

    /// Releases what was given back, and has `driver` woken for more.
    pub(super) fn take(&self, connection: &mut Connection, driver: &Waker) {
        let mut told = self.lock();
        for (stream, cost) in told.costs.drain(..) {
            connection.release(stream, cost);
        }
        wait(&mut told.driver, driver);
    }
}
