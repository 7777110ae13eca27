//! The state that the task of a connection to a server has.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use steppe_mem::Lease;

use super::queue::StreamQueue;
use super::server::Server;
use super::state::{WorkerState, turn};
use crate::config::Transport;
use crate::wire::first_message;

/// A connection to a server, for its task.
#[derive(Debug, Clone)]
pub(super) struct Connecting {
    pub(super) state: Weak<RefCell<WorkerState>>,
    pub(super) server: Rc<Server>,
    pub(super) queue: Rc<StreamQueue>,
    pub(super) lease: Lease,
    /// Number of its carrier.
    pub(super) number: u32,
    /// Id of the first message that resolves the server's address, if that is necessary.
    pub(super) id: u16,
}

impl Connecting {
    /// Handles the messages that are complete, and returns the number of their bytes.
    pub(super) fn hear(&self, bytes: &[u8]) -> usize {
        if first_message(bytes).is_none() {
            return 0;
        }
        let mut taken = 0;
        self.answered(|state, now| {
            while let Some(message) = first_message(&bytes[taken..]) {
                taken += 2 + message.len();
                state.message((self.number, Transport::Tcp), message, now);
            }
        });
        taken
    }

    /// Handles a query that has failed, while the connection goes on.
    pub(super) fn failed(&self, id: u16) {
        self.answered(|state, now| state.query_failed(self.number, id, now));
    }

    /// Handles a query that the server has not processed, which is sent again.
    pub(super) fn refused(&self, id: u16) {
        self.answered(|state, now| state.query_refused(self.number, id, now));
    }

    /// Retires the connection, which takes no further query.
    pub(super) fn leaves(&self) {
        if let Some(state) = self.state.upgrade() {
            turn(&state, |state, _| state.replace(self.number));
        }
    }

    /// Handles a response with `run`, and notes that the connection has answered.
    pub(super) fn answered(&self, run: impl FnOnce(&mut WorkerState, Instant)) {
        if self.queue.answered() {
            self.server.connected();
        }
        if let Some(state) = self.state.upgrade() {
            turn(&state, run);
        }
    }
}
