//! Tables of an upstream of servers.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;
use crate::config::limits::{ATTEMPTS_MAX, IN_A_ROW, RATE_MAX, TIMEOUT_MAX};

pub(super) static STICKY: Table = Table {
    name: "http.upstream.sticky",
    doc: "Cookie that keeps a client on its server. It wins over `balance` while that server \
     takes requests; else another server is chosen, and the cookie set anew.",
    keys: &[
        &Spec::new(
            "cookie",
            Kind::Text(&forms::COOKIE_NAME),
            "Name of the cookie. Its value does not reveal the server. Each process makes values \
             of its own, so a restart or another node sets it anew.",
        )
        .required(),
        &Spec::new("ttl", forms::TIMEOUT, "`Max-Age` of the cookie.").absent(Absent::Text("1h")),
    ],
    needs: Needs::Nothing,
};

pub(super) static HEALTH: Table = Table {
    name: "http.upstream.health",
    doc: "Active health checks: requests to every server, at each of its addresses.",
    keys: &[
        &Spec::new(
            "path",
            Kind::Text(&forms::TARGET),
            "Path of the health check.",
        ),
        &Spec::new(
            "grpc",
            Kind::Text(&forms::FIELD_VALUE),
            "Service that is checked by `grpc.health.v1`, instead of `path`; \"\" is the server \
             as a whole. Only `SERVING` is healthy. Needs `protocol = \"h2c\"` or `\"h2\"`.",
        ),
        &Spec::new(
            "interval",
            forms::TIMEOUT,
            "Time between two checks of a server, plus or minus a tenth.",
        )
        .absent(Absent::Text("2s")),
        &Spec::new(
            "timeout",
            forms::TIMEOUT,
            "For the connection and the head of the response together.",
        )
        .absent(Absent::Text("1s")),
        &Spec::new(
            "healthy_after",
            Kind::Integer(IN_A_ROW.0, IN_A_ROW.1),
            "Passed checks in a row that bring a server back.",
        )
        .absent(Absent::Number(2)),
        &Spec::new(
            "unhealthy_after",
            Kind::Integer(IN_A_ROW.0, IN_A_ROW.1),
            "Checks in a row that failed or timed out, after which a server is taken out.",
        )
        .absent(Absent::Number(3)),
        &Spec::new(
            "expect",
            Kind::Text(&forms::STATUSES),
            "Statuses of a healthy response: \"2xx\", \"200\", \"200-399\", or several separated \
             by commas.",
        )
        .absent(Absent::Text("2xx")),
    ],
    needs: Needs::One(&["path", "grpc"]),
};

pub(super) static OUTLIER: Table = Table {
    name: "http.upstream.outlier",
    doc: "Passive health checks: ejects servers that fail. Without this table, five failed \
     connections in a row eject a server, with the other defaults; with it, connections that end \
     early, timeouts, malformed responses, 502, 503 and 504 count too.",
    keys: &[
        &Spec::new(
            "consecutive_failures",
            Kind::Integer(IN_A_ROW.0, IN_A_ROW.1),
            "Failures in a row after which a server is ejected.",
        )
        .absent(Absent::Number(5)),
        &Spec::new(
            "ejection",
            forms::TIMEOUT,
            "Time that a server stays ejected. After it, one more failure ejects the server \
             again. The time doubles with each ejection that follows soon after the last, up to \
             32 times this value.",
        )
        .absent(Absent::Text("10s")),
        &Spec::new(
            "max_ejected",
            Kind::Share,
            "Largest share of the servers that is ejected at once. Of several servers, one may \
             always be ejected; the only one never is.",
        )
        .absent(Absent::Text("50%")),
    ],
    needs: Needs::Nothing,
};

pub(super) static CIRCUIT_BREAKER: Table = Table {
    name: "http.upstream.circuit_breaker",
    doc: "Stops requests to an upstream whose servers fail.",
    keys: &[
        &Spec::new(
            "window",
            Kind::Duration(Duration::from_secs(1), TIMEOUT_MAX),
            "Time in which the requests of the whole node are counted.",
        )
        .absent(Absent::Text("10s")),
        &Spec::new(
            "min_requests",
            Kind::Integer(1, RATE_MAX),
            "Requests in the window below which the circuit stays closed.",
        )
        .absent(Absent::Number(20)),
        &Spec::new(
            "failure_ratio",
            Kind::Share,
            "Share of failed requests (no connection, reset, timeout, malformed response, 502, \
             503, 504) at which the circuit opens: no further request is sent.",
        )
        .absent(Absent::Text("50%")),
        &Spec::new(
            "open_for",
            forms::TIMEOUT,
            "Time that the circuit stays open. Then one request at a time is sent (half-open): \
             the first success closes the circuit, a failure opens it again. A request that \
             takes as long as this does not hold up others, since its client may be slow.",
        )
        .absent(Absent::Text("5s")),
        &Spec::new(
            "fallback",
            Kind::Text(&forms::NAME),
            "Upstream with `respond` that answers while the circuit is open. Without it, 503.",
        ),
    ],
    needs: Needs::Nothing,
};

pub(super) static RETRY: Table = Table {
    name: "http.upstream.retry",
    doc: "Retries of requests. Without this table, a server that takes no connection is passed \
     over, each server once.",
    keys: &[
        &Spec::new(
            "attempts",
            Kind::Integer(0, ATTEMPTS_MAX),
            "Retries of one request.",
        )
        .absent(Absent::Number(2)),
        &Spec::new(
            "on",
            Kind::Set(&Kind::Choice(&[
                "connect",
                "reset",
                "timeout",
                "502",
                "503",
                "504",
                "cancelled",
                "deadline-exceeded",
                "internal",
                "resource-exhausted",
                "unavailable",
            ])),
            "Conditions of a retry. \"connect\": no connection; \"reset\": the connection ended \
             or the response was malformed; \"timeout\": `timeouts.first_byte`; \"502\", \
             \"503\", \"504\": the server's status. All of these but \"connect\" need an \
             idempotent request. The others are statuses of gRPC and need `protocol = \"h2c\"` \
             or `\"h2\"`.",
        )
        .absent(Absent::Texts(&["connect", "reset", "502", "503", "504"])),
        &Spec::new(
            "budget",
            Kind::Share,
            "Largest share of the upstream's requests of the last ten seconds that is retried; \
             30 always may be.",
        )
        .absent(Absent::Text("20%")),
    ],
    needs: Needs::Nothing,
};

pub(super) static HEDGE: Table = Table {
    name: "http.upstream.hedge",
    doc: "Hedging: an idempotent request is sent to a second server if the first is slow. The \
     first head wins, and the other request is cancelled.",
    keys: &[
        &Spec::new(
            "after",
            Kind::Text(&forms::HEDGE_AFTER),
            "Time that the first server has for the head of its response: a duration, or a \
             percentile of the upstream's latest responses, \"p50\" to \"p99\".",
        )
        .absent(Absent::Text("p95")),
        &Spec::new(
            "max",
            Kind::Integer(0, 1),
            "Further servers that one request is sent to; `0` turns hedging off.",
        )
        .absent(Absent::Number(1)),
        &Spec::new(
            "budget",
            Kind::Share,
            "Largest share of the upstream's requests of the last ten seconds that is sent \
             twice; 30 always may be.",
        )
        .absent(Absent::Text("10%")),
    ],
    needs: Needs::Nothing,
};
