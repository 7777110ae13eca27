//! The report of a running forwarder for its operators.

use std::fmt::Display;

use crate::cache::ShardStats;
use crate::config::{Policy, Upstream};
use crate::files::WhyLeftOut;
use crate::servers::ServerBoard;
use crate::snapshot::Snapshot;

pub use crate::servers::{ServerReport, ServerState};
pub use crate::top_names::TopName;

/// A name and its count.
pub type Count = (&'static str, u64);

/// The state of the forwarder, and its counts.
#[derive(Debug, Clone)]
pub struct Report {
    /// Addresses of listeners.
    pub listeners: Vec<String>,
    /// Bytes of the cache.
    pub cache_bytes: usize,
    /// Groups of servers.
    pub upstreams: Vec<UpstreamReport>,
    /// Domain lists.
    pub lists: ListsReport,
    /// The names that were asked for most since the query log was opened, the most first. `None`: there is no
    /// query log, and names are not counted.
    pub top_names: Option<Vec<TopName>>,
    /// Counts since the start.
    pub totals: Totals,
}

/// A group of servers.
#[derive(Debug, Clone)]
pub struct UpstreamReport {
    /// Name of the upstream.
    pub name: String,
    /// Order in which servers are asked, as the configuration writes it.
    pub policy: &'static str,
    /// Servers of the upstream.
    pub servers: Vec<ServerReport>,
}

/// Domain lists in force.
#[derive(Debug, Clone, Default)]
pub struct ListsReport {
    /// Each list.
    pub lists: Vec<ListReport>,
    /// Bytes of the index of all lists.
    pub bytes: usize,
    /// Time at which all files were read, in seconds since 1970: when one changes, all are read again.
    pub read_at: u64,
    /// Error of the last try to read them since.
    pub error: Option<String>,
}

/// A domain list.
#[derive(Debug, Clone)]
pub struct ListReport {
    /// Name of the list.
    pub name: String,
    /// Rules of the list.
    pub rules: u64,
    /// Lines with rules of a kind that is not supported.
    pub unsupported: u64,
    /// Lines that no syntax knows.
    pub malformed: u64,
    /// Queries whose rule matched by the list.
    pub hits: u64,
    /// Reason why a fetched file of the list is not in force. `None`: all are.
    pub left_out: Option<WhyLeftOut>,
    /// Error of the last fetch, or the reason why the fetched list was refused.
    pub error: Option<String>,
}

/// Counts of all workers.
#[derive(Debug, Clone)]
pub struct Totals {
    /// Queries of clients, by transport.
    pub queries: Vec<Count>,
    /// Responses to clients, by response code.
    pub responses: Vec<Count>,
    /// Lookups of the cache, by result.
    pub lookups: Vec<Count>,
    /// Other outcomes of queries.
    pub events: Vec<Count>,
    /// Client connections that were refused, closed for others, or that failed, by reason.
    pub connections: Vec<Count>,
    /// Queries and responses above a limit, by limit.
    pub limited: Vec<Count>,
    /// Queries to servers, by transport.
    pub upstream_queries: Vec<Count>,
    /// Problems with servers, by kind.
    pub upstream_trouble: Vec<Count>,
    /// Counts of the cache.
    pub cache: ShardStats,
}

impl Report {
    pub(crate) fn new(
        (totals, lists): (Totals, ListsReport),
        servers: &ServerBoard,
        snapshot: Option<&Snapshot>,
    ) -> Self {
        let upstreams = snapshot.map_or(&[][..], |snapshot| &snapshot.config.upstreams);
        let listeners = snapshot.map_or(&[][..], |snapshot| &snapshot.config.listeners);
        let log = snapshot.and_then(|snapshot| snapshot.query_log.as_ref());
        let address = |address: &dyn Display| address.to_string();
        Self {
            listeners: listeners
                .iter()
                .map(|each| address(&each.address))
                .collect(),
            cache_bytes: snapshot.map_or(0, |snapshot| snapshot.cache.bytes),
            upstreams: upstreams
                .iter()
                .map(|each| upstream(each, servers))
                .collect(),
            lists,
            top_names: log.map(|log| log.top.top()),
            totals,
        }
    }
}

fn upstream(upstream: &Upstream, servers: &ServerBoard) -> UpstreamReport {
    UpstreamReport {
        name: upstream.name.clone(),
        policy: match upstream.policy {
            Policy::Hedge => "hedge",
            Policy::Race => "race",
            Policy::Fastest => "fastest",
            Policy::RoundRobin => "round-robin",
            Policy::Failover => "failover",
        },
        servers: servers.report(upstream),
    }
}
