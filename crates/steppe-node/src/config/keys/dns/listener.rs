//! Tables of a listener of the DNS forwarder.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::keys::tls::DNS_LISTENER_TLS;
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static LISTENER: Table = Table {
    name: "dns.listener",
    doc: "Addresses that DNS clients send queries to.",
    keys: &[
        Key::new(
            "listen",
            Kind::Text(Form::Listen),
            "Address to listen on. Each worker has a socket of its own on it, for datagrams and \
             for connections. \"[::]:53\" is dual stack: IPv4 too.",
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
            "Protocols of the listener: \"udp\", and one of \"tcp\", \"tls\" (DNS over TLS, RFC \
             7858) and \"https\" (DNS over HTTPS, RFC 8484, over HTTP/2 and HTTP/1.1).",
        )
        .absent(Absent::Texts(&["udp", "tcp"])),
        Key::new("tls", Kind::Table(&DNS_LISTENER_TLS), DNS_LISTENER_TLS.doc),
        Key::new(
            "proxy_protocol",
            Kind::Boolean,
            "Requires a PROXY protocol header at the start of each connection, from one of \
             `http.trusted_proxies`; other connections are closed. The client that the header \
             names must be in `dns.access.allow`. Not with \"udp\".",
        )
        .absent(Absent::No),
    ],
    needs: Needs::Nothing,
};
