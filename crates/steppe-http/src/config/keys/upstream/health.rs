//! Keys by which servers are left out: health checks, ejection, and the circuit of an upstream.

use std::time::Duration;

use steppe_config::form::NAME;
use steppe_config::key::{Key, OptionalKey, duration, integer, key, share, text, timeout};
use steppe_config::keys;
use steppe_config::limits::TIMEOUT_MAX;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Table};
use steppe_config::typed::Fields;

use super::retry::no_grpc;
use crate::config::keys::forms::{FIELD_VALUE, STATUSES, TARGET};
use crate::config::{CircuitBreaker, Health, HealthRequest, Outlier, Statuses};
use crate::limits::{IN_A_ROW, RATE_MAX};

pub(super) static TABLE: Table = Table::new(
    "http.upstream.health",
    "Active health checks: requests to every server, at each of its addresses.",
    keys! { PATH, GRPC, INTERVAL, TIMEOUT, HEALTHY_AFTER, UNHEALTHY_AFTER, EXPECT },
)
.needing(Needs::One(&["path", "grpc"]));

static PATH: OptionalKey<String> = key("path", text(&TARGET), "Path of the health check.");

static GRPC: OptionalKey<String> = key(
    "grpc",
    text(&FIELD_VALUE),
    "Service that is checked by `grpc.health.v1`, instead of `path`; \"\" is the server as a \
     whole. Only `SERVING` is healthy. Needs `protocol = \"h2c\"` or `\"h2\"`.",
);

static INTERVAL: Key<Duration> = key(
    "interval",
    timeout(),
    "Time between two checks of a server, plus or minus a tenth.",
)
.or(Absent::Text("2s"));

static TIMEOUT: Key<Duration> = key(
    "timeout",
    timeout(),
    "For the connection and the head of the response together.",
)
.or(Absent::Text("1s"));

static HEALTHY_AFTER: Key<u32> = key(
    "healthy_after",
    integer(IN_A_ROW.0, IN_A_ROW.1),
    "Passed checks in a row that bring a server back.",
)
.or(Absent::Number(2));

static UNHEALTHY_AFTER: Key<u32> = key(
    "unhealthy_after",
    integer(IN_A_ROW.0, IN_A_ROW.1),
    "Checks in a row that failed or timed out, after which a server is taken out.",
)
.or(Absent::Number(3));

static EXPECT: Key<Statuses> = key(
    "expect",
    text(&STATUSES),
    "Statuses of a healthy response: \"2xx\", \"200\", \"200-399\", or several separated by \
     commas.",
)
.or(Absent::Text("2xx"));

pub(super) static OUTLIER: Table = Table::new(
    "http.upstream.outlier",
    "Passive health checks: ejects servers that fail. Without this table, five failed connections \
     in a row eject a server, with the other defaults; with it, connections that end early, \
     timeouts, malformed responses, 502, 503 and 504 count too.",
    keys! { CONSECUTIVE_FAILURES, EJECTION, MAX_EJECTED },
);

static CONSECUTIVE_FAILURES: Key<u32> = key(
    "consecutive_failures",
    integer(IN_A_ROW.0, IN_A_ROW.1),
    "Failures in a row after which a server is ejected.",
)
.or(Absent::Number(5));

static EJECTION: Key<Duration> = key(
    "ejection",
    timeout(),
    "Time that a server stays ejected. After it, one more failure ejects the server again. The \
     time doubles with each ejection that follows soon after the last, up to 32 times this value.",
)
.or(Absent::Text("10s"));

static MAX_EJECTED: Key<f64> = key(
    "max_ejected",
    share(),
    "Largest share of the servers that is ejected at once. Of several servers, one may always be \
     ejected; the only one never is.",
)
.or(Absent::Text("50%"));

pub(super) static CIRCUIT_BREAKER: Table = Table::new(
    "http.upstream.circuit_breaker",
    "Stops requests to an upstream whose servers fail.",
    keys! { WINDOW, MIN_REQUESTS, FAILURE_RATIO, OPEN_FOR, FALLBACK },
);

static WINDOW: Key<Duration> = key(
    "window",
    duration(Duration::from_secs(1), TIMEOUT_MAX),
    "Time in which the requests of the whole node are counted.",
)
.or(Absent::Text("10s"));

static MIN_REQUESTS: Key<u32> = key(
    "min_requests",
    integer(1, RATE_MAX),
    "Requests in the window below which the circuit stays closed.",
)
.or(Absent::Number(20));

static FAILURE_RATIO: Key<f64> = key(
    "failure_ratio",
    share(),
    "Share of failed requests (no connection, reset, timeout, malformed response, 502, 503, 504) \
     at which the circuit opens: no further request is sent.",
)
.or(Absent::Text("50%"));

static OPEN_FOR: Key<Duration> = key(
    "open_for",
    timeout(),
    "Time that the circuit stays open. Then one request at a time is sent (half-open): the first \
     success closes the circuit, a failure opens it again. A request that takes as long as this \
     does not hold up others, since its client may be slow.",
)
.or(Absent::Text("5s"));

/// The upstream that answers while the circuit is open.
pub static FALLBACK: OptionalKey<String> = key(
    "fallback",
    text(&NAME),
    "Upstream with `respond` that answers while the circuit is open. Without it, 503.",
);

pub(super) fn build(health: &Fields) -> Option<Health> {
    Some(Health {
        asks: match health.get(&GRPC)? {
            Some(service) => HealthRequest::Grpc(service),
            None => HealthRequest::Path(health.get(&PATH)??),
        },
        interval: health.get(&INTERVAL)?,
        timeout: health.get(&TIMEOUT)?,
        healthy_after: health.get(&HEALTHY_AFTER)?,
        unhealthy_after: health.get(&UNHEALTHY_AFTER)?,
        expect: health.get(&EXPECT)?,
    })
}

pub(super) fn outlier(outlier: &Fields) -> Option<Outlier> {
    Some(Outlier {
        consecutive_failures: outlier.get(&CONSECUTIVE_FAILURES)?,
        ejection: outlier.get(&EJECTION)?,
        max_ejected: outlier.get(&MAX_EJECTED)?,
    })
}

pub(super) fn circuit_breaker(breaker: &Fields) -> Option<CircuitBreaker> {
    Some(CircuitBreaker {
        window: breaker.get(&WINDOW)?,
        min_requests: breaker.get(&MIN_REQUESTS)?,
        failure_ratio: breaker.get(&FAILURE_RATIO)?,
        open_for: breaker.get(&OPEN_FOR)?,
        fallback: breaker.get(&FALLBACK)?,
    })
}

/// A server is asked in one way, and gRPC's is one of HTTP/2.
pub(super) fn check(health: &Fields, without_grpc: Option<&str>, mistakes: &mut Mistakes) {
    let Some(grpc) = health.place_of(&GRPC) else {
        return;
    };
    if let Some(at) = health.place_of(&PATH) {
        mistakes.push(
            Mistake::new(at, "`path` has no effect beside `grpc`")
                .label("servers are checked by grpc.health.v1")
                .also(grpc, "set here")
                .help("take one of them out"),
        );
    }
    if let Some(protocol) = without_grpc {
        let help = "set `protocol` to \"h2c\" or \"h2\", or ask for a `path`";
        mistakes.push(no_grpc(grpc, protocol).help(help));
    }
}
