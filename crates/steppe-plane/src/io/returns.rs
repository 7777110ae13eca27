//! Standing credit on its way back, and the driver that tells of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use steppe_mem::Reservation;

use super::stream::wait;
use crate::connection::{Connection, StreamId};
use crate::table::drain;

/// What whoever holds a message tells the driver. A lock of its own: messages are dropped while
/// that of the link is held.
#[derive(Debug)]
pub(crate) struct Returns {
    told: Mutex<Told>,
    /// Standing credit, for as long as the connection or a message on it lives.
    _standing: Reservation,
}

/// What a message that is held owes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owed {
    pub(super) stream: StreamId,
    /// Standing credit of the stream.
    pub(super) of_stream: u64,
    /// Standing credit of the connection; 0 where the message is charged to the budget.
    pub(super) of_connection: u64,
}

#[derive(Debug, Default)]
struct Told {
    /// Of messages that were dropped: an entry costs no more than they did.
    owed: Vec<Owed>,
    driver: Option<Waker>,
}

impl Owed {
    /// Whether there is anything to give back.
    pub(super) fn is_some(self) -> bool {
        self.of_stream + self.of_connection > 0
    }

    pub(super) fn release(self, connection: &mut Connection) {
        connection.release_connection(self.of_connection);
        connection.release_stream(self.stream, self.of_stream);
    }
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
    pub(super) fn give_back(&self, owed: Owed) {
        let mut told = self.lock();
        match told.owed.last_mut() {
            Some(last) if last.stream == owed.stream => {
                last.of_stream += owed.of_stream;
                last.of_connection += owed.of_connection;
            }
            _ => told.owed.push(owed),
        }
        drop(told);
        self.wake();
    }

    /// Releases what was given back, and has `driver` woken for more.
    pub(super) fn take(&self, connection: &mut Connection, driver: &Waker) {
        let mut told = self.lock();
        drain(&mut told.owed, |owed| owed.release(connection));
        wait(&mut told.driver, driver);
    }
}
