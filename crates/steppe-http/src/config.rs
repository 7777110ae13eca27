//! What a gateway is told to do, as valid types.
//!
//! Every value here is within its range: the reader of a configuration file
//! builds these types or reports a mistake, and nothing validates them again.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use steppe_net::ListenAddress;

use crate::path::PathPattern;

mod authentication;
mod error_pages;
mod filter;
pub mod keys;
mod protocol;
mod rate_limit;
mod tls;
mod transform;
mod upstream;

pub use crate::coding::Coding;
pub use crate::field::Underscores;
pub use crate::guest::{GuestAddress, GuestName};
pub use crate::host::HostPattern;
pub use crate::respond::Respond;
pub use authentication::{BasicAuth, ForwardAuth, JwksUrl, Jwt, JwtKey, Rule, TokenSource};
pub use error_pages::{ErrorContent, ErrorPage, ErrorPages, ErrorsOf};
pub use filter::{
    Breach, Compress, Cors, CustomFilter, Filter, FilterKind, IpRules, Levels, MediaRange,
    Redirect, RequestId,
};
pub use keys::cache::Cache;
pub use protocol::{H1, H2, H2C, ProtocolName};
pub use rate_limit::{Rate, RateKey, RateLimit, RateStore};
pub use tls::{ClientCertMatch, ListenerTls};
pub use transform::{
    FieldEdits, FieldRewrite, JsonEdits, PathEdit, QueryEdits, TextSource, Transform, Unreadable,
};
pub use upstream::{
    Balance, CircuitBreaker, HashOn, Health, HealthRequest, Hedge, HedgeAfter, Outlier, Retry,
    RetryOn, Server, Servers, Statuses, Sticky, UpstreamTimeouts,
};

/// The `[http]` section: everything a gateway serves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gateway {
    /// Peers whose `Forwarded` and `X-Forwarded-*` fields are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// Origins, and canned responses that stand in for them.
    pub upstreams: Vec<Upstream>,
    /// Named filters, referred to by routes.
    pub filters: Vec<Filter>,
    /// Which requests go where, in the order of the file.
    pub routes: Vec<Route>,
}

/// One `[[http.listener]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The socket to bind.
    pub address: ListenAddress,
    /// What is spoken on it, at least one.
    pub protocols: Vec<ProtocolName>,
    /// TLS below them. `None`: none.
    pub tls: Option<ListenerTls>,
    /// The port that every request is redirected to by https, on a listener without TLS.
    pub redirect_https: Option<NonZeroU16>,
    /// Trusted proxies say first who they connect for; others are turned away.
    pub proxy_protocol: bool,
    /// Which routes its requests take.
    pub routes: ListenerRoutes,
    /// What becomes of fields whose name has an underscore.
    pub underscores: Underscores,
    /// What one client may ask of it.
    pub limits: ListenerLimits,
    /// How long a client may take.
    pub timeouts: ListenerTimeouts,
    /// What errors call it by.
    pub keys: ListenerKeys,
}

/// Keys that a listener comes from: those of the gateway, unless it is one of another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerKeys {
    /// Of its address.
    pub listen: &'static str,
    /// Of its TLS.
    pub tls: &'static str,
}

impl Default for ListenerKeys {
    fn default() -> Self {
        Self {
            listen: "http.listener.listen",
            tls: "http.listener.tls",
        }
    }
}

impl Listener {
    /// Without TLS, with every default.
    #[must_use]
    pub fn of(address: ListenAddress, protocols: Vec<ProtocolName>) -> Self {
        Self {
            address,
            protocols,
            tls: None,
            redirect_https: None,
            proxy_protocol: false,
            routes: ListenerRoutes::default(),
            underscores: Underscores::default(),
            limits: ListenerLimits::default(),
            timeouts: ListenerTimeouts::default(),
            keys: ListenerKeys::default(),
        }
    }
}

/// Which routes the requests of a listener take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenerRoutes {
    /// Those that name no listener.
    #[default]
    Shared,
    /// Those that name it, and no others.
    Own,
}

/// Limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Request line and fields together, in bytes: 431 (414 where the request line alone exceeds it).
    pub header_bytes: usize,
    /// Field lines in a request: 431.
    pub header_count: usize,
    /// Content of a request, in bytes: 413.
    pub body_bytes: u64,
    /// Connections open at once, of the node: 503.
    pub connections: usize,
    /// Exchanges at once on one connection, where the protocol has several.
    pub streams: usize,
    /// TLS handshakes in progress at once, of the node: more wait.
    pub handshakes: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            header_bytes: 16 << 10,
            header_count: 100,
            body_bytes: 64 << 20,
            connections: 10_000,
            streams: 100,
            handshakes: 1_000,
        }
    }
}

/// Timeouts of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// From the connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From a request's first byte to the end of its head: 408.
    pub header: Duration,
    /// Between requests on a kept-alive connection, and between two reads of a body.
    pub idle: Duration,
    /// A response write that makes no progress.
    pub write_stall: Duration,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            write_stall: Duration::from_secs(30),
        }
    }
}

/// One `[http.upstream.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Its key in the file.
    pub name: String,
    /// Servers, or a canned response.
    pub kind: UpstreamKind,
}

/// What stands behind an upstream's name.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few in a configuration"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum UpstreamKind {
    /// Servers that requests are forwarded to.
    Servers(Servers),
    /// A response made here (`respond = { … }`).
    Respond(Respond),
    /// Another service of the process answers.
    Guest(GuestAddress),
}

/// One `[[http.route]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its name in metrics and logs; unique.
    pub name: String,
    /// The listener whose own route it is. `None`: it is one of all listeners that have none of their own.
    pub listener: Option<ListenAddress>,
    /// Any of these hosts; empty: every host.
    pub hosts: Vec<HostPattern>,
    /// The path, after normalization.
    pub path: PathPattern,
    /// Any of these methods (case-sensitive tokens); empty: every method but CONNECT.
    pub methods: Vec<String>,
    /// Fields that must be there with just this value; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Query parameters that must be there with just this value.
    pub query: Vec<(String, String)>,
    /// What the client's certificate must have. `None`: it needs none.
    pub client_cert: Option<ClientCertMatch>,
    /// Indexes into [`Gateway::filters`], in order.
    pub filters: Vec<usize>,
    /// Who answers.
    pub target: Target,
    /// Share of the node's memory budget, in bytes. `None`: the whole of it.
    pub budget: Option<u64>,
    /// Bound on the whole exchange; wins over the upstream's.
    pub total: Option<Duration>,
}

impl Route {
    /// Of all requests to `path`.
    #[must_use]
    pub fn of(name: &str, path: PathPattern, target: Target) -> Self {
        Self {
            name: name.to_owned(),
            listener: None,
            hosts: Vec::new(),
            path,
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
            client_cert: None,
            filters: Vec::new(),
            target,
            budget: None,
            total: None,
        }
    }
}

/// What answers the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Index into [`Gateway::upstreams`].
    Upstream(usize),
    /// A folder. The route's path is literal up to its `{rest*}`, which is looked up there.
    Files(Files),
}

/// A folder that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Where it is.
    pub root: PathBuf,
    /// The name of the file that stands for its folder.
    pub index: String,
    /// Encoded forms that lie beside files, the dearest first.
    pub precompressed: Vec<Coding>,
}

impl Target {
    /// Index of the upstream, where there is one.
    #[must_use]
    pub fn upstream(&self) -> Option<usize> {
        match self {
            Self::Upstream(index) => Some(*index),
            Self::Files(_) => None,
        }
    }
}
