//! The relay of a service, once there is one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use steppe_mem::Budget;

use crate::config::Plane;
use crate::io::Memory;
use crate::relay::{Relay, RelayConfig};

/// Made for the first configuration that has a use for it: a node without a plane pays nothing.
#[derive(Default)]
pub(super) struct Running {
    relay: OnceLock<Fixed>,
    is_drain_told: AtomicBool,
}

/// The relay, and what can't change any more.
struct Fixed {
    relay: Arc<Relay>,
    budget: Option<u64>,
    response_permille: u16,
}

impl Running {
    pub(super) fn relay(&self) -> Option<&Arc<Relay>> {
        self.relay.get().map(|fixed| &fixed.relay)
    }

    /// Has the relay do as `config` says from now on; makes it within `node`, if there is none.
    pub(super) fn apply(&self, config: &Plane, node: &Budget) {
        if !config.is_used() && self.relay.get().is_none() {
            return;
        }
        let limits = limits(config);
        let fixed = self.relay.get_or_init(|| {
            let account = node.root().child("plane", config.budget);
            let memory = Memory::with_share(&account, config.response_permille);
            let memory = Arc::new(memory.with_clients(node.clients()));
            Fixed {
                relay: Relay::new(&memory, limits),
                budget: config.budget,
                response_permille: config.response_permille,
            }
        });
        fixed.relay.set_config(limits);
        fixed.relay.set_rules(config.rules.clone());
    }

    /// A key of `config` that has changed and can't.
    pub(super) fn changed_key(&self, config: &Plane) -> Option<&'static str> {
        let fixed = self.relay.get().filter(|_| config.is_used())?;
        if fixed.budget != config.budget {
            return Some("plane.budget");
        }
        let is_other = fixed.response_permille != config.response_permille;
        is_other.then_some("plane.response_share")
    }

    /// Tells callers and workers, once, that the node goes away.
    pub(super) fn drain(&self) {
        if let Some(relay) = self.relay()
            && !self.is_drain_told.swap(true, Ordering::AcqRel)
        {
            relay.drain();
        }
    }
}

/// What a relay lets wait and pass, by `config`.
pub(super) fn limits(config: &Plane) -> RelayConfig {
    RelayConfig {
        queue_bytes: config.queue.bytes,
        queue_wait: config.queue.wait,
        payload_bytes_max: config.max_payload,
    }
}
