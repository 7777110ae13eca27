//! A connection to a server, as the tasks know it that use it.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use steppe_mem::Lease;

use super::queue::StreamQueue;
use super::server::Server;
use super::state::{WorkerState, turn};
use crate::config::Transport;

/// A connection as its task knows it.
#[derive(Debug, Clone)]
pub(super) struct Connecting {
    pub(super) state: Weak<RefCell<WorkerState>>,
    pub(super) server: Rc<Server>,
    pub(super) queue: Rc<StreamQueue>,
    pub(super) lease: Lease,
    /// Of its carrier.
    pub(super) number: u32,
    /// Of a message, if its server's address has to be asked for.
    pub(super) id: u16,
}

impl Connecting {
    /// Takes the messages that are complete; says how many bytes they are.
    pub(super) fn hear(&self, bytes: &[u8]) -> usize {
        if message_in(bytes).is_none() {
            return 0;
        }
        let mut taken = 0;
        self.answered(|state, now| {
            while let Some(message) = message_in(&bytes[taken..]) {
                taken += 2 + message.len();
                state.message((self.number, Transport::Tcp), message, now);
            }
        });
        taken
    }

    /// A query has come to nothing, and the connection goes on.
    pub(super) fn failed(&self, id: u16) {
        self.answered(|state, now| state.query_failed(self.number, id, now));
    }

    /// The server has not processed a query, which is sent again.
    pub(super) fn refused(&self, id: u16) {
        self.answered(|state, now| state.query_refused(self.number, id, now));
    }

    /// The connection takes no further query.
    pub(super) fn leaves(&self) {
        if let Some(state) = self.state.upgrade() {
            turn(&state, |state, _| state.replace(self.number));
        }
    }

    /// Something has come back.
    pub(super) fn answered(&self, run: impl FnOnce(&mut WorkerState, Instant)) {
        if self.queue.answered() {
            self.server.connected();
        }
        if let Some(state) = self.state.upgrade() {
            turn(&state, run);
        }
    }
}

/// The first whole message. RFC 1035 §4.2.2.
pub(super) fn message_in(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*len)))
}
