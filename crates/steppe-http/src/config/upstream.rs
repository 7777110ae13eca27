//! The configuration of an upstream of servers: balancing, health, outliers, retries, hedging.
//!
//! Invariant: as for all of `config`, every value is within its range.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use steppe_net::ServerAddress;
use steppe_net::proxy_protocol::ProxyVersion;
use steppe_net::tls::config::ServerTrust;

use super::protocol::{H1, ProtocolName};
use crate::grpc::Code;

/// Servers of one upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// At least one.
    pub servers: Vec<Server>,
    /// The protocol of the servers.
    pub protocol: ProtocolName,
    /// TLS below the protocol. `None`: plain TCP.
    pub tls: Option<ServerTrust>,
    /// The load-balancing policy.
    pub balance: Balance,
    /// The cookie that keeps a client at its server.
    pub sticky: Option<Sticky>,
    /// The time that a recovered server takes to its full share. Zero: at once.
    pub slow_start: Duration,
    /// Idle connections kept, a worker.
    pub keepalive: usize,
    /// Time limits on servers.
    pub timeouts: UpstreamTimeouts,
    /// Requests that ask a server whether it is well.
    pub health: Option<Health>,
    /// Ejection of servers that fail. `None`: only failed connections eject one.
    pub outlier: Option<Outlier>,
    /// The circuit breaker over all servers. `None`: none.
    pub circuit_breaker: Option<CircuitBreaker>,
    /// Retries. `None`: only requests that no server received.
    pub retry: Option<Retry>,
    /// Hedging: the request goes to a second server as well. `None`: never.
    pub hedge: Option<Hedge>,
    /// Connections open with a PROXY header that names the client. They are not reused then.
    pub proxy_protocol: Option<ProxyVersion>,
}

/// Timeouts of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Until the connection stands: 504.
    pub connect: Duration,
    /// From the request's last byte to the response's first: 504.
    pub first_byte: Duration,
    /// Between two reads or writes within a message; also how long an idle connection is kept.
    pub idle: Duration,
    /// The whole exchange. `None`: no bound. Tunnels and event streams have `idle` only.
    pub total: Option<Duration>,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: None,
        }
    }
}

/// A server and its share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The server's address.
    pub address: ServerAddress,
    /// The server's share of requests, relative to the others'; 1 to 1000.
    pub weight: u32,
}

/// A load-balancing policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// In turn, evenly spread by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest requests under way.
    LeastRequest,
    /// The better of two: by latency and requests under way.
    P2cEwma,
    /// Any.
    Random,
    /// The same server for requests with the same hash key.
    RingHash(HashOn),
}

/// The hash key of [`Balance::RingHash`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashOn {
    /// A field; its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// The client's address.
    Ip,
    /// The path.
    Path,
}

/// A cookie that keeps a client at its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticky {
    /// The cookie's name: a token.
    pub cookie: String,
    /// The cookie's lifetime.
    pub ttl: Duration,
}

/// Requests that ask a server whether it is well.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// The probe's request.
    pub asks: HealthRequest,
    /// Between two requests.
    pub interval: Duration,
    /// For the connection and the response's head together.
    pub timeout: Duration,
    /// This many good answers in a row bring a server back.
    pub healthy_after: u32,
    /// This many bad ones in a row take it out.
    pub unhealthy_after: u32,
    /// Which statuses are good.
    pub expect: Statuses,
}

/// The request of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthRequest {
    /// A GET of this target, in origin-form.
    Path(String),
    /// A `grpc.health.v1` check of this service; empty: of the server as a whole.
    Grpc(String),
}

/// A set of status codes, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses {
    text: String,
    ranges: Vec<RangeInclusive<u16>>,
}

/// Ejection of a server that fails (outlier detection).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// After this many failures in a row.
    pub consecutive_failures: u32,
    /// For this long the first time; longer when it happens again.
    pub ejection: Duration,
    /// The largest share of servers ejected at once.
    pub max_ejected: f64,
}

/// A circuit breaker: while it is open, the upstream gets no requests.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitBreaker {
    /// The time in which requests are counted.
    pub window: Duration,
    /// Fewer requests than this open nothing.
    pub min_requests: u32,
    /// The share of them that fails.
    pub failure_ratio: f64,
    /// The time that the breaker stays open.
    pub open_for: Duration,
    /// The upstream that answers meanwhile, one with `respond`. `None`: 503.
    pub fallback: Option<String>,
}

/// Hedging: a request that takes long goes to a second server as well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// The delay before the second request.
    pub after: HedgeAfter,
    /// The largest share of the last ten seconds' requests that is hedged.
    pub budget: f64,
}

/// The delay of a hedge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeAfter {
    /// A fixed time.
    Time(Duration),
    /// A percentile of the upstream's response times. 50 to 99.
    Percentile(u8),
}

impl HedgeAfter {
    /// `p95`: a percentile; `None`: it is none from 50 to 99.
    #[must_use]
    pub fn percentile(text: &str) -> Option<Self> {
        let percent = text.strip_prefix('p')?.parse().ok()?;
        let is_plain = text.len() == 3;
        (is_plain && (50..=99).contains(&percent)).then_some(Self::Percentile(percent))
    }
}

/// Retries: conditions, attempts and budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Further tries of one request.
    pub attempts: u32,
    /// The conditions.
    pub on: RetryOn,
    /// The largest share of the last ten seconds' requests that is retried.
    pub budget: f64,
}

/// A set of conditions for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryOn(u16);

impl Servers {
    /// `servers` with every default.
    #[must_use]
    pub fn of(servers: impl IntoIterator<Item = ServerAddress>) -> Self {
        Self {
            servers: servers.into_iter().map(Server::from).collect(),
            balance: Balance::default(),
            sticky: None,
            slow_start: Duration::ZERO,
            protocol: H1,
            tls: None,
            keepalive: 256,
            timeouts: UpstreamTimeouts::default(),
            health: None,
            outlier: None,
            retry: None,
            hedge: None,
            circuit_breaker: None,
            proxy_protocol: None,
        }
    }
}

impl From<ServerAddress> for Server {
    fn from(address: ServerAddress) -> Self {
        Self { address, weight: 1 }
    }
}

impl Default for Outlier {
    fn default() -> Self {
        Self {
            consecutive_failures: 5,
            ejection: Duration::from_secs(10),
            max_ejected: 0.5,
        }
    }
}

impl Balance {
    /// As a configuration writes it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LeastRequest => "least-request",
            Self::P2cEwma => "p2c-ewma",
            Self::Random => "random",
            Self::RingHash(_) => "ring-hash",
        }
    }
}

impl fmt::Display for HashOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Ip => f.write_str("ip"),
            Self::Path => f.write_str("path"),
        }
    }
}

impl Statuses {
    /// Reads `2xx`, `200`, `200-399`, or several of them with commas between.
    /// `None`: it is none of these, or beyond 100 to 599.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let ranges: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
        Some(Self {
            text: text.to_owned(),
            ranges: ranges?,
        })
    }

    /// True when `status` is in the set.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&status))
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let code = |text: &str| {
        let is_code = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
        let code: u16 = is_code.then(|| text.parse().ok())??;
        (100..=599).contains(&code).then_some(code)
    };
    if let Some(class) = text.strip_suffix("xx") {
        let first = code(&format!("{class}00"))?;
        return Some(first..=first + 99);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (code(first)?, code(last)?);
    (first <= last).then_some(first..=last)
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl RetryOn {
    /// The connection did not come to stand.
    pub const CONNECT: Self = Self(1);
    /// The connection ended before the response began.
    pub const RESET: Self = Self(1 << 1);
    /// The response did not begin in time.
    pub const TIMEOUT: Self = Self(1 << 2);
    /// 502 Bad Gateway.
    pub const BAD_GATEWAY: Self = Self(1 << 3);
    /// 503 Service Unavailable.
    pub const UNAVAILABLE: Self = Self(1 << 4);
    /// 504 Gateway Timeout.
    pub const GATEWAY_TIMEOUT: Self = Self(1 << 5);

    /// A status of gRPC: `CANCELLED`.
    pub const CANCELLED: Self = Self(1 << 6);
    /// A status of gRPC: `DEADLINE_EXCEEDED`.
    pub const DEADLINE_EXCEEDED: Self = Self(1 << 7);
    /// A status of gRPC: `INTERNAL`.
    pub const INTERNAL: Self = Self(1 << 8);
    /// A status of gRPC: `RESOURCE_EXHAUSTED`.
    pub const RESOURCE_EXHAUSTED: Self = Self(1 << 9);
    /// A status of gRPC: `UNAVAILABLE`.
    pub const CALL_UNAVAILABLE: Self = Self(1 << 10);

    /// The union of both sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when the sets intersect.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The condition that a status is, if any.
    #[must_use]
    pub fn status(status: u16) -> Option<Self> {
        match status {
            502 => Some(Self::BAD_GATEWAY),
            503 => Some(Self::UNAVAILABLE),
            504 => Some(Self::GATEWAY_TIMEOUT),
            _ => None,
        }
    }

    /// The condition that a status of gRPC is, if any.
    #[must_use]
    pub fn code(code: Code) -> Option<Self> {
        match code {
            Code::Cancelled => Some(Self::CANCELLED),
            Code::DeadlineExceeded => Some(Self::DEADLINE_EXCEEDED),
            Code::Internal => Some(Self::INTERNAL),
            Code::ResourceExhausted => Some(Self::RESOURCE_EXHAUSTED),
            Code::Unavailable => Some(Self::CALL_UNAVAILABLE),
            _ => None,
        }
    }

    /// True when the set has a status of gRPC.
    #[must_use]
    pub fn has_codes(self) -> bool {
        (Code::ALL.into_iter().filter_map(Self::code)).any(|on| self.has(on))
    }

    /// True when the set has an HTTP status.
    #[must_use]
    pub fn has_statuses(self) -> bool {
        self.has(
            Self::BAD_GATEWAY
                .or(Self::UNAVAILABLE)
                .or(Self::GATEWAY_TIMEOUT),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_classes_codes_ranges_and_lists_of_them() {
        let some = Statuses::parse("200, 3xx,400-404").expect("valid");
        let good = [200, 300, 399, 400, 404].map(|status| some.contains(status));
        assert_eq!(good, [true; 5]);
        let bad = [201, 299, 405, 500].map(|status| some.contains(status));
        assert_eq!(bad, [false; 4]);
        for wrong in [
            "", "2x", "20", "2000", "099", "600", "300-200", "200-", "xx", "200,,201",
        ] {
            assert_eq!(Statuses::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn conditions_are_statuses_or_codes() {
        let codes = Code::ALL.into_iter().filter_map(RetryOn::code);
        assert_eq!(codes.clone().count(), 5);
        let codes = codes.fold(RetryOn::default(), RetryOn::or);
        assert!(codes.has_codes() && !codes.has_statuses());
        let status = RetryOn::UNAVAILABLE;
        assert!(status.has_statuses() && !status.has_codes());
        assert!(!RetryOn::CONNECT.has_statuses() && !RetryOn::CONNECT.has_codes());
    }
}
