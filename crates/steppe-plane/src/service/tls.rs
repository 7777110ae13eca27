//! TLS of a configuration: of its listeners, and to workers that are dialed.

use std::sync::Arc;
use std::time::Instant;

use steppe_net::tls::ListenerTls;
use steppe_net::{ListenAddress, PrepareError};

use crate::config::{Listener, Plane};
use crate::dial::TargetTls;

/// What workers are told.
pub(super) struct InForce {
    pub(super) config: Plane,
    pub(super) tls: Arc<Tls>,
}

/// TLS of a configuration, its files read.
#[derive(Debug, Default)]
pub(super) struct Tls {
    listeners: Vec<(ListenAddress, Arc<ListenerTls>)>,
    pub(super) to_workers: Option<TargetTls>,
}

impl Tls {
    /// Reads the files that `config` names. Listeners that stay keep the tickets of `last`.
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

    /// Of the listener at `address`, where it has any.
    pub(super) fn at(&self, address: &ListenAddress) -> Option<&Arc<ListenerTls>> {
        let mut listeners = self.listeners.iter();
        listeners.find(|(at, _)| at == address).map(|(_, tls)| tls)
    }

    /// Of all listeners that have any.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ListenerTls>> {
        self.listeners.iter().map(|(_, tls)| tls)
    }
}
