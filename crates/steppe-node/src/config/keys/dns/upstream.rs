//! Tables of the DNS forwarder's upstreams.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use crate::config::limits::{DNS_CONCURRENT, TTL_MAX};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

/// A time that records are kept.
pub(super) const TTL: Kind = Kind::Duration(Duration::ZERO, TTL_MAX);

pub(super) static UPSTREAM: Table = Table {
    name: "dns.upstream",
    doc: "Groups of servers, by name.",
    keys: &[
        Key::new(
            "servers",
            Kind::List(&Kind::Text(Form::DnsServer), 1),
            "Where they are: \"udp://ADDRESS\", \"tcp://ADDRESS\", \"tls://NAME@ADDRESS\", \
             \"https://NAME/PATH\", each with a port where it is not the usual one.",
        ),
        Key::new(
            "resolv_conf",
            Kind::Text(Form::File),
            "A file such as /etc/resolv.conf, whose name servers are asked too. It is read at the start \
             and by a reload.",
        ),
        Key::new(
            "tls",
            Kind::Table(&UPSTREAM_TLS),
            "How servers by \"tls://\" and \"https://\" are verified.",
        )
        .absent(Absent::Table),
        Key::new(
            "bootstrap",
            Kind::List(&Kind::Text(Form::DnsBootstrap), 0),
            "Addresses of resolvers that are asked, over TCP, for the addresses of servers that are \
             named; without any, the upstream's own servers by \"udp://\" and \"tcp://\".",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "policy",
            Kind::Choice(&[
                Choice::served("hedge"),
                Choice::served("race"),
                Choice::served("fastest"),
                Choice::served("round-robin"),
                Choice::served("failover"),
            ]),
            "Which server is asked when: \"hedge\" asks the next one when the fastest takes longer \
             than it mostly does, \"race\" many at once.",
        )
        .absent(Absent::Text("hedge")),
        Key::new(
            "concurrent",
            Kind::Integer(DNS_CONCURRENT.0, DNS_CONCURRENT.1),
            "How many are asked at once by \"race\".",
        )
        .absent(Absent::Number(8)),
        Key::new(
            "timeout",
            Kind::TIMEOUT,
            "How long a client waits: SERVFAIL.",
        )
        .absent(Absent::Text("2s")),
        Key::new(
            "retry_tcp",
            Kind::Boolean,
            "Whether a truncated response has the question asked again over TCP.",
        )
        .absent(Absent::Yes),
        Key::new(
            "case_randomization",
            Kind::Boolean,
            "Whether letters of names are of random case, which a response must repeat (0x20).",
        )
        .absent(Absent::Yes),
        Key::new(
            "ecs",
            Kind::Either(&[
                Kind::Choice(&[Choice::served("strip"), Choice::served("pass")]),
                Kind::Table(&ECS),
            ]),
            "Which network servers are told that a client is in (EDNS Client Subnet): none, the one \
             that the client names, or that of its address.",
        )
        .absent(Absent::Text("strip")),
        Key::new(
            "private",
            Kind::Boolean,
            "Whether it may answer with private addresses.",
        )
        .absent(Absent::No),
        Key::new("cache", Kind::Table(&UPSTREAM_CACHE), UPSTREAM_CACHE.doc),
    ],
    needs: Needs::Any(&["servers", "resolv_conf"]),
};

static UPSTREAM_TLS: Table = Table {
    name: "dns.upstream.tls",
    doc: "How servers are verified.",
    keys: &[
        Key::new(
            "ca",
            Kind::Text(Form::File),
            "PEM file with the authorities of servers; without it the system's.",
        ),
        Key::new(
            "verify",
            Kind::Boolean,
            "Whether certificates of servers are verified by authorities, for the name before \"@\", \
             else the host.",
        )
        .absent(Absent::Yes),
        Key::new(
            "pins",
            Kind::List(&Kind::Text(Form::Pin), 0),
            "SHA-256 digests of public keys, one of which a server must have.",
        )
        .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};

static ECS: Table = Table {
    name: "dns.upstream.ecs",
    doc: "The network of a client's address, public or not.",
    keys: &[Key::new(
        "add",
        Kind::Text(Form::SubnetPrefixes),
        "Bits of IPv4 and of IPv6 addresses that are told, such as \"24/56\".",
    )
    .required()],
    needs: Needs::Nothing,
};

static UPSTREAM_CACHE: Table = Table {
    name: "dns.upstream.cache",
    doc: "How its responses are kept, where that differs.",
    keys: &[Key::new("max_ttl", TTL, "For at most this long.").required()],
    needs: Needs::Nothing,
};
