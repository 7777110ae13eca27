//! Tables of the DNS forwarder.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

mod cache;
mod limits;
mod listener;
mod rules;
mod upstream;

use cache::CACHE;
use limits::LIMITS;
use rules::{HOSTS, LIST, RULE};
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;
use listener::LISTENER;
use upstream::UPSTREAM;

pub(super) static DNS: Table = Table {
    name: "dns",
    doc: "The DNS forwarder.",
    keys: &[
        &Spec::new(
            "listener",
            Kind::List(&Kind::Table(&LISTENER), 0),
            LISTENER.doc,
        )
        .absent(Absent::Texts(&[])),
        &Spec::new("access", Kind::Table(&ACCESS), ACCESS.doc).absent(Absent::Table),
        &Spec::new("cache", Kind::Table(&CACHE), CACHE.doc).absent(Absent::Table),
        &Spec::new(
            "upstream",
            Kind::Map(&forms::NAME, &Kind::Table(&UPSTREAM)),
            UPSTREAM.doc,
        )
        .absent(Absent::Table),
        &Spec::new(
            "list",
            Kind::Map(&forms::NAME, &Kind::Table(&LIST)),
            LIST.doc,
        )
        .absent(Absent::Table),
        &Spec::new("hosts", Kind::Table(&HOSTS), HOSTS.doc).absent(Absent::Table),
        &Spec::new("limits", Kind::Table(&LIMITS), LIMITS.doc).absent(Absent::Table),
        &Spec::new("log", Kind::Table(&LOG), LOG.doc).absent(Absent::Table),
        &Spec::new("rule", Kind::List(&Kind::Table(&RULE), 0), RULE.doc).absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};

static ACCESS: Table = Table {
    name: "dns.access",
    doc: "Clients that are answered.",
    keys: &[&Spec::new(
        "allow",
        Kind::List(&Kind::Text(&forms::CLIENTS), 1),
        "Networks of clients, such as \"10.0.0.0/8\", \"loopback\" or \"private\" (RFC 1918 and \
         4193, link-local). Other clients are refused.",
    )
    .absent(Absent::Texts(&["loopback", "private"]))],
    needs: Needs::Nothing,
};

static LOG: Table = Table {
    name: "dns.log",
    doc: "Log of queries.",
    keys: &[&Spec::new(
        "queries",
        Kind::Either(&[Kind::Choice(&["off"]), Kind::Table(&QUERY_LOG)]),
        "Query log: \"off\", or a table with its file.",
    )
    .absent(Absent::Text("off"))],
    needs: Needs::Nothing,
};

static QUERY_LOG: Table = Table {
    name: "dns.log.queries",
    doc: "Query log: a line for each query that was read and answered, unless a rule decides \
     otherwise; none for queries beyond `client_qps`. If the disk is too slow, lines are dropped \
     and counted in `steppe_dns_query_log_lines`.",
    keys: &[
        &Spec::new(
            "file",
            Kind::Text(&forms::FILE),
            "File that lines are appended to; \"/dev/stdout\" is standard output. It is reopened \
             on SIGHUP.",
        )
        .required(),
        &Spec::new(
            "format",
            Kind::Choice(&["json", "text"]),
            "\"json\": an object with `time`, `client`, `id` (of the client), `transport`, \
             `name`, `type`, `rcode`, `decision`, `upstream`, `tag` (of a rule) and `us` \
             (microseconds), without those that are unknown. \"text\": the same values in this \
             order, separated by spaces, `-` for an unknown one.",
        )
        .absent(Absent::Text("json")),
        &Spec::new(
            "which",
            Kind::Choice(&["all", "rules"]),
            "Queries that are logged if no rule's `log` decides: \"all\", or with \"rules\" none.",
        )
        .absent(Absent::Text("all")),
    ],
    needs: Needs::Nothing,
};
