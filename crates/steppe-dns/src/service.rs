//! The forwarder as a service of the node.
//!
//! Invariant: there is one snapshot in force, and one cache and one table of questions in flight for all
//! workers, which a reload does not change.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use steppe_mem::{Budget, Lease, OverBudget, Reservation};
use steppe_net::{
    BoundSockets, Changes, Drained, ListenAddress, LocalFuture, PrepareError, Prepared, Service,
    SocketBinder, SocketKey, Worker,
};

use crate::cache::Cache;
use crate::config::{Forwarder, Transport};
use crate::metrics::DnsMetrics;
use crate::shared::Shared;
use crate::snapshot::{ChargedCache, Snapshot};
use crate::worker::{self, Intake, WorkerState};

/// What the forwarder takes from its node.
pub struct DnsContext<'a> {
    /// Everything is charged below it.
    pub budget: &'a Budget,
    /// How many workers will serve.
    pub workers: usize,
}

/// The forwarder, whatever its configuration. Clones share it.
#[derive(Clone)]
pub struct DnsService {
    metrics: Arc<DnsMetrics>,
    changes: Arc<Changes<Snapshot>>,
    shared: Arc<Shared>,
    in_force: Arc<Mutex<Option<InForce>>>,
    workers: usize,
    lease: Lease,
}

struct InForce {
    snapshot: Arc<Snapshot>,
    /// Tables of the workers.
    tables: Arc<Reservation>,
}

/// A configuration whose sockets are bound.
struct PreparedForwarder {
    service: DnsService,
    config: Forwarder,
    cache: Arc<ChargedCache>,
    tables: Arc<Reservation>,
}

/// Bytes of a cache that no listener asks.
const CACHE_BYTES_IDLE: usize = 0;

impl DnsService {
    /// A forwarder without listeners, until the first configuration.
    ///
    /// # Errors
    /// When the system has no random numbers to give.
    pub fn new(context: &DnsContext<'_>) -> std::io::Result<Self> {
        Ok(Self {
            metrics: DnsMetrics::new(context.workers),
            changes: Arc::new(Changes::new(context.workers)),
            shared: Arc::new(Shared::new(context.workers)?),
            in_force: Arc::default(),
            workers: context.workers,
            lease: context.budget.root().child("dns", None).lease(),
        })
    }

    /// What it counts, whatever the configuration.
    #[must_use]
    pub fn metrics(&self) -> &Arc<DnsMetrics> {
        &self.metrics
    }

    fn in_force(&self) -> MutexGuard<'_, Option<InForce>> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache of a configuration: the one in force, unless its size is another.
    fn cache(&self, config: &Forwarder) -> Result<Arc<ChargedCache>, OverBudget> {
        let bytes = match config.listeners.is_empty() {
            true => CACHE_BYTES_IDLE,
            false => config.cache.bytes,
        };
        if let Some(in_force) = &*self.in_force()
            && in_force.snapshot.cache.bytes == bytes
        {
            return Ok(Arc::clone(&in_force.snapshot.cache));
        }
        let reservation = self.lease.try_reserve(bytes)?;
        let cache = Cache::new(bytes, self.shared.cache_key(), Instant::now());
        Ok(Arc::new(ChargedCache::new(cache, bytes, reservation)))
    }

    fn tables(&self, config: &Forwarder) -> Result<Arc<Reservation>, OverBudget> {
        if let Some(in_force) = &*self.in_force()
            && in_force.tables.bytes() > 0
        {
            return Ok(Arc::clone(&in_force.tables));
        }
        let bytes = match config.listeners.is_empty() {
            true => 0,
            false => self.workers * WorkerState::BYTES + self.shared.coalescer().bytes(),
        };
        Ok(Arc::new(self.lease.try_reserve(bytes)?))
    }

    /// Makes the snapshot of `config` the one in force.
    fn replace(&self, prepared: PreparedForwarder) -> Arc<Snapshot> {
        let mut in_force = self.in_force();
        let last = in_force.as_ref().map(|in_force| &*in_force.snapshot);
        let snapshot = Arc::new(Snapshot::new(prepared.config, prepared.cache, last));
        *in_force = Some(InForce {
            snapshot: Arc::clone(&snapshot),
            tables: prepared.tables,
        });
        snapshot
    }
}

impl<C: AsRef<Forwarder>> Service<C> for DnsService {
    fn prepare(
        self: Arc<Self>,
        config: &C,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let config = config.as_ref();
        for listener in &config.listeners {
            for transport in &listener.transports {
                let address = ListenAddress::Tcp(listener.address);
                let key = match transport {
                    Transport::Udp => SocketKey::datagram(listener.address),
                    Transport::Tcp => SocketKey::stream(address),
                };
                let bound = sockets.bind(&key);
                bound.map_err(|cause| PrepareError::Bind {
                    key: "dns.listener.listen",
                    cause,
                })?;
            }
        }
        let refused = |key| {
            move |cause: OverBudget| PrepareError::Other {
                key,
                cause: Box::new(cause),
            }
        };
        Ok(Box::new(PreparedForwarder {
            cache: self.cache(config).map_err(refused("dns.cache.bytes"))?,
            tables: self.tables(config).map_err(refused("node.memory_budget"))?,
            service: DnsService::clone(&self),
            config: config.clone(),
        }))
    }

    fn serve(self: Arc<Self>, worker: Rc<Worker>) -> LocalFuture<Drained> {
        let changes = self.changes.take_receiver(worker.index);
        let wakes = self.shared.wakes.take_receiver(worker.index);
        Box::pin(async move {
            let intake = Intake {
                changes,
                wakes: Some(wakes),
                metrics: Some(self.metrics.worker(worker.index)),
                shared: Arc::clone(&self.shared),
                lease: self.lease.account().lease(),
            };
            worker::serve(worker, intake).await
        })
    }
}

impl Prepared for PreparedForwarder {
    fn change(self: Box<Self>, sockets: Vec<BoundSockets>) -> LocalFuture<()> {
        Box::pin(async move {
            let service = self.service.clone();
            let snapshot = service.replace(*self);
            service.changes.send(&snapshot, sockets).await;
        })
    }
}
