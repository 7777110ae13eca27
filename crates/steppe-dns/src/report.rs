//! What a forwarder that runs tells its operators.

use std::fmt::Display;

use crate::cache::ShardStats;
use crate::config::{Policy, Upstream};
use crate::files::WhyLeftOut;
use crate::servers::ServerBoard;
use crate::snapshot::Snapshot;

pub use crate::servers::{ServerReport, ServerState};
pub use crate::top_names::TopName;

/// A number and what it counts.
pub type Count = (&'static str, u64);

/// What the forwarder is, and what it has counted.
#[derive(Debug, Clone)]
pub struct Report {
    /// Where clients ask.
    pub listeners: Vec<String>,
    /// Bytes of the cache.
    pub cache_bytes: usize,
    /// Groups of servers.
    pub upstreams: Vec<UpstreamReport>,
    /// Domain lists.
    pub lists: ListsReport,
    /// The names that were asked for most since the query log was opened, the most first. `None`: there is no
    /// query log, and nobody keeps what clients ask for.
    pub top_names: Option<Vec<TopName>>,
    /// Since the start.
    pub totals: Totals,
}

/// A group of servers.
#[derive(Debug, Clone)]
pub struct UpstreamReport {
    /// Its name.
    pub name: String,
    /// Which server is asked when, as the configuration says it.
    pub policy: &'static str,
    /// Its servers.
    pub servers: Vec<ServerReport>,
}

/// Domain lists in force.
#[derive(Debug, Clone, Default)]
pub struct ListsReport {
    /// Each.
    pub lists: Vec<ListReport>,
    /// Bytes of their index.
    pub bytes: usize,
    /// Seconds since 1970 when their files were read: one changes, all are read.
    pub read_at: u64,
    /// Why the last try to read them since has failed.
    pub error: Option<String>,
}

/// A domain list.
#[derive(Debug, Clone)]
pub struct ListReport {
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: u64,
    /// Lines with rules of a kind that is not supported.
    pub unsupported: u64,
    /// Lines that no syntax knows.
    pub malformed: u64,
    /// Queries whose rule matched by it.
    pub hits: u64,
    /// Why a fetched file of it is not in force. `None`: all are.
    pub left_out: Option<WhyLeftOut>,
    /// Why it could not be fetched the last time, or came and was refused.
    pub error: Option<String>,
}

/// Counts of all workers.
#[derive(Debug, Clone)]
pub struct Totals {
    /// Queries of clients, by transport.
    pub queries: Vec<Count>,
    /// Responses to them, by response code.
    pub responses: Vec<Count>,
    /// What the cache had for them.
    pub lookups: Vec<Count>,
    /// What became of them otherwise.
    pub events: Vec<Count>,
    /// Clients' connections that did not come to their end.
    pub connections: Vec<Count>,
    /// What was beyond a limit.
    pub limited: Vec<Count>,
    /// Queries to servers, by transport.
    pub upstream_queries: Vec<Count>,
    /// What went wrong with servers.
    pub upstream_trouble: Vec<Count>,
    /// The cache.
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
