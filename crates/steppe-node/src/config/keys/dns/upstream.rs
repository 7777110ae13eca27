//! Tables of the DNS forwarder's upstreams.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};
use steppe_dns::config::ClientSubnet;

use crate::config::forms;
use crate::config::limits::{DNS_CONCURRENT, TTL_MAX};

/// A time that records are kept.
pub(super) const TTL: Kind = Kind::Duration(Duration::ZERO, TTL_MAX);

pub(super) static UPSTREAM: Table = Table {
    name: "dns.upstream",
    doc: "Groups of servers that queries are forwarded to, by name.",
    keys: &[
        &Spec::new(
            "servers",
            Kind::List(&Kind::Text(&forms::DNS_SERVER), 1),
            "URLs of servers, up to 64: \"udp://ADDRESS\" (TCP after a truncated response), \
             \"tcp://ADDRESS\", \"tls://NAME@ADDRESS\" (DoT), \"https://NAME@ADDRESS/PATH\" \
             (DoH). The usual ports (53, 853, 443) may be left out. Certificates are verified \
             for NAME, else for the host; a host name needs `bootstrap` or an unencrypted \
             server.",
        ),
        &Spec::new(
            "resolv_conf",
            Kind::Text(&forms::FILE),
            "File such as `/etc/resolv.conf`, whose first three name servers are asked over UDP, \
             except the forwarder's own listeners; `127.0.0.1:53` if it is missing or names \
             none. It is read at start and by a reload.",
        ),
        &Spec::new(
            "tls",
            Kind::Table(&UPSTREAM_TLS),
            "Verification of servers over \"tls://\" and \"https://\".",
        )
        .absent(Absent::Table),
        &Spec::new(
            "bootstrap",
            Kind::List(&Kind::Text(&forms::DNS_BOOTSTRAP), 0),
            "IP addresses of resolvers that are asked, over TCP, for the addresses of servers \
             known by name. Without any, the upstream's own servers over \"udp://\" and \
             \"tcp://\".",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "policy",
            Kind::Choice(&["hedge", "race", "fastest", "round-robin", "failover"]),
            "Choice of servers. \"hedge\": the fastest, and the next if it takes longer than \
             usual. \"race\": many at once, the first good response counts. \"fastest\": the \
             fastest, and the next if it fails. \"round-robin\": in turn. \"failover\": the \
             first in order that works.",
        )
        .absent(Absent::Text("hedge")),
        &Spec::new(
            "concurrent",
            Kind::Integer(DNS_CONCURRENT.0, DNS_CONCURRENT.1),
            "Servers that \"race\" asks at once.",
        )
        .absent(Absent::Number(8)),
        &Spec::new(
            "timeout",
            forms::TIMEOUT,
            "Time that a client waits for a response; then SERVFAIL.",
        )
        .absent(Absent::Text("2s")),
        &Spec::new(
            "retry_tcp",
            Kind::Boolean,
            "Asks again over TCP after a truncated response. With `false`, the client gets the \
             truncated response.",
        )
        .absent(Absent::Yes),
        &Spec::new(
            "case_randomization",
            Kind::Boolean,
            "Sends names in random letter case, which a response must repeat (0x20).",
        )
        .absent(Absent::Yes),
        &Spec::new(
            "ecs",
            Kind::Either(&[
                Kind::Choice(&Choices::of(&[
                    ("strip", ClientSubnet::Strip),
                    ("pass", ClientSubnet::Pass),
                ])),
                Kind::Table(&ECS),
            ]),
            "EDNS Client Subnet (RFC 7871) that servers receive: \"strip\" for none, \"pass\" \
             for the one that the client sends, a table for the network of its address. A client \
             that sends `0.0.0.0/0` opts out.",
        )
        .absent(Absent::Text("strip")),
        &Spec::new(
            "private",
            Kind::Boolean,
            "Accepts private addresses in the responses of these servers.",
        )
        .absent(Absent::No),
        &Spec::new("cache", Kind::Table(&UPSTREAM_CACHE), UPSTREAM_CACHE.doc),
    ],
    needs: Needs::Any(&["servers", "resolv_conf"]),
};

static UPSTREAM_TLS: Table = Table {
    name: "dns.upstream.tls",
    doc: "Verification of servers.",
    keys: &[
        &Spec::new(
            "ca",
            Kind::Text(&forms::FILE),
            "PEM file with the authorities of servers. Without it, the system's. It is read \
             again when it changes; a file that can't be used changes nothing.",
        ),
        &Spec::new(
            "verify",
            Kind::Boolean,
            "Verifies certificates by authorities, for the name before \"@\", else for the host.",
        )
        .absent(Absent::Yes),
        &Spec::new(
            "pins",
            Kind::List(&Kind::Text(&forms::PIN), 0),
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
    keys: &[&Spec::new(
        "add",
        Kind::Text(&forms::SUBNET_PREFIXES),
        "Prefix lengths of IPv4 and of IPv6 addresses, such as \"24/56\".",
    )
    .required()],
    needs: Needs::Nothing,
};

static UPSTREAM_CACHE: Table = Table {
    name: "dns.upstream.cache",
    doc: "Caching of this upstream's responses, where it differs from `dns.cache`.",
    keys: &[&Spec::new("max_ttl", TTL, "Longest time that responses are kept.").required()],
    needs: Needs::Nothing,
};
