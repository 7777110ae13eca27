//! The state of one server at one of its addresses.
//!
//! Invariant: all fields are atomics, so the request path takes no lock. Times are
//! milliseconds since the process started, which fit an atomic.
//!
//! Non-goals: policy. `state.rs` decides about ejection, `probe.rs` about health.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use steppe_net::ServerAddress;
use steppe_net::tls::{ConnectError, ConnectErrorKind};

use super::latency::Latency;
use super::uptime::millis;

/// A server at one of its addresses, shared by all workers.
#[derive(Debug)]
#[repr(align(128))]
pub struct TargetState {
    /// The server as it was configured.
    pub(super) server: ServerAddress,
    pub(super) ip: IpAddr,
    /// The address as text.
    address: Box<str>,
    started: AtomicU64,
    ended: AtomicU64,
    /// Requests that wait for a connection.
    waiting: AtomicU32,
    failures: AtomicU64,
    in_a_row: AtomicU32,
    last_failure: AtomicU8,
    /// Time of the last warning of TLS, and the failure that it named. 0: there was none.
    warned_at: AtomicU64,
    warned_of: AtomicU8,
    latency: Latency,
    /// End of its ejection. 0: it is not ejected.
    ejected_until: AtomicU64,
    ejections: AtomicU64,
    /// Consecutive ejections, each soon after the one before.
    streak: AtomicU32,
    is_drained: AtomicBool,
    is_unhealthy: AtomicBool,
    /// Time of its last readmission. 0: it was never ejected.
    back_at: AtomicU64,
    /// Time of the last change of its condition.
    changed_at: AtomicU64,
    pub(super) probe: ProbeState,
}

/// Results of probes.
#[derive(Debug, Default)]
pub(super) struct ProbeState {
    pub(super) passed: AtomicU64,
    pub(super) failed: AtomicU64,
    /// The last status or [`ProbeFailure`]; 0: no probe yet.
    pub(super) last: AtomicU16,
}

/// A failure of a request to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused or failed.
    Connect,
    /// The connect timeout expired.
    ConnectTimeout,
    /// The connection was closed or reset before the response was complete.
    Reset,
    /// No response in time.
    Timeout,
    /// The response was malformed.
    MalformedResponse,
    /// 502.
    BadGateway,
    /// 503.
    Unavailable,
    /// 504.
    GatewayTimeout,
    /// The certificate is of no authority that is trusted.
    TlsUntrusted,
    /// The certificate is for other names.
    TlsName,
    /// The certificate is past its time, or not valid yet.
    TlsExpired,
    /// The public key is none of `pins`.
    TlsPin,
    /// The server refused the handshake.
    TlsAlert,
    /// There is no session for another reason.
    Tls,
}

/// True when a server is sent requests, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The server is sent requests.
    Healthy,
    /// The probes fail.
    Unhealthy,
    /// The server was ejected after failures.
    Ejected,
    /// The operator drains it.
    Draining,
}

impl Failure {
    const ALL: [Self; 14] = [
        Self::Connect,
        Self::ConnectTimeout,
        Self::Reset,
        Self::Timeout,
        Self::MalformedResponse,
        Self::BadGateway,
        Self::Unavailable,
        Self::GatewayTimeout,
        Self::TlsUntrusted,
        Self::TlsName,
        Self::TlsExpired,
        Self::TlsPin,
        Self::TlsAlert,
        Self::Tls,
    ];

    /// The failure that a response's status stands for, if it does.
    #[must_use]
    pub fn status(status: u16) -> Option<Self> {
        match status {
            502 => Some(Self::BadGateway),
            503 => Some(Self::Unavailable),
            504 => Some(Self::GatewayTimeout),
            _ => None,
        }
    }

    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connection refused",
            Self::ConnectTimeout => "connection timed out",
            Self::Reset => "connection ended early",
            Self::Timeout => "no response in time",
            Self::MalformedResponse => "malformed response",
            Self::BadGateway => "status 502",
            Self::Unavailable => "status 503",
            Self::GatewayTimeout => "status 504",
            Self::TlsUntrusted => "certificate from an unknown authority",
            Self::TlsName => "certificate for another name",
            Self::TlsExpired => "certificate expired or not valid yet",
            Self::TlsPin => "public key is not pinned",
            Self::TlsAlert => "TLS handshake refused",
            Self::Tls => "TLS handshake failed",
        }
    }

    pub(super) fn is_connect(self) -> bool {
        matches!(self, Self::Connect | Self::ConnectTimeout) || self.is_tls()
    }

    /// True when a connection stood, and there was no session of TLS on it.
    pub(super) fn is_tls(self) -> bool {
        matches!(
            self,
            Self::TlsUntrusted
                | Self::TlsName
                | Self::TlsExpired
                | Self::TlsPin
                | Self::TlsAlert
                | Self::Tls
        )
    }

    /// Why there is no session.
    pub(super) fn of_tls(error: &ConnectError) -> Self {
        match error.kind() {
            ConnectErrorKind::Untrusted => Self::TlsUntrusted,
            ConnectErrorKind::Name => Self::TlsName,
            ConnectErrorKind::Expired => Self::TlsExpired,
            ConnectErrorKind::Pin => Self::TlsPin,
            ConnectErrorKind::Alert => Self::TlsAlert,
            ConnectErrorKind::Other => Self::Tls,
        }
    }
}

impl Condition {
    /// The name in `/upstreams`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
        }
    }
}

fn address_text(server: &ServerAddress, ip: IpAddr) -> Box<str> {
    match server {
        ServerAddress::Name { port, .. } => SocketAddr::new(ip, *port).to_string().into(),
        other => other.to_string().into(),
    }
}

impl TargetState {
    pub(super) fn new(server: ServerAddress, ip: IpAddr, now: Instant) -> Self {
        Self {
            address: address_text(&server, ip),
            server,
            ip,
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            in_a_row: AtomicU32::new(0),
            last_failure: AtomicU8::new(0),
            warned_at: AtomicU64::new(0),
            warned_of: AtomicU8::new(0),
            latency: Latency::default(),
            ejected_until: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
            streak: AtomicU32::new(0),
            is_drained: AtomicBool::new(false),
            is_unhealthy: AtomicBool::new(false),
            back_at: AtomicU64::new(0),
            changed_at: AtomicU64::new(millis(now)),
            probe: ProbeState::default(),
        }
    }

    /// The address and port, or the path of a Unix socket.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Counts a request that begins.
    #[inline]
    pub fn begin(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a request that [began](Self::begin).
    #[inline]
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that waits for a connection.
    pub(super) fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of such a wait.
    pub(super) fn wait_over(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests in flight, those that wait for a connection included.
    #[inline]
    #[must_use]
    pub fn active(&self) -> u64 {
        // `ended` first: a request that ends in between is counted rather than lost.
        let ended = self.ended.load(Ordering::Relaxed);
        let started = self.started.load(Ordering::Relaxed);
        started.saturating_sub(ended) + u64::from(self.waiting.load(Ordering::Relaxed))
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Failures so far.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Ejections so far.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// Moving average of its latency.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.latency.value()
    }

    /// The latency times the requests in flight; lower is better.
    #[inline]
    pub(super) fn cost(&self, now: Instant) -> f64 {
        self.latency.cost(self.active(), now)
    }

    /// Records a response's head, received `elapsed` after the request began.
    #[inline]
    pub(crate) fn note_latency(&self, elapsed: Duration, now: Instant) {
        self.latency.observe(elapsed, now);
    }

    /// Records a complete exchange.
    #[inline]
    pub(crate) fn succeeded(&self) {
        // A load of a shared cache line is cheap, a store is not.
        if self.in_a_row.load(Ordering::Relaxed) != 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failure and returns the number of consecutive ones.
    pub(super) fn failed(&self, failure: Failure, elapsed: Duration, now: Instant) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.last_failure.store(failure as u8, Ordering::Relaxed);
        self.latency
            .observe(elapsed.max(crate::limits::FAILURE_LATENCY), now);
        self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// True when a failure of TLS is worth a warning: the first one, another one than before, and one
    /// that lasts, once in a while. Each connection fails, and requests wait for none of it.
    pub(super) fn may_warn(&self, failure: Failure, now: Instant) -> bool {
        if !failure.is_tls() {
            return false;
        }
        let is_other = self.warned_of.swap(failure as u8, Ordering::Relaxed) != failure as u8;
        let (at, last) = (millis(now), self.warned_at.load(Ordering::Relaxed));
        let is_due = last == 0 || Duration::from_millis(at.saturating_sub(last)) >= WARNING_PAUSE;
        if is_other || is_due {
            self.warned_at.store(at, Ordering::Relaxed);
        }
        is_other || is_due
    }

    pub(super) fn last_failure(&self) -> Failure {
        Failure::ALL[usize::from(self.last_failure.load(Ordering::Relaxed))]
    }

    /// Ejects it for `ejection`, doubled for each consecutive ejection; returns the duration.
    pub(super) fn eject(&self, ejection: Duration, now: Instant) -> Duration {
        let at = millis(now);
        let back_at = self.back_at.load(Ordering::Relaxed);
        let streak = self.streak.load(Ordering::Relaxed);
        let last = ejection * (1 << streak.saturating_sub(1).min(DOUBLINGS));
        let was_well = back_at == 0 || Duration::from_millis(at - back_at) > last;
        let streak = if was_well { 1 } else { streak + 1 };
        self.streak.store(streak, Ordering::Relaxed);
        let ejection = ejection * (1 << (streak - 1).min(DOUBLINGS));
        let until = millis(now + ejection);
        self.ejections.fetch_add(1, Ordering::Relaxed);
        self.changed_at.store(at, Ordering::Relaxed);
        self.ejected_until.store(until, Ordering::Relaxed);
        ejection
    }

    pub(super) fn is_ejected(&self) -> bool {
        self.ejected_until.load(Ordering::Relaxed) != 0
    }

    /// Ends an ejection that has expired, with `probation` consecutive failures on record, so that
    /// one more ejects it again. Returns whether one ended.
    pub(super) fn readmit(&self, probation: u32, now: Instant) -> bool {
        let until = self.ejected_until.load(Ordering::Relaxed);
        if until == 0 || millis(now) < until {
            return false;
        }
        self.ejected_until.store(0, Ordering::Relaxed);
        self.in_a_row.store(probation, Ordering::Relaxed);
        self.came_back(now);
        true
    }

    fn came_back(&self, now: Instant) {
        let now = millis(now);
        self.back_at.store(now, Ordering::Relaxed);
        self.changed_at.store(now, Ordering::Relaxed);
    }

    /// Takes it out of service; returns false where it was drained before.
    pub(super) fn drain(&self, now: Instant) -> bool {
        self.leave(&self.is_drained, now)
    }

    /// Brings it back into service; returns false where it was not drained.
    pub(super) fn undrain(&self, now: Instant) -> bool {
        self.return_from(&self.is_drained, now)
    }

    /// Its probes fail; returns false where they did before.
    pub(super) fn set_unhealthy(&self, now: Instant) -> bool {
        self.leave(&self.is_unhealthy, now)
    }

    /// Its probes pass; returns false where they did before.
    pub(super) fn set_healthy(&self, now: Instant) -> bool {
        self.return_from(&self.is_unhealthy, now)
    }

    /// Sets `flag`, one of its own; returns false where it was set.
    fn leave(&self, flag: &AtomicBool, now: Instant) -> bool {
        let is_changed = !flag.swap(true, Ordering::Relaxed);
        if is_changed {
            self.changed_at.store(millis(now), Ordering::Relaxed);
        }
        is_changed
    }

    /// Clears `flag`, one of its own; returns false where it was not set.
    fn return_from(&self, flag: &AtomicBool, now: Instant) -> bool {
        let is_changed = flag.swap(false, Ordering::Relaxed);
        if is_changed {
            self.came_back(now);
        }
        is_changed
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Relaxed)
    }

    /// The condition.
    #[must_use]
    pub fn condition(&self) -> Condition {
        if self.is_drained() {
            Condition::Draining
        } else if self.is_unhealthy.load(Ordering::Relaxed) {
            Condition::Unhealthy
        } else if self.is_ejected() {
            Condition::Ejected
        } else {
            Condition::Healthy
        }
    }

    /// Why it is in its condition; may be empty.
    #[must_use]
    pub fn reason(&self, now: Instant) -> String {
        match self.condition() {
            Condition::Healthy => match self.in_a_row.load(Ordering::Relaxed) {
                0 => String::new(),
                // Nothing but its operator can mend that.
                _ if self.last_failure().is_tls() => self.last_failure().as_str().to_owned(),
                1 => format!("last request failed: {}", self.last_failure().as_str()),
                count => {
                    let last = self.last_failure().as_str();
                    format!("{count} consecutive failures, the last: {last}")
                }
            },
            Condition::Draining => "taken out of service by admin".to_owned(),
            Condition::Unhealthy => {
                format!("health checks fail; last result: {}", self.probe.text())
            }
            Condition::Ejected => {
                let until = self.ejected_until.load(Ordering::Relaxed);
                let left = Duration::from_millis(until.saturating_sub(millis(now)));
                format!(
                    "{} consecutive failures, the last: {}; readmitted in {:.1} s",
                    self.in_a_row.load(Ordering::Relaxed),
                    self.last_failure().as_str(),
                    left.as_secs_f64()
                )
            }
        }
    }

    /// Time in its condition.
    #[must_use]
    pub fn since(&self, now: Instant) -> Duration {
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        Duration::from_millis(millis(now).saturating_sub(changed_at))
    }

    /// Time since its readmission; `None`: it was never ejected.
    pub(super) fn back_for(&self, now: Instant) -> Option<Duration> {
        let back_at = self.back_at.load(Ordering::Relaxed);
        (back_at != 0).then(|| Duration::from_millis(millis(now).saturating_sub(back_at)))
    }
}

const DOUBLINGS: u32 = crate::limits::EJECTION_DOUBLINGS_MAX;
const WARNING_PAUSE: Duration = crate::limits::TLS_WARNING_PAUSE;

/// Why a probe has no status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeFailure {
    Connect,
    Timeout,
    Cut,
    MalformedResponse,
    /// The server says by `grpc.health.v1` that it does not serve.
    NotServing,
    Tls(Failure),
    /// The node has no memory for a probe, which says nothing about the server and is not recorded.
    OverBudget,
}

/// Codes below the first status, 100, that stand for what a handshake failed of.
const TLS_CODES: u16 = 16;

impl ProbeFailure {
    /// As [`ProbeState`] keeps it: never 0, and no status.
    pub(super) fn code(self) -> u16 {
        match self {
            Self::Connect | Self::OverBudget => 1,
            Self::Timeout => 2,
            Self::Cut => 3,
            Self::MalformedResponse => 4,
            Self::NotServing => 5,
            Self::Tls(failure) => TLS_CODES + failure as u16,
        }
    }
}

impl ProbeState {
    /// The last result as text.
    pub(super) fn text(&self) -> String {
        let last = self.last.load(Ordering::Relaxed);
        let of_tls = last.checked_sub(TLS_CODES);
        let of_tls = of_tls.and_then(|at| Failure::ALL.get(usize::from(at)));
        match (last, of_tls) {
            (_, Some(failure)) => failure.as_str().to_owned(),
            (0, _) => "none yet".to_owned(),
            (1, _) => "no connection".to_owned(),
            (2, _) => "no response in time".to_owned(),
            (3, _) => "connection ended early".to_owned(),
            (4, _) => "malformed response".to_owned(),
            (5, _) => "not serving".to_owned(),
            (status, _) => status.to_string(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::upstream) fn target() -> TargetState {
        let address = "127.0.0.1:1".parse().expect("an address");
        let server = ServerAddress::Ip(address);
        TargetState::new(server, address.ip(), Instant::now())
    }

    #[test]
    fn ejections_that_follow_soon_grow_and_others_begin_again() {
        let (target, base) = (target(), Duration::from_secs(10));
        let mut now = Instant::now();
        let mut lengths = Vec::new();
        for _ in 0..8 {
            let length = target.eject(base, now);
            lengths.push(length.as_secs());
            assert!(!target.readmit(4, now), "its time has not come");
            now += length + Duration::from_millis(2);
            assert!(target.readmit(4, now));
        }
        assert_eq!(lengths, [10, 20, 40, 80, 160, 320, 320, 320]);
        now += Duration::from_secs(321);
        assert_eq!(target.eject(base, now), base);
        assert_eq!(target.ejections(), 9);
    }

    #[test]
    fn one_more_failure_is_enough_on_probation() {
        let target = target();
        let now = Instant::now();
        target.eject(Duration::from_secs(1), now);
        assert!(target.readmit(4, now + Duration::from_secs(2)));
        assert_eq!(target.failed(Failure::Reset, Duration::ZERO, now), 5);
        target.succeeded();
        assert_eq!(target.failed(Failure::Reset, Duration::ZERO, now), 1);
    }

    #[test]
    fn a_failure_of_tls_is_worth_a_warning_once_in_a_while() {
        let (target, mut now) = (target(), Instant::now());
        assert!(!target.may_warn(Failure::Connect, now), "it is not of TLS");
        assert!(target.may_warn(Failure::TlsPin, now));
        assert!(!target.may_warn(Failure::TlsPin, now));
        assert!(!target.may_warn(Failure::Connect, now));
        assert!(!target.may_warn(Failure::TlsPin, now));
        assert!(target.may_warn(Failure::TlsName, now), "it is another");
        now += WARNING_PAUSE / 2;
        assert!(!target.may_warn(Failure::TlsName, now));
        now += WARNING_PAUSE / 2;
        assert!(target.may_warn(Failure::TlsName, now), "it lasts");
    }

    #[test]
    fn a_probe_says_what_failed() {
        let (probe, mut texts) = (ProbeState::default(), Vec::new());
        let all = Failure::ALL.into_iter().filter(|failure| failure.is_tls());
        let all = all
            .map(ProbeFailure::Tls)
            .chain([ProbeFailure::MalformedResponse]);
        for failure in all {
            assert!((1..100).contains(&failure.code()), "a status: {failure:?}");
            probe.last.store(failure.code(), Ordering::Relaxed);
            texts.push(probe.text());
        }
        assert_eq!(texts[0], "certificate from an unknown authority");
        assert_eq!(texts[5..], ["TLS handshake failed", "malformed response"]);
        probe.last.store(204, Ordering::Relaxed);
        assert_eq!(probe.text(), "204");
    }

    #[test]
    fn a_drained_server_is_draining_whatever_else_it_is() {
        let target = target();
        let now = Instant::now();
        target.eject(Duration::from_secs(9), now);
        assert_eq!(target.condition(), Condition::Ejected);
        assert!(target.drain(now) && !target.drain(now));
        assert_eq!(target.condition(), Condition::Draining);
        assert!(target.undrain(now));
        assert_eq!(target.condition(), Condition::Ejected);
    }
}
