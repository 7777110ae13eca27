//! Tables of a listener of the DNS forwarder.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::keys::tls::DNS_LISTENER_TLS;
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static LISTENER: Table = Table {
    name: "dns.listener",
    doc: "Where clients ask.",
    keys: &[
        Key::new(
            "listen",
            Kind::Text(Form::Listen),
            "IPv4 or IPv6 (\"[::]:53\" is dual stack).",
        )
        .required(),
        Key::new(
            "protocols",
            Kind::Set(&Kind::Choice(&[
                Choice::served("udp"),
                Choice::served("tcp"),
                Choice::served("tls"),
                Choice::served("https"),
                Choice::later("quic"),
            ])),
            "What is spoken: \"udp\", and one of \"tcp\", \"tls\" (DoT) and \"https\" (DoH).",
        )
        .absent(Absent::Texts(&["udp", "tcp"])),
        Key::new("tls", Kind::Table(&DNS_LISTENER_TLS), DNS_LISTENER_TLS.doc),
        Key::new(
            "proxy_protocol",
            Kind::Boolean,
            "Whether trusted proxies say first whom they connect for; others are turned away.",
        )
        .absent(Absent::No),
    ],
    needs: Needs::Nothing,
};
