//! Every key that a configuration may have: what it means, what it takes, what holds without it,
//! and whether it can be used yet.
//!
//! Invariant: this is the only list of keys; a key that is marked later is refused by name. The
//! reader, the defaults, the schema, the manual and `/config` follow from it; `build` takes each
//! key once, and a test finds one that it does not take.

mod tls;

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};
use steppe_dns::config::keys as dns;
use steppe_http::config::keys::filter::FILTER;
use steppe_http::config::keys::{access, listener, route, upstream};
use steppe_plane::config::keys as plane;
use steppe_plane::config::keys::discovery::TABLE as DISCOVERY;

use super::limits::{DRAIN_TIMEOUT_MAX, MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, WORKERS_MAX};
use crate::config::forms;
use tls::ADMIN_TLS;

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
        &Spec::new("dns", Kind::Table(&dns::TABLE), dns::TABLE.doc),
        &Spec::new("plane", Kind::Table(&plane::TABLE), plane::TABLE.doc),
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
            Kind::Either(&[
                Kind::Choice(&["off", "stdout"]),
                Kind::Table(&access::TABLE),
            ]),
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
            Kind::List(&Kind::Table(&listener::TABLE), 0),
            listener::TABLE.doc,
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "upstream",
            Kind::Map(&forms::NAME, &Kind::Table(&upstream::TABLE)),
            upstream::TABLE.doc,
        )
        .absent(Absent::Table),
        &Spec::new(
            "filter",
            Kind::Map(&forms::NAME, &Kind::Tagged(&FILTER)),
            FILTER.doc,
        )
        .absent(Absent::Table),
        &Spec::new(
            "route",
            Kind::List(&Kind::Table(&route::TABLE), 0),
            route::TABLE.doc,
        )
        .absent(Absent::Texts(&[])),
    ],
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
