//! Tables of the DNS forwarder.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

mod limits;
mod listener;
mod rules;
mod upstream;

use std::time::Duration;

use listener::LISTENER;
use rules::{HOSTS, LIST, RULE};

use crate::config::limits::{DNS_CACHE_BYTES, MEMORY_BUDGET_MAX, STALE_TIME_MAX, TIMEOUT_MAX};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};
use limits::LIMITS;
use upstream::{TTL, UPSTREAM};

pub(super) static DNS: Table = Table {
    name: "dns",
    doc: "The DNS forwarder.",
    keys: &[
        Key::new(
            "listener",
            Kind::List(&Kind::Table(&LISTENER), 0),
            LISTENER.doc,
        )
        .absent(Absent::Texts(&[])),
        Key::new("access", Kind::Table(&ACCESS), ACCESS.doc).absent(Absent::Table),
        Key::new("cache", Kind::Table(&CACHE), CACHE.doc).absent(Absent::Table),
        Key::new(
            "upstream",
            Kind::Map(Form::Name, &Kind::Table(&UPSTREAM)),
            UPSTREAM.doc,
        )
        .absent(Absent::Table),
        Key::new("list", Kind::Map(Form::Name, &Kind::Table(&LIST)), LIST.doc)
            .absent(Absent::Table),
        Key::new("hosts", Kind::Table(&HOSTS), HOSTS.doc).absent(Absent::Table),
        Key::new("limits", Kind::Table(&LIMITS), LIMITS.doc).absent(Absent::Table),
        Key::new("log", Kind::Table(&LOG), LOG.doc).absent(Absent::Table),
        Key::new("rule", Kind::List(&Kind::Table(&RULE), 0), RULE.doc).absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};

static ACCESS: Table = Table {
    name: "dns.access",
    doc: "Which clients are answered.",
    keys: &[Key::new(
        "allow",
        Kind::List(&Kind::Text(Form::Clients), 1),
        "Networks, \"loopback\" and \"private\"; anybody else is refused.",
    )
    .absent(Absent::Texts(&["loopback", "private"]))],
    needs: Needs::Nothing,
};

static CACHE: Table = Table {
    name: "dns.cache",
    doc: "How responses are kept.",
    keys: &[
        Key::new(
            "bytes",
            Kind::Size(DNS_CACHE_BYTES, MEMORY_BUDGET_MAX),
            "Bytes that it takes, of the node's budget.",
        )
        .absent(Absent::Text("16MiB")),
        Key::new("min_ttl", TTL, "Responses are kept for at least this long.")
            .absent(Absent::Text("0s")),
        Key::new("max_ttl", TTL, "Responses are kept for at most this long.")
            .absent(Absent::Text("1d")),
        Key::new(
            "negative_ttl_max",
            TTL,
            "Responses that there is no such name or type are kept for at most this long.",
        )
        .absent(Absent::Text("1h")),
        Key::new("serve_stale", Kind::Table(&SERVE_STALE), SERVE_STALE.doc),
        Key::new(
            "prefetch",
            Kind::Either(&[Kind::Share, Kind::Choice(&[Choice::served("off")])]),
            "An answer in use is refreshed in this last part of its time.",
        )
        .absent(Absent::Text("10%")),
        Key::new(
            "snapshot",
            Kind::Text(Form::File),
            "The file that keeps responses over a restart.",
        ),
    ],
    needs: Needs::Nothing,
};

static SERVE_STALE: Table = Table {
    name: "dns.cache.serve_stale",
    doc: "Answers are served past their time where servers do not answer. RFC 8767.",
    keys: &[
        Key::new(
            "up_to",
            Kind::Duration(Duration::from_secs(1), STALE_TIME_MAX),
            "How long past it.",
        )
        .absent(Absent::Text("1d")),
        Key::new(
            "after",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "How long servers are waited for before.",
        )
        .absent(Absent::Text("1.8s")),
        Key::new(
            "only",
            Kind::Choice(&[Choice::served("positive"), Choice::served("all")]),
            "Which: those with records, or negative ones too.",
        )
        .absent(Absent::Text("positive")),
    ],
    needs: Needs::Nothing,
};

static LOG: Table = Table {
    name: "dns.log",
    doc: "What is written of queries.",
    keys: &[Key::new(
        "queries",
        Kind::Either(&[
            Kind::Choice(&[Choice::served("off")]),
            Kind::Table(&QUERY_LOG),
        ]),
        "A line for each.",
    )
    .absent(Absent::Text("off"))],
    needs: Needs::Nothing,
};

static QUERY_LOG: Table = Table {
    name: "dns.log.queries",
    doc: "A log of queries.",
    keys: &[
        Key::new(
            "file",
            Kind::Text(Form::File),
            "Where lines go; \"/dev/stdout\" is standard output.",
        )
        .required(),
        Key::new(
            "format",
            Kind::Choice(&[Choice::served("json"), Choice::served("text")]),
            "How a line is written.",
        )
        .absent(Absent::Text("json")),
    ],
    needs: Needs::Nothing,
};
