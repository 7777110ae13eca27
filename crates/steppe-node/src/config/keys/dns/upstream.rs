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
    doc: "Groups of servers that queries are forwarded to, by name.",
    keys: &[
        Key::new(
            "servers",
            Kind::List(&Kind::Text(Form::DnsServer), 1),
            "URLs of servers, up to 64: \"udp://ADDRESS\" (TCP after a truncated response), \
             \"tcp://ADDRESS\", \"tls://NAME@ADDRESS\" (DoT), \"https://NAME@ADDRESS/PATH\" \
             (DoH). The usual ports (53, 853, 443) may be left out. Certificates are verified \
             for NAME, else for the host; a host name needs `bootstrap` or an unencrypted \
             server.",
        ),
        Key::new(
            "resolv_conf",
            Kind::Text(Form::File),
            "File such as `/etc/resolv.conf`, whose first three name servers are asked over UDP, \
             except the forwarder's own listeners; `127.0.0.1:53` if it is missing or names \
             none. It is read at start and by a reload.",
        ),
        Key::new(
            "tls",
            Kind::Table(&UPSTREAM_TLS),
            "Verification of servers over \"tls://\" and \"https://\".",
        )
        .absent(Absent::Table),
        Key::new(
            "bootstrap",
            Kind::List(&Kind::Text(Form::DnsBootstrap), 0),
            "IP addresses of resolvers that are asked, over TCP, for the addresses of servers \
             known by name. Without any, the upstream's own servers over \"udp://\" and \
             \"tcp://\".",
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
            "Choice of servers. \"hedge\": the fastest, and the next if it takes longer than \
             usual. \"race\": many at once, the first good response counts. \"fastest\": the \
             fastest, and the next if it fails. \"round-robin\": in turn. \"failover\": the \
             first in order that works.",
        )
        .absent(Absent::Text("hedge")),
        Key::new(
            "concurrent",
            Kind::Integer(DNS_CONCURRENT.0, DNS_CONCURRENT.1),
            "Servers that \"race\" asks at once.",
        )
        .absent(Absent::Number(8)),
        Key::new(
            "timeout",
            Kind::TIMEOUT,
            "Time that a client waits for a response; then SERVFAIL.",
        )
        .absent(Absent::Text("2s")),
        Key::new(
            "retry_tcp",
            Kind::Boolean,
            "Asks again over TCP after a truncated response. With `false`, the client gets the \
             truncated response.",
        )
        .absent(Absent::Yes),
        Key::new(
            "case_randomization",
            Kind::Boolean,
            "Sends names in random letter case, which a response must repeat (0x20).",
        )
        .absent(Absent::Yes),
        Key::new(
            "ecs",
            Kind::Either(&[
                Kind::Choice(&[Choice::served("strip"), Choice::served("pass")]),
                Kind::Table(&ECS),
            ]),
            "EDNS Client Subnet (RFC 7871) that servers receive: \"strip\" for none, \"pass\" \
             for the one that the client sends, a table for the network of its address. A client \
             that sends `0.0.0.0/0` opts out.",
        )
        .absent(Absent::Text("strip")),
        Key::new(
            "private",
            Kind::Boolean,
            "Accepts private addresses in the responses of these servers.",
        )
        .absent(Absent::No),
        Key::new("cache", Kind::Table(&UPSTREAM_CACHE), UPSTREAM_CACHE.doc),
    ],
    needs: Needs::Any(&["servers", "resolv_conf"]),
};

static UPSTREAM_TLS: Table = Table {
    name: "dns.upstream.tls",
    doc: "Verification of servers.",
    keys: &[
        Key::new(
            "ca",
            Kind::Text(Form::File),
            "PEM file with the authorities of servers. Without it, the system's. It is read \
             again when it changes; a file that can't be used changes nothing.",
        ),
        Key::new(
            "verify",
            Kind::Boolean,
            "Verifies certificates by authorities, for the name before \"@\", else for the host.",
        )
        .absent(Absent::Yes),
        Key::new(
            "pins",
            Kind::List(&Kind::Text(Form::Pin), 0),
            "SHA-256 digests of public keys, written \"sha256/BASE64\". A server must have one \
             of these keys beside a valid certificate; with `verify = false`, the key alone.",
        )
        .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};

static ECS: Table = Table {
    name: "dns.upstream.ecs",
    doc: "Network of the client's address, private addresses included.",
    keys: &[Key::new(
        "add",
        Kind::Text(Form::SubnetPrefixes),
        "Prefix lengths of IPv4 and of IPv6 addresses, such as \"24/56\".",
    )
    .required()],
    needs: Needs::Nothing,
};

static UPSTREAM_CACHE: Table = Table {
    name: "dns.upstream.cache",
    doc: "Caching of this upstream's responses, where it differs from `dns.cache`.",
    keys: &[Key::new("max_ttl", TTL, "Longest time that responses are kept.").required()],
    needs: Needs::Nothing,
};
