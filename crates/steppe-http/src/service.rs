//! The gateway as a service of the node.
//!
//! Invariant: there is one snapshot in force. Workers are told of the next one,
//! and servers are probed and files of TLS looked at as it says.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steppe_mem::Budget;
use steppe_net::{
    BoundSockets, Changes, Drained, LocalFuture, Names, Phase, PrepareError, Prepared, Service,
    SocketBinder, SocketKey, Worker, clock,
};
use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};
use tokio::task::JoinSet;

use crate::cache::Caches;
use crate::certificates::Certificates;
use crate::codecs::{Codecs, DownstreamCodecs};
use crate::config;
use crate::filter::{FetchKeys, Filter, keep_current};
use crate::gateway::{self, Gateway, GatewayContext, Intake, LoadedFiles};
use crate::guest::Guests;
use crate::key_sets::KeySets;
use crate::metrics::{HttpMetrics, Labels};
use crate::observers::Observers;
use crate::upstream::{Probes, Upstreams};

/// The node's parts that the gateway uses.
pub struct HttpContext<'a> {
    /// The budget that everything is charged to.
    pub budget: &'a Budget,
    /// Resolves names of servers.
    pub names: &'a Names,
    /// The number of workers that will serve.
    pub workers: usize,
    /// Codecs of the protocols.
    pub codecs: Codecs,
    /// Services of the process that answer requests.
    pub guests: Guests,
    /// Fetches sets of keys that filters have by URL.
    pub fetch_keys: Arc<dyn FetchKeys>,
}

/// The gateway over all configurations. Clones share it.
#[derive(Clone)]
pub struct HttpService {
    metrics: Arc<HttpMetrics>,
    codecs: DownstreamCodecs,
    changes: Arc<Changes<Gateway>>,
    in_force: Arc<Mutex<GatewayInForce>>,
    certificates: Arc<Certificates>,
    key_sets: Arc<KeySets>,
}

struct GatewayInForce {
    gateway: Arc<Gateway>,
    /// Observers of the next snapshot.
    observers: Observers,
    probes: Option<Probes>,
    /// Tasks that reread files of listeners' TLS, and of API keys.
    rereads: JoinSet<()>,
}

/// A configuration with bound sockets.
struct PreparedGateway {
    service: HttpService,
    config: config::Gateway,
    files: LoadedFiles,
}

impl HttpService {
    /// A gateway without listeners, until the first configuration.
    #[must_use]
    pub fn new(context: HttpContext<'_>) -> Self {
        let metrics = HttpMetrics::new(Labels::default(), context.workers);
        let gateway = Gateway::new(
            config::Gateway::default(),
            GatewayContext {
                budget: context.budget,
                names: context.names,
                metrics: Arc::clone(&metrics),
                observers: Observers::default(),
                codecs: context.codecs.upstream,
                guests: context.guests,
            },
        );
        let in_force = GatewayInForce {
            gateway,
            observers: Observers::default(),
            probes: None,
            rereads: JoinSet::new(),
        };
        Self {
            metrics,
            codecs: context.codecs.downstream,
            changes: Arc::new(Changes::new(context.workers)),
            in_force: Arc::new(Mutex::new(in_force)),
            certificates: Arc::default(),
            key_sets: Arc::new(KeySets::new(context.fetch_keys)),
        }
    }

    /// The gateway's metrics, over all configurations.
    #[must_use]
    pub fn metrics(&self) -> &Arc<HttpMetrics> {
        &self.metrics
    }

    /// The state of upstreams, over all configurations.
    #[must_use]
    pub fn upstreams(&self) -> Arc<Upstreams> {
        Arc::clone(self.in_force().gateway.upstreams())
    }

    /// The caches, over all configurations.
    #[must_use]
    pub fn caches(&self) -> Arc<Caches> {
        Arc::clone(self.in_force().gateway.caches())
    }

    /// A collector of the counters of rate limits that are shared with other nodes.
    #[must_use]
    pub fn limits_collector(&self) -> Box<LimitsCollector> {
        Box::new(LimitsCollector(Arc::clone(&self.in_force)))
    }

    /// Certificates of listeners, over all configurations.
    #[must_use]
    pub fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// Key sets that filters fetch by URL, over all configurations.
    #[must_use]
    pub fn key_sets(&self) -> &Arc<KeySets> {
        &self.key_sets
    }

    fn in_force(&self) -> MutexGuard<'_, GatewayInForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has these told of exchanges that begin under the next configuration.
    pub fn observe(&self, observers: Observers) {
        self.in_force().observers = observers;
    }

    /// Makes the snapshot of `config` the one in force.
    fn replace(&self, config: config::Gateway, files: LoadedFiles) -> Arc<Gateway> {
        let mut in_force = self.in_force();
        let observers = in_force.observers.clone();
        in_force.gateway = in_force.gateway.next_observed(config, files, observers);
        let listeners = in_force.gateway.tls().map(Arc::clone).collect();
        self.certificates.replace(listeners);
        Arc::clone(&in_force.gateway)
    }

    /// Starts what goes on beside the workers; that of the last snapshot ends.
    fn watch(&self) {
        let mut in_force = self.in_force();
        in_force.probes = Some(in_force.gateway.start_probes());
        let mut rereads = self.certificates.keep_current();
        for file in in_force.gateway.filters().filter_map(Filter::key_file) {
            rereads.spawn_local(keep_current(Arc::clone(file)));
        }
        in_force.rereads = rereads;
        let sets = in_force.gateway.filters().filter_map(Filter::remote_keys);
        let sets: Vec<_> = sets.map(Arc::clone).collect();
        self.key_sets.replace(&sets);
    }
}

impl<C: AsRef<config::Gateway>> Service<C> for HttpService {
    #[expect(
        clippy::disallowed_methods,
        reason = "secrets of tickets are made then"
    )]
    fn prepare(
        self: Arc<Self>,
        config: &C,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let config = config.as_ref();
        for listener in &config.listeners {
            for kind in self.codecs.socket_kinds(&listener.protocols) {
                let address = listener.address.clone();
                let bound = sockets.bind(&SocketKey { address, kind });
                bound.map_err(|cause| PrepareError::Bind {
                    key: listener.keys.listen,
                    cause,
                })?;
            }
        }
        let last = Arc::clone(&self.in_force().gateway);
        let files = last.load(config, clock::now());
        let files = files.map_err(|error| PrepareError::Other {
            key: error.key,
            cause: Box::new(error),
        })?;
        Ok(Box::new(PreparedGateway {
            service: HttpService::clone(&self),
            config: config.clone(),
            files,
        }))
    }

    fn serve(self: Arc<Self>, worker: Rc<Worker>) -> LocalFuture<Drained> {
        let mut changes = self.changes.take_receiver(worker.index);
        Box::pin(async move {
            let first = tokio::select! {
                Some(first) = changes.recv() => first,
                () = worker.drain.reached(Phase::Draining) => return Drained::default(),
            };
            // The sockets listen already: whoever connects now is in their queues.
            let _ = first.done.send(());
            let intake = Intake {
                sockets: first.sockets,
                changes,
                codecs: self.codecs.clone(),
            };
            gateway::serve(first.next, worker, intake).await
        })
    }
}

/// Encodes what filters count that decide with other nodes.
pub struct LimitsCollector(Arc<Mutex<GatewayInForce>>);

const DECISIONS: Family = Family::new(
    "steppe_http_rate_limit_decisions",
    "Decisions of a shared limit: by its store, or by this node while the store was unreachable",
);
const STORE_UP: Family = Family::new(
    "steppe_http_rate_limit_store_up",
    "1 while the store of a shared limit is reachable, else 0",
);

impl Collector for LimitsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gateway = {
            let in_force = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&in_force.gateway)
        };
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let decisions = gateway.limits().flat_map(|(filter, counts)| {
            let by = [("store", &counts.shared), ("node", &counts.local)];
            by.map(|(by, count)| ([("filter", filter), ("by", by)], load(count)))
        });
        DECISIONS.counters(&mut encoder, decisions)?;
        let up = gateway.limits().map(|(filter, counts)| {
            let is_there = counts.is_store_there.load(Ordering::Relaxed);
            ([("filter", filter)], u64::from(is_there))
        });
        STORE_UP.gauges(&mut encoder, up)
    }
}

impl fmt::Debug for LimitsCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitsCollector")
    }
}

impl Prepared for PreparedGateway {
    fn change(self: Box<Self>, sockets: Vec<BoundSockets>) -> LocalFuture<()> {
        Box::pin(async move {
            let gateway = self.service.replace(self.config, self.files);
            self.service.changes.send(&gateway, sockets).await;
            self.service.watch();
        })
    }
}
