//! Tables of what the DNS forwarder decides by: lists, hosts and rules.

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
        )
        .required(),
        Key::later("urls", "Where its lines are fetched from."),
        Key::later("refresh", "How often they are fetched."),
        Key::new(
            "plain_names",
            Kind::Choice(&[Choice::served("suffix"), Choice::served("exact")]),
            "What a line with nothing but a name is for: names below it too, or the name alone.",
        )
        .absent(Absent::Text("suffix")),
    ],
    needs: Needs::Nothing,
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
    doc: "Which queries are answered how: the first rule that matches decides.",
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
        Key::later("name_regex", "Names that a regular expression matches."),
        Key::new(
            "list",
            Kind::OneOrMany(&Kind::Text(Form::Name)),
            "Names on any of these lists of `dns.list`; beside `suffix` and `name`, those or these.",
        ),
        Key::new(
            "qtype",
            Kind::OneOrMany(&Kind::Text(Form::DnsType)),
            "Any of these types; without it every type.",
        ),
        Key::later("time", "Times of day."),
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
    ],
    needs: Needs::One(&["forward", "block", "rewrite", "records"]),
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
