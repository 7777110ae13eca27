//! TLS of a configuration: of its listeners, and of dialed workers.

use std::sync::Arc;
use std::time::Instant;

use steppe_net::tls::ListenerTls;
use steppe_net::{ListenAddress, PrepareError};

use crate::config::{Listener, Plane};
use crate::dial::TargetTls;

/// A configuration in force, for the node's workers.
pub(super) struct InForce {
    pub(super) config: Plane,
    pub(super) tls: Arc<Tls>,
}

/// TLS of a configuration, with its files loaded.
#[derive(Debug, Default)]
pub(super) struct Tls {
    listeners: Vec<(ListenAddress, Arc<ListenerTls>)>,
    pub(super) to_workers: Option<TargetTls>,
}

impl Tls {
    /// Loads the files in `config`. Listeners that `last` has too keep their tickets.
    pub(super) fn load(config: &Plane, last: &Self, now: Instant) -> Result<Self, PrepareError> {
        let mut listeners = Vec::new();
        for Listener { address, tls } in &config.listeners {
            let Some(tls) = tls else { continue };
            let last = last.at(address).map(|last| &**last);
            let loaded = ListenerTls::load(tls, &address.to_string(), last, now);
            let loaded = loaded.map_err(|cause| PrepareError::Other {
                key: "plane.listener.tls",
                cause: Box::new(cause),
            })?;
            listeners.push((address.clone(), Arc::new(loaded)));
        }
        let to_workers = config.worker_tls.as_ref().map(TargetTls::load);
        let to_workers = to_workers.transpose();
        Ok(Self {
            listeners,
            to_workers: to_workers.map_err(|cause| PrepareError::Other {
                key: "discovery.tls",
                cause: Box::new(cause),
            })?,
        })
    }

    /// TLS of the listener at `address`; `None` if it has none.
    pub(super) fn at(&self, address: &ListenAddress) -> Option<&Arc<ListenerTls>> {
        let mut listeners = self.listeners.iter();
        listeners.find(|(at, _)| at == address).map(|(_, tls)| tls)
    }

    /// TLS of all listeners that have it.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ListenerTls>> {
        self.listeners.iter().map(|(_, tls)| tls)
    }
}
