//! The gateway: listeners, routes and upstreams put together.
//!
//! Invariant: a worker shares nothing with another on the request path but
//! immutable configuration, and atomics of the budget and of listeners.
//!
//! A [`Gateway`] is a snapshot: it never changes. A new configuration makes the
//! [next](Gateway::next) one, which workers [change](Change) to between
//! two requests of each connection.

mod acceptor;
mod attempt;
mod client;
mod ending;
mod exchange;
mod forwarded_fields;
mod labels;
mod listener;
mod redirect;
mod replay;
mod sessions;
mod snapshot;
mod tls;
mod units;
mod web;
mod worker;

use std::sync::Arc;
use std::time::Instant;

use steppe_mem::{Account, Budget, Clients};
use steppe_net::tls::{ListenerTls, ServerTls};
use steppe_net::{ListenAddress, Names};

use crate::cache::Caches;
use crate::config::{self, UpstreamKind};
use crate::error_log::ErrorLog;
use crate::filter::{self, FileError, Filter, FilterFiles, FilterParts, LimitCounts};
use crate::guest::Guests;
use crate::metrics::{Generation, HttpMetrics, Labels};
use crate::observers::Observers;
use crate::router::Router;
use crate::socket_buffers::SocketBuffers;
use crate::upstream::channel::UpstreamCodecs;
use crate::upstream::{ProbeSettings, Probes, Upstreams, Way};
use units::{ListenerUnit, NewParts, RouteUnit, UpstreamUnit};

pub use client::{Accepted, ClientContext};
pub use exchange::{Completed, End, Rejected, Request, reject, run};
pub use listener::ListenerSettings;
pub use sessions::{Endpoint, SessionListener};
pub use tls::LoadedFiles;
pub use worker::{Intake, serve};

/// The snapshot that all workers serve: immutable, but for counts.
pub struct Gateway {
    config: config::Gateway,
    shared: GatewayState,
    router: Router,
    filters: Vec<Arc<dyn Filter>>,
    listeners: Vec<ListenerUnit>,
    routes: Vec<RouteUnit>,
    upstreams: Vec<UpstreamUnit>,
    accounts: Accounts,
    metrics: Arc<Generation>,
}

/// Everything that all snapshots share.
#[derive(Clone)]
struct GatewayState {
    node: Account,
    names: Names,
    buffers: Arc<SocketBuffers>,
    /// The state of servers, of the configuration in force.
    upstreams: Arc<Upstreams>,
    /// The caches that there are.
    caches: Arc<Caches>,
    metrics: Arc<HttpMetrics>,
    observers: Observers,
    errors: ErrorLog,
    codecs: UpstreamCodecs,
    guests: Guests,
    /// The clients of all services.
    clients: Clients,
}

/// Everything that a gateway takes from its node.
pub struct GatewayContext<'a> {
    /// Everything is charged below it.
    pub budget: &'a Budget,
    /// Resolves names of servers.
    pub names: &'a Names,
    /// The metrics.
    pub metrics: Arc<HttpMetrics>,
    /// Logs and traces of exchanges.
    pub observers: Observers,
    /// The protocols of servers.
    pub codecs: UpstreamCodecs,
    /// Services of the process that answer requests.
    pub guests: Guests,
}

/// The accounts of the gateway that belong to no unit of it.
struct Accounts {
    access: Account,
    exchanges: Account,
    /// Memory that filters keep for all exchanges.
    filters: Account,
    probes: Account,
}

impl Gateway {
    /// A gateway that serves `config` with what `context` has. Must be called within a
    /// runtime, which resolves names of servers.
    #[must_use]
    pub fn new(config: config::Gateway, context: GatewayContext<'_>) -> Arc<Self> {
        let budget = context.budget.root();
        let shared = GatewayState {
            node: budget.clone(),
            names: context.names.clone(),
            buffers: Arc::new(SocketBuffers::new(budget.limit_bytes())),
            upstreams: Arc::default(),
            caches: Arc::default(),
            metrics: context.metrics,
            observers: context.observers,
            errors: ErrorLog::start(),
            codecs: context.codecs,
            guests: context.guests,
            clients: context.budget.clients().clone(),
        };
        Self::build(config, LoadedFiles::default(), shared, None)
    }

    /// The snapshot that follows this one: what both configurations have goes
    /// on as it is, counts included. Must be called within a runtime.
    #[must_use]
    pub fn next(&self, config: config::Gateway, files: LoadedFiles) -> Arc<Self> {
        self.next_observed(config, files, self.shared.observers.clone())
    }

    /// The same with other observers.
    #[must_use]
    pub fn next_observed(
        &self,
        config: config::Gateway,
        files: LoadedFiles,
        observers: Observers,
    ) -> Arc<Self> {
        let shared = GatewayState {
            observers,
            ..self.shared.clone()
        };
        Self::build(config, files, shared, Some(self))
    }

    fn build(
        config: config::Gateway,
        mut files: LoadedFiles,
        shared: GatewayState,
        last: Option<&Self>,
    ) -> Arc<Self> {
        files.listeners.resize(config.listeners.len(), None);
        files.upstreams.resize(config.upstreams.len(), None);
        files
            .filters
            .resize_with(config.filters.len(), FilterFiles::default);
        let new = NewParts {
            node: &shared.node,
            buffers: &shared.buffers,
        };
        let listeners = config.listeners.iter().zip(files.listeners);
        let listeners = listeners.map(|(listener, tls)| {
            ListenerUnit::next(listener, last.map(|last| &*last.listeners), tls, new)
        });
        let routes = config.routes.iter();
        let routes =
            routes.map(|route| RouteUnit::next(route, last.map(|last| &*last.routes), new));
        let ways = config.upstreams.iter().zip(files.upstreams);
        let ways = ways.map(|(upstream, tls)| way(upstream, tls, &shared.names));
        let states = shared.upstreams.replace(&config.upstreams, ways.collect());
        let upstreams = config.upstreams.iter().zip(states);
        let upstreams = upstreams.map(|(upstream, state)| {
            UpstreamUnit::next(upstream, last.map(|last| &*last.upstreams), state, new)
        });
        let metrics = match last {
            None => shared.metrics.generation(),
            Some(_) => shared.metrics.relabel(Labels::from(&config)),
        };
        let accounts = Accounts::new(&shared.node, last);
        let filters = config.filters.iter().zip(&files.filters);
        let filter = |(filter, files): (&config::Filter, &FilterFiles)| {
            let last = last.and_then(|last| last.filter(&filter.name));
            // One without files that stays goes on with what it knows.
            if let Some((known, last)) = last.filter(|_| !files.is_some())
                && known == filter
            {
                return Arc::clone(last);
            }
            filter::factory(&filter.kind).build(&FilterParts {
                name: &filter.name,
                files,
                account: &accounts.filters,
                last: last.map(|(_, last)| &**last),
                caches: &shared.caches,
            })
        };
        Arc::new(Self {
            router: Router::new(&config.routes, &config.filters),
            filters: filters.map(filter).collect(),
            listeners: listeners.collect(),
            routes: routes.collect(),
            upstreams: upstreams.collect(),
            accounts,
            metrics,
            config,
            shared,
        })
    }

    /// Has filters give up what they keep and nobody can use any more.
    pub(crate) fn sweep_filters(&self) {
        self.filters.iter().for_each(|filter| filter.sweep());
    }

    /// The state of servers, for admin and metrics.
    /// Snapshots that follow have the same.
    #[must_use]
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.shared.upstreams
    }

    /// The caches that there are: for admin and metrics.
    #[must_use]
    pub fn caches(&self) -> &Arc<Caches> {
        &self.shared.caches
    }

    /// Starts to probe the servers of this snapshot that are to be. Must be called on a
    /// thread whose runtime spawns local tasks, the control thread.
    #[must_use]
    pub fn start_probes(&self) -> Probes {
        let settings = ProbeSettings {
            codecs: self.shared.codecs.clone(),
            buffers: Arc::clone(&self.shared.buffers),
            lease: self.accounts.probes.lease(),
        };
        Probes::start(&self.shared.upstreams, &settings)
    }

    /// The filters.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &dyn Filter> {
        self.filters.iter().map(|filter| &**filter)
    }

    /// The filter of this name, with its configuration.
    fn filter(&self, name: &str) -> Option<(&config::Filter, &Arc<dyn Filter>)> {
        let mut filters = self.config.filters.iter().zip(&self.filters);
        filters.find(|(filter, _)| filter.name == name)
    }

    /// The listener at `address`, with its index.
    fn listener(&self, address: &ListenAddress) -> Option<(usize, &ListenerUnit)> {
        let mut listeners = self.listeners.iter().enumerate();
        listeners.find(|(_, listener)| listener.is_at(address))
    }

    /// Reads the files that `config` names, which is to follow. Listeners that stay keep their tickets.
    ///
    /// # Errors
    /// A file can't be used; the error names the key.
    pub fn load(&self, config: &config::Gateway, now: Instant) -> Result<LoadedFiles, FileError> {
        let tls = |address: &ListenAddress| self.listener(address)?.1.tls.clone();
        LoadedFiles::load(config, tls, now)
    }

    /// TLS of every listener that speaks it.
    pub fn tls(&self) -> impl Iterator<Item = &Arc<ListenerTls>> {
        let listeners = self.listeners.iter();
        listeners.filter_map(|listener| listener.tls.as_ref())
    }

    /// Names of filters that decide with other nodes, and what they count.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&str, &LimitCounts)> {
        let filters = self.config.filters.iter().zip(&self.filters);
        filters.filter_map(|(config, filter)| Some((&*config.name, filter.limits()?)))
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &config::Gateway {
        &self.config
    }
}

/// The addresses of an upstream's servers, and TLS toward them.
fn way(upstream: &config::Upstream, tls: Option<Arc<ServerTls>>, names: &Names) -> Way {
    let endpoints = match &upstream.kind {
        UpstreamKind::Servers(servers) => {
            let servers = servers.servers.iter();
            servers
                .map(|server| names.endpoints(&server.address))
                .collect()
        }
        UpstreamKind::Respond(_) | UpstreamKind::Guest(_) => Vec::new(),
    };
    Way { endpoints, tls }
}

impl Accounts {
    /// The accounts of `last`, which keep what they hold, and their peaks.
    fn new(node: &Account, last: Option<&Gateway>) -> Self {
        let fixed = |name, account: fn(&Self) -> &Account| {
            last.map_or_else(
                || node.child(name, None),
                |last| account(&last.accounts).clone(),
            )
        };
        Self {
            access: fixed("access log", |all| &all.access),
            exchanges: fixed("exchanges", |all| &all.exchanges),
            filters: fixed("filters", |all| &all.filters),
            probes: fixed("probes", |all| &all.probes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use steppe_net::SystemResolver;

    use super::*;

    #[test]
    fn connections_are_counted_out_again() {
        let address = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let mut listener = config::Listener::of(address, vec![config::H1]);
        listener.limits.connections = 2;
        let config = config::Gateway {
            listeners: vec![listener],
            ..config::Gateway::default()
        };
        let budget = Budget::new(64 << 20);
        let names = Names::new(Arc::new(SystemResolver::new().expect("settings")));
        let metrics = HttpMetrics::new(Labels::from(&config), 1);
        let context = GatewayContext {
            budget: &budget,
            names: &names,
            metrics,
            observers: Observers::default(),
            codecs: crate::codecs().upstream,
            guests: Guests::default(),
        };
        let gateway = Gateway::new(config, context);
        let held: Vec<_> = (0..3)
            .filter_map(|_| gateway.listeners[0].session_limit().permit().ok())
            .collect();
        assert_eq!((held.len(), gateway.shared.buffers.connections()), (2, 2));
        drop(held);
        assert_eq!(gateway.listeners[0].session_limit().count.open(), 0);
        assert_eq!(gateway.shared.buffers.connections(), 0);
    }
}
