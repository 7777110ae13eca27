//! What a forwarder is told to do, as valid types.
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
    /// Where clients ask.
    pub listeners: Vec<Listener>,
    /// Networks whose clients are answered; others are refused.
    pub access: Vec<IpNet>,
    /// Peers that are believed whom they connect for.
    pub trusted_proxies: Vec<IpNet>,
    /// How responses are kept.
    pub cache: Cache,
    /// Groups of servers, referred to by rules.
    pub upstreams: Vec<Upstream>,
    /// Lists of domains, referred to by rules; at most [`crate::limits::LISTS_MAX`].
    pub lists: Vec<List>,
    /// Names that are answered here, whatever rules say.
    pub hosts: Hosts,
    /// Which queries are answered how, in the order of the file: the first that matches and has an action
    /// decides.
    pub rules: Vec<Rule>,
    /// What clients and servers may make grow.
    pub limits: Limits,
    /// Who asks beside the clients of listeners.
    pub in_process: InProcess,
    /// Where queries are logged. `None`: nowhere.
    pub query_log: Option<QueryLog>,
}

/// The `[dns.log]` section's `queries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryLog {
    /// Where lines go.
    pub destination: Destination,
    /// How a line is written.
    pub format: QueryLogFormat,
    /// Which queries have one, where no rule says it.
    pub queries: LoggedQueries,
}

/// Which queries have a line in the query log, where no rule says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedQueries {
    /// All.
    All,
    /// None.
    OfRules,
}

/// How a line of the query log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryLogFormat {
    /// Values between spaces.
    Text,
    /// An object of JSON.
    Json,
}

/// Whether others within the process ask, by [`crate::DnsService::ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InProcess {
    /// Nobody does.
    #[default]
    Silent,
    /// A route of the gateway does.
    Asks,
}

/// The `[dns.cache]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Bytes that it takes, of the node's budget.
    pub bytes: usize,
    /// Responses are kept for at least this long.
    pub min_ttl: Duration,
    /// Responses are kept for at most this long.
    pub max_ttl: Duration,
    /// Negative responses are kept for at most this long.
    pub negative_ttl_max: Duration,
    /// What becomes of responses whose time is over. `None`: they are not served.
    pub serve_stale: Option<ServeStale>,
    /// An answer in use is refreshed in this last part of its time, in percent; 0 for never.
    pub prefetch_percent: u8,
    /// The file that keeps responses over a restart.
    pub snapshot: Option<PathBuf>,
}

/// One `[dns.list.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Its name.
    pub name: String,
    /// Where its lines are.
    pub files: Vec<PathBuf>,
    /// Where more of its lines are fetched from.
    pub fetched: Vec<FetchedFile>,
    /// How old what was fetched may get.
    pub refresh: Duration,
    /// What a line with nothing but a name is for.
    pub plain: PlainScope,
    /// Nothing is served without all of its fetched files.
    pub required: bool,
    /// Where a rule blocks its names, names are blocked whose answer has an alias that leads to one of them.
    pub aliases: bool,
}

/// A file of a list that is fetched. It may not be there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedFile {
    /// Where it is fetched from, by http or https.
    pub url: String,
    /// Where it is kept.
    pub file: PathBuf,
}

impl FetchedFile {
    /// The URL as it may be shown: what stands behind a question mark may be a secret.
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
    /// Names with their records; a name may stand more than once.
    pub records: Vec<(Name, RecordData)>,
}

/// One `[[dns.rule]]`: what it matches, all of which has to hold, what it says of the query, and what it
/// does.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Clients by network.
    pub clients: Vec<IpNet>,
    /// Clients by what they call themselves; with `clients`, none for all.
    pub client_ids: Vec<ClientId>,
    /// Names and those below them.
    pub suffixes: Vec<Name>,
    /// Names.
    pub names: Vec<Name>,
    /// Names that any of these regular expressions matches.
    pub patterns: Option<NamePatterns>,
    /// Names on any of these lists; with the three above, none for all.
    pub lists: ListSet,
    /// Types; none for all.
    pub types: Vec<Rtype>,
    /// When it counts; `None`: always.
    pub schedule: Option<Schedule>,
    /// How responses are kept. `None`: as a rule that follows says, or the upstream.
    pub cache: Option<CachePolicy>,
    /// Whether it is logged. `None`: as a rule that follows says, or the log.
    pub log: Option<RuleLog>,
    /// How many there may be. `None`: as many as a rule that follows says.
    pub rate: Option<RuleRate>,
    /// What becomes of the query. `None`: what a rule that follows says.
    pub action: Option<Action>,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is asked of an upstream: its index.
    Forward(usize),
    /// It is answered here.
    Block(Block),
    /// It is answered with an alias, and with what this name has: the first rule that matches it, and is
    /// no such rule itself, decides.
    Rewrite(Box<Name>),
    /// It is answered with those of these records that have its type.
    Records(RecordSet),
}

impl Rule {
    /// A rule that every query matches.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self {
            action: Some(action),
            ..Self::without_action()
        }
    }

    /// A rule that every query matches, after which those that follow are gone through.
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

/// How a blocked query is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// There is no such name.
    NameError,
    /// The name has nothing of that type.
    NoData,
    /// The unspecified address, for A and AAAA; else NODATA.
    Zero,
    /// REFUSED.
    Refused,
}

/// The `[dns.limits]` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Queries a second of a client's network (/24, /56). `None`: as many as come.
    pub client_qps: Option<NonZeroU32>,
    /// Bytes a second of responses on datagrams to a network (/24, /56) that has not shown that its
    /// address is its own. `None`: as many as are asked for.
    pub unproven_bytes_per_s: Option<NonZeroU32>,
    /// Questions a second that servers are asked below a zone. `None`: as many as come.
    pub zone_misses_per_s: Option<NonZeroU32>,
    /// Aliases that are followed in a response.
    pub cname_depth: usize,
    /// What becomes of private addresses for public names.
    pub rebinding: Rebinding,
}

/// What becomes of private addresses in responses of upstreams that are not private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebinding {
    /// The client gets no answer: REFUSED, with the reason.
    Refuse,
    /// They are passed on.
    Allow,
}

impl Forwarder {
    /// Whether anybody asks it.
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
