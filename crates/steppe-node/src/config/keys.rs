//! Every key that a configuration may have: what it means, what it takes, what holds without it,
//! and whether it can be used yet.
//!
//! Invariant: this is the only list of keys; a key that is marked later is refused by name. The
//! reader, the defaults, the schema, the manual and `/config` follow from it; `build` takes each
//! key once, and a test finds one that it does not take.

mod access;
mod authentication;
mod compress;
mod dns;
mod error_pages;
mod files;
mod filter;
mod listener;
mod plane;
mod tls;
mod transform;
mod upstream;

use super::limits::{
    DRAIN_TIMEOUT_MAX, KEEPALIVE, MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, ROUTE_BUDGET_MIN,
    TIMEOUT_MAX, WEIGHT, WORKERS_MAX,
};
use super::table::{Absent, Choice, Form, Key, Kind, Needs, Table};
use access::ACCESS;
use dns::DNS;
use files::FILES;
use filter::FILTER;
use listener::LISTENER;
use plane::{DISCOVERY, PLANE};
use std::time::Duration;
use tls::{ADMIN_TLS, CLIENT_CERT, UPSTREAM_TLS};
use upstream::{CIRCUIT_BREAKER, HEALTH, HEDGE, OUTLIER, RETRY, STICKY};

/// The whole file.
pub static ROOT: Table = Table {
    name: "",
    doc: "Configuration of a Steppe node.",
    keys: &[
        Key::new("node", Kind::Table(&NODE), NODE.doc).absent(Absent::Table),
        Key::new("admin", Kind::Table(&ADMIN), ADMIN.doc),
        Key::new("log", Kind::Table(&LOG), LOG.doc).absent(Absent::Table),
        Key::new("trace", Kind::Table(&TRACE), TRACE.doc),
        Key::new("http", Kind::Table(&HTTP), HTTP.doc).absent(Absent::Table),
        Key::new("dns", Kind::Table(&DNS), DNS.doc),
        Key::new("plane", Kind::Table(&PLANE), PLANE.doc),
        Key::new("discovery", Kind::Tagged(&DISCOVERY), DISCOVERY.doc),
    ],
    needs: Needs::Nothing,
};

static NODE: Table = Table {
    name: "node",
    doc: "The process: its threads and its memory.",
    keys: &[
        Key::new(
            "workers",
            Kind::Either(&[
                Kind::Choice(&[Choice::served("auto")]),
                Kind::Integer(1, WORKERS_MAX),
            ]),
            "Worker threads; \"auto\" follows the CPU quota, one thread each.",
        )
        .absent(Absent::Text("auto")),
        Key::new(
            "memory_budget",
            Kind::Either(&[
                Kind::Share,
                Kind::Size(MEMORY_BUDGET_MIN, MEMORY_BUDGET_MAX),
            ]),
            "Memory that serving may take: a size, or a share of the container's limit, else of \
             the machine.",
        )
        .absent(Absent::Text("75%")),
        Key::new(
            "drain_timeout",
            Kind::Duration(Duration::ZERO, DRAIN_TIMEOUT_MAX),
            "How long exchanges may go on after the node is told to stop.",
        )
        .absent(Absent::Text("30s")),
    ],
    needs: Needs::Nothing,
};

static ADMIN: Table = Table {
    name: "admin",
    doc: "The admin endpoint: page, metrics, memory, configuration.",
    keys: &[
        Key::new(
            "listen",
            Kind::Text(Form::Listen),
            "Where the admin endpoint listens.",
        )
        .required(),
        Key::new(
            "token_file",
            Kind::Text(Form::File),
            "File with the bearer token that admin asks for; required beyond loopback and Unix \
             sockets.",
        ),
        Key::new(
            "probes",
            Kind::Text(Form::Listen),
            "Where /healthz and /readyz stand alone, without TLS; without it they stand on \
             `listen`.",
        ),
        Key::new("tls", Kind::Table(&ADMIN_TLS), ADMIN_TLS.doc),
    ],
    needs: Needs::Nothing,
};

static LOG: Table = Table {
    name: "log",
    doc: "What the node says about itself.",
    keys: &[
        Key::new(
            "level",
            Kind::Choice(&[
                Choice::served("error"),
                Choice::served("warn"),
                Choice::served("info"),
                Choice::served("debug"),
            ]),
            "The least severe level that is logged.",
        )
        .absent(Absent::Text("info")),
        Key::new(
            "format",
            Kind::Choice(&[Choice::served("text"), Choice::served("json")]),
            "How a line is written.",
        )
        .absent(Absent::Text("text")),
        Key::new(
            "access",
            Kind::Either(&[
                Kind::Choice(&[Choice::served("off"), Choice::served("stdout")]),
                Kind::Table(&ACCESS),
            ]),
            "A line for each exchange.",
        )
        .absent(Absent::Text("off")),
    ],
    needs: Needs::Nothing,
};

static TRACE: Table = Table {
    name: "trace",
    doc: "Traces of requests, sent to a collector by OTLP over HTTP, in JSON.",
    keys: &[
        Key::new(
            "otlp",
            Kind::Text(Form::Collector),
            "Where the collector is; spans go to /v1/traces below it.",
        )
        .required(),
        Key::new(
            "sample",
            Kind::Share,
            "The share of traces that is kept of those that begin here; of others, who began them says so.",
        )
        .absent(Absent::Text("1%")),
    ],
    needs: Needs::Nothing,
};

static HTTP: Table = Table {
    name: "http",
    doc: "The HTTP gateway.",
    keys: &[
        Key::new(
            "trusted_proxies",
            Kind::List(&Kind::Text(Form::Network), 0),
            "Peers whose Forwarded and X-Forwarded-* fields are believed; others' are replaced.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "listener",
            Kind::List(&Kind::Table(&LISTENER), 0),
            LISTENER.doc,
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "upstream",
            Kind::Map(Form::Name, &Kind::Table(&UPSTREAM)),
            UPSTREAM.doc,
        )
        .absent(Absent::Table),
        Key::new(
            "filter",
            Kind::Map(Form::Name, &Kind::Tagged(&FILTER)),
            FILTER.doc,
        )
        .absent(Absent::Table),
        Key::new("route", Kind::List(&Kind::Table(&ROUTE), 0), ROUTE.doc)
            .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};

/// What servers speak over TLS.
pub const TLS_PROTOCOLS: [&str; 2] = ["h1s", "h2"];

static UPSTREAM: Table = Table {
    name: "http.upstream",
    doc: "Origins, by name.",
    keys: &[
        Key::new(
            "servers",
            Kind::List(
                &Kind::Either(&[Kind::Text(Form::Server), Kind::Table(&SERVER)]),
                1,
            ),
            "Where its servers are; names are resolved again by their TTL.",
        ),
        Key::new("respond", Kind::Table(&RESPOND), RESPOND.doc).exclusive(),
        Key::new(
            "plane",
            Kind::Text(Form::Service),
            "A service of the request plane answers, instead of servers.",
        )
        .exclusive(),
        Key::new(
            "protocol",
            Kind::Choice(&[
                Choice::served("h1"),
                Choice::served("h2c"),
                Choice::served("h1s"),
                Choice::served("h2"),
            ]),
            "What its servers speak: \"h1\" and \"h2c\" are HTTP/1.1 and HTTP/2 without TLS, \"h1s\" \
             and \"h2\" the same with it.",
        )
        .absent(Absent::Text("h1")),
        Key::new("tls", Kind::Table(&UPSTREAM_TLS), UPSTREAM_TLS.doc).absent(Absent::TableWhere {
            key: "protocol",
            says: &TLS_PROTOCOLS,
        }),
        Key::new(
            "balance",
            Kind::Choice(&[
                Choice::served("round-robin"),
                Choice::served("least-request"),
                Choice::served("p2c-ewma"),
                Choice::served("random"),
                Choice::served("ring-hash"),
            ]),
            "Which server is next.",
        )
        .absent(Absent::Text("round-robin")),
        Key::new(
            "hash_on",
            Kind::Text(Form::HashOn),
            "What \"ring-hash\" looks at: \"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\".",
        ),
        Key::new("sticky", Kind::Table(&STICKY), STICKY.doc),
        Key::new(
            "slow_start",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "How long a server that comes back takes to its full share.",
        )
        .absent(Absent::Text("0s")),
        Key::new(
            "keepalive",
            Kind::Integer(KEEPALIVE.0, KEEPALIVE.1),
            "Idle connections kept, a worker.",
        )
        .absent(Absent::Number(256)),
        Key::new(
            "timeouts",
            Kind::Table(&UPSTREAM_TIMEOUTS),
            UPSTREAM_TIMEOUTS.doc,
        )
        .absent(Absent::Table),
        Key::new("health", Kind::Table(&HEALTH), HEALTH.doc),
        Key::new("outlier", Kind::Table(&OUTLIER), OUTLIER.doc),
        Key::new(
            "circuit_breaker",
            Kind::Table(&CIRCUIT_BREAKER),
            CIRCUIT_BREAKER.doc,
        ),
        Key::new("retry", Kind::Table(&RETRY), RETRY.doc),
        Key::new(
            "proxy_protocol",
            Kind::Choice(&[Choice::served("v1"), Choice::served("v2")]),
            "Says to servers first whom a connection is for, which is not used again then.",
        ),
        Key::new("hedge", Kind::Table(&HEDGE), HEDGE.doc),
    ],
    needs: Needs::One(&["servers", "respond", "plane"]),
};

static SERVER: Table = Table {
    name: "http.upstream.servers",
    doc: "One server.",
    keys: &[
        Key::new("address", Kind::Text(Form::Server), "Where it is.").required(),
        Key::new(
            "weight",
            Kind::Integer(WEIGHT.0, WEIGHT.1),
            "Its share of the requests, relative to the others'.",
        )
        .absent(Absent::Number(1)),
    ],
    needs: Needs::Nothing,
};

static UPSTREAM_TIMEOUTS: Table = Table {
    name: "http.upstream.timeouts",
    doc: "How long a server may take.",
    keys: &[
        Key::new(
            "connect",
            Kind::TIMEOUT,
            "Until the connection stands: 504.",
        )
        .absent(Absent::Text("1s")),
        Key::new(
            "first_byte",
            Kind::TIMEOUT,
            "From the request's last byte to the response's first: 504.",
        )
        .absent(Absent::Text("60s")),
        Key::new(
            "idle",
            Kind::TIMEOUT,
            "Between two reads or writes within a message; also how long an idle connection is \
             kept.",
        )
        .absent(Absent::Text("60s")),
        Key::new(
            "total",
            Kind::TIMEOUT,
            "The whole exchange; tunnels and event streams have `idle` only. Without it: no bound.",
        ),
    ],
    needs: Needs::Nothing,
};

static RESPOND: Table = Table {
    name: "http.upstream.respond",
    doc: "A response that the gateway makes itself, instead of servers.",
    keys: &[
        Key::new("status", Kind::Integer(200, 599), "Status code.").absent(Absent::Number(200)),
        Key::new("body", Kind::Text(Form::Any), "Content.").absent(Absent::Text("")),
        Key::new(
            "headers",
            Kind::Map(
                Form::FieldName,
                &Kind::OneOrMany(&Kind::Text(Form::FieldValue)),
            ),
            "Further fields.",
        )
        .absent(Absent::Table)
        .secret(),
    ],
    needs: Needs::Nothing,
};

static ROUTE: Table = Table {
    name: "http.route",
    doc: "Which requests go where: the most specific route that matches is taken.",
    keys: &[
        Key::new(
            "name",
            Kind::Text(Form::Name),
            "Its name in metrics and logs.",
        )
        .required(),
        Key::new(
            "host",
            Kind::OneOrMany(&Kind::Text(Form::Host)),
            "Any of these hosts; without it every host.",
        ),
        Key::new(
            "path",
            Kind::Text(Form::Path),
            "Literal segments, {name} for one segment, {rest*} for what follows.",
        )
        .absent(Absent::Text("/{rest*}")),
        Key::new(
            "methods",
            Kind::List(&Kind::Text(Form::Method), 1),
            "Any of these methods; without it every method but CONNECT.",
        ),
        Key::new(
            "headers",
            Kind::Map(Form::FieldName, &Kind::Text(Form::FieldValue)),
            "Fields that must be there with just this value.",
        )
        .absent(Absent::Table)
        .secret(),
        Key::new(
            "query",
            Kind::Map(Form::Any, &Kind::Text(Form::Any)),
            "Query parameters that must be there with just this value.",
        )
        .absent(Absent::Table)
        .secret(),
        Key::new("client_cert", Kind::Table(&CLIENT_CERT), CLIENT_CERT.doc),
        Key::new(
            "filters",
            Kind::List(&Kind::Text(Form::Name), 0),
            "Filters, in this order for the request and reversed for the response.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "upstream",
            Kind::Text(Form::Name),
            "The upstream that answers.",
        ),
        Key::new("files", Kind::Table(&FILES), FILES.doc),
        Key::new(
            "budget",
            Kind::Size(ROUTE_BUDGET_MIN, MEMORY_BUDGET_MAX),
            "Share of the node's memory budget; without it the whole of it.",
        ),
        Key::new("timeouts", Kind::Table(&ROUTE_TIMEOUTS), ROUTE_TIMEOUTS.doc)
            .absent(Absent::Table),
    ],
    needs: Needs::One(&["upstream", "files"]),
};

static ROUTE_TIMEOUTS: Table = Table {
    name: "http.route.timeouts",
    doc: "How long an exchange of this route may take.",
    keys: &[Key::new(
        "total",
        Kind::TIMEOUT,
        "The whole exchange; wins over the upstream's.",
    )],
    needs: Needs::Nothing,
};
