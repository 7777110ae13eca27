//! A client's connection, as its task and the code that answers share it.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use steppe_mem::Reservation;
use tokio::sync::Notify;

use super::charged;
use crate::client::Client;
use crate::config::Protocol;
use crate::limits::{QUERIES_PER_CONNECTION_MAX, RESPONSE_BYTES_WAITING_MAX};

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) client: Client,
    /// Protocol of the connection.
    pub(super) protocol: Protocol,
    /// Local address that the client has connected to.
    pub(super) local: Option<IpAddr>,
}

/// The state of a client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    /// Responses that wait to be written.
    pub(super) out: RefCell<Vec<u8>>,
    pub(super) charge: RefCell<Reservation>,
    /// Questions that wait for their answer.
    pub(super) waiting: Cell<u16>,
    /// Questions that have come so far; the count wraps.
    pub(super) asked: Cell<u32>,
    pub(super) stage: Cell<Stage>,
    /// Notified when there is something to write, or room to read.
    pub(super) changed: Notify,
}

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// No further query is read; questions that wait are answered.
    Ends,
    /// The budget has no room for a response: the client has to ask again on another connection.
    Broken,
}

impl Connection {
    pub(super) fn new(peer: Peer, charge: Reservation) -> Self {
        Self {
            peer,
            out: RefCell::default(),
            charge: RefCell::new(charge),
            waiting: Cell::new(0),
            asked: Cell::new(0),
            stage: Cell::new(Stage::Open),
            changed: Notify::new(),
        }
    }

    /// Adds a response, its length before it. RFC 1035 §4.2.2.
    pub(super) fn push(&self, response: &[u8]) {
        let (mut out, mut charge) = (self.out.borrow_mut(), self.charge.borrow_mut());
        if charged::push(&mut out, &mut charge, response).is_err() {
            self.stage.set(Stage::Broken);
        }
        self.changed.notify_waiters();
    }

    /// Counts a question that has come.
    pub(super) fn begin_question(&self) {
        self.waiting.set(self.waiting.get() + 1);
        self.asked.set(self.asked.get().wrapping_add(1));
    }

    /// Counts that one of the questions that wait is answered.
    pub(super) fn answered(&self) {
        self.waiting.set(self.waiting.get().saturating_sub(1));
    }

    pub(super) fn can_ask(&self) -> bool {
        self.waiting.get() < QUERIES_PER_CONNECTION_MAX
            && self.out.borrow().len() < RESPONSE_BYTES_WAITING_MAX
    }

    /// Waits until `is_so` holds, which is checked after each notification of [`Self::changed`].
    pub(super) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(self) {
                return;
            }
            changed.await;
        }
    }
}
