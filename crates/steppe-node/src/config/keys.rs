//! Every key that a configuration may have: what it means, what it takes, what holds without it,
//! and whether it can be used yet.
//!
//! Invariant: this is the only list of keys; a key that is marked later is refused by name. The
//! reader, the defaults, the schema, the manual and `/config` follow from it; `build` takes each
//! key once, and a test finds one that it does not take.

mod access;
mod authentication;
mod dns;
mod error_pages;
mod files;
mod filter;
mod listener;
mod plane;
pub mod tls;
mod transform;
mod upstream;

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use super::limits::{
    DRAIN_TIMEOUT_MAX, KEEPALIVE, MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, ROUTE_BUDGET_MIN,
    TIMEOUT_MAX, WEIGHT, WORKERS_MAX,
};
use crate::config::forms;
use access::ACCESS;
use dns::DNS;
use files::FILES;
use filter::FILTER;
use listener::LISTENER;
use plane::{DISCOVERY, PLANE};
use tls::{ADMIN_TLS, CLIENT_CERT, UPSTREAM_TLS};
use upstream::{CIRCUIT_BREAKER, HEALTH, HEDGE, OUTLIER, RETRY, STICKY};

/// The whole file.
pub static ROOT: Table = Table {
    name: "",
    doc: "Configuration of a Steppe node.",
    keys: &[
        &Spec::new("node", Kind::Table(&NODE), NODE.doc).absent(Absent::Table),
        &Spec::new("admin", Kind::Table(&ADMIN), ADMIN.doc),
        &Spec::new("log", Kind::Table(&LOG), LOG.doc).absent(Absent::Table),
        &Spec::new("trace", Kind::Table(&TRACE), TRACE.doc),
        &Spec::new("http", Kind::Table(&HTTP), HTTP.doc).absent(Absent::Table),
        &Spec::new("dns", Kind::Table(&DNS), DNS.doc),
        &Spec::new("plane", Kind::Table(&PLANE), PLANE.doc),
        &Spec::new("discovery", Kind::Tagged(&DISCOVERY), DISCOVERY.doc),
    ],
    needs: Needs::Nothing,
};

static NODE: Table = Table {
    name: "node",
    doc: "The process: worker threads, memory and shutdown.",
    keys: &[
        &Spec::new(
            "workers",
            Kind::Either(&[Kind::Choice(&["auto"]), Kind::Integer(1, WORKERS_MAX)]),
            "Worker threads. \"auto\" starts one thread for each CPU that the CPU affinity and \
             the CPU quota allow, but no more than `memory_budget` carries.",
        )
        .absent(Absent::Text("auto")),
        &Spec::new(
            "memory_budget",
            Kind::Either(&[
                Kind::Share,
                Kind::Size(MEMORY_BUDGET_MIN, MEMORY_BUDGET_MAX),
            ]),
            "Memory that serving may take: a size, or a share of the container's limit (control \
             groups, versions 1 and 2), else of the machine's memory. A size above that limit is \
             an error, which `steppe check` reports on the machine where it runs.",
        )
        .absent(Absent::Text("75%")),
        &Spec::new(
            "client_share",
            Kind::Either(&[Kind::Share, Kind::Choice(&["off"])]),
            "Share of `memory_budget` that one client may hold while less than half of the budget \
             is free. A client with more waits, or is refused, and others are served. A client is \
             an IPv4 address or the first 64 bits of an IPv6 address, over all its connections by \
             HTTP, DNS and the request plane; behind a trusted proxy it is the address that the \
             proxy names. Every client may hold 256 KiB. Peers on Unix sockets have no share.",
        )
        .absent(Absent::Text("25%")),
        &Spec::new(
            "share_exempt",
            Kind::List(&Kind::Text(&forms::NETWORK), 0),
            "Networks of clients without a share, since they stand for many: load balancers \
             without the PROXY protocol, gateways that call a relay of the request plane. A \
             warning names an address when it is held back for the first time.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "drain_timeout",
            Kind::Duration(Duration::ZERO, DRAIN_TIMEOUT_MAX),
            "Time that open exchanges have to finish after SIGTERM or Ctrl-C. A second signal \
             ends the wait.",
        )
        .absent(Absent::Text("30s")),
    ],
    needs: Needs::Nothing,
};

static ADMIN: Table = Table {
    name: "admin",
    doc: "The admin endpoint: page, metrics, memory, configuration. Without this section there \
     is none.",
    keys: &[
        &Spec::new(
            "listen",
            Kind::Text(&forms::LISTEN),
            "Address of the admin page, `/metrics`, `/memory`, `/config`, `/events`, `/healthz` \
             and `/readyz`. On loopback without a token, only requests whose `Host` is an IP \
             address or `localhost` are answered, which protects against DNS rebinding by web \
             pages.",
        )
        .required(),
        &Spec::new(
            "token_file",
            Kind::Text(&forms::FILE),
            "File with the bearer token of the admin endpoint. Required unless `listen` is \
             loopback or a Unix socket. Without the token, only the probes and the files of the \
             admin page are served; the page holds no data, asks for the token, and keeps it \
             until its tab is closed.",
        ),
        &Spec::new(
            "probes",
            Kind::Text(&forms::LISTEN),
            "Separate address for `/healthz` and `/readyz`, without token and without TLS. They \
             are then not served on `listen`.",
        ),
        &Spec::new("tls", Kind::Table(&ADMIN_TLS), ADMIN_TLS.doc),
    ],
    needs: Needs::Nothing,
};

static LOG: Table = Table {
    name: "log",
    doc: "Log of the node, written to standard error, one event a line.",
    keys: &[
        &Spec::new(
            "level",
            Kind::Choice(&["error", "warn", "info", "debug"]),
            "Least severe level that is logged.",
        )
        .absent(Absent::Text("info")),
        &Spec::new(
            "format",
            Kind::Choice(&["text", "json"]),
            "Format of a line.",
        )
        .absent(Absent::Text("text")),
        &Spec::new(
            "access",
            Kind::Either(&[Kind::Choice(&["off", "stdout"]), Kind::Table(&ACCESS)]),
            "Access log: a line for each exchange. \"stdout\" writes combined lines to standard \
             output; a table writes to a file.",
        )
        .absent(Absent::Text("off")),
    ],
    needs: Needs::Nothing,
};

static TRACE: Table = Table {
    name: "trace",
    doc: "Traces of requests (W3C Trace Context), sent as spans by OTLP over HTTP, in JSON. \
     Without this section, no request is read or changed for traces.",
    keys: &[
        &Spec::new(
            "otlp",
            Kind::Text(&forms::COLLECTOR),
            "URL of the collector, http or https. Spans are sent to `/v1/traces` below it.",
        )
        .required(),
        &Spec::new(
            "sample",
            Kind::Share,
            "Share of the traces begun by this node that is kept. For a trace begun elsewhere, \
             `traceparent` decides.",
        )
        .absent(Absent::Text("1%")),
    ],
    needs: Needs::Nothing,
};

static HTTP: Table = Table {
    name: "http",
    doc: "The HTTP gateway.",
    keys: &[
        &Spec::new(
            "trusted_proxies",
            Kind::List(&Kind::Text(&forms::NETWORK), 0),
            "Networks whose `Forwarded` and `X-Forwarded-*` fields are believed and extended. \
             From other peers, `Forwarded`, `X-Forwarded-For`, `-Proto` and `-Host` are replaced \
             by the node's own; every other `X-Forwarded-*`, `X-Real-IP`, `X-Client-IP` and \
             `True-Client-IP` is removed (a `transform` filter removes further ones). A peer on \
             a Unix socket is trusted if loopback is.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "listener",
            Kind::List(&Kind::Table(&LISTENER), 0),
            LISTENER.doc,
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "upstream",
            Kind::Map(&forms::NAME, &Kind::Table(&UPSTREAM)),
            UPSTREAM.doc,
        )
        .absent(Absent::Table),
        &Spec::new(
            "filter",
            Kind::Map(&forms::NAME, &Kind::Tagged(&FILTER)),
            FILTER.doc,
        )
        .absent(Absent::Table),
        &Spec::new("route", Kind::List(&Kind::Table(&ROUTE), 0), ROUTE.doc)
            .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};

/// What servers speak over TLS.
pub const TLS_PROTOCOLS: [&str; 2] = ["h1s", "h2"];

static UPSTREAM: Table = Table {
    name: "http.upstream",
    doc: "Upstreams that routes forward to, by name: servers, a fixed response, or a service of \
     the request plane.",
    keys: &[
        &Spec::new(
            "servers",
            Kind::List(
                &Kind::Either(&[Kind::Text(&forms::SERVER), Kind::Table(&SERVER)]),
                1,
            ),
            "Addresses of the servers, or tables with `address` and `weight`. Each address that \
             a name resolves to is a server of its own, with the weight of the name. Names are \
             resolved again by their TTL.",
        ),
        &Spec::new("respond", Kind::Table(&RESPOND), RESPOND.doc).exclusive(),
        &Spec::new(
            "plane",
            Kind::Text(&forms::SERVICE),
            "Service of the request plane that answers instead of servers. No other key may be \
             set.",
        )
        .exclusive(),
        &Spec::new(
            "protocol",
            Kind::Choice(&["h1", "h2c", "h1s", "h2"]),
            "Protocol of the servers. \"h1\" and \"h2c\" are HTTP/1.1 and HTTP/2 without TLS, \
             \"h1s\" and \"h2\" the same over TLS.",
        )
        .absent(Absent::Text("h1")),
        &Spec::new("tls", Kind::Table(&UPSTREAM_TLS), UPSTREAM_TLS.doc).absent(
            Absent::TableWhere {
                key: "protocol",
                says: &TLS_PROTOCOLS,
            },
        ),
        &Spec::new(
            "balance",
            Kind::Choice(&[
                "round-robin",
                "least-request",
                "p2c-ewma",
                "random",
                "ring-hash",
            ]),
            "Load-balancing policy. \"round-robin\": in turn, by weight. \"least-request\": the \
             fewest requests in flight for the weight. \"p2c-ewma\": the better of two random \
             servers by latency and load. \"random\": by weight. \"ring-hash\": the same server \
             for the same value of `hash_on`.",
        )
        .absent(Absent::Text("round-robin")),
        &Spec::new(
            "hash_on",
            Kind::Text(&forms::HASH_ON),
            "Hash key of \"ring-hash\", required there: a request field, a cookie, the client's \
             address as trusted proxies report it, or the path. It is read from the request as \
             received, before filters.",
        ),
        &Spec::new("sticky", Kind::Table(&STICKY), STICKY.doc),
        &Spec::new(
            "slow_start",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "Time in which a server that returns (from ejection, failed health checks or a \
             drain) goes from a tenth of its weight to all of it.",
        )
        .absent(Absent::Text("0s")),
        &Spec::new(
            "keepalive",
            Kind::Integer(KEEPALIVE.0, KEEPALIVE.1),
            "Idle connections kept per worker; `0` keeps none.",
        )
        .absent(Absent::Number(256)),
        &Spec::new(
            "timeouts",
            Kind::Table(&UPSTREAM_TIMEOUTS),
            UPSTREAM_TIMEOUTS.doc,
        )
        .absent(Absent::Table),
        &Spec::new("health", Kind::Table(&HEALTH), HEALTH.doc),
        &Spec::new("outlier", Kind::Table(&OUTLIER), OUTLIER.doc),
        &Spec::new(
            "circuit_breaker",
            Kind::Table(&CIRCUIT_BREAKER),
            CIRCUIT_BREAKER.doc,
        ),
        &Spec::new("retry", Kind::Table(&RETRY), RETRY.doc),
        &Spec::new(
            "proxy_protocol",
            Kind::Choice(&["v1", "v2"]),
            "PROXY protocol version of the header with the client's address that is sent to \
             servers. Each request then has a connection of its own; health checks send \
             `UNKNOWN` or `LOCAL`.",
        ),
        &Spec::new("hedge", Kind::Table(&HEDGE), HEDGE.doc),
    ],
    needs: Needs::One(&["servers", "respond", "plane"]),
};

static SERVER: Table = Table {
    name: "http.upstream.servers",
    doc: "One server.",
    keys: &[
        &Spec::new(
            "address",
            Kind::Text(&forms::SERVER),
            "Address of the server.",
        )
        .required(),
        &Spec::new(
            "weight",
            Kind::Integer(WEIGHT.0, WEIGHT.1),
            "Share of the requests, relative to the other servers' weights.",
        )
        .absent(Absent::Number(1)),
    ],
    needs: Needs::Nothing,
};

static UPSTREAM_TIMEOUTS: Table = Table {
    name: "http.upstream.timeouts",
    doc: "Time limits for servers.",
    keys: &[
        &Spec::new(
            "connect",
            forms::TIMEOUT,
            "Until a connection is established; then 504. A name that was never resolved gives \
             502.",
        )
        .absent(Absent::Text("1s")),
        &Spec::new(
            "first_byte",
            forms::TIMEOUT,
            "From the end of the request to the head of the response; then 504.",
        )
        .absent(Absent::Text("60s")),
        &Spec::new(
            "idle",
            forms::TIMEOUT,
            "For the server to accept or send more of a message; then 504, or a closed \
             connection if the response has begun. A tunnel without traffic for this time is \
             closed. Idle connections are kept as long.",
        )
        .absent(Absent::Text("60s")),
        &Spec::new(
            "total",
            forms::TIMEOUT,
            "For the whole exchange; then 504, or a closed connection. Tunnels and event streams \
             have `idle` only. Without it, there is no limit.",
        ),
    ],
    needs: Needs::Nothing,
};

static RESPOND: Table = Table {
    name: "http.upstream.respond",
    doc: "Response of the gateway itself, instead of servers. No other key may be set.",
    keys: &[
        &Spec::new("status", Kind::Integer(200, 599), "Status code.").absent(Absent::Number(200)),
        &Spec::new("body", Kind::Text(&forms::ANY), "Content, at most 16 KiB.")
            .absent(Absent::Text("")),
        &Spec::new(
            "headers",
            Kind::Map(
                &forms::FIELD_NAME,
                &Kind::OneOrMany(&Kind::Text(&forms::FIELD_VALUE)),
            ),
            "Further response fields: a value, or a list of values.",
        )
        .absent(Absent::Table)
        .secret(),
    ],
    needs: Needs::Nothing,
};

static ROUTE: Table = Table {
    name: "http.route",
    doc: "Routes of requests to upstreams or folders. Of those that match a request, the one with \
     the most specific host is taken, then the most specific path, the most predicates, the first \
     in the file. A request that matches none gets 404, or 405 with `Allow` if only its method differs.",
    keys: &[
        &Spec::new(
            "name",
            Kind::Text(&forms::NAME),
            "Unique name, shown in metrics and logs.",
        )
        .required(),
        &Spec::new(
            "host",
            Kind::OneOrMany(&Kind::Text(&forms::HOST)),
            "Hosts that match: \"www.example.com\", or \"*.example.com\" for every name below \
             it. Without it, every host.",
        ),
        &Spec::new(
            "path",
            Kind::Text(&forms::PATH),
            "Path pattern: literal segments, `{name}` for one segment, `{rest*}` for the \
             remaining path. \"/v1/{rest*}\" does not match \"/v10\".",
        )
        .absent(Absent::Text("/{rest*}")),
        &Spec::new(
            "methods",
            Kind::List(&Kind::Text(&forms::METHOD), 1),
            "Methods that match, case-sensitive. Without it, every method but CONNECT. With \
             \"CONNECT\", clients get tunnels to any host and port of the route's hosts, through \
             an upstream whose servers are proxies: the node sends them CONNECT in turn, and \
             relays bytes once they accept. `timeouts.idle` of the upstream ends a tunnel.",
        ),
        &Spec::new(
            "headers",
            Kind::Map(&forms::FIELD_NAME, &Kind::Text(&forms::FIELD_VALUE)),
            "Fields that a request must have with exactly this value. Several lines of a field are one \
             value, joined by `, `.",
        )
        .absent(Absent::Table)
        .secret(),
        &Spec::new(
            "query",
            Kind::Map(&forms::ANY, &Kind::Text(&forms::ANY)),
            "Query parameters that a request must have with exactly this value; every parameter of the \
             name has it.",
        )
        .absent(Absent::Table)
        .secret(),
        &Spec::new("client_cert", Kind::Table(&CLIENT_CERT), CLIENT_CERT.doc),
        &Spec::new(
            "filters",
            Kind::List(&Kind::Text(&forms::NAME), 0),
            "Filters by name, in order for the request and in reverse for the response.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "upstream",
            Kind::Text(&forms::NAME),
            "Upstream that requests are forwarded to. \"dns\" is the DNS forwarder unless an \
             upstream has that name.",
        ),
        &Spec::new("files", Kind::Table(&FILES), FILES.doc),
        &Spec::new(
            "budget",
            Kind::Size(ROUTE_BUDGET_MIN, MEMORY_BUDGET_MAX),
            "Part of the node's memory budget that exchanges of this route may take. Without it, \
             all of it.",
        ),
        &Spec::new("timeouts", Kind::Table(&ROUTE_TIMEOUTS), ROUTE_TIMEOUTS.doc)
            .absent(Absent::Table),
    ],
    needs: Needs::One(&["upstream", "files"]),
};

static ROUTE_TIMEOUTS: Table = Table {
    name: "http.route.timeouts",
    doc: "Time limits of the route.",
    keys: &[&Spec::new(
        "total",
        forms::TIMEOUT,
        "For the whole exchange, in place of the upstream's. For a service of the request plane, \
         it is the deadline of the call.",
    )],
    needs: Needs::Nothing,
};

#[cfg(test)]
mod tests {
    use steppe_config::table::Support;

    use super::*;

    /// A map's names are the file's own: any of them may be one of a secret.
    fn open_maps(table: &'static Table, found: &mut Vec<String>) {
        for key in table.keys {
            let Support::Served { kind, .. } = &key.support else {
                continue;
            };
            let holds_strings = matches!(kind, Kind::Map(..)) && kind.tables().is_empty();
            if holds_strings && !key.is_secret {
                found.push(format!("{}.{}", table.name, key.name));
            }
            for inner in kind.tables() {
                open_maps(inner, found);
            }
        }
    }

    #[test]
    fn every_map_of_strings_is_masked_by_name() {
        let mut found = Vec::new();
        open_maps(&ROOT, &mut found);
        // Names of members are no values, and records are what every client may ask for.
        let open = [
            "http.filter.request_json.rename",
            "http.filter.response_json.rename",
            "dns.hosts.records",
            "discovery.services",
        ];
        assert_eq!(found, open);
    }
}
