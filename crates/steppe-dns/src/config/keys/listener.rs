//! Keys of listeners.

use steppe_config::choice::Choices;
use steppe_config::key::{Key, OptionalKey, boolean, choice, key, set, table, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::Fields;
use steppe_net::ListenAddress;
use steppe_net::config::forms::LISTEN as LISTEN_ADDRESS;
use steppe_net::config::tls;
use steppe_net::tls::config::{CertificateFiles, ListenerConfig};

use crate::config::{Introduction, Listener, Protocol};

/// `[[dns.listener]]`.
pub(super) static TABLE: Table = Table::new(
    "dns.listener",
    "Addresses that DNS clients send queries to.",
    keys! { LISTEN, PROTOCOLS, TLS, PROXY_PROTOCOL },
);

/// Address to listen on.
pub static LISTEN: Key<ListenAddress> = key(
    "listen",
    text(&LISTEN_ADDRESS),
    "Address to listen on. Each worker has a socket of its own on it, for datagrams and for connections. \
     \"[::]:53\" is dual stack: IPv4 too.",
)
.required();

/// Protocols of the listener.
pub static PROTOCOLS: Key<Vec<Protocol>> = key(
    "protocols",
    set(&choice(&KNOWN)),
    "Protocols of the listener: \"udp\", and one of \"tcp\", \"tls\" (DNS over TLS, RFC 7858) and \
     \"https\" (DNS over HTTPS, RFC 8484, over HTTP/2 and HTTP/1.1).",
)
.or(Absent::Texts(&["udp", "tcp"]));

static KNOWN: Choices<Protocol> = Choices::of(&[
    ("udp", Protocol::Udp),
    ("tcp", Protocol::Tcp),
    ("tls", Protocol::Tls),
    ("https", Protocol::Https),
])
.and_later(&["quic"]);

/// TLS of the listener, without ALPN.
pub static TLS: OptionalKey<ListenerConfig> = key(
    "tls",
    table(&TLS_TABLE, |tls| {
        tls::listener(tls, &CERTIFICATES, Vec::new())
    }),
    TLS_TABLE.doc,
);

static TLS_TABLE: Table = Table::new(
    "dns.listener.tls",
    "TLS of a listener, required by \"tls\" and \"https\" and an error without them. ALPN negotiates \
     `dot`, or `h2` and `http/1.1`; clients of \"tls\" may offer no protocol.",
    &tls::listener_keys::<9>(&CERTIFICATES.spec, &tls::ACME),
);

/// Certificates of the listener.
pub static CERTIFICATES: Key<Vec<CertificateFiles>> = tls::certificates(&Kind::Table(&CERTIFICATE));

static CERTIFICATE: Table = tls::certificate("dns.listener.tls.certificates");

/// True if each connection begins with a PROXY protocol header.
pub static PROXY_PROTOCOL: Key<bool> = key(
    "proxy_protocol",
    boolean(),
    "Requires a PROXY protocol header at the start of each connection, from one of \
     `http.trusted_proxies`; other connections are closed. The client that the header names must be in \
     `dns.access.allow`. Not with \"udp\".",
)
.or(Absent::No);

/// DNS over TLS in ALPN (RFC 7858 §3.1, as IANA's registry names it).
const DOT: &[u8] = b"dot";

pub(super) fn build(listener: &Fields) -> Option<Listener> {
    let ListenAddress::Tcp(address) = listener.get(&LISTEN)? else {
        return None;
    };
    let protocols = listener.get(&PROTOCOLS)?;
    let alpn: &[&[u8]] = match protocols.contains(&Protocol::Https) {
        true => &[b"h2", b"http/1.1"],
        false => &[DOT],
    };
    Some(Listener {
        address,
        protocols,
        tls: listener.get(&TLS)?.map(|tls| ListenerConfig {
            alpn: alpn.iter().map(|name| name.to_vec()).collect(),
            ..tls
        }),
        introduction: match listener.get(&PROXY_PROTOCOL)? {
            true => Introduction::ByProxy,
            false => Introduction::None,
        },
    })
}

/// Finds the mistakes in combinations of keys: two protocols on a TCP socket, TLS that is missing or unused, a PROXY
/// header on datagrams.
pub(super) fn check(listener: &Fields, mistakes: &mut Mistakes) {
    no_unix_socket(listener, mistakes);
    let of = |protocols: &'static [Protocol]| {
        let items = listener.items(&PROTOCOLS).iter();
        items.filter(|node| node.typed.value().is_some_and(|it| protocols.contains(it)))
    };
    let mut on_streams = of(&[Protocol::Tcp, Protocol::Tls, Protocol::Https]);
    if let (Some(first), Some(second)) = (on_streams.next(), on_streams.next()) {
        let message = "a TCP socket serves only one of \"tcp\", \"tls\" and \"https\"";
        mistakes.push(
            Mistake::new(second.span, message)
                .label("a second one")
                .also(first.span, "the first one")
                .help("add a `dns.listener` with another port for it"),
        );
    }
    let over_tls = of(&[Protocol::Tls, Protocol::Https]).next();
    match (over_tls, listener.value(&TLS.spec)) {
        (Some(protocol), None) => mistakes.push(
            Mistake::new(protocol.span, "this protocol needs TLS")
                .label("no certificate for clients")
                .help("add `tls.certificates`, with the files of a certificate and its key"),
        ),
        (None, Some(tls)) => mistakes.push(
            Mistake::new(
                tls.span,
                "`tls` has no effect: no protocol of this listener uses TLS",
            )
            .label("without effect")
            .help("set `protocols` to \"tls\" or \"https\", or take it out"),
        ),
        _ => {}
    }
    let proxied = listener.located(&PROXY_PROTOCOL);
    if let (Some((true, span)), Some(udp)) = (proxied, of(&[Protocol::Udp]).next()) {
        mistakes.push(
            Mistake::new(span, "the PROXY protocol works on connections only")
                .label("datagrams carry no PROXY header")
                .also(udp.span, "of this listener")
                .help("add a `dns.listener` for \"udp\" without it"),
        );
    }
    if let Some(tls) = listener.within(&TLS) {
        tls::check_listener(tls, mistakes);
    }
}

fn no_unix_socket(listener: &Fields, mistakes: &mut Mistakes) {
    if let Some((ListenAddress::Unix(_), span)) = listener.located(&LISTEN) {
        let mistake = Mistake::new(span, "the DNS forwarder can't listen on a Unix socket");
        let mistake = mistake.label("not an address and a port");
        mistakes.push(mistake.help("write one such as \"127.0.0.1:53\""));
    }
}
