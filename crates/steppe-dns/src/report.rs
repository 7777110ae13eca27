//! What a forwarder that runs tells its operators.

use std::fmt::Display;

use crate::cache::ShardStats;
use crate::config::{Policy, Upstream};
use crate::snapshot::Snapshot;

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
    pub servers: Vec<String>,
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
    pub(crate) fn new(totals: Totals, snapshot: Option<&Snapshot>) -> Self {
        let upstreams = snapshot.map_or(&[][..], |snapshot| &snapshot.config.upstreams);
        let listeners = snapshot.map_or(&[][..], |snapshot| &snapshot.config.listeners);
        let address = |address: &dyn Display| address.to_string();
        Self {
            listeners: listeners
                .iter()
                .map(|each| address(&each.address))
                .collect(),
            cache_bytes: snapshot.map_or(0, |snapshot| snapshot.cache.bytes),
            upstreams: upstreams.iter().map(upstream).collect(),
            totals,
        }
    }
}

fn upstream(upstream: &Upstream) -> UpstreamReport {
    let servers = upstream.servers.iter();
    UpstreamReport {
        name: upstream.name.clone(),
        policy: match upstream.policy {
            Policy::Hedge => "hedge",
            Policy::Race => "race",
            Policy::Fastest => "fastest",
            Policy::RoundRobin => "round-robin",
            Policy::Failover => "failover",
        },
        servers: servers.map(ToString::to_string).collect(),
    }
}
