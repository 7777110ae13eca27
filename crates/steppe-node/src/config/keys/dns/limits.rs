//! What clients and servers of the DNS forwarder may make grow.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::limits::{CNAME_DEPTH, DNS_BYTES_PER_S_MAX, DNS_PER_S_MAX};

pub(super) static LIMITS: Table = Table {
    name: "dns.limits",
    doc: "Limits on clients and servers. The first three are token buckets that hold one \
     second's worth, shared by all workers; `0` turns each off. Refusals are counted in \
     `steppe_dns_limited_total`.",
    keys: &[
        &Spec::new(
            "client_qps",
            Kind::Integer(0, DNS_PER_S_MAX),
            "Queries per second of a client's network (/24, /56). Beyond it, queries over UDP \
             are dropped, since their sender may be forged; queries over connections get \
             REFUSED.",
        )
        .absent(Absent::Number(0)),
        &Spec::new(
            "unproven_bytes_per_s",
            Kind::Size(0, DNS_BYTES_PER_S_MAX),
            "Bytes per second of responses over UDP to a network (/24, /56) that has not proven \
             its address in the last ten minutes, by a cookie or over a connection. Beyond it, \
             every second response is sent truncated (TC) and without records, so that the \
             client asks over TCP; the others are dropped.",
        )
        .absent(Absent::Text("0")),
        &Spec::new(
            "zone_misses_per_s",
            Kind::Integer(0, DNS_PER_S_MAX),
            "Questions per second below a zone that the cache does not answer. Beyond it, \
             SERVFAIL with the extended error 13, and no server is asked; cached responses and \
             other zones are served as before.",
        )
        .absent(Absent::Number(0)),
        &Spec::new(
            "cname_depth",
            Kind::Integer(CNAME_DEPTH.0, CNAME_DEPTH.1),
            "Aliases (CNAME) that are followed in a response.",
        )
        .absent(Absent::Number(8)),
        &Spec::new(
            "rebinding",
            Kind::Choice(&["refuse", "allow"]),
            "Treatment of private addresses for public names from upstreams that are not \
             `private` (DNS rebinding): \"refuse\" responds with REFUSED, \"allow\" passes them \
             on.",
        )
        .absent(Absent::Text("refuse")),
    ],
    needs: Needs::Nothing,
};
