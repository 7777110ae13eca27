//! The running relay of a node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use steppe_mem::Budget;

use crate::config::Plane;
use crate::io::Memory;
use crate::relay::{Relay, RelayConfig};

/// The relay, created for the first configuration that needs one: a node without a plane pays nothing.
#[derive(Default)]
pub(super) struct Running {
    relay: OnceLock<Fixed>,
    is_drain_told: AtomicBool,
}

/// The relay, and the settings that need a restart to change.
struct Fixed {
    relay: Arc<Relay>,
    budget: Option<u64>,
    response_permille: u16,
}

impl Running {
    pub(super) fn relay(&self) -> Option<&Arc<Relay>> {
        self.relay.get().map(|fixed| &fixed.relay)
    }

    /// Puts `config` in force; creates the relay within the budget of `node` if there is none.
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

    /// A key of `config` that has changed although it can't change while the node runs.
    pub(super) fn changed_key(&self, config: &Plane) -> Option<&'static str> {
        let fixed = self.relay.get().filter(|_| config.is_used())?;
        if fixed.budget != config.budget {
            return Some("plane.budget");
        }
        let is_other = fixed.response_permille != config.response_permille;
        is_other.then_some("plane.response_share")
    }

    /// Begins the drain of the relay, once.
    pub(super) fn drain(&self) {
        if let Some(relay) = self.relay()
            && !self.is_drain_told.swap(true, Ordering::AcqRel)
        {
            relay.drain();
        }
    }
}

/// Limits of the relay in `config`.
pub(super) fn limits(config: &Plane) -> RelayConfig {
    RelayConfig {
        queue_bytes: config.queue.bytes,
        queue_wait: config.queue.wait,
        payload_bytes_max: config.max_payload,
    }
}
