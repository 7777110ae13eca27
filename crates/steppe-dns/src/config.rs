//! Settings of the forwarder, as valid types.
//!
//! Every value here is within its range: the reader of a configuration file builds these types or
//! reports a mistake, and nothing validates them again.

pub mod keys;
mod listener;
mod setting;
mod upstream;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use steppe_telemetry::Destination;

use crate::client::ClientId;
use crate::hosts::{RecordData, RecordSet};
use crate::rules::{ListSet, NamePatterns, PlainScope};
use crate::schedule::Schedule;
use crate::wire::{Name, Rtype};

pub(crate) use upstream::Source;

pub use listener::{Introduction, Listener, Protocol};
pub use setting::{
    CacheBounds, CachePolicy, RateOf, RuleLog, RuleRate, ServeStale, Stale, StalePolicy,
};
pub use upstream::{
    Addresses, CaseRandomization, ClientSubnet, Policy, Server, Transport, Truncated, Trust,
    Upstream,
};

/// The `[dns]` section: everything a forwarder serves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forwarder {
    /// Sockets that clients send queries to.
    pub listeners: Vec<Listener>,
    /// Networks whose clients are answered; others are refused.
    pub access: Vec<IpNet>,
    /// Peers whose PROXY headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Settings of the response cache.
    pub cache: Cache,
    /// Groups of servers, referred to by rules.
    pub upstreams: Vec<Upstream>,
    /// Lists of domains, referred to by rules; at most [`crate::limits::LISTS_MAX`].
    pub lists: Vec<List>,
    /// Local names, which are answered before any rule is looked at.
    pub hosts: Hosts,
    /// Rules in the order of the file: the first one that matches a query and has an action decides.
    pub rules: Vec<Rule>,
    /// Limits on clients and servers.
    pub limits: Limits,
    /// Queries from within the process, beside those of listeners.
    pub in_process: InProcess,
    /// The query log. `None`: queries are not logged.
    pub query_log: Option<QueryLog>,
}

/// The `[dns.log]` section's `queries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryLog {
    /// Destination of the lines.
    pub destination: Destination,
    /// Format of a line.
    pub format: QueryLogFormat,
    /// Queries that are logged if no rule's `log` decides.
    pub queries: LoggedQueries,
}

/// The queries that are logged if no rule's `log` decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedQueries {
    /// All queries.
    All,
    /// No queries: only those of rules with `log` are logged.
    OfRules,
}

/// The format of a line of the query log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryLogFormat {
    /// Values, separated by spaces.
    Text,
    /// A JSON object.
    Json,
}

/// Queries from within the process, by [`crate::DnsService::ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InProcess {
    /// The process itself sends no queries.
    #[default]
    Silent,
    /// A route of the gateway sends queries (DNS over HTTPS).
    Asks,
}

/// The `[dns.cache]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of the cache, of the node's budget.
    pub bytes: usize,
    /// Responses are kept for at least this long.
    pub min_ttl: Duration,
    /// Responses are kept for at most this long.
    pub max_ttl: Duration,
    /// Negative responses are kept for at most this long.
    pub negative_ttl_max: Duration,
    /// Serving of stale responses. `None`: expired responses are not served.
    pub serve_stale: Option<ServeStale>,
    /// Last part of its lifetime in which an answer in use is refreshed, in percent; 0 for never.
    pub prefetch_percent: u8,
    /// The file that keeps responses over a restart.
    pub snapshot: Option<PathBuf>,
}

/// One `[dns.list.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Name of the list.
    pub name: String,
    /// Files with lines of the list.
    pub files: Vec<PathBuf>,
    /// Files with further lines, which are fetched.
    pub fetched: Vec<FetchedFile>,
    /// Age at which a fetched file is fetched again.
    pub refresh: Duration,
    /// Meaning of a line with nothing but a name.
    pub plain: PlainScope,
    /// True if a node refuses to start without all fetched files of the list.
    pub required: bool,
    /// True if a rule that blocks names of the list also blocks a name whose response has an alias that leads
    /// to one of them.
    pub aliases: bool,
}

/// A file of a list that is fetched. It may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedFile {
    /// URL of the file (http or https).
    pub url: String,
    /// Path at which the fetched file is stored.
    pub file: PathBuf,
}

impl FetchedFile {
    /// The URL without its query, which may be a secret, for logs and reports.
    #[must_use]
    pub fn url_shown(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }
}

/// The `[dns.hosts]` section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts {
    /// Files of addresses and names, as hosts(5) has them.
    pub files: Vec<PathBuf>,
    /// Names with their records; a name may occur more than once.
    pub records: Vec<(Name, RecordData)>,
}

/// One `[[dns.rule]]`: its conditions, all of which have to hold, its settings and its action.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Clients by network.
    pub clients: Vec<IpNet>,
    /// Clients by ID. If this and `clients` are empty, every client matches.
    pub client_ids: Vec<ClientId>,
    /// Names and those below them.
    pub suffixes: Vec<Name>,
    /// Names.
    pub names: Vec<Name>,
    /// Names that any of these regular expressions matches.
    pub patterns: Option<NamePatterns>,
    /// Names on any of these lists. If this and the three above are empty, every name matches.
    pub lists: ListSet,
    /// Query types; empty for all.
    pub types: Vec<Rtype>,
    /// Times at which the rule applies; `None`: always.
    pub schedule: Option<Schedule>,
    /// Caching of responses. `None`: a later rule decides, else the upstream.
    pub cache: Option<CachePolicy>,
    /// Logging of queries. `None`: a later rule decides, else the log.
    pub log: Option<RuleLog>,
    /// Limit on the rate of queries. `None`: that of a later rule, if one has any.
    pub rate: Option<RuleRate>,
    /// The answer, or its source. `None`: a later rule decides.
    pub action: Option<Action>,
}

/// The action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Forwards the query to the upstream of this index.
    Forward(usize),
    /// Blocks the query: the forwarder answers it without a server.
    Block(Block),
    /// Answers with an alias to this name, and with the records of this name: the first rule that matches
    /// it, except rules that rewrite, decides about them.
    Rewrite(Box<Name>),
    /// Answers with those of these records that have the type of the query.
    Records(RecordSet),
}

impl Rule {
    /// A rule with this action that every query matches.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self {
            action: Some(action),
            ..Self::without_action()
        }
    }

    /// A rule that every query matches, and that leaves the query to later rules.
    #[must_use]
    pub fn without_action() -> Self {
        Self {
            clients: Vec::new(),
            client_ids: Vec::new(),
            suffixes: Vec::new(),
            names: Vec::new(),
            patterns: None,
            lists: ListSet::default(),
            types: Vec::new(),
            schedule: None,
            cache: None,
            log: None,
            rate: None,
            action: None,
        }
    }
}

/// The response to a blocked query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// NXDOMAIN: no such name.
    NameError,
    /// NODATA: no record of that type.
    NoData,
    /// The unspecified address, for A and AAAA; else NODATA.
    Zero,
    /// REFUSED.
    Refused,
}

/// The `[dns.limits]` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Queries a second of a client's network (/24, /56). `None`: no limit.
    pub client_qps: Option<NonZeroU32>,
    /// Bytes a second of responses over UDP to a network (/24, /56) that has not proven its address.
    /// `None`: no limit.
    pub unproven_bytes_per_s: Option<NonZeroU32>,
    /// Questions a second below a zone that servers are asked. `None`: no limit.
    pub zone_misses_per_s: Option<NonZeroU32>,
    /// Aliases that are followed in a response.
    pub cname_depth: usize,
    /// Treatment of private addresses for public names.
    pub rebinding: Rebinding,
}

/// The treatment of private addresses in responses of upstreams that are not private (DNS rebinding).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebinding {
    /// The client gets REFUSED, with the reason as an extended error, instead of the answer.
    Refuse,
    /// The addresses are passed on.
    Allow,
}

impl Forwarder {
    /// True if there is a listener, or a route of the gateway that sends queries.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !self.listeners.is_empty() || self.in_process == InProcess::Asks
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            min_ttl: Duration::ZERO,
            max_ttl: Duration::from_secs(86_400),
            negative_ttl_max: Duration::from_secs(3600),
            serve_stale: None,
            prefetch_percent: 0,
            snapshot: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_qps: None,
            unproven_bytes_per_s: None,
            zone_misses_per_s: None,
            cname_depth: 8,
            rebinding: Rebinding::Refuse,
        }
    }
}
