//! Tables of the DNS forwarder.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

mod cache;
mod limits;
mod listener;
mod rules;
mod upstream;

use cache::CACHE;
use listener::LISTENER;
use rules::{HOSTS, LIST, RULE};

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};
use limits::LIMITS;
use upstream::UPSTREAM;

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

static LOG: Table = Table {
    name: "dns.log",
    doc: "What is written of queries.",
    keys: &[Key::new(
        "queries",
        Kind::Either(&[
            Kind::Choice(&[Choice::served("off")]),
            Kind::Table(&QUERY_LOG),
        ]),
        "A line for each, or for those of rules.",
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
        Key::new(
            "which",
            Kind::Choice(&[Choice::served("all"), Choice::served("rules")]),
            "Which queries have a line: all but those whose rule says `log = false`, or those alone whose \
             rule says that they have one.",
        )
        .absent(Absent::Text("all")),
    ],
    needs: Needs::Nothing,
};
