//! The request plane as a service of the node.
//!
//! Invariant: there is one relay for all workers, which a reload does not change: connections and calls
//! outlive it. A connection is driven on the worker that accepted it.

mod accept;
mod dialing;
mod metrics;
mod running;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steppe_mem::{Account, Budget};
use steppe_net::{
    BoundSockets, Changes, Drained, LocalFuture, PrepareError, Prepared, Service, SocketBinder,
    SocketKey, Worker,
};

use crate::config::Plane;
use crate::relay::Relay;
use accept::Listening;
pub use metrics::PlaneCollector;
use running::Running;

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
    running: Running,
    /// Of the configuration in force.
    payload_bytes_max: AtomicU64,
    queue_wait_ms: AtomicU64,
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
            running: Running::default(),
            payload_bytes_max: AtomicU64::new(0),
            queue_wait_ms: AtomicU64::new(0),
        }))
    }

    /// The relay; `None` until a configuration has a use for it.
    #[must_use]
    pub fn relay(&self) -> Option<&Arc<Relay>> {
        self.0.running.relay()
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

    /// Has everything be as `config` says from now on.
    fn apply(&self, config: &Plane) {
        self.0.running.apply(config, &self.0.node);
        let bytes_max = config.max_payload;
        self.0.payload_bytes_max.store(bytes_max, Ordering::Relaxed);
        let wait_ms = u64::try_from(config.queue.wait.as_millis()).unwrap_or(u64::MAX);
        self.0.queue_wait_ms.store(wait_ms, Ordering::Relaxed);
    }
}

impl<C: AsRef<Plane>> Service<C> for PlaneService {
    fn prepare(
        self: Arc<Self>,
        config: &C,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let config = config.as_ref();
        if let Some(key) = self.0.running.changed_key(config) {
            let cause = Box::new(Fixed);
            return Err(PrepareError::Other { key, cause });
        }
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
        Box::pin(async move {
            Listening::new(&self.0.running)
                .serve(&worker, changes)
                .await
        })
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
