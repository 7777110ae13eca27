//! Keys of upstreams.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::{FILE, NAME};
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, boolean, choice, integer, key, list, of, place, table, text,
    timeout,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Needs, Table};
use steppe_config::typed::{Fields, Named, valid};
use steppe_net::config::forms::PIN;

use super::cache::ttl;
use super::forms::{BOOTSTRAP, SERVER, SUBNET_PREFIXES};
use super::resolv_conf;
use crate::config::{
    Addresses, CaseRandomization, ClientSubnet, Listener, Policy, Server, Truncated, Trust,
    Upstream,
};
use crate::limits::SERVERS_PER_EXCHANGE_MAX;

/// `[dns.upstream.NAME]`.
pub static UPSTREAM: PlaceKey = place(
    "upstream",
    Kind::Map(&NAME, &Kind::Table(&TABLE)),
    TABLE.doc,
)
.or(Absent::Table);

static TABLE: Table = Table::new(
    "dns.upstream",
    "Groups of servers that queries are forwarded to, by name.",
    keys! {
        SERVERS, RESOLV_CONF, TLS, BOOTSTRAP_SERVERS, POLICY, CONCURRENT, TIMEOUT, RETRY_TCP,
        CASE_RANDOMIZATION, ECS, PRIVATE, CACHE,
    },
)
.needing(Needs::Any(&["servers", "resolv_conf"]));

static SERVERS: OptionalKey<Vec<Server>> = key(
    "servers",
    list(&text(&SERVER), 1),
    "URLs of servers, up to 64: \"udp://ADDRESS\" (TCP after a truncated response), \"tcp://ADDRESS\", \
     \"tls://NAME@ADDRESS\" (DoT), \"https://NAME@ADDRESS/PATH\" (DoH). The usual ports (53, 853, 443) \
     may be left out. Certificates are verified for NAME, else for the host; a host name needs \
     `bootstrap` or an unencrypted server.",
);

static RESOLV_CONF: OptionalKey<PathBuf> = key(
    "resolv_conf",
    text(&FILE),
    "File such as `/etc/resolv.conf`, whose first three name servers are asked over UDP, except the \
     forwarder's own listeners; `127.0.0.1:53` if it is missing or names none. It is read at start and by \
     a reload.",
);

/// Verification of servers.
pub static TLS: Key<Trust> = key(
    "tls",
    table(&TLS_TABLE, trust),
    "Verification of servers over \"tls://\" and \"https://\".",
)
.or(Absent::Table);

static BOOTSTRAP_SERVERS: Key<Vec<SocketAddr>> = key(
    "bootstrap",
    list(&text(&BOOTSTRAP), 0),
    "IP addresses of resolvers that are asked, over TCP, for the addresses of servers known by name. \
     Without any, the upstream's own servers over \"udp://\" and \"tcp://\".",
)
.or(Absent::Texts(&[]));

static POLICY: Key<Policy> = key(
    "policy",
    choice(&Choices::of(&[
        ("hedge", Policy::Hedge),
        ("race", Policy::Race),
        ("fastest", Policy::Fastest),
        ("round-robin", Policy::RoundRobin),
        ("failover", Policy::Failover),
    ])),
    "Choice of servers. \"hedge\": the fastest, and the next if it takes longer than usual. \"race\": \
     many at once, the first good response counts. \"fastest\": the fastest, and the next if it fails. \
     \"round-robin\": in turn. \"failover\": the first in order that works.",
)
.or(Absent::Text("hedge"));

static CONCURRENT: Key<u8> = key(
    "concurrent",
    integer(1, SERVERS_PER_EXCHANGE_MAX as u64),
    "Servers that \"race\" asks at once.",
)
.or(Absent::Number(8));

static TIMEOUT: Key<Duration> = key(
    "timeout",
    timeout(),
    "Time that a client waits for a response; then SERVFAIL.",
)
.or(Absent::Text("2s"));

static RETRY_TCP: Key<bool> = key(
    "retry_tcp",
    boolean(),
    "Asks again over TCP after a truncated response. With `false`, the client gets the truncated response.",
)
.or(Absent::Yes);

static CASE_RANDOMIZATION: Key<bool> = key(
    "case_randomization",
    boolean(),
    "Sends names in random letter case, which a response must repeat (0x20).",
)
.or(Absent::Yes);

static ECS: Key<ClientSubnet> = key(
    "ecs",
    of(
        Kind::Either(&[
            Kind::Choice(&Choices::of(&[
                ("strip", ClientSubnet::Strip),
                ("pass", ClientSubnet::Pass),
            ])),
            Kind::Table(&ECS_TABLE),
        ]),
        |node| match node.fields() {
            None => node.typed.value().copied(),
            Some(ecs) => ecs.get(&ADD),
        },
    ),
    "EDNS Client Subnet (RFC 7871) that servers receive: \"strip\" for none, \"pass\" for the one that \
     the client sends, a table for the network of its address. A client that sends `0.0.0.0/0` opts out.",
)
.or(Absent::Text("strip"));

static ECS_TABLE: Table = Table::new(
    "dns.upstream.ecs",
    "Network of the client's address, private addresses included.",
    keys! { ADD },
);

static ADD: Key<ClientSubnet> = key(
    "add",
    text(&SUBNET_PREFIXES),
    "Prefix lengths of IPv4 and of IPv6 addresses, such as \"24/56\".",
)
.required();

static PRIVATE: Key<bool> = key(
    "private",
    boolean(),
    "Accepts private addresses in the responses of these servers.",
)
.or(Absent::No);

static CACHE: OptionalKey<Duration> = key(
    "cache",
    table(&CACHE_TABLE, |cache| cache.get(&MAX_TTL)),
    CACHE_TABLE.doc,
);

static CACHE_TABLE: Table = Table::new(
    "dns.upstream.cache",
    "Caching of this upstream's responses, where it differs from `dns.cache`.",
    keys! { MAX_TTL },
);

static MAX_TTL: Key<Duration> =
    key("max_ttl", ttl(), "Longest time that responses are kept.").required();

static TLS_TABLE: Table = Table::new(
    "dns.upstream.tls",
    "Verification of servers.",
    keys! { CA, VERIFY, PINS },
);

/// Authorities of servers.
pub static CA: OptionalKey<PathBuf> = key(
    "ca",
    text(&FILE),
    "PEM file with the authorities of servers. Without it, the system's. It is read again when it \
     changes; a file that can't be used changes nothing.",
);

static VERIFY: Key<bool> = key(
    "verify",
    boolean(),
    "Verifies certificates by authorities, for the name before \"@\", else for the host.",
)
.or(Absent::Yes);

static PINS: Key<Vec<[u8; 32]>> = key(
    "pins",
    list(&text(&PIN), 0),
    "SHA-256 digests of public keys, written \"sha256/BASE64\". A server must have one of these keys \
     beside a valid certificate; with `verify = false`, the key alone.",
)
.or(Absent::Texts(&[]));

/// The upstream that a table describes. Servers of `resolv_conf` that are among `listeners`, the forwarder's own, are
/// left out.
pub(super) fn build(entry: &Named, listeners: &[Listener]) -> Option<Upstream> {
    let upstream = entry.value.fields()?;
    let mut servers = upstream.get(&SERVERS)?.unwrap_or_default();
    if let Some(path) = upstream.get(&RESOLV_CONF)? {
        let is_own = |address: SocketAddr| {
            listeners.iter().any(|listener| {
                let own = listener.address;
                let is_any = own.ip().is_unspecified() && address.ip().is_loopback();
                own.port() == address.port() && (own.ip() == address.ip() || is_any)
            })
        };
        servers.extend(resolv_conf::servers(&path, is_own));
    }
    Some(Upstream {
        name: entry.name.clone(),
        servers,
        policy: upstream.get(&POLICY)?,
        concurrent: upstream.get(&CONCURRENT)?,
        timeout: upstream.get(&TIMEOUT)?,
        truncated: match upstream.get(&RETRY_TCP)? {
            true => Truncated::AskByTcp,
            false => Truncated::Pass,
        },
        case: match upstream.get(&CASE_RANDOMIZATION)? {
            true => CaseRandomization::On,
            false => CaseRandomization::Off,
        },
        addresses: match upstream.get(&PRIVATE)? {
            true => Addresses::Any,
            false => Addresses::Public,
        },
        max_ttl: upstream.get(&CACHE)?,
        trust: upstream.get(&TLS)?,
        bootstrap: upstream.get(&BOOTSTRAP_SERVERS)?,
        client_subnet: upstream.get(&ECS)?,
    })
}

fn trust(tls: &Fields) -> Option<Trust> {
    Some(Trust {
        ca: tls.get(&CA)?,
        verify: tls.get(&VERIFY)?,
        pins: tls.get(&PINS)?,
    })
}

/// Finds the mistakes in combinations of keys: too many servers, keys that apply to none of the servers, a host name
/// without a resolver for its address.
pub(super) fn check(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = upstream.value(&SERVERS.spec) else {
        return;
    };
    let items = upstream.items(&SERVERS);
    let (of_file, beside) = match upstream.place_of(&RESOLV_CONF) {
        Some(_) => (resolv_conf::SERVERS_MAX, " beside those of `resolv_conf`"),
        None => (0, ""),
    };
    let most = usize::from(SERVERS_PER_EXCHANGE_MAX) - of_file;
    if items.len() > most {
        let message = format!(
            "an upstream has at most {most} servers{beside}, not {}",
            items.len()
        );
        let mistake = Mistake::new(node.span, message).label("too many");
        mistakes.push(mistake.help("give the others an upstream of their own"));
    }
    let servers: Vec<(&Server, Span)> = valid(items).collect();
    let is_known = items.len() == servers.len();
    let has_secure = servers.iter().any(|(server, _)| server.is_secure());
    if let (Some(span), true, false) = (upstream.place_of(&TLS), is_known, has_secure) {
        let message = "`tls` has no effect: no server uses \"tls://\" or \"https://\"";
        let mistake = Mistake::new(span, message).label("without effect");
        mistakes.push(mistake.help("take it out"));
    }
    let is_named = |(server, _): &&(&Server, Span)| server.socket_address().is_none();
    let named = servers.iter().find(is_named).map(|(_, span)| *span);
    let bootstrap = upstream.place_of(&BOOTSTRAP_SERVERS);
    if let (Some(span), true, None) = (bootstrap, is_known, named) {
        let message = "`bootstrap` has no effect: no server is known by name";
        let mistake = Mistake::new(span, message).label("each has an address");
        mistakes.push(mistake.help("take it out"));
    }
    let is_asked = !upstream.items(&BOOTSTRAP_SERVERS).is_empty()
        || upstream.place_of(&RESOLV_CONF).is_some()
        || servers.iter().any(|(server, _)| !server.is_secure());
    if let (Some(span), false) = (named, is_asked) {
        let mistake = Mistake::new(span, "this host name needs `bootstrap`");
        let help =
            "write \"tls://NAME@ADDRESS\", or set `bootstrap` to resolvers, such as [\"9.9.9.9\"]";
        mistakes.push(mistake.label("no resolver for its address").help(help));
    }
}
