//! The services of the node, and access to their parts.
//!
//! In the life cycle of the node (`node.rs`, `reload.rs`), this is the only file that names HTTP, DNS and the request
//! plane. A new service is made in [`Services::new`], gets its section of the configuration by an `AsRef`, and adds its
//! metrics in [`Services::register`].
//!
//! Non-goals: the order of calls, which [`ServiceSet`] keeps.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use steppe_dns::config::{Forwarder, Protocol};
use steppe_dns::{DnsContext, DnsService};
use steppe_http::cache::Caches;
use steppe_http::certificates::Certificates;
use steppe_http::config::{ListenerRoutes, UpstreamKind};
use steppe_http::guest::{CollectingGuest, Guests};
use steppe_http::upstream::Upstreams;
use steppe_http::{HttpContext, HttpService};
use steppe_mem::Budget;
use steppe_net::{
    Inherited, ListenAddress, Names, ServerAddress, Service, ServiceSet, SystemResolver,
};
use steppe_plane::config::Plane;
use steppe_plane::{PlaneContext, PlaneService};
use steppe_telemetry::Registry;

use crate::config::Config;
use crate::doh::{self, Doh};
use crate::key_client::KeyClient;
use crate::list_client::ListClient;
use crate::memory;
use crate::observation::Observation;
use crate::plane_upstream::{PLANE, PlaneUpstream};
use crate::rlimits;

/// Every service of the node, by its own type.
pub struct Services {
    http: Arc<HttpService>,
    dns: Arc<DnsService>,
    plane: Arc<PlaneService>,
    observation: Observation,
}

/// An address that is served, for the banner.
#[derive(Debug)]
pub struct Endpoint {
    /// The service that listens.
    pub service: &'static str,
    /// The address.
    pub address: ListenAddress,
    /// `http`, `https`, `dns` or `plane`.
    pub scheme: &'static str,
    /// A summary of the routes or rules behind it.
    pub serves: String,
}

/// Time for the disk to take the DNS cache at the end of a drain.
const CACHE_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

impl AsRef<steppe_http::config::Gateway> for Config {
    fn as_ref(&self) -> &steppe_http::config::Gateway {
        &self.http
    }
}

impl AsRef<Forwarder> for Config {
    fn as_ref(&self) -> &Forwarder {
        &self.dns
    }
}

impl AsRef<Plane> for Config {
    fn as_ref(&self) -> &Plane {
        &self.plane
    }
}

impl Services {
    /// Makes the services, for this number of workers; nothing is served yet.
    ///
    /// Must be called within the control thread's runtime.
    ///
    /// # Errors
    /// If the access log can't be opened, names can't be resolved, spans have no room, or there are no random numbers.
    pub fn new(config: &Config, budget: &Budget, workers: usize) -> anyhow::Result<Self> {
        let resolver = SystemResolver::new().context("cannot start name resolution")?;
        let dns = DnsService::new(&DnsContext {
            budget,
            workers,
            fetch: Some(Arc::new(ListClient)),
        });
        let dns = dns.context("no random numbers from the system")?;
        let plane = PlaneService::new(&PlaneContext { budget, workers });
        let guests = Guests::default()
            .with(
                doh::FORWARDER,
                Arc::new(CollectingGuest::new(Doh(dns.clone()))),
            )
            .with(PLANE, Arc::new(PlaneUpstream::new(plane.clone())));
        let http = HttpService::new(HttpContext {
            budget,
            names: &Names::new(Arc::new(resolver)),
            workers,
            codecs: steppe_http::codecs(),
            guests,
            fetch_keys: Arc::new(KeyClient),
        });
        let of_dns = dns.clone();
        http.certificates().add_source(move || of_dns.tls());
        let of_plane = plane.clone();
        http.certificates().add_source(move || of_plane.tls());
        let http = Arc::new(http);
        let observation = Observation::new(Arc::clone(&http), budget, workers);
        observation.change(observation.prepare(config)?);
        Ok(Self {
            http,
            dns: Arc::new(dns),
            plane: Arc::new(plane),
            observation,
        })
    }

    /// All services, to be prepared, run and changed together.
    #[must_use]
    pub fn set(&self, inherited: Inherited, workers: usize) -> ServiceSet<Config> {
        let http: Arc<dyn Service<Config>> = self.http.clone();
        let dns: Arc<dyn Service<Config>> = self.dns.clone();
        let plane: Arc<dyn Service<Config>> = self.plane.clone();
        // The forwarder last: lists that were fetched get the memory that the others leave.
        ServiceSet::new([http, plane, dns], inherited, workers)
    }

    /// Registers the metrics of all services.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(self.http.metrics().collector());
        registry.register_collector(self.http.upstreams().collector());
        registry.register_collector(self.http.caches().collector());
        registry.register_collector(self.http.limits_collector());
        registry.register_collector(self.http.certificates().collector());
        registry.register_collector(self.http.key_sets().collector());
        registry.register_collector(self.dns.metrics().collector());
        registry.register_collector(self.plane.collector());
        self.observation.register(registry);
    }

    /// The sources of `/memory`.
    #[must_use]
    pub fn memory_sources(
        &self,
        budget: &Budget,
        figures: &Arc<memory::UnchargedFigures>,
    ) -> memory::Sources {
        memory::Sources {
            budget: budget.clone(),
            figures: Arc::clone(figures),
            http: Arc::clone(self.http.metrics()),
        }
    }

    /// The access log and the traces, for changes.
    #[must_use]
    pub fn observation(&self) -> Observation {
        self.observation.clone()
    }

    /// The servers of `/upstreams`, which also drains them.
    #[must_use]
    pub fn upstreams(&self) -> Arc<Upstreams> {
        self.http.upstreams()
    }

    /// The caches of `/cache`, which also purges them.
    #[must_use]
    pub fn caches(&self) -> Arc<Caches> {
        self.http.caches()
    }

    /// The forwarder of `/dns` and `/dns/flush`.
    #[must_use]
    pub fn dns(&self) -> DnsService {
        DnsService::clone(&self.dns)
    }

    /// The services of `/plane`.
    #[must_use]
    pub fn plane(&self) -> PlaneService {
        PlaneService::clone(&self.plane)
    }

    /// The certificates of `/certificates`.
    #[must_use]
    pub fn certificates(&self) -> Arc<Certificates> {
        Arc::clone(self.http.certificates())
    }

    /// Reopens the logs, after a rotation.
    pub fn reopen_logs(&self) {
        self.observation.reopen();
        self.dns.reopen_log();
    }

    /// Waits until the disk has the lines that workers have queued, and the DNS cache, after the workers have ended. A
    /// disk that hangs is not awaited.
    pub fn close_files(&self) {
        if !self.dns.close(CACHE_CLOSE_TIMEOUT) {
            tracing::error!(
                "timeout of a write to disk: the DNS cache file or the end of the query log is lost"
            );
        }
        self.observation.close();
    }
}

/// Lowers limits of `config` to those of the process.
pub fn fit(config: &mut Config) {
    rlimits::lower_connections(config);
}

/// Every address that `config` serves, the most important first.
#[must_use]
pub fn endpoints(config: &Config) -> Vec<Endpoint> {
    let serves = |address: &ListenAddress| {
        let routes = config.http.routes.iter();
        let routes: Vec<_> = routes.filter(|route| route.is_on(address)).collect();
        match routes.as_slice() {
            [only] => format!("route {} {}", only.name, only.path),
            routes => format!("{} routes", routes.len()),
        }
    };
    let is_shared = |listener: &&steppe_http::config::Listener| {
        // The forwarder's listeners follow below.
        listener.routes == ListenerRoutes::Shared
    };
    let listeners = config.http.listeners.iter().filter(is_shared);
    let endpoint = |listener: &steppe_http::config::Listener| Endpoint {
        service: "gateway",
        address: listener.address.clone(),
        scheme: match listener.tls {
            Some(_) => "https",
            None => "http",
        },
        serves: serves(&listener.address),
    };
    let forwarder = config.dns.listeners.iter().map(|listener| Endpoint {
        service: "dns",
        address: ListenAddress::Tcp(listener.address),
        scheme: "dns",
        serves: forwards(&config.dns, &listener.protocols),
    });
    let plane = config.plane.listeners.iter().map(|listener| Endpoint {
        service: "plane",
        address: listener.address.clone(),
        scheme: "plane",
        serves: "callers and workers".to_owned(),
    });
    listeners
        .map(endpoint)
        .chain(forwarder)
        .chain(plane)
        .collect()
}

/// A summary of a forwarder's listener: its protocols and the number of rules.
fn forwards(dns: &Forwarder, protocols: &[Protocol]) -> String {
    let names = protocols.iter().map(|protocol| protocol.as_str());
    let names: Vec<_> = names.collect();
    let rules = match dns.rules.len() {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    format!("{}, {rules}", names.join(" "))
}

/// The address of the first server with an IP address: that of the demo origin in the embedded default.
#[must_use]
pub fn first_server(config: &Config) -> Option<SocketAddr> {
    let servers = config
        .http
        .upstreams
        .iter()
        .filter_map(|upstream| match &upstream.kind {
            UpstreamKind::Servers(servers) => servers.servers.first(),
            UpstreamKind::Respond(_) | UpstreamKind::Guest(_) => None,
        });
    let mut addresses = servers.filter_map(|server| match &server.address {
        ServerAddress::Ip(address) => Some(*address),
        ServerAddress::Name { .. } | ServerAddress::Unix(_) => None,
    });
    addresses.next()
}
