//! Tables of what the DNS forwarder decides by: lists, hosts and rules.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use super::cache::SERVE_STALE;
use super::upstream::TTL;
use crate::config::forms;
use crate::config::limits::{DNS_PER_S_MAX, LIST_REFRESH_MAX, LIST_REFRESH_MIN};

pub(super) static LIST: Table = Table {
    name: "dns.list",
    doc: "Lists of domains, by name. Up to 64 lists share one index of at most 8,388,608 rules.",
    keys: &[
        &Spec::new(
            "files",
            Kind::List(&Kind::Text(&forms::FILE), 1),
            "Files with lines of the list: hosts files, plain names, AdBlock and RPZ, recognized \
             line by line. They are read again when they change.",
        ),
        &Spec::new(
            "urls",
            Kind::List(&Kind::Text(&forms::URL), 1),
            "URLs (http or https) that further lines are fetched from. Needs `store`.",
        ),
        &Spec::new(
            "refresh",
            Kind::Duration(LIST_REFRESH_MIN, LIST_REFRESH_MAX),
            "Age at which a fetched list is fetched again.",
        )
        .absent(Absent::Text("1d")),
        &Spec::new(
            "store",
            Kind::Text(&forms::FOLDER),
            "Folder that keeps fetched lists, a file a URL, over restarts; required with `urls`. \
             The node creates it and must be able to write to it: `/var/lib/steppe/lists` under \
             the unit of the package.",
        ),
        &Spec::new(
            "required",
            Kind::Boolean,
            "`true` refuses a start without all fetched files of this list: those that are not \
             stored are fetched first, and one that cannot be fetched or used, or does not fit in \
             the memory budget, refuses the start. Otherwise the node starts without such a \
             file, and reports it.",
        )
        .absent(Absent::No),
        &Spec::new(
            "plain_names",
            Kind::Choice(&["suffix", "exact"]),
            "Meaning of a line with nothing but a name: \"suffix\" includes the names below it, \
             \"exact\" is the name alone.",
        )
        .absent(Absent::Text("suffix")),
        &Spec::new(
            "aliases",
            Kind::Boolean,
            "Where a rule blocks names of this list, a name is blocked too whose response has an \
             alias (CNAME, or the target of an HTTPS or SVCB record) that leads to a name of the \
             list, unless a rule above that one decides about the name. `false` blocks by the name \
             in the query alone.",
        )
        .absent(Absent::Yes),
    ],
    needs: Needs::Any(&["files", "urls"]),
};

pub(super) static HOSTS: Table = Table {
    name: "dns.hosts",
    doc: "Names that are answered here, before rules. A type that such a name does not have is \
     NODATA, and no server is asked; the names below it are not included. The TTL is 60 seconds.",
    keys: &[
        &Spec::new(
            "files",
            Kind::List(&Kind::Text(&forms::FILE), 0),
            "Files of addresses and names in the format of hosts(5), such as `/etc/hosts`. They \
             are read again when they change.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "records",
            Kind::Map(
                &forms::DNS_NAME_KEY,
                &Kind::OneOrMany(&Kind::Text(&forms::DNS_RECORD)),
            ),
            "Names, each with an address, a record (\"MX 10 mail.example.org\"), or a list of \
             them. Types with a text form are A, AAAA, NS, PTR, MX, SRV and TXT; others are \
             written as in RFC 3597, as `TYPE65 \\# 2 0001`. Each address also has a PTR record \
             to its first name, `records` before `files`.",
        )
        .absent(Absent::Table),
    ],
    needs: Needs::Nothing,
};

pub(super) static RULE: Table = Table {
    name: "dns.rule",
    doc: "Rules that decide how queries are answered. The first rule that matches and has an action \
     (`forward`, `block`, `rewrite`, `records`) decides; a query that none decides about is refused. \
     `cache`, `log` and `rate` apply from the first matching rule that has them. Up to 1,024 rules.",
    keys: &[
        &Spec::new(
            "client",
            Kind::OneOrMany(&Kind::Text(&forms::NETWORK)),
            "Networks of clients. Without `client` and `client_id`, every client.",
        ),
        &Spec::new(
            "client_id",
            Kind::OneOrMany(&Kind::Text(&forms::DNS_CLIENT_ID)),
            "IDs of clients, as the first label of the TLS server name or the last part of the \
             path of HTTPS. Of `client` and `client_id`, one match is enough.",
        ),
        &Spec::new(
            "suffix",
            Kind::OneOrMany(&Kind::Text(&forms::DNS_NAME)),
            "Domains: these names and all names below them.",
        ),
        &Spec::new(
            "name",
            Kind::OneOrMany(&Kind::Text(&forms::DNS_NAME)),
            "Names, without those below them. Of `suffix`, `name`, `name_regex` and `list`, one \
             match is enough.",
        ),
        &Spec::new(
            "name_regex",
            Kind::OneOrMany(&Kind::Text(&forms::ANY)),
            "Regular expressions, matched anywhere in the name, in lower case and without its \
             last dot; `^` and `$` are its ends. Those of a rule take up to 1 MiB of states; \
             look-around and back-references are not supported.",
        ),
        &Spec::new(
            "list",
            Kind::OneOrMany(&Kind::Text(&forms::NAME)),
            "Lists of `dns.list`: the names on them.",
        ),
        &Spec::new(
            "qtype",
            Kind::OneOrMany(&Kind::Text(&forms::DNS_TYPE)),
            "Types, such as \"AAAA\" or \"TYPE65\". Without it, every type.",
        ),
        &Spec::new("time", Kind::Table(&TIME), TIME.doc),
        &Spec::new(
            "forward",
            Kind::Text(&forms::NAME),
            "Upstream that is asked (action).",
        ),
        &Spec::new(
            "block",
            Kind::Choice(&["nxdomain", "nodata", "zero", "refused"]),
            "Response of the forwarder itself (action): \"nxdomain\" (no such name), \"nodata\" \
             (nothing of that type), \"zero\" (the unspecified address, for A and AAAA) or \
             \"refused\".",
        ),
        &Spec::new("rewrite", Kind::Table(&REWRITE), REWRITE.doc),
        &Spec::new(
            "records",
            Kind::OneOrMany(&Kind::Text(&forms::DNS_RECORD)),
            "Records that are answered with (action): those of the queried type, else NODATA, \
             for every name that the rule matches.",
        ),
        &Spec::new(
            "cache",
            Kind::Either(&[Kind::Choice(&["off"]), Kind::Table(&RULE_CACHE)]),
            RULE_CACHE.doc,
        ),
        &Spec::new(
            "log",
            Kind::Either(&[Kind::Boolean, Kind::Text(&forms::NAME)]),
            "Line in the query log: `true`, `false`, or a word, which turns it on and is logged \
             as `tag`.",
        ),
        &Spec::new("rate", Kind::Table(&RATE), RATE.doc),
    ],
    needs: Needs::Any(&[
        "forward", "block", "rewrite", "records", "cache", "log", "rate",
    ]),
};

static RATE: Table = Table {
    name: "dns.rule.rate",
    doc: "Limit on the queries that the rule matches. Beyond it, queries over UDP are dropped \
     without a log line, queries over connections get REFUSED; counted as `rule` in \
     `steppe_dns_limited_total`.",
    keys: &[
        &Spec::new(
            "qps",
            Kind::Integer(1, DNS_PER_S_MAX),
            "Queries per second, and as many at once.",
        )
        .required(),
        &Spec::new(
            "of",
            Kind::Choice(&["client", "all"]),
            "Queries that are counted together: \"client\" for those of a client's network (/24, \
             /56), or \"all\".",
        )
        .absent(Absent::Text("client")),
    ],
    needs: Needs::Nothing,
};

static RULE_CACHE: Table = Table {
    name: "dns.rule.cache",
    doc: "Caching of responses, in place of `dns.upstream.NAME.cache` and `dns.cache`: a table, \
     or \"off\" to keep none except server failures (RFC 9520). Responses kept under different \
     policies are kept apart.",
    keys: &[
        &Spec::new("min_ttl", TTL, "Least time that responses are kept."),
        &Spec::new("max_ttl", TTL, "Longest time that responses are kept."),
        &Spec::new(
            "negative_ttl_max",
            TTL,
            "Longest time that negative responses (no such name or type) are kept.",
        ),
        &Spec::new(
            "serve_stale",
            Kind::Either(&[Kind::Choice(&["off"]), Kind::Table(&SERVE_STALE)]),
            SERVE_STALE.doc,
        ),
    ],
    needs: Needs::Any(&["min_ttl", "max_ttl", "negative_ttl_max", "serve_stale"]),
};

static REWRITE: Table = Table {
    name: "dns.rule.rewrite",
    doc: "Alias to another name (action), with that name's records.",
    keys: &[&Spec::new(
        "cname",
        Kind::Text(&forms::DNS_NAME),
        "Target of the alias. Hosts, names of special use and rules decide about it, except \
         rules that rewrite.",
    )
    .required()],
    needs: Needs::Nothing,
};

static TIME: Table = Table {
    name: "dns.rule.time",
    doc: "Days, hours and time zone in which the rule applies.",
    keys: &[
        &Spec::new(
            "days",
            Kind::Set(&Kind::Choice(&[
                "mon", "tue", "wed", "thu", "fri", "sat", "sun",
            ])),
            "Days on which the hours begin.",
        )
        .absent(Absent::Texts(&[
            "mon", "tue", "wed", "thu", "fri", "sat", "sun",
        ])),
        &Spec::new(
            "hours",
            Kind::Text(&forms::HOURS),
            "Hours from the first time to before the second, into the next day if the second is \
             earlier; they belong to the day on which they begin.",
        )
        .absent(Absent::Text("00:00-24:00")),
        &Spec::new(
            "zone",
            Kind::Text(&forms::TIME_ZONE),
            "Time zone of the system's database, such as \"Europe/Berlin\", or \"local\" for the \
             system's own.",
        )
        .absent(Absent::Text("local")),
    ],
    needs: Needs::Nothing,
};
