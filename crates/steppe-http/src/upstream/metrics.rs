//! Metrics of servers, retries and probes.
//!
//! Invariant: the configuration determines the number of series: servers are labeled as
//! configured, and their addresses are summed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};

use super::state::{UpstreamState, Upstreams};
use super::target::{Condition, TargetState};

/// Encodes the metrics of upstreams' servers.
#[derive(Debug)]
pub struct UpstreamsCollector(Arc<Upstreams>);

const HEALTHY: Family = Family::new(
    "steppe_http_upstream_server_healthy",
    "Addresses of a server in service: neither unhealthy, ejected nor draining",
);
const EJECTIONS: Family = Family::new(
    "steppe_http_upstream_server_ejections",
    "Ejections of a server after failures",
);
const REQUESTS: Family = Family::new(
    "steppe_http_upstream_server_requests",
    "Requests sent to a server, each attempt counted",
);
const FAILURES: Family = Family::new(
    "steppe_http_upstream_server_failures",
    "Failed connections and requests of a server",
);
const RETRIES: Family = Family::new(
    "steppe_http_upstream_retries",
    "Retries, and retries that the retry budget denied",
);
const HEDGES: Family = Family::new(
    "steppe_http_upstream_hedges",
    "Hedged requests, hedged requests answered by the second server, and hedges that the budget denied",
);
const CIRCUIT_OPENED: Family = Family::new(
    "steppe_http_upstream_circuit_opened",
    "Times that the circuit breaker of an upstream opened",
);
const PROBES: Family = Family::new(
    "steppe_http_upstream_probes",
    "Health checks of servers, by result",
);

impl Upstreams {
    /// A collector of these metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<UpstreamsCollector> {
        Box::new(UpstreamsCollector(Arc::clone(self)))
    }
}

impl Collector for UpstreamsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rows: Vec<_> = self
            .0
            .current()
            .iter()
            .map(|each| UpstreamRow::of(each))
            .collect();
        let servers = |count: fn(&TargetState) -> u64| {
            let servers = rows
                .iter()
                .flat_map(|row| row.servers.iter().map(move |server| (row, server)));
            servers.map(move |(row, (name, states))| {
                let labels = [("upstream", row.name.as_str()), ("server", name.as_str())];
                (labels, states.iter().map(|state| count(state)).sum::<u64>())
            })
        };
        HEALTHY.gauges(
            &mut encoder,
            servers(|state| u64::from(state.condition() == Condition::Healthy)),
        )?;
        EJECTIONS.counters(&mut encoder, servers(TargetState::ejections))?;
        REQUESTS.counters(&mut encoder, servers(TargetState::requests))?;
        FAILURES.counters(&mut encoder, servers(TargetState::failures))?;
        let retries = rows.iter().flat_map(|row| {
            let (tried, denied) = row.retries;
            [("tried", tried), ("denied", denied)].map(|(outcome, count)| {
                (
                    [("upstream", row.name.as_str()), ("outcome", outcome)],
                    count,
                )
            })
        });
        RETRIES.counters(&mut encoder, retries)?;
        let hedges = rows
            .iter()
            .filter_map(|row| Some((&*row.name, row.hedges?)));
        let hedges = hedges.flat_map(|(name, (sent, won, denied))| {
            let outcomes = [("sent", sent), ("won", won), ("denied", denied)];
            outcomes.map(|(outcome, count)| ([("upstream", name), ("outcome", outcome)], count))
        });
        HEDGES.counters(&mut encoder, hedges)?;
        let breakers = rows.iter().filter_map(|row| {
            let opened = row.circuits_opened?;
            Some(([("upstream", row.name.as_str())], opened))
        });
        CIRCUIT_OPENED.counters(&mut encoder, breakers)?;
        let probed = rows.iter().filter(|row| row.is_probed);
        let probes = probed.flat_map(|row| {
            let states = || row.servers.iter().flat_map(|(_, states)| states);
            let passed = states()
                .map(|state| state.probe.passed.load(Ordering::Relaxed))
                .sum();
            let failed = states()
                .map(|state| state.probe.failed.load(Ordering::Relaxed))
                .sum();
            [("passed", passed), ("failed", failed)].map(|(result, count): (_, u64)| {
                ([("upstream", row.name.as_str()), ("result", result)], count)
            })
        });
        PROBES.counters(&mut encoder, probes)
    }
}

/// The values of one upstream.
struct UpstreamRow {
    name: String,
    /// By server as configured; a server that is listed twice has one row.
    servers: Vec<(String, Vec<Arc<TargetState>>)>,
    retries: (u64, u64),
    /// `None`: there is no hedging.
    hedges: Option<(u64, u64, u64)>,
    /// `None`: there is no circuit breaker.
    circuits_opened: Option<u64>,
    is_probed: bool,
}

impl UpstreamRow {
    fn of(upstream: &UpstreamState) -> Self {
        let mut servers: Vec<(String, Vec<_>)> = Vec::new();
        for server in &upstream.settings().servers {
            let name = server.address.to_string();
            if !servers.iter().any(|(known, _)| *known == name) {
                servers.push((name, Vec::new()));
            }
        }
        for target in upstream.targets() {
            let name = target.state.server.to_string();
            let row = servers.iter_mut().find(|(known, _)| *known == name);
            row.expect("targets are of configured servers")
                .1
                .push(target.state);
        }
        Self {
            name: upstream.name().to_owned(),
            servers,
            retries: upstream.retries(),
            hedges: upstream.hedges(),
            circuits_opened: upstream.circuits_opened(),
            is_probed: upstream.settings().health.is_some(),
        }
    }
}
