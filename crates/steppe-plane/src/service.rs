//! The request plane as a service of the node.
//!
//! Invariant: there is one relay for all workers of the node. A reload keeps it, with its connections and calls. A
//! connection is driven by the worker that accepted it.

mod accept;
mod dialing;
mod metrics;
mod running;
mod tls;

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use steppe_mem::Budget;
use steppe_net::tls::{ListenerTls, keep_current};
use steppe_net::{
    BoundSockets, Changes, Drained, ListenAddress, LocalFuture, PrepareError, Prepared, Service,
    SocketBinder, SocketKey, Worker,
};
use tokio::task::JoinSet;

use crate::config::Plane;
use crate::relay::Relay;
use accept::Listening;
pub use metrics::PlaneCollector;
use running::Running;
use tls::{InForce, Tls};

/// The node's resources for the request plane.
pub struct PlaneContext<'a> {
    /// Budget of the node; all memory of the plane is charged below its root.
    pub budget: &'a Budget,
    /// Number of the node's workers.
    pub workers: usize,
}

/// The request plane of a node, across reloads. Clones share it.
#[derive(Clone)]
pub struct PlaneService(Arc<Inner>);

struct Inner {
    node: Budget,
    changes: Changes<InForce>,
    running: Running,
    /// TLS of the configuration in force, and the tasks that reload its files.
    tls: Mutex<(Arc<Tls>, JoinSet<()>)>,
    /// Maximum of a body in the configuration in force.
    payload_bytes_max: AtomicU64,
    grant_wait_ms: AtomicU64,
    /// Listeners of the configuration in force for which the warning of open access was logged.
    open: Mutex<Vec<ListenAddress>>,
}

/// A configuration with bound sockets and loaded files.
struct PreparedPlane {
    service: PlaneService,
    config: Plane,
    tls: Arc<Tls>,
}

/// A key has changed that can't change while the node runs.
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
            node: context.budget.clone(),
            changes: Changes::new(context.workers),
            running: Running::default(),
            tls: Mutex::default(),
            payload_bytes_max: AtomicU64::new(0),
            grant_wait_ms: AtomicU64::new(0),
            open: Mutex::default(),
        }))
    }

    /// The relay; `None` until a configuration needs one.
    #[must_use]
    pub fn relay(&self) -> Option<&Arc<Relay>> {
        self.0.running.relay()
    }

    /// Maximum of a request's body in bytes.
    #[must_use]
    pub fn payload_bytes_max(&self) -> u64 {
        self.0.payload_bytes_max.load(Ordering::Relaxed)
    }

    /// Time limit of the first credit of a request, in milliseconds.
    #[must_use]
    pub fn grant_wait(&self) -> Duration {
        Duration::from_millis(self.0.grant_wait_ms.load(Ordering::Relaxed))
    }

    /// TLS of the listeners in the configuration in force.
    #[must_use]
    pub fn tls(&self) -> Vec<Arc<ListenerTls>> {
        self.lock_tls().0.all().cloned().collect()
    }

    fn lock_tls(&self) -> MutexGuard<'_, (Arc<Tls>, JoinSet<()>)> {
        self.0.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a warning once for each listener at which any peer may do everything.
    fn warn_of_open(&self, config: &Plane) {
        let mut told = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<ListenAddress> = config.open_listeners().cloned().collect();
        for address in open.iter().filter(|address| !told.contains(address)) {
            tracing::warn!(
                %address,
                "every peer may register as a worker and call every service: add [[plane.rule]]"
            );
        }
        *told = open;
    }

    /// Puts `config` in force.
    fn apply(&self, config: &Plane) {
        self.0.running.apply(config, &self.0.node);
        let bytes_max = config.max_payload;
        self.0.payload_bytes_max.store(bytes_max, Ordering::Relaxed);
        let wait = running::limits(config).grant_wait();
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.0.grant_wait_ms.store(wait_ms, Ordering::Relaxed);
    }
}

impl<C: AsRef<Plane>> Service<C> for PlaneService {
    #[expect(
        clippy::disallowed_methods,
        reason = "tickets of a listener's TLS are rotated"
    )]
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
        for listener in &config.listeners {
            let bound = sockets.bind(&SocketKey::stream(listener.address.clone()));
            bound.map_err(|cause| PrepareError::Bind {
                key: "plane.listener.listen",
                cause,
            })?;
        }
        let last = Arc::clone(&self.lock_tls().0);
        let tls = Arc::new(Tls::load(config, &last, Instant::now())?);
        Ok(Box::new(PreparedPlane {
            tls,
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
            let Self {
                service,
                config,
                tls,
            } = *self;
            service.apply(&config);
            service.warn_of_open(&config);
            let mut tasks = JoinSet::new();
            for tls in tls.all() {
                tasks.spawn_local(keep_current(Arc::clone(tls)));
            }
            *service.lock_tls() = (Arc::clone(&tls), tasks);
            let in_force = Arc::new(InForce { config, tls });
            service.0.changes.send(&in_force, sockets).await;
        })
    }
}
