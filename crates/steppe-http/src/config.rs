//! The configuration of a gateway as valid types.
//!
//! Every value here is within its range: the reader of a configuration file
//! builds these types or reports a mistake, and nothing validates them again.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use steppe_net::ListenAddress;

use crate::path::{FilePattern, PathPattern};

mod authentication;
mod error_pages;
mod filter;
pub mod keys;
mod protocol;
mod rate_limit;
pub mod site;
mod tls;
mod transform;
mod upstream;

pub use crate::coding::Coding;
pub use crate::field::Underscores;
pub use crate::guest::{GuestAddress, GuestName};
pub use crate::host::HostPattern;
pub use crate::respond::Respond;
pub use authentication::{
    ApiKeys, Authorize, BasicAuth, ForwardAuth, JwksUrl, Jwt, JwtKey, Rule, TokenSource,
};
pub use error_pages::{ErrorContent, ErrorPage, ErrorPages, ErrorsOf};
pub use filter::{
    Breach, Compress, Cors, CustomFilter, Filter, FilterKind, IpRules, Levels, MediaRange,
    Redirect, RequestId, SecurityHeaders,
};
pub use keys::cache::Cache;
pub use keys::listener::{
    Listener, ListenerKeys, ListenerLimits, ListenerRoutes, ListenerTimeouts,
};
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
    /// Routes, in the order of the file.
    pub routes: Vec<Route>,
}

/// One `[http.upstream.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The table's key in the file.
    pub name: String,
    /// Servers, or a canned response.
    pub kind: UpstreamKind,
}

/// The kind of an upstream: servers, a canned response, or a service of this process.
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
    /// The route's name in metrics and logs; unique.
    pub name: String,
    /// The listeners that use this route; empty: every listener but those with routes of their own.
    pub listeners: Vec<ListenAddress>,
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
    /// Conditions on the client's certificate. `None`: none is required.
    pub client_cert: Option<ClientCertMatch>,
    /// Indexes into [`Gateway::filters`], in order.
    pub filters: Vec<usize>,
    /// The upstream, folder or redirect that answers.
    pub target: Target,
    /// Share of the node's memory budget, in bytes. `None`: the whole of it.
    pub budget: Option<u64>,
    /// Bound on the whole exchange; wins over the upstream's.
    pub total: Option<Duration>,
}

impl Route {
    /// True if a request that comes to this address can take it, where the listener has no routes of its own.
    #[must_use]
    pub fn is_on(&self, address: &ListenAddress) -> bool {
        self.listeners.is_empty() || self.listeners.contains(address)
    }

    /// A route for all requests to `path`.
    #[must_use]
    pub fn of(name: &str, path: PathPattern, target: Target) -> Self {
        Self {
            name: name.to_owned(),
            listeners: Vec::new(),
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

/// The target of a route: an upstream, a folder or a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Index into [`Gateway::upstreams`].
    Upstream(usize),
    /// A folder. The route's path is literal up to its `{rest*}`, which is looked up there.
    Files(Files),
    /// Clients are sent elsewhere.
    Redirect(Redirect),
}

/// A folder that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Where it is.
    pub root: PathBuf,
    /// The name of the file that stands for its folder.
    pub index: String,
    /// The file for paths that lead to none, relative to the folder.
    pub fallback: Option<String>,
    /// Paths that the fallback is served for.
    pub fallback_for: FallbackFor,
    /// Encoded forms that lie beside files, the dearest first.
    pub precompressed: Vec<Coding>,
    /// Folders without an index are listed.
    pub listing: bool,
    /// Lifetimes of files: the first whose pattern matches a file is sent with it.
    pub cache_control: Vec<CacheControl>,
}

/// A lifetime of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheControl {
    /// The files.
    pub files: FilePattern,
    /// The value of `Cache-Control` (RFC 9111 §5.2).
    pub value: String,
}

/// Paths that a fallback is served for, where they lead to no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FallbackFor {
    /// Paths whose last segment has no dot: names of pages, not of files.
    #[default]
    Pages,
    /// All paths.
    All,
}

impl Target {
    /// Index of the upstream, where there is one.
    #[must_use]
    pub fn upstream(&self) -> Option<usize> {
        match self {
            Self::Upstream(index) => Some(*index),
            Self::Files(_) | Self::Redirect(_) => None,
        }
    }
}
