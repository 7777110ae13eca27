//! The state of each upstream's servers, shared by all workers.
//!
//! Invariant: the request path uses atomics only; the lock is taken when a server's condition
//! changes, once a second, and by admin.
//!
//! A server's state survives a reload if the upstream's name, the server and the address stay
//! the same.

use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use steppe_net::tls::ServerTls;
use steppe_net::{Endpoints, clock};

use super::breaker::{Admission, Breaker, Circuit, RequestOutcome, Trial};
use super::error_lines::ErrorLines;
use super::hedge::Latencies;
use super::picker::Candidate;
use super::retry_budget::RetryBudget;
use super::sticky;
use super::target::{Condition, Failure, TargetState};
use crate::config::{Outlier, Servers, Upstream, UpstreamKind};
use crate::limits::{SLOW_START_STEPS, WEIGHT_STEPS};

/// The upstreams of the current configuration.
#[derive(Debug, Default)]
pub struct Upstreams {
    current: RwLock<Vec<Arc<UpstreamState>>>,
}

/// One upstream of servers.
#[derive(Debug)]
pub struct UpstreamState {
    name: String,
    settings: Servers,
    /// TLS toward its servers; `None`: there is none.
    tls: Option<Arc<ServerTls>>,
    endpoints: Vec<Endpoints>,
    targets: Mutex<Vec<Target>>,
    /// Incremented when the candidates change.
    version: AtomicU64,
    kept: Arc<SurvivingState>,
}

/// The addresses of an upstream's servers, and TLS toward them.
#[derive(Debug, Default)]
pub struct Way {
    /// One for each server.
    pub endpoints: Vec<Endpoints>,
    /// TLS toward them; `None`: there is none.
    pub tls: Option<Arc<ServerTls>>,
}

/// State that survives a reload.
#[derive(Debug, Default)]
struct SurvivingState {
    breaker: Arc<Breaker>,
    retries: RetryBudget,
    hedges: RetryBudget,
    latencies: Latencies,
    /// The counts of the error log.
    lines: ErrorLines,
    /// Key of the sticky cookies' tokens.
    secret: RandomState,
}

/// A server at one of its addresses.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(super) state: Arc<TargetState>,
    /// Index of its server.
    pub(super) server: usize,
}

impl Target {
    /// True for the same server at the same address.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.server == other.server && Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Upstreams {
    /// Switches to a configuration whose servers are reached by `ways`: those that stay keep
    /// their state. `None` stands for an upstream without servers.
    pub fn replace(
        &self,
        upstreams: &[Upstream],
        ways: Vec<Way>,
    ) -> Vec<Option<Arc<UpstreamState>>> {
        let last = self.current();
        let state = |(upstream, way): (&Upstream, Way)| {
            let UpstreamKind::Servers(settings) = &upstream.kind else {
                return None;
            };
            let last = last.iter().find(|last| last.name == upstream.name);
            Some(Arc::new(UpstreamState::new(
                upstream.name.clone(),
                settings.clone(),
                way,
                last.map(|last| &**last),
            )))
        };
        let states: Vec<_> = upstreams.iter().zip(ways).map(state).collect();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = states.iter().flatten().cloned().collect();
        states
    }

    /// All of them, in the order of the configuration.
    #[must_use]
    pub fn current(&self) -> Vec<Arc<UpstreamState>> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drains a server of upstream `name`. `server` is the server as configured, or one of its
    /// addresses with the port. `None`: no such server.
    pub fn drain(&self, name: &str, server: &str) -> Option<()> {
        self.named(name)?.drain(server)
    }

    /// Ends what [`Upstreams::drain`] began.
    pub fn undrain(&self, name: &str, server: &str) -> Option<()> {
        self.named(name)?.undrain(server)
    }

    fn named(&self, name: &str) -> Option<Arc<UpstreamState>> {
        let mut current = self.current().into_iter();
        current.find(|upstream| upstream.name == name)
    }
}

impl UpstreamState {
    #[expect(
        clippy::disallowed_methods,
        reason = "servers start slowly from then on"
    )]
    pub(super) fn new(name: String, settings: Servers, way: Way, last: Option<&Self>) -> Self {
        let state = Self {
            name,
            settings,
            tls: way.tls,
            endpoints: way.endpoints,
            targets: Mutex::new(last.map_or_else(Vec::new, |last| last.lock().clone())),
            version: AtomicU64::new(1),
            kept: last.map_or_else(Arc::default, |last| Arc::clone(&last.kept)),
        };
        // Otherwise an index could refer to another server than before.
        state.rebuild(&mut state.lock(), clock::now());
        if state.settings.health.is_none() {
            // Without probes nothing would ever mark it healthy again.
            for target in state.targets() {
                state.note_healthy(&target.state);
            }
        }
        state
    }

    /// The key in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn error_lines(&self) -> &ErrorLines {
        &self.kept.lines
    }

    /// The configuration.
    #[must_use]
    pub fn settings(&self) -> &Servers {
        &self.settings
    }

    pub(super) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_deref()
    }

    pub(super) fn endpoints(&self) -> &[Endpoints] {
        &self.endpoints
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The servers at each of their addresses.
    pub(super) fn targets(&self) -> Vec<Target> {
        self.lock().clone()
    }

    /// Retries, and retries that the retry budget denied.
    #[must_use]
    pub fn retries(&self) -> (u64, u64) {
        self.kept.retries.totals()
    }

    pub(super) fn retry_budget(&self) -> &RetryBudget {
        &self.kept.retries
    }

    pub(super) fn hedge_budget(&self) -> &RetryBudget {
        &self.kept.hedges
    }

    /// Requests that a second server was asked too, those whose answer it gave, and those that the budget
    /// denied; `None`: there is no hedging.
    #[must_use]
    pub fn hedges(&self) -> Option<(u64, u64, u64)> {
        self.settings.hedge.as_ref()?;
        let (sent, denied) = self.kept.hedges.totals();
        Some((sent, self.kept.latencies.won(), denied))
    }

    /// The time that a first server has before a second one is asked; `None`: none is.
    pub(crate) fn hedge_after(&self) -> Option<Duration> {
        let hedge = self.settings.hedge.as_ref()?;
        self.kept.latencies.after(hedge.after)
    }

    /// A second server has answered before the first.
    pub(crate) fn hedge_won(&self) {
        self.kept.latencies.count_won();
    }

    /// A server has answered well, so long after the request was sent.
    pub(crate) fn answered_in(&self, elapsed: Duration, now: Instant) {
        if let Some(hedge) = &self.settings.hedge {
            self.kept.latencies.count(hedge.after, elapsed, now);
        }
    }

    /// True when a request may be sent to its servers now.
    pub(crate) fn admit(&self, now: Instant) -> Admission {
        match &self.settings.circuit_breaker {
            None => Admission::Pass,
            Some(settings) => self.kept.breaker.admit(settings, now),
        }
    }

    /// A request that was let through a half-open circuit was answered well.
    pub(crate) fn recovered(&self, trial: Trial) {
        trial.succeeded();
        tracing::info!(upstream = self.name, "circuit closed");
    }

    /// The state of the circuit breaker; `None`: there is none.
    #[must_use]
    pub fn circuit(&self, now: Instant) -> Option<Circuit> {
        self.settings.circuit_breaker.as_ref()?;
        Some(self.kept.breaker.circuit(now))
    }

    /// Times that the circuit breaker opened; `None`: there is none.
    #[must_use]
    pub fn circuits_opened(&self) -> Option<u64> {
        self.settings.circuit_breaker.as_ref()?;
        Some(self.kept.breaker.opened())
    }

    /// Records that a server answered well.
    pub(crate) fn succeeded(&self, now: Instant) {
        if let Some(settings) = &self.settings.circuit_breaker {
            self.kept
                .breaker
                .count(settings, RequestOutcome::Success, now);
        }
    }

    /// The token of a server in the sticky cookie.
    fn token(&self, state: &TargetState) -> u64 {
        sticky::token(&self.kept.secret, state)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Applies new addresses of names, and readmits servers whose ejection is over.
    pub(super) fn sync(&self, now: Instant) {
        let mut targets = self.lock();
        if !self.is_current(&targets) {
            self.rebuild(&mut targets, now);
        }
        let probation = self.outlier().consecutive_failures - 1;
        let mut has_changed = false;
        for target in &*targets {
            if target.state.readmit(probation, now) {
                has_changed = true;
                // Where its probes fail, it takes no requests all the same.
                if target.state.condition() == Condition::Healthy {
                    self.log_change(&target.state, "server readmitted");
                }
            }
        }
        if has_changed {
            self.changed();
        }
    }

    fn is_current(&self, targets: &[Target]) -> bool {
        let mut known = targets.iter();
        let all_known = self
            .endpoints
            .iter()
            .enumerate()
            .all(|(server, endpoints)| {
                let addresses = endpoints.addresses();
                addresses.iter().all(|&ip| {
                    let next = known.next();
                    next.is_some_and(|known| known.server == server && known.state.ip == ip)
                })
            });
        all_known && known.next().is_none()
    }

    fn rebuild(&self, targets: &mut Vec<Target>, now: Instant) {
        let mut known = std::mem::take(targets);
        for (server, endpoints) in self.endpoints.iter().enumerate() {
            for &ip in endpoints.addresses().iter() {
                let address = endpoints.server();
                let is_same =
                    |target: &Target| target.state.ip == ip && target.state.server == *address;
                let state = match known.iter().position(is_same) {
                    Some(at) => known.swap_remove(at).state,
                    None => Arc::new(TargetState::new(address.clone(), ip, now)),
                };
                targets.push(Target { state, server });
            }
        }
        self.changed();
    }

    /// The candidates with their current weights, and whether some are in slow start.
    pub(super) fn candidates(&self, now: Instant) -> (Vec<Candidate>, bool) {
        let targets = self.lock();
        let is_healthy = |target: &&Target| target.state.condition() == Condition::Healthy;
        let is_in_service = |target: &&Target| !target.state.is_drained();
        let mut is_growing = false;
        let mut candidate = |target: &Target| {
            let weight = self.weight(target, now);
            is_growing |= weight < self.full_weight(target.server);
            let mut candidate = Candidate::new(Arc::clone(&target.state), target.server, weight);
            candidate.token = self.token(&target.state);
            candidate
        };
        let mut candidates: Vec<_> = targets
            .iter()
            .filter(is_healthy)
            .map(&mut candidate)
            .collect();
        if candidates.is_empty() {
            // If no server is available, all are candidates: an attempt is better than a 503.
            candidates = targets
                .iter()
                .filter(is_in_service)
                .map(candidate)
                .collect();
        }
        (candidates, is_growing)
    }

    fn full_weight(&self, server: usize) -> u64 {
        u64::from(self.settings.servers[server].weight) * WEIGHT_STEPS
    }

    /// Slow start: the weight of a readmitted server grows from a tenth to the whole.
    fn weight(&self, target: &Target, now: Instant) -> u64 {
        let (full, window) = (self.full_weight(target.server), self.settings.slow_start);
        let Some(back_for) = target
            .state
            .back_for(now)
            .filter(|back_for| *back_for < window)
        else {
            return full;
        };
        let steps = u128::from(WEIGHT_STEPS) * back_for.as_millis() / window.as_millis().max(1);
        let steps = u64::try_from(steps).unwrap_or(WEIGHT_STEPS);
        full * steps.clamp(SLOW_START_STEPS, WEIGHT_STEPS) / WEIGHT_STEPS
    }

    fn outlier(&self) -> Outlier {
        self.settings.outlier.unwrap_or_default()
    }

    /// Records a failure of a server, `elapsed` after the request was sent.
    #[expect(clippy::disallowed_methods, reason = "an ejection begins")]
    pub(crate) fn failed(&self, state: &TargetState, failure: Failure, elapsed: Duration) {
        let now = clock::now();
        let in_a_row = state.failed(failure, elapsed, now);
        if state.may_warn(failure, now) {
            // Only its operator or ours can mend that: no request does.
            tracing::warn!(
                upstream = self.name,
                server = %state.server,
                address = %state.ip,
                reason = failure.as_str(),
                "TLS handshake with a server failed",
            );
        }
        if let Some(settings) = &self.settings.circuit_breaker
            && self
                .kept
                .breaker
                .count(settings, RequestOutcome::Failure, now)
        {
            let open_for_s = settings.open_for.as_secs_f64();
            tracing::warn!(upstream = self.name, open_for_s, "circuit opened");
        }
        let counts = self.settings.outlier.is_some() || failure.is_connect();
        if counts && in_a_row >= self.outlier().consecutive_failures {
            self.eject(state, now);
        }
    }

    fn eject(&self, state: &TargetState, now: Instant) {
        let targets = self.lock();
        if state.is_ejected() || !self.may_eject(&targets) {
            return;
        }
        let ejection = state.eject(self.outlier().ejection, now);
        self.changed();
        tracing::warn!(
            upstream = self.name,
            server = %state.server,
            address = %state.ip,
            reason = state.reason(now),
            ejection_s = ejection.as_secs_f64(),
            "server ejected",
        );
    }

    /// True when the limit of ejected servers allows another one: never the only server, and always
    /// one of several.
    fn may_eject(&self, targets: &[Target]) -> bool {
        let ejected = targets.iter().filter(|target| target.state.is_ejected());
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small count"
        )]
        let most = (targets.len() as f64 * self.outlier().max_ejected) as usize;
        targets.len() > 1 && ejected.count() < most.max(1)
    }

    /// Takes a server whose probes fail out of service.
    #[expect(
        clippy::disallowed_methods,
        reason = "its condition changes from then on"
    )]
    pub(super) fn note_unhealthy(&self, state: &TargetState) {
        if state.set_unhealthy(clock::now()) {
            self.changed();
            self.log_change(state, "server is unhealthy");
        }
    }

    /// Brings a server back whose probes pass.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server comes back from then on"
    )]
    pub(super) fn note_healthy(&self, state: &TargetState) {
        if state.set_healthy(clock::now()) {
            self.changed();
            self.log_change(state, "server is healthy again");
        }
    }

    fn log_change(&self, state: &TargetState, what: &str) {
        let last = state.probe.text();
        tracing::info!(upstream = self.name, server = %state.server, address = %state.ip,
            last_probe = last, "{what}");
    }

    fn drain(&self, server: &str) -> Option<()> {
        self.change(server, TargetState::drain)
    }

    fn undrain(&self, server: &str) -> Option<()> {
        self.change(server, TargetState::undrain)
    }

    /// Changes the condition of each target of a server. `None`: no such server.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server comes back from then on"
    )]
    fn change(&self, server: &str, change: fn(&TargetState, Instant) -> bool) -> Option<()> {
        let now = clock::now();
        let mut found = None;
        for target in &*self.lock() {
            let address = self.address_of(target);
            if target.state.server.to_string() == server || address == server {
                change(&target.state, now);
                found = Some(());
            }
        }
        self.changed();
        found
    }

    /// A target's address as text: `unix:` and the path for a Unix socket.
    pub(super) fn address_of(&self, target: &Target) -> String {
        let address = self.endpoints[target.server].socket_address(target.state.ip);
        address.map_or_else(
            || target.state.server.to_string(),
            |address| address.to_string(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use steppe_net::{Names, ServerAddress, SystemResolver};

    use super::*;

    fn server(port: u16) -> ServerAddress {
        ServerAddress::Ip(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn upstream(name: &str, ports: &[u16]) -> Upstream {
        Upstream {
            name: name.to_owned(),
            kind: UpstreamKind::Servers(Servers::of(ports.iter().copied().map(server))),
        }
    }

    fn replaced(all: &Upstreams, upstream: &Upstream) -> Arc<UpstreamState> {
        let names = Names::new(Arc::new(SystemResolver::new().expect("settings")));
        let UpstreamKind::Servers(servers) = &upstream.kind else {
            panic!("it has servers");
        };
        let endpoints = servers.servers.iter();
        let endpoints = endpoints
            .map(|server| names.endpoints(&server.address))
            .collect();
        let way = Way {
            endpoints,
            tls: None,
        };
        let states = all.replace(std::slice::from_ref(upstream), vec![way]);
        states.into_iter().flatten().next().expect("one")
    }

    fn fail(upstream: &UpstreamState, at: usize, failure: Failure, times: usize) {
        let state = upstream.targets()[at].state.clone();
        (0..times).for_each(|_| upstream.failed(&state, failure, Duration::ZERO));
    }

    fn conditions(upstream: &UpstreamState) -> Vec<Condition> {
        let targets = upstream.targets();
        targets
            .iter()
            .map(|target| target.state.condition())
            .collect()
    }

    use Condition::{Draining, Ejected, Healthy};

    #[test]
    fn at_most_the_share_is_ejected() {
        let mut config = upstream("a", &[1, 2, 3, 4]);
        if let UpstreamKind::Servers(servers) = &mut config.kind {
            servers.outlier = Some(Outlier::default());
        }
        let upstream = replaced(&Upstreams::default(), &config);
        (0..4).for_each(|at| fail(&upstream, at, Failure::Timeout, 5));
        assert_eq!(conditions(&upstream), [Ejected, Ejected, Healthy, Healthy]);
        assert_eq!(upstream.candidates(Instant::now()).0.len(), 2);
    }

    #[test]
    fn without_the_key_only_failed_connections_eject() {
        let upstream = replaced(&Upstreams::default(), &upstream("a", &[1, 2]));
        fail(&upstream, 0, Failure::Unavailable, 50);
        assert_eq!(conditions(&upstream), [Healthy, Healthy]);
        fail(&upstream, 1, Failure::Connect, 4);
        assert_eq!(conditions(&upstream), [Healthy, Healthy]);
        fail(&upstream, 1, Failure::Connect, 1);
        assert_eq!(conditions(&upstream), [Healthy, Ejected]);
        let later = Instant::now() + Duration::from_secs(11);
        upstream.sync(later);
        assert_eq!(conditions(&upstream), [Healthy, Healthy]);
    }

    #[test]
    fn the_only_server_is_never_ejected() {
        let upstream = replaced(&Upstreams::default(), &upstream("a", &[1]));
        fail(&upstream, 0, Failure::Connect, 50);
        assert_eq!(conditions(&upstream), [Healthy]);
    }

    #[test]
    fn where_none_is_well_all_are_asked_but_those_out_of_service() {
        let upstream = replaced(&Upstreams::default(), &upstream("a", &[1, 2, 3]));
        for target in upstream.targets() {
            upstream.note_unhealthy(&target.state);
        }
        assert_eq!(upstream.candidates(Instant::now()).0.len(), 3);
        upstream.drain("127.0.0.1:2").expect("it is there");
        assert_eq!(upstream.candidates(Instant::now()).0.len(), 2);
        assert!(upstream.drain("127.0.0.1:9").is_none());
    }

    #[test]
    fn a_server_that_comes_back_starts_slowly() {
        let mut config = upstream("a", &[1, 2]);
        if let UpstreamKind::Servers(servers) = &mut config.kind {
            servers.slow_start = Duration::from_secs(10);
            servers.servers[0].weight = 2;
        }
        let upstream = replaced(&Upstreams::default(), &config);
        let state = upstream.targets()[0].state.clone();
        upstream.note_unhealthy(&state);
        upstream.note_healthy(&state);
        let now = Instant::now();
        let weight = |seconds| {
            let later = now + Duration::from_secs(seconds);
            upstream.weight(&upstream.targets()[0], later)
        };
        assert_eq!(weight(0), 200);
        assert!((990..1010).contains(&weight(5)), "{}", weight(5));
        assert_eq!(weight(10), 2000);
        assert!(upstream.candidates(now).1, "its weight still grows");
        assert_eq!(upstream.weight(&upstream.targets()[1], now), 1000);
    }

    #[test]
    fn servers_that_stay_keep_their_state_in_a_new_configuration() {
        let all = Upstreams::default();
        let old = replaced(&all, &upstream("a", &[1, 2, 3]));
        old.drain("127.0.0.1:2").expect("it is there");
        let new = replaced(&all, &upstream("a", &[4, 2]));
        assert_eq!(conditions(&new), [Healthy, Draining]);
        assert!(Arc::ptr_eq(
            &old.targets()[1].state,
            &new.targets()[1].state
        ));
        let other = replaced(&all, &upstream("b", &[2]));
        assert_eq!(conditions(&other), [Healthy]);
    }
}
