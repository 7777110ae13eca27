//! The carriers of queries to servers: UDP sockets at random ports, and connections. Each has a number, by which
//! the table of attempts refers to it.
//!
//! Invariant: a number is free again only when no query is out on its carrier, and its reader has ended.

use std::rc::Rc;
use std::time::Instant;

use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::queue::StreamQueue;
use super::server::Server;
use crate::limits::{QUERIES_PER_SOCKET_MAX, SOCKET_TIME_MAX};

/// A UDP socket or a connection to a server.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) server: Rc<Server>,
    pub(super) means: Means,
    pub(super) queries: u16,
    pub(super) stage: Stage,
    opened_at: Instant,
    /// The task that reads the carrier, which ends with it.
    reader: Option<AbortHandle>,
}

#[derive(Debug, Clone)]
pub(super) enum Means {
    Datagrams(Rc<UdpSocket>),
    Stream(Rc<StreamQueue>),
}

/// The stage of a carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    InUse,
    /// No further query goes on it; responses are awaited.
    Retired,
}

/// All carriers of a worker, by number.
#[derive(Debug)]
pub(super) struct Carriers {
    places: Box<[Option<Carrier>]>,
    free: Vec<u32>,
}

impl Carrier {
    pub(super) fn new(server: Rc<Server>, means: Means, now: Instant) -> Self {
        Self {
            server,
            means,
            queries: 0,
            stage: Stage::InUse,
            opened_at: now,
            reader: None,
        }
    }

    /// True if it is a UDP socket that has been in use for long enough.
    pub(super) fn is_worn(&self, now: Instant) -> bool {
        let is_datagrams = matches!(self.means, Means::Datagrams(_));
        let is_old = now.saturating_duration_since(self.opened_at) >= SOCKET_TIME_MAX;
        is_datagrams && (is_old || self.queries >= QUERIES_PER_SOCKET_MAX)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

impl Carriers {
    /// Bytes of a carrier, without those of the runtime and the kernel.
    pub(super) const BYTES_EACH: usize = size_of::<Option<Carrier>>() + 4;

    pub(super) fn new(count: u32) -> Self {
        Self {
            places: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// Adds a carrier, and returns its number. `None`: there is no room.
    pub(super) fn insert(&mut self, carrier: Carrier) -> Option<u32> {
        let number = self.free.pop()?;
        self.places[number as usize] = Some(carrier);
        Some(number)
    }

    /// Sets the task that reads a carrier.
    pub(super) fn set_reader(&mut self, number: u32, reader: AbortHandle) {
        if let Some(carrier) = self.get_mut(number) {
            carrier.reader = Some(reader);
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Carrier> {
        self.places.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Carrier> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Carrier> {
        let carrier = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(carrier)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// True if more than a quarter of the numbers are free.
    pub(super) fn has_room(&self) -> bool {
        self.free.len() > self.places.len() / 4
    }
}
