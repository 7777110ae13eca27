//! Tables of an upstream of servers.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use crate::config::limits::{ATTEMPTS_MAX, IN_A_ROW, RATE_MAX, TIMEOUT_MAX};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static STICKY: Table = Table {
    name: "http.upstream.sticky",
    doc: "A cookie that keeps a client at its server.",
    keys: &[
        Key::new("cookie", Kind::Text(Form::CookieName), "Its name.").required(),
        Key::new("ttl", Kind::TIMEOUT, "How long a client keeps it.").absent(Absent::Text("1h")),
    ],
    needs: Needs::Nothing,
};

pub(super) static HEALTH: Table = Table {
    name: "http.upstream.health",
    doc: "Requests that ask a server whether it is well.",
    keys: &[
        Key::new("path", Kind::Text(Form::Target), "What is asked for."),
        Key::new(
            "grpc",
            Kind::Text(Form::FieldValue),
            "A service that is asked for by grpc.health.v1 instead; \"\" is the server as a whole.",
        ),
        Key::new("interval", Kind::TIMEOUT, "Between two requests.").absent(Absent::Text("2s")),
        Key::new("timeout", Kind::TIMEOUT, "For connection and response.")
            .absent(Absent::Text("1s")),
        Key::new(
            "healthy_after",
            Kind::Integer(IN_A_ROW.0, IN_A_ROW.1),
            "Good answers in a row that bring a server back.",
        )
        .absent(Absent::Number(2)),
        Key::new(
            "unhealthy_after",
            Kind::Integer(IN_A_ROW.0, IN_A_ROW.1),
            "Bad answers in a row that take a server out.",
        )
        .absent(Absent::Number(3)),
        Key::new(
            "expect",
            Kind::Text(Form::Statuses),
            "Good statuses: \"2xx\", \"200\", \"200-399\", or several with commas.",
        )
        .absent(Absent::Text("2xx")),
    ],
    needs: Needs::One(&["path", "grpc"]),
};

pub(super) static OUTLIER: Table = Table {
    name: "http.upstream.outlier",
    doc: "When a server that fails is left out.",
    keys: &[
        Key::new(
            "consecutive_failures",
            Kind::Integer(IN_A_ROW.0, IN_A_ROW.1),
            "After this many failures in a row.",
        )
        .absent(Absent::Number(5)),
        Key::new(
            "ejection",
            Kind::TIMEOUT,
            "For this long, and longer when it happens again soon.",
        )
        .absent(Absent::Text("10s")),
        Key::new(
            "max_ejected",
            Kind::Share,
            "Of the servers, at most this share at once; one of several always may be.",
        )
        .absent(Absent::Text("50%")),
    ],
    needs: Needs::Nothing,
};

pub(super) static CIRCUIT_BREAKER: Table = Table {
    name: "http.upstream.circuit_breaker",
    doc: "When an upstream whose servers fail is left alone.",
    keys: &[
        Key::new(
            "window",
            Kind::Duration(Duration::from_secs(1), TIMEOUT_MAX),
            "The time in which requests are counted.",
        )
        .absent(Absent::Text("10s")),
        Key::new(
            "min_requests",
            Kind::Integer(1, RATE_MAX),
            "Fewer requests than this open nothing.",
        )
        .absent(Absent::Number(20)),
        Key::new(
            "failure_ratio",
            Kind::Share,
            "The share of them that fails.",
        )
        .absent(Absent::Text("50%")),
        Key::new(
            "open_for",
            Kind::TIMEOUT,
            "How long no request is sent; then one at a time, until one is answered well.",
        )
        .absent(Absent::Text("5s")),
        Key::new(
            "fallback",
            Kind::Text(Form::Name),
            "The upstream that answers meanwhile, one with `respond`; without it: 503.",
        ),
    ],
    needs: Needs::Nothing,
};

pub(super) static RETRY: Table = Table {
    name: "http.upstream.retry",
    doc: "Which requests are sent again.",
    keys: &[
        Key::new(
            "attempts",
            Kind::Integer(0, ATTEMPTS_MAX),
            "Further tries of one request.",
        )
        .absent(Absent::Number(2)),
        Key::new(
            "on",
            Kind::Set(&Kind::Choice(&[
                Choice::served("connect"),
                Choice::served("reset"),
                Choice::served("timeout"),
                Choice::served("502"),
                Choice::served("503"),
                Choice::served("504"),
                Choice::served("cancelled"),
                Choice::served("deadline-exceeded"),
                Choice::served("internal"),
                Choice::served("resource-exhausted"),
                Choice::served("unavailable"),
            ])),
            "After what.",
        )
        .absent(Absent::Texts(&["connect", "reset", "502", "503", "504"])),
        Key::new(
            "budget",
            Kind::Share,
            "Of the requests of the last ten seconds, at most this share is sent again.",
        )
        .absent(Absent::Text("20%")),
    ],
    needs: Needs::Nothing,
};

pub(super) static HEDGE: Table = Table {
    name: "http.upstream.hedge",
    doc: "When a second server is asked too: the first head wins.",
    keys: &[
        Key::new(
            "after",
            Kind::Text(Form::HedgeAfter),
            "How long the first has for its head: a time, or a percentile of the answers, \"p50\" to \"p99\".",
        )
        .absent(Absent::Text("p95")),
        Key::new(
            "max",
            Kind::Integer(0, 1),
            "Further servers that one request is sent to; 0 asks none.",
        )
        .absent(Absent::Number(1)),
        Key::new(
            "budget",
            Kind::Share,
            "Of the requests of the last ten seconds, at most this share is sent to a second server.",
        )
        .absent(Absent::Text("10%")),
    ],
    needs: Needs::Nothing,
};
