//! Return of standing credit: from dropped messages to the driver.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use steppe_mem::Reservation;

use super::stream::wait;
use crate::connection::{Connection, StreamId};
use crate::table::drain;

/// The credit of dropped messages, until the driver returns it to the peer. It has its own lock, since messages
/// are dropped while the link is locked.
#[derive(Debug)]
pub(crate) struct Returns {
    told: Mutex<Told>,
    /// Memory of the standing credit, reserved while the connection or a message on it lives.
    _standing: Reservation,
}

/// Standing credit that a message owes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owed {
    pub(super) stream: StreamId,
    /// Standing credit of the stream.
    pub(super) of_stream: u64,
    /// Standing credit of the connection; 0 if the message is charged to the budget.
    pub(super) of_connection: u64,
}

#[derive(Debug, Default)]
struct Told {
    /// Credit of dropped messages. Each entry is smaller than its message was.
    owed: Vec<Owed>,
    driver: Option<Waker>,
}

impl Owed {
    /// True if credit is owed.
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

    /// Wakes the driver, to handle a change.
    pub(super) fn wake(&self) {
        let driver = self.lock().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Adds the credit of a dropped message, and wakes the driver.
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

    /// Releases the credit of dropped messages, and registers `driver` to be woken for more.
    pub(super) fn take(&self, connection: &mut Connection, driver: &Waker) {
        let mut told = self.lock();
        drain(&mut told.owed, |owed| owed.release(connection));
        wait(&mut told.driver, driver);
    }
}
