//! The request plane as a service of the node.
//!
//! Invariant: there is one relay for all workers, which a reload does not change: connections and calls
//! outlive it. A connection is driven on the worker that accepted it.

mod accept;

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steppe_mem::{Account, Budget};
use steppe_net::{
    BoundSockets, Changes, Drained, LocalFuture, PrepareError, Prepared, Service, SocketBinder,
    SocketKey, Worker,
};

use crate::config::Plane;
use crate::io::Memory;
use crate::relay::{Relay, RelayConfig};
use accept::Listening;

/// What the plane takes from its node.
pub struct PlaneContext<'a> {
    /// Everything is charged below it.
    pub budget: &'a Budget,
    /// How many workers will serve.
    pub workers: usize,
}

/// The request plane, whatever its configuration. Clones share it.
#[derive(Clone)]
pub struct PlaneService(Arc<Inner>);

struct Inner {
    node: Account,
    changes: Changes<Plane>,
    /// Made for the first configuration that has a use for it: a node without a plane pays nothing.
    running: OnceLock<Running>,
    is_drain_told: AtomicBool,
    /// Of the configuration in force.
    payload_bytes_max: AtomicU64,
    queue_wait_ms: AtomicU64,
}

/// The relay, and what can't change any more.
struct Running {
    relay: Arc<Relay>,
    budget: Option<u64>,
    response_permille: u16,
}

/// A configuration whose sockets are bound.
struct PreparedPlane {
    service: PlaneService,
    config: Plane,
}

/// A key has another value than the one that the node started with.
#[derive(Debug, thiserror::Error)]
#[error("cannot change while the node runs; restart it")]
struct Fixed;

impl fmt::Debug for PlaneService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaneService").finish_non_exhaustive()
    }
}

impl PlaneService {
    /// A plane without listeners, until the first configuration.
    #[must_use]
    pub fn new(context: &PlaneContext<'_>) -> Self {
        Self(Arc::new(Inner {
            node: context.budget.root().clone(),
            changes: Changes::new(context.workers),
            running: OnceLock::new(),
            is_drain_told: AtomicBool::new(false),
            payload_bytes_max: AtomicU64::new(0),
            queue_wait_ms: AtomicU64::new(0),
        }))
    }

    /// The relay; `None` until a configuration has a use for it.
    #[must_use]
    pub fn relay(&self) -> Option<&Arc<Relay>> {
        self.0.running.get().map(|running| &running.relay)
    }

    /// Bytes that a body may have.
    #[must_use]
    pub fn payload_bytes_max(&self) -> u64 {
        self.0.payload_bytes_max.load(Ordering::Relaxed)
    }

    /// How long a call may wait for a worker, and for room there; to the millisecond.
    #[must_use]
    pub fn queue_wait(&self) -> Duration {
        Duration::from_millis(self.0.queue_wait_ms.load(Ordering::Relaxed))
    }

    /// Has the relay do as `config` says from now on.
    fn apply(&self, config: &Plane) {
        if !config.is_used() && self.0.running.get().is_none() {
            return;
        }
        let limits = RelayConfig {
            queue_bytes: config.queue.bytes,
            queue_wait: config.queue.wait,
            payload_bytes_max: config.max_payload,
        };
        let running = self.0.running.get_or_init(|| {
            let account = self.0.node.child("plane", config.budget);
            let memory = Arc::new(Memory::with_share(&account, config.response_permille));
            Running {
                relay: Relay::new(&memory, limits),
                budget: config.budget,
                response_permille: config.response_permille,
            }
        });
        running.relay.set_config(limits);
        let bytes_max = limits.payload_bytes_max;
        let wait_ms = u64::try_from(limits.queue_wait.as_millis()).unwrap_or(u64::MAX);
        self.0.queue_wait_ms.store(wait_ms, Ordering::Relaxed);
        self.0.payload_bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Finds a key that has changed and can't.
    fn check(&self, config: &Plane) -> Result<(), PrepareError> {
        let Some(running) = self.0.running.get().filter(|_| config.is_used()) else {
            return Ok(());
        };
        let key = if running.budget != config.budget {
            "plane.budget"
        } else if running.response_permille != config.response_permille {
            "plane.response_share"
        } else {
            return Ok(());
        };
        Err(PrepareError::Other {
            key,
            cause: Box::new(Fixed),
        })
    }

    /// Tells callers and workers, once, that the node goes away.
    fn drain(&self) {
        if let Some(relay) = self.relay()
            && !self.0.is_drain_told.swap(true, Ordering::AcqRel)
        {
            relay.drain();
        }
    }
}

impl<C: AsRef<Plane>> Service<C> for PlaneService {
    fn prepare(
        self: Arc<Self>,
        config: &C,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let config = config.as_ref();
        self.check(config)?;
        for address in &config.listeners {
            let bound = sockets.bind(&SocketKey::stream(address.clone()));
            bound.map_err(|cause| PrepareError::Bind {
                key: "plane.listener.listen",
                cause,
            })?;
        }
        Ok(Box::new(PreparedPlane {
            service: PlaneService::clone(&self),
            config: config.clone(),
        }))
    }

    fn serve(self: Arc<Self>, worker: Rc<Worker>) -> LocalFuture<Drained> {
        let changes = self.0.changes.take_receiver(worker.index);
        Box::pin(async move { Listening::new(&self).serve(&worker, changes).await })
    }
}

impl Prepared for PreparedPlane {
    fn change(self: Box<Self>, sockets: Vec<BoundSockets>) -> LocalFuture<()> {
        Box::pin(async move {
            let Self { service, config } = *self;
            service.apply(&config);
            service.0.changes.send(&Arc::new(config), sockets).await;
        })
    }
}
