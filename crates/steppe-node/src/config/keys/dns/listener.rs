//! Tables of a listener of the DNS forwarder.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::choice::Choices;
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;
use crate::config::keys::tls::DNS_LISTENER_TLS;

pub(super) static LISTENER: Table = Table {
    name: "dns.listener",
    doc: "Addresses that DNS clients send queries to.",
    keys: &[
        &Spec::new(
            "listen",
            Kind::Text(&forms::LISTEN),
            "Address to listen on. Each worker has a socket of its own on it, for datagrams and \
             for connections. \"[::]:53\" is dual stack: IPv4 too.",
        )
        .required(),
        &Spec::new(
            "protocols",
            Kind::Set(&Kind::Choice(
                &Choices::of(&[
                    ("udp", "udp"),
                    ("tcp", "tcp"),
                    ("tls", "tls"),
                    ("https", "https"),
                ])
                .and_later(&["quic"]),
            )),
            "Protocols of the listener: \"udp\", and one of \"tcp\", \"tls\" (DNS over TLS, RFC \
             7858) and \"https\" (DNS over HTTPS, RFC 8484, over HTTP/2 and HTTP/1.1).",
        )
        .absent(Absent::Texts(&["udp", "tcp"])),
        &Spec::new("tls", Kind::Table(&DNS_LISTENER_TLS), DNS_LISTENER_TLS.doc),
        &Spec::new(
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
