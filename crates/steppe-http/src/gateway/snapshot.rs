//! A snapshot as one worker has it, and what the worker has whatever the snapshot.
//!
//! Invariant: an exchange holds its route, not its snapshot, and a tunnel neither: a
//! snapshot ends when the next one is there and its last exchange has begun.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use steppe_mem::Lease;
use steppe_net::{Drain, Worker};
use steppe_telemetry::trace::{Ids, Tracer};

use super::Gateway;
use super::listener::ListenerSettings;
use super::units::UpstreamUnit;
use crate::access::WorkerAccess;
use crate::config::GuestAddress;
use crate::config::{self, Target, UpstreamKind};
use crate::files::Served;
use crate::filter::{Filter, factory};
use crate::guest::Guest;
use crate::metrics::{CallMetrics, FilterMetrics, RouteMetrics, Side, TotalMetrics, WorkerMetrics};
use crate::upstream::{Connector, Pool, PoolParts, UpstreamState};

/// A snapshot as one worker has it.
pub(super) struct Snapshot {
    /// Tells it from others of the worker.
    pub(super) id: u64,
    pub(super) gateway: Arc<Gateway>,
    metrics: WorkerMetrics,
    pub(super) totals: TotalMetrics,
    /// The report of requests that match no route.
    pub(super) no_route: Rc<RouteReport>,
    pub(super) routes: Vec<Rc<WorkerRoute>>,
    /// Pools of upstreams with servers, each with the index of its upstream.
    pub(super) pools: Vec<(usize, Rc<Pool>)>,
    /// `None`: off.
    pub(super) access: Option<Rc<WorkerAccess>>,
}

/// A route as one worker has it: all that an exchange needs of it.
pub(super) struct WorkerRoute {
    pub(super) report: Rc<RouteReport>,
    pub(super) lease: Lease,
    /// In the order in which they see a request.
    pub(super) filters: Vec<RouteFilter>,
    pub(super) target: RouteTarget,
    /// The response while the circuit of its servers is open.
    pub(super) fallback: Option<config::Respond>,
    /// When an exchange must be over, from the request's first byte.
    pub(super) total: Option<std::time::Duration>,
}

/// A filter of a route, and what counts its answers.
pub(super) struct RouteFilter {
    pub(super) name: Rc<str>,
    pub(super) filter: Arc<dyn Filter>,
    pub(super) metrics: Rc<FilterMetrics>,
    /// The pool of the upstream that it asks.
    pub(super) pool: Option<Rc<Pool>>,
}

/// The target of a route's requests.
pub(super) enum RouteTarget {
    Servers(Rc<Pool>),
    Respond(config::Respond),
    Files(Served),
    Redirect(config::Redirect),
    /// With what of it is asked.
    Guest(Arc<dyn Guest>, String),
}

/// Names and metrics of a route, which are all that a tunnel keeps of it.
#[derive(Debug)]
pub(super) struct RouteReport {
    /// `None`: of requests that match no route.
    pub(super) name: Option<String>,
    pub(super) upstream: Option<String>,
    pub(super) metrics: RouteMetrics,
}

/// The state of a worker that outlives configurations.
pub(super) struct WorkerState {
    pub(super) worker: Rc<Worker>,
    current: RefCell<Rc<Snapshot>>,
    /// The lease of exchanges in flight.
    pub(super) exchange_lease: Lease,
    /// Counts calls of gRPC.
    pub(super) calls: CallMetrics,
    /// Heads that wait for budget while they hold some.
    pub(super) starved_heads: Rc<Cell<usize>>,
    /// Numbers traces and spans.
    pub(super) trace_ids: Ids,
}

impl Snapshot {
    pub(super) fn new(gateway: Arc<Gateway>, worker: &Worker, last: Option<&Self>) -> Rc<Self> {
        let metrics = gateway.metrics.worker(worker.index);
        let totals = metrics.totals();
        let access = access(&gateway, last);
        let filters = 0..gateway.config.filters.len();
        let making = Making {
            gateway: &gateway,
            worker,
            metrics: &metrics,
            filters: filters
                .map(|index| Rc::new(metrics.filter(index)))
                .collect(),
            last,
        };
        let pools = making.pools();
        let routes = 0..gateway.config.routes.len();
        let routes = routes.map(|index| Rc::new(making.route(index, &pools)));
        let routes = routes.collect();
        Rc::new(Self {
            id: last.map_or(0, |last| last.id + 1),
            routes,
            no_route: Rc::new(RouteReport {
                name: None,
                upstream: None,
                metrics: metrics.route(None),
            }),
            totals,
            pools,
            access,
            metrics,
            gateway,
        })
    }

    /// Takes spans; `None`: there are no traces.
    pub(super) fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.gateway.shared.observers.tracer.as_ref()
    }

    pub(super) fn metrics(&self) -> &WorkerMetrics {
        &self.metrics
    }

    pub(super) fn listener_settings(
        &self,
        index: usize,
        drain: Drain,
        state: &WorkerState,
    ) -> ListenerSettings {
        let config = &self.gateway.config.listeners[index];
        let unit = &self.gateway.listeners[index];
        ListenerSettings {
            limits: config.limits,
            timeouts: config.timeouts,
            underscores: config.underscores,
            redirect_https: config.redirect_https,
            routes: config.routes,
            tls: unit.tls.clone(),
            strict_transport_security: config
                .tls
                .as_ref()
                .and_then(|tls| tls.strict_transport_security.clone()),
            handshakes: {
                let workers = self.gateway.metrics.workers().max(1);
                config.limits.handshakes.div_ceil(workers)
            },
            proxy_protocol: config.proxy_protocol,
            lease: match cfg!(feature = "uncharged-heads") {
                false => unit.account.client_lease(),
                // A budget of its own, without an end: the node's knows nothing of it.
                true => steppe_mem::Budget::new(u64::MAX).root().client_lease(),
            },
            drain,
            starved_heads: Rc::clone(&state.starved_heads),
        }
    }
}

/// The access log of the last snapshot where it is the same; else that one ends with its last exchange.
fn access(gateway: &Gateway, last: Option<&Snapshot>) -> Option<Rc<WorkerAccess>> {
    let observers = &gateway.shared.observers;
    if let Some(last) = last {
        if last.gateway.shared.observers.log_alike(observers) {
            return last.access.clone();
        }
        last.access.iter().for_each(|access| access.retire());
    }
    let log = observers.access.as_ref()?;
    Some(Rc::new(log.worker(&gateway.accounts.access.lease())))
}

/// Everything that the routes and pools of a snapshot are made of.
struct Making<'a> {
    gateway: &'a Gateway,
    worker: &'a Worker,
    metrics: &'a WorkerMetrics,
    /// Metrics of each filter.
    filters: Vec<Rc<FilterMetrics>>,
    last: Option<&'a Snapshot>,
}

/// Pools of upstreams with servers, each with the index of its upstream.
type Pools = [(usize, Rc<Pool>)];

impl Making<'_> {
    fn pools(&self) -> Vec<(usize, Rc<Pool>)> {
        let upstreams = self.gateway.upstreams.iter().enumerate();
        let pool = |(index, unit): (usize, &UpstreamUnit)| {
            let state: &Arc<UpstreamState> = unit.state.as_ref()?;
            let shared = &self.gateway.shared;
            let connector = Connector::new(
                Arc::clone(shared.codecs.of(state.settings().protocol)),
                Arc::clone(&shared.buffers),
                unit.account.lease(),
                self.metrics.totals().traffic(Side::Upstream),
            )
            .with_io(&self.worker.io);
            let parts = PoolParts {
                upstream: Arc::clone(state),
                connector,
                worker: self.worker.index,
                metrics: self.metrics.upstream(index),
            };
            Some((index, Rc::new(Pool::new(parts, self.last_pool(index)))))
        };
        upstreams.filter_map(pool).collect()
    }

    /// The pool of the last snapshot whose upstream is just the same: both share idle connections.
    fn last_pool(&self, index: usize) -> Option<&Pool> {
        let (last, upstream) = (self.last?, &self.gateway.config.upstreams[index]);
        let mut pools = last.pools.iter();
        let is_same = |index: usize| last.gateway.config.upstreams[index] == *upstream;
        let found = pools.find(|(index, _)| is_same(*index))?;
        Some(&found.1)
    }

    fn route(&self, index: usize, pools: &Pools) -> WorkerRoute {
        let gateway = self.gateway;
        let config = &gateway.config.routes[index];
        let pool_of = |upstream: usize| {
            let pool = pools.iter().find(|(of, _)| *of == upstream);
            pool.map(|(_, pool)| Rc::clone(pool))
        };
        let filters = config.filters.iter().map(|&filter| {
            let config = &gateway.config.filters[filter];
            RouteFilter {
                name: config.name.as_str().into(),
                filter: Arc::clone(&gateway.filters[filter]),
                metrics: Rc::clone(&self.filters[filter]),
                pool: factory(&config.kind).upstream().and_then(pool_of),
            }
        });
        let target = self.target(config, pools);
        WorkerRoute {
            report: RouteReport::of(gateway, index, self.metrics, self.last),
            lease: gateway.routes[index].account.client_lease(),
            filters: filters.collect(),
            total: config.total.or(match &target {
                RouteTarget::Servers(pool) => pool.settings().timeouts.total,
                _ => None,
            }),
            fallback: fallback(gateway, &target),
            target,
        }
    }

    fn target(&self, route: &config::Route, pools: &Pools) -> RouteTarget {
        let upstream = match &route.target {
            Target::Files(files) => return RouteTarget::Files(Served::new(files, &route.path)),
            Target::Redirect(redirect) => return RouteTarget::Redirect(redirect.clone()),
            Target::Upstream(upstream) => *upstream,
        };
        match &self.gateway.config.upstreams[upstream].kind {
            UpstreamKind::Respond(respond) => RouteTarget::Respond(respond.clone()),
            UpstreamKind::Guest(GuestAddress { guest, resource }) => {
                RouteTarget::Guest(self.gateway.shared.guests.of(guest), resource.clone())
            }
            UpstreamKind::Servers(_) => {
                let pool = pools.iter().find(|(of, _)| *of == upstream);
                RouteTarget::Servers(Rc::clone(&pool.expect("servers have a pool").1))
            }
        }
    }
}

impl WorkerRoute {
    /// The pool, where it has servers.
    pub(super) fn pool(&self) -> Option<&Rc<Pool>> {
        match &self.target {
            RouteTarget::Servers(pool) => Some(pool),
            _ => None,
        }
    }
}

/// The response that the circuit breaker of a target names.
fn fallback(gateway: &Gateway, target: &RouteTarget) -> Option<config::Respond> {
    let RouteTarget::Servers(pool) = target else {
        return None;
    };
    let name = pool
        .settings()
        .circuit_breaker
        .as_ref()?
        .fallback
        .as_ref()?;
    let mut upstreams = gateway.config.upstreams.iter();
    match &upstreams.find(|upstream| upstream.name == *name)?.kind {
        UpstreamKind::Respond(respond) => Some(respond.clone()),
        UpstreamKind::Servers(_) | UpstreamKind::Guest(_) => None,
    }
}

impl RouteReport {
    /// The last snapshot's, where nothing changed that it shows.
    fn of(
        gateway: &Gateway,
        index: usize,
        metrics: &WorkerMetrics,
        last: Option<&Snapshot>,
    ) -> Rc<Self> {
        let config = &gateway.config.routes[index];
        let upstream = config.target.upstream();
        let upstream = upstream.map(|upstream| &gateway.config.upstreams[upstream].name);
        let is_same = |route: &&Rc<WorkerRoute>| {
            let report = &route.report;
            report.name.as_ref() == Some(&config.name) && report.upstream.as_ref() == upstream
        };
        // Names of routes are unique; most stand where they stood.
        let known = last.and_then(|last| {
            let here = last.routes.get(index).filter(is_same);
            here.or_else(|| last.routes.iter().find(is_same))
        });
        known.map_or_else(
            || {
                Rc::new(Self {
                    name: Some(config.name.clone()),
                    upstream: upstream.cloned(),
                    metrics: metrics.route(Some(index)),
                })
            },
            |route| Rc::clone(&route.report),
        )
    }
}

impl WorkerState {
    pub(super) fn new(worker: Rc<Worker>, first: Rc<Snapshot>) -> Self {
        Self {
            worker,
            calls: first.metrics.calls(),
            exchange_lease: first.gateway.accounts.exchanges.lease(),
            trace_ids: Ids::default(),
            current: RefCell::new(first),
            starved_heads: Rc::default(),
        }
    }

    /// The snapshot that a request which begins now is served by.
    pub(super) fn current(&self) -> Rc<Snapshot> {
        Rc::clone(&self.current.borrow())
    }

    pub(super) fn set_current(&self, next: Rc<Snapshot>) {
        *self.current.borrow_mut() = next;
    }
}
