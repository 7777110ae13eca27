//! Settings of the request plane.
//!
//! Invariant: every value is within its range; nothing validates it again.
//!
//! Non-goals: the text of the configuration, which `keys.rs` reads.

pub mod keys;
mod rules;

use std::time::Duration;

use steppe_net::ListenAddress;
use steppe_net::tls::config::{ListenerConfig, ServerTrust};

use crate::discovery::Directory;
use crate::relay::DialedWorker;

pub use rules::{Peers, Rule, Services};

/// All settings of one request plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plane {
    /// Addresses that callers and workers connect to.
    pub listeners: Vec<Listener>,
    /// Rights of peers by service: the first rule that matches a peer decides; a peer that none matches may do
    /// nothing. Without rules, every peer may offer and call everything.
    pub rules: Vec<Rule>,
    /// Bytes that the plane may hold, of its node's budget. `None`: the whole budget of the node.
    pub budget: Option<u64>,
    /// Share of these bytes that requests leave to responses, in thousandths; at most
    /// [`RESPONSE_SHARE_PERMILLE_MAX`](crate::limits::RESPONSE_SHARE_PERMILLE_MAX).
    pub response_permille: u16,
    /// Largest body of a request, in bytes.
    pub max_payload: u64,
    /// Limits of calls that wait for a worker.
    pub queue: Queue,
    /// Workers that the relay dials.
    pub workers: Workers,
    /// TLS to dialed workers. `None`: without TLS.
    pub worker_tls: Option<ServerTrust>,
}

/// An address that callers and workers connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// An IP address and a port.
    pub address: ListenAddress,
    /// Certificates, and the request for those of clients. `None`: without TLS.
    pub tls: Option<ListenerConfig>,
}

/// The source of the workers that the relay dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workers {
    /// The workers of the configuration file, each address once.
    Static(Vec<DialedWorker>),
    /// The workers that are registered in this directory of etcd.
    Found(Directory),
}

/// Limits of calls that wait for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Bytes that waiting calls may have sent, together.
    pub bytes: u64,
    /// Longest wait of a call. Zero: calls do not wait.
    pub wait: Duration,
}

impl Plane {
    /// The listeners with an address other than loopback, if there are no rules.
    pub(crate) fn open_listeners(&self) -> impl Iterator<Item = &ListenAddress> {
        let is_local = |address: &ListenAddress| match address {
            ListenAddress::Tcp(address) => address.ip().to_canonical().is_loopback(),
            ListenAddress::Unix(_) => true,
        };
        let listeners = self.listeners.iter().map(|listener| &listener.address);
        listeners.filter(move |address| self.rules.is_empty() && !is_local(address))
    }

    /// True if the plane has a listener or dials workers.
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
