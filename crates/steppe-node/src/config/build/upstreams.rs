//! Tables of upstreams, as the gateway takes them.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use steppe_config::typed::Fields;
use steppe_http::config::{
    Balance, CircuitBreaker, H1, H2, Health, HealthRequest, Hedge, Outlier, ProtocolName, Retry,
    RetryOn, Sticky,
};
use steppe_net::config::tls::servers;
use steppe_net::proxy_protocol::ProxyVersion;
use steppe_net::tls::config::ServerTrust;

use super::tls;
use crate::config::typed::ByName;

/// A table that need not be there.
macro_rules! table {
    ($upstream:expr, $name:literal) => {
        match $upstream.node($name) {
            None => return Some(None),
            Some(node) => node.fields()?,
        }
    };
}

/// The codec's name, and what stands below it.
pub(in crate::config) fn protocol(
    upstream: &Fields,
) -> Option<(ProtocolName, Option<ServerTrust>)> {
    match upstream.take("protocol")? {
        "h1" => Some((H1, None)),
        "h2c" => Some((H2, None)),
        "h1s" => Some((H1, Some(with_tls(upstream, tls::HTTP_1_1)?))),
        "h2" => Some((H2, Some(with_tls(upstream, tls::HTTP_2)?))),
        _ => None,
    }
}

fn with_tls(upstream: &Fields, alpn: &[u8]) -> Option<ServerTrust> {
    servers(upstream.table("tls")?, alpn)
}

pub(super) fn balance(upstream: &Fields) -> Option<Balance> {
    Some(match upstream.take("balance")? {
        "round-robin" => Balance::RoundRobin,
        "least-request" => Balance::LeastRequest,
        "p2c-ewma" => Balance::P2cEwma,
        "random" => Balance::Random,
        "ring-hash" => Balance::RingHash(upstream.take("hash_on")?),
        _ => return None,
    })
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn sticky(upstream: &Fields) -> Option<Option<Sticky>> {
    let sticky = table!(upstream, "sticky");
    Some(Some(Sticky {
        cookie: sticky.take("cookie")?,
        ttl: sticky.take("ttl")?,
    }))
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn health(upstream: &Fields) -> Option<Option<Health>> {
    let health = table!(upstream, "health");
    Some(Some(Health {
        asks: match health.node("grpc") {
            Some(_) => HealthRequest::Grpc(health.take("grpc")?),
            None => HealthRequest::Path(health.take("path")?),
        },
        interval: health.take("interval")?,
        timeout: health.take("timeout")?,
        healthy_after: health.take("healthy_after")?,
        unhealthy_after: health.take("unhealthy_after")?,
        expect: health.take("expect")?,
    }))
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn outlier(upstream: &Fields) -> Option<Option<Outlier>> {
    let outlier = table!(upstream, "outlier");
    Some(Some(Outlier {
        consecutive_failures: outlier.take("consecutive_failures")?,
        ejection: outlier.take("ejection")?,
        max_ejected: outlier.take("max_ejected")?,
    }))
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn circuit_breaker(upstream: &Fields) -> Option<Option<CircuitBreaker>> {
    let breaker = table!(upstream, "circuit_breaker");
    Some(Some(CircuitBreaker {
        window: breaker.take("window")?,
        min_requests: breaker.take("min_requests")?,
        failure_ratio: breaker.take("failure_ratio")?,
        open_for: breaker.take("open_for")?,
        fallback: breaker.optional("fallback")?,
    }))
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn retry(upstream: &Fields) -> Option<Option<Retry>> {
    let retry = table!(upstream, "retry");
    let on: Vec<&'static str> = retry.take("on")?;
    let on: Option<Vec<_>> = on.into_iter().map(RetryOn::named).collect();
    Some(Some(Retry {
        attempts: retry.take("attempts")?,
        on: on?.into_iter().fold(RetryOn::default(), RetryOn::or),
        budget: retry.take("budget")?,
    }))
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn hedge(upstream: &Fields) -> Option<Option<Hedge>> {
    let hedge = table!(upstream, "hedge");
    let after = hedge.take("after")?;
    let budget = hedge.take("budget")?;
    let max: u64 = hedge.take("max")?;
    Some((max > 0).then_some(Hedge { after, budget }))
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
pub(super) fn proxy_protocol(upstream: &Fields) -> Option<Option<ProxyVersion>> {
    let version: Option<&str> = upstream.optional("proxy_protocol")?;
    Some(match version {
        None => None,
        Some("v1") => Some(ProxyVersion::V1),
        Some("v2") => Some(ProxyVersion::V2),
        Some(_) => return None,
    })
}
