//! What the plane of a node is told.
//!
//! Invariant: every value is within its range; nothing validates it again.
//!
//! Leaves out how it is written down.

pub mod keys;
mod rules;

use std::time::Duration;

use steppe_net::ListenAddress;
use steppe_net::tls::config::{ListenerConfig, ServerTrust};

use crate::discovery::Directory;
use crate::relay::DialedWorker;

pub use rules::{Peers, Rule, Services};

/// Everything that one plane is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plane {
    /// Where callers and workers connect.
    pub listeners: Vec<Listener>,
    /// Rights of peers by service: the first rule that is about a peer decides, and the end of them denies.
    /// None: everybody may do everything.
    pub rules: Vec<Rule>,
    /// Bytes that it may hold, of its node's budget. `None`: as many as the node has.
    pub budget: Option<u64>,
    /// Thousandths of them that requests may not take; at most
    /// [`RESPONSE_SHARE_PERMILLE_MAX`](crate::limits::RESPONSE_SHARE_PERMILLE_MAX).
    pub response_permille: u16,
    /// Bytes of a body.
    pub max_payload: u64,
    /// Requests that wait for a worker.
    pub queue: Queue,
    /// Workers that are dialed.
    pub workers: Workers,
    /// TLS to them. `None`: none.
    pub worker_tls: Option<ServerTrust>,
}

/// Where callers and workers connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// An IP address and a port.
    pub address: ListenAddress,
    /// What is shown and asked for. `None`: no TLS.
    pub tls: Option<ListenerConfig>,
}

/// Who says which workers are dialed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workers {
    /// These are, each address once.
    Static(Vec<DialedWorker>),
    /// Those that are found there.
    Found(Directory),
}

/// Requests that wait for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Bytes of theirs that were received.
    pub bytes: u64,
    /// How long one waits, at most. Zero: none does.
    pub wait: Duration,
}

impl Plane {
    /// The listeners that strangers may reach, where no rule says who may do what.
    pub(crate) fn open_listeners(&self) -> impl Iterator<Item = &ListenAddress> {
        let is_local = |address: &ListenAddress| match address {
            ListenAddress::Tcp(address) => address.ip().to_canonical().is_loopback(),
            ListenAddress::Unix(_) => true,
        };
        let listeners = self.listeners.iter().map(|listener| &listener.address);
        listeners.filter(move |address| self.rules.is_empty() && !is_local(address))
    }

    /// Whether anybody can be reached by it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        let are_dialed = match &self.workers {
            Workers::Static(workers) => !workers.is_empty(),
            Workers::Found(_) => true,
        };
        are_dialed || !self.listeners.is_empty()
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self::Static(Vec::new())
    }
}
