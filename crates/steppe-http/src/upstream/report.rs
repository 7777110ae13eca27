//! The state of upstreams, for `/upstreams`.
//!
//! Non-goals: its JSON encoding, which is admin's.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::breaker::Circuit;
use super::state::{Target, UpstreamState};

/// One upstream at one moment.
#[derive(Debug, Clone)]
pub struct UpstreamReport {
    /// The key in the configuration.
    pub name: String,
    /// The balancing policy, as written in a configuration.
    pub balance: &'static str,
    /// The state of its circuit breaker; `None`: it has none.
    pub circuit: Option<&'static str>,
    /// Retries.
    pub retries_tried: u64,
    /// Retries that the retry budget denied.
    pub retries_denied: u64,
    /// The servers, each at each of its addresses.
    pub servers: Vec<ServerReport>,
}

/// One server at one moment.
#[derive(Debug, Clone)]
pub struct ServerReport {
    /// As it was configured.
    pub server: String,
    /// The socket address; empty while its name is not resolved.
    pub address: String,
    /// The configured weight.
    pub weight: u32,
    /// `healthy`, `unhealthy`, `ejected`, `draining` or `unresolved`.
    pub state: &'static str,
    /// Why it is in this state; may be empty.
    pub reason: String,
    /// Time in this state.
    pub since: Duration,
    /// Number of ejections.
    pub ejections: u64,
    /// Requests in flight.
    pub active: u64,
    /// Requests so far.
    pub requests: u64,
    /// Probes that failed.
    pub failures: u64,
    /// Moving average of its latency.
    pub latency: Option<Duration>,
    /// Results of probes, if the upstream has health checks.
    pub probe: Option<ProbeReport>,
}

/// Results of probes.
#[derive(Debug, Clone)]
pub struct ProbeReport {
    /// Probes that passed.
    pub passed: u64,
    /// Probes that failed.
    pub failed: u64,
    /// The last result: a status or a failure.
    pub last: String,
}

impl UpstreamState {
    /// The state at `now`.
    #[must_use]
    pub fn report(&self, now: Instant) -> UpstreamReport {
        let targets = self.targets();
        let (retries_tried, retries_denied) = self.retries();
        let servers = self.settings().servers.iter().enumerate();
        let servers = servers.flat_map(|(index, server)| {
            let mut of_server = targets
                .iter()
                .filter(|target| target.server == index)
                .peekable();
            let unresolved = of_server.peek().is_none().then(|| ServerReport {
                weight: server.weight,
                ..unresolved(server.address.to_string())
            });
            let resolved: Vec<_> = of_server.map(|target| self.server(target, now)).collect();
            unresolved.into_iter().chain(resolved)
        });
        UpstreamReport {
            name: self.name().to_owned(),
            balance: self.settings().balance.as_str(),
            circuit: self.circuit(now).map(Circuit::as_str),
            retries_tried,
            retries_denied,
            servers: servers.collect(),
        }
    }

    fn server(&self, target: &Target, now: Instant) -> ServerReport {
        let state = &target.state;
        let probe = self.settings().health.as_ref().map(|_| ProbeReport {
            passed: state.probe.passed.load(Ordering::Relaxed),
            failed: state.probe.failed.load(Ordering::Relaxed),
            last: state.probe.text(),
        });
        ServerReport {
            server: state.server.to_string(),
            address: self.address_of(target),
            weight: self.settings().servers[target.server].weight,
            state: state.condition().as_str(),
            reason: state.reason(now),
            since: state.since(now),
            ejections: state.ejections(),
            active: state.active(),
            requests: state.requests(),
            failures: state.failures(),
            latency: state.latency(),
            probe,
        }
    }
}

fn unresolved(server: String) -> ServerReport {
    ServerReport {
        server,
        address: String::new(),
        weight: 1,
        state: "unresolved",
        reason: "the host name has no address yet".to_owned(),
        since: Duration::ZERO,
        ejections: 0,
        active: 0,
        requests: 0,
        failures: 0,
        latency: None,
        probe: None,
    }
}
