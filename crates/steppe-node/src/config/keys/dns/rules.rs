//! Tables of what the DNS forwarder decides by: lists, hosts and rules.

use super::cache::SERVE_STALE;
use super::upstream::TTL;
use crate::config::limits::{DNS_PER_S_MAX, LIST_REFRESH_MAX, LIST_REFRESH_MIN};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static LIST: Table = Table {
    name: "dns.list",
    doc: "Lists of domains, by name.",
    keys: &[
        Key::new(
            "files",
            Kind::List(&Kind::Text(Form::File), 1),
            "Files with its lines, as hosts files, plain names, AdBlock and RPZ have them, told apart by \
             each line. They are read again when they change.",
        ),
        Key::new(
            "urls",
            Kind::List(&Kind::Text(Form::Url), 1),
            "Where more of its lines are fetched from, by http or https.",
        ),
        Key::new(
            "refresh",
            Kind::Duration(LIST_REFRESH_MIN, LIST_REFRESH_MAX),
            "How old what was fetched may get.",
        )
        .absent(Absent::Text("1d")),
        Key::new(
            "store",
            Kind::Text(Form::Folder),
            "The folder that keeps what was fetched, over a restart too; with `urls`.",
        ),
        Key::new(
            "plain_names",
            Kind::Choice(&[Choice::served("suffix"), Choice::served("exact")]),
            "What a line with nothing but a name is for: names below it too, or the name alone.",
        )
        .absent(Absent::Text("suffix")),
    ],
    needs: Needs::Any(&["files", "urls"]),
};

pub(super) static HOSTS: Table = Table {
    name: "dns.hosts",
    doc: "Names that are answered here, whatever rules say.",
    keys: &[
        Key::new(
            "files",
            Kind::List(&Kind::Text(Form::File), 0),
            "Files of addresses and names, such as /etc/hosts. They are read again when they change.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "records",
            Kind::Map(
                Form::DnsName,
                &Kind::OneOrMany(&Kind::Text(Form::DnsRecord)),
            ),
            "Names with their addresses, or records such as \"MX 10 mail.example.org\".",
        )
        .absent(Absent::Table),
    ],
    needs: Needs::Nothing,
};

pub(super) static RULE: Table = Table {
    name: "dns.rule",
    doc: "Which queries are answered how: the first rule that matches and has an action decides.",
    keys: &[
        Key::new(
            "client",
            Kind::OneOrMany(&Kind::Text(Form::Network)),
            "Any of these networks; without it every client.",
        ),
        Key::new(
            "client_id",
            Kind::OneOrMany(&Kind::Text(Form::DnsClientId)),
            "Clients that call themselves one of these, by the name of the TLS server or the path of \
             HTTPS; beside `client`, those or these.",
        ),
        Key::new(
            "suffix",
            Kind::OneOrMany(&Kind::Text(Form::DnsName)),
            "Any of these names, or a name below them.",
        ),
        Key::new(
            "name",
            Kind::OneOrMany(&Kind::Text(Form::DnsName)),
            "Any of these names; beside `suffix`, those or these.",
        ),
        Key::new(
            "name_regex",
            Kind::OneOrMany(&Kind::Text(Form::Any)),
            "Names that any of these regular expressions matches, in lower case and without the last dot.",
        ),
        Key::new(
            "list",
            Kind::OneOrMany(&Kind::Text(Form::Name)),
            "Names on any of these lists of `dns.list`; beside the three above, those or these.",
        ),
        Key::new(
            "qtype",
            Kind::OneOrMany(&Kind::Text(Form::DnsType)),
            "Any of these types; without it every type.",
        ),
        Key::new("time", Kind::Table(&TIME), TIME.doc),
        Key::new(
            "forward",
            Kind::Text(Form::Name),
            "The upstream that is asked.",
        ),
        Key::new(
            "block",
            Kind::Choice(&[
                Choice::served("nxdomain"),
                Choice::served("nodata"),
                Choice::served("zero"),
                Choice::served("refused"),
            ]),
            "How it is answered here: no such name, nothing of that type, the unspecified address, \
             or a refusal.",
        ),
        Key::new("rewrite", Kind::Table(&REWRITE), REWRITE.doc),
        Key::new(
            "records",
            Kind::OneOrMany(&Kind::Text(Form::DnsRecord)),
            "Addresses and other records that it is answered with.",
        ),
        Key::new(
            "cache",
            Kind::Either(&[
                Kind::Choice(&[Choice::served("off")]),
                Kind::Table(&RULE_CACHE),
            ]),
            RULE_CACHE.doc,
        ),
        Key::new(
            "log",
            Kind::Either(&[Kind::Boolean, Kind::Text(Form::Name)]),
            "Whether its queries have a line in the query log; a word is one, and stands in them as `tag`.",
        ),
        Key::new("rate", Kind::Table(&RATE), RATE.doc),
    ],
    needs: Needs::Any(&[
        "forward", "block", "rewrite", "records", "cache", "log", "rate",
    ]),
};

static RATE: Table = Table {
    name: "dns.rule.rate",
    doc: "How many of its queries are let pass; others are dropped, or refused on connections.",
    keys: &[
        Key::new(
            "qps",
            Kind::Integer(1, DNS_PER_S_MAX),
            "So many a second, and as many at once.",
        )
        .required(),
        Key::new(
            "of",
            Kind::Choice(&[Choice::served("client"), Choice::served("all")]),
            "Whose are counted together: those of a client's network (/24, /56), or all.",
        )
        .absent(Absent::Text("client")),
    ],
    needs: Needs::Nothing,
};

static RULE_CACHE: Table = Table {
    name: "dns.rule.cache",
    doc: "How responses are kept, in place of what the upstream and `dns.cache` say; \"off\": they are not.",
    keys: &[
        Key::new("min_ttl", TTL, "For at least this long."),
        Key::new("max_ttl", TTL, "For at most this long."),
        Key::new(
            "negative_ttl_max",
            TTL,
            "For at most this long where there is no such name or type.",
        ),
        Key::new(
            "serve_stale",
            Kind::Either(&[
                Kind::Choice(&[Choice::served("off")]),
                Kind::Table(&SERVE_STALE),
            ]),
            SERVE_STALE.doc,
        ),
    ],
    needs: Needs::Any(&["min_ttl", "max_ttl", "negative_ttl_max", "serve_stale"]),
};

static REWRITE: Table = Table {
    name: "dns.rule.rewrite",
    doc: "Another name that it is answered for.",
    keys: &[Key::new(
        "cname",
        Kind::Text(Form::DnsName),
        "The name that it becomes an alias of; the answer has what that name has.",
    )
    .required()],
    needs: Needs::Nothing,
};

static TIME: Table = Table {
    name: "dns.rule.time",
    doc: "When it counts: on these days, in these hours of this time zone.",
    keys: &[
        Key::new(
            "days",
            Kind::Set(&Kind::Choice(&[
                Choice::served("mon"),
                Choice::served("tue"),
                Choice::served("wed"),
                Choice::served("thu"),
                Choice::served("fri"),
                Choice::served("sat"),
                Choice::served("sun"),
            ])),
            "Days on which its hours begin.",
        )
        .absent(Absent::Texts(&[
            "mon", "tue", "wed", "thu", "fri", "sat", "sun",
        ])),
        Key::new(
            "hours",
            Kind::Text(Form::Hours),
            "From the first to before the second; into the next day where that is earlier.",
        )
        .absent(Absent::Text("00:00-24:00")),
        Key::new(
            "zone",
            Kind::Text(Form::TimeZone),
            "A time zone that the system has, or \"local\": the system's own.",
        )
        .absent(Absent::Text("local")),
    ],
    needs: Needs::Nothing,
};
