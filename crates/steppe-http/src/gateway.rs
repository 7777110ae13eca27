//! The gateway: listeners, routes and upstreams put together.
//!
//! Invariant: a worker shares nothing with another on the way of a request but
//! immutable configuration, and atomics of the budget and of listeners.

mod connection;
mod forward;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_mem::{Account, Budget};
use steppe_net::{BoundListener, Names, Worker};

use crate::config::{self, UpstreamKind};
use crate::filter::{self, Filter};
use crate::metrics::HttpMetrics;
use crate::router::Router;
use crate::socket_buffers::SocketBuffers;
use crate::upstream::{UpstreamState, Upstreams};

pub use worker::Drained;

/// What all workers serve: immutable, but for counts.
pub struct Gateway {
    config: config::Gateway,
    router: Router,
    filters: Vec<Box<dyn Filter>>,
    /// What is known of servers, of the configuration in force.
    upstreams: Arc<Upstreams>,
    /// By upstream; `None` where responses are made here.
    states: Vec<Option<Arc<UpstreamState>>>,
    accounts: Accounts,
    buffers: Arc<SocketBuffers>,
    listeners: Vec<ListenerCount>,
    metrics: Arc<HttpMetrics>,
}

/// What each part of the gateway is charged to.
struct Accounts {
    listeners: Vec<Account>,
    routes: Vec<Account>,
    upstreams: Vec<Account>,
}

/// Connections of one listener, of all workers.
#[derive(Debug, Default)]
struct ListenerCount(AtomicUsize);

/// One connection of a listener, as long as it lives.
struct Admitted {
    gateway: Arc<Gateway>,
    listener: usize,
}

impl Gateway {
    /// A gateway under `budget`. Must be called within a runtime, which resolves `names`.
    #[must_use]
    pub fn new(
        config: config::Gateway,
        budget: &Budget,
        names: &Names,
        metrics: Arc<HttpMetrics>,
    ) -> Arc<Self> {
        let endpoints = |upstream: &config::Upstream| match &upstream.kind {
            UpstreamKind::Servers(servers) => servers
                .servers
                .iter()
                .map(|server| names.endpoints(&server.address))
                .collect(),
            UpstreamKind::Respond(_) => Vec::new(),
        };
        let upstreams = Arc::new(Upstreams::default());
        let endpoints: Vec<_> = config.upstreams.iter().map(endpoints).collect();
        Arc::new(Self {
            states: upstreams.replace(&config.upstreams, &endpoints),
            upstreams,
            router: Router::new(&config.routes),
            filters: config
                .filters
                .iter()
                .map(|filter| filter::build(&filter.kind))
                .collect(),
            accounts: Accounts::new(&config, budget.root()),
            buffers: Arc::new(SocketBuffers::new(budget.root().limit_bytes())),
            listeners: config
                .listeners
                .iter()
                .map(|_| ListenerCount::default())
                .collect(),
            metrics,
            config,
        })
    }

    /// What it was told to do.
    #[must_use]
    pub fn config(&self) -> &config::Gateway {
        &self.config
    }

    /// What is known of servers: for admin, metrics and [probes](crate::upstream::Probes).
    #[must_use]
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.upstreams
    }

    /// Serves `listeners`, those of the configuration in order, until the node
    /// has drained; says what became of the connections that were open then.
    pub async fn serve(
        self: Arc<Self>,
        worker: std::rc::Rc<Worker>,
        listeners: Vec<BoundListener>,
    ) -> Drained {
        worker::serve(self, worker, listeners).await
    }

    /// Counts a connection in, unless the listener has as many as it may.
    fn admit(self: &Arc<Self>, listener: usize) -> Option<Admitted> {
        let limit = self.config.listeners[listener].limits.connections;
        let before = self.listeners[listener].0.fetch_add(1, Ordering::AcqRel);
        self.buffers.opened();
        // Counted in for a moment even when it is one too many: the guard counts it out.
        let admitted = Admitted {
            gateway: Arc::clone(self),
            listener,
        };
        (before < limit).then_some(admitted)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.gateway.listeners[self.listener]
            .0
            .fetch_sub(1, Ordering::AcqRel);
        self.gateway.buffers.closed();
    }
}

impl Accounts {
    fn new(config: &config::Gateway, node: &Account) -> Self {
        let listener = |listener: &config::Listener| {
            node.child(format!("listener {}", listener.address), None)
        };
        let route =
            |route: &config::Route| node.child(format!("route {}", route.name), route.budget);
        let upstream =
            |upstream: &config::Upstream| node.child(format!("upstream {}", upstream.name), None);
        Self {
            listeners: config.listeners.iter().map(listener).collect(),
            routes: config.routes.iter().map(route).collect(),
            upstreams: config.upstreams.iter().map(upstream).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use steppe_net::{ListenAddress, SystemResolver};

    use super::*;
    use crate::metrics::Labels;

    #[test]
    fn connections_are_counted_out_again() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = config::Gateway {
            listeners: vec![config::Listener {
                address: ListenAddress::Tcp(address),
                limits: config::ListenerLimits {
                    connections: 2,
                    ..config::ListenerLimits::default()
                },
                timeouts: config::ListenerTimeouts::default(),
            }],
            ..config::Gateway::default()
        };
        let budget = Budget::new(64 << 20);
        let names = Names::new(Arc::new(SystemResolver::new().expect("settings")));
        let metrics = HttpMetrics::new(Labels::of(&config), 1);
        let gateway = Gateway::new(config, &budget, &names, metrics);
        let held: Vec<_> = (0..3).filter_map(|_| gateway.admit(0)).collect();
        assert_eq!((held.len(), gateway.buffers.connections()), (2, 2));
        drop(held);
        assert_eq!(gateway.listeners[0].0.load(Ordering::Relaxed), 0);
        assert_eq!(gateway.buffers.connections(), 0);
    }
}
