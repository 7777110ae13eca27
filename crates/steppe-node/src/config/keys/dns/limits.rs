//! What clients and servers of the DNS forwarder may make grow.

use crate::config::limits::{CNAME_DEPTH, DNS_BYTES_PER_S_MAX, DNS_PER_S_MAX};
use crate::config::table::{Absent, Choice, Key, Kind, Needs, Table};

pub(super) static LIMITS: Table = Table {
    name: "dns.limits",
    doc: "What clients and servers may make grow.",
    keys: &[
        Key::new(
            "client_qps",
            Kind::Integer(0, DNS_PER_S_MAX),
            "Queries a second of a client's network (/24, /56); 0: as many as come.",
        )
        .absent(Absent::Number(0)),
        Key::new(
            "unproven_bytes_per_s",
            Kind::Size(0, DNS_BYTES_PER_S_MAX),
            "Bytes a second by UDP to a network that has shown neither a cookie nor TCP; \"0\": as \
             many as are asked for.",
        )
        .absent(Absent::Text("0")),
        Key::new(
            "zone_misses_per_s",
            Kind::Integer(0, DNS_PER_S_MAX),
            "Questions a second that servers are asked below a zone; 0: as many as come.",
        )
        .absent(Absent::Number(0)),
        Key::new(
            "cname_depth",
            Kind::Integer(CNAME_DEPTH.0, CNAME_DEPTH.1),
            "Aliases that are followed in a response.",
        )
        .absent(Absent::Number(8)),
        Key::new(
            "rebinding",
            Kind::Choice(&[Choice::served("refuse"), Choice::served("allow")]),
            "What becomes of private addresses for public names, from upstreams that are not \
             private.",
        )
        .absent(Absent::Text("refuse")),
    ],
    needs: Needs::Nothing,
};
