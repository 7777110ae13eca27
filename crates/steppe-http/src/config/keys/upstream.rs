//! Keys of upstreams: servers, a fixed response, or a service of the request plane.

pub mod health;
mod policies;
pub mod respond;
pub mod retry;

use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, choice, duration, integer, key, list, of, place, section, text,
    timeout,
};
use steppe_config::keys;
use steppe_config::limits::TIMEOUT_MAX;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Needs, Table};
use steppe_config::typed::{Fields, Named, Node};
use steppe_net::ServerAddress;
use steppe_net::config::forms::{SERVER, SERVICE};
use steppe_net::config::tls::{NAME, VERIFY, check_servers, servers as server_trust};
use steppe_net::proxy_protocol::ProxyVersion;
use steppe_net::tls::config::ServerTrust;

use super::tls::{self, HTTP_1_1, HTTP_2};
use crate::config::{
    Balance, CircuitBreaker, GuestAddress, H1, H2, HashOn, Health, Hedge, Outlier, ProtocolName,
    Respond, Retry, Server, Servers, Sticky, Upstream, UpstreamKind, UpstreamTimeouts,
};
use crate::limits;

/// `[http.upstream.NAME]`.
pub static TABLE: Table = Table::new(
    "http.upstream",
    "Upstreams that routes forward to, by name: servers, a fixed response, or a service of the \
     request plane.",
    keys! { SERVERS, RESPOND, PLANE, PROTOCOL, TLS, BALANCE, HASH_ON, STICKY, SLOW_START, KEEPALIVE, TIMEOUTS, HEALTH, OUTLIER, CIRCUIT_BREAKER, RETRY, PROXY_PROTOCOL, HEDGE },
)
.needing(Needs::One(&["servers", "respond", "plane"]));

/// The upstream's servers.
pub static SERVERS: OptionalKey<Vec<Server>> = key(
    "servers",
    list(
        &of(
            Kind::Either(&[Kind::Text(&SERVER), Kind::Table(&SERVER_KEYS)]),
            server,
        ),
        1,
    ),
    "Addresses of the servers, or tables with `address` and `weight`. Each address that a name \
     resolves to is a server of its own, with the weight of the name. Names are resolved again by \
     their TTL.",
);

/// The response that stands in for servers.
pub static RESPOND: OptionalKey<Respond> =
    section("respond", &respond::TABLE, respond::build).exclusive();

/// The service that stands in for servers.
pub static PLANE: OptionalKey<String> = key(
    "plane",
    text(&SERVICE),
    "Service of the request plane that answers instead of servers. No other key may be set.",
)
.exclusive();

static PROTOCOL: Key<Spoken> = key(
    "protocol",
    choice(&PROTOCOLS),
    "Protocol of the servers. \"h1\" and \"h2c\" are HTTP/1.1 and HTTP/2 without TLS, \"h1s\" and \
     \"h2\" the same over TLS.",
)
.or(Absent::Text("h1"));

/// A codec, and its name in ALPN where it is spoken over TLS.
type Spoken = (ProtocolName, Option<&'static [u8]>);

static PROTOCOLS: Choices<Spoken> = Choices::of(&[
    ("h1", (H1, None)),
    ("h2c", (H2, None)),
    ("h1s", (H1, Some(HTTP_1_1))),
    ("h2", (H2, Some(HTTP_2))),
]);

/// TLS to its servers, which protocols over it have by default.
pub static TLS: PlaceKey =
    place("tls", Kind::Table(&tls::UPSTREAM), tls::UPSTREAM.doc).or(Absent::TableWhere {
        key: "protocol",
        says: &["h1s", "h2"],
    });

static BALANCE: Key<Option<Balance>> = key(
    "balance",
    choice(&BALANCES),
    "Load-balancing policy. \"round-robin\": in turn, by weight. \"least-request\": the fewest \
     requests in flight for the weight. \"p2c-ewma\": the better of two random servers by latency \
     and load. \"random\": by weight. \"ring-hash\": the same server for the same value of \
     `hash_on`.",
)
.or(Absent::Text("round-robin"));

/// Policies; `None`: the hash of a key.
static BALANCES: Choices<Option<Balance>> = Choices::of(&[
    ("round-robin", Some(Balance::RoundRobin)),
    ("least-request", Some(Balance::LeastRequest)),
    ("p2c-ewma", Some(Balance::P2cEwma)),
    ("random", Some(Balance::Random)),
    ("ring-hash", None),
]);

static HASH_ON: OptionalKey<HashOn> = key(
    "hash_on",
    text(&policies::HASH_ON),
    "Hash key of \"ring-hash\", required there: a request field, a cookie, the client's address as \
     trusted proxies report it, or the path. It is read from the request as received, before \
     filters.",
);

static STICKY: OptionalKey<Sticky> = section("sticky", &policies::STICKY, policies::sticky);

static SLOW_START: Key<Duration> = key(
    "slow_start",
    duration(Duration::ZERO, TIMEOUT_MAX),
    "Time in which a server that returns (from ejection, failed health checks or a drain) goes \
     from a tenth of its weight to all of it.",
)
.or(Absent::Text("0s"));

static KEEPALIVE: Key<usize> = key(
    "keepalive",
    integer(limits::KEEPALIVE.0, limits::KEEPALIVE.1),
    "Idle connections kept per worker; `0` keeps none.",
)
.or(Absent::Number(256));

static TIMEOUTS: Key<UpstreamTimeouts> = section("timeouts", &TIMEOUT, timeouts).or(Absent::Table);

static HEALTH: OptionalKey<Health> = section("health", &health::TABLE, health::build);

static OUTLIER: OptionalKey<Outlier> = section("outlier", &health::OUTLIER, health::outlier);

/// The upstream's circuit breaker.
pub static CIRCUIT_BREAKER: OptionalKey<CircuitBreaker> = section(
    "circuit_breaker",
    &health::CIRCUIT_BREAKER,
    health::circuit_breaker,
);

static RETRY: OptionalKey<Retry> = section("retry", &retry::TABLE, retry::build);

static PROXY_PROTOCOL: OptionalKey<ProxyVersion> = key(
    "proxy_protocol",
    choice(&Choices::of(&[
        ("v1", ProxyVersion::V1),
        ("v2", ProxyVersion::V2),
    ])),
    "PROXY protocol version of the header with the client's address that is sent to servers. Each \
     request then has a connection of its own; health checks send `UNKNOWN` or `LOCAL`.",
);

static HEDGE: OptionalKey<Option<Hedge>> = section("hedge", &retry::HEDGE, retry::hedge);

static SERVER_KEYS: Table = Table::new(
    "http.upstream.servers",
    "One server.",
    keys! { ADDRESS, WEIGHT },
);

/// The address of a server that has a table.
pub static ADDRESS: Key<ServerAddress> =
    key("address", text(&SERVER), "Address of the server.").required();

static WEIGHT: Key<u32> = key(
    "weight",
    integer(limits::WEIGHT.0, limits::WEIGHT.1),
    "Share of the requests, relative to the other servers' weights.",
)
.or(Absent::Number(1));

static TIMEOUT: Table = Table::new(
    "http.upstream.timeouts",
    "Time limits for servers.",
    keys! { CONNECT, FIRST_BYTE, IDLE, TOTAL },
);

static CONNECT: Key<Duration> = key(
    "connect",
    timeout(),
    "Until a connection is established; then 504. A name that was never resolved gives 502.",
)
.or(Absent::Text("1s"));

static FIRST_BYTE: Key<Duration> = key(
    "first_byte",
    timeout(),
    "From the end of the request to the head of the response; then 504. An interim response, of \
     which there may be 16, starts it again.",
)
.or(Absent::Text("60s"));

static IDLE: Key<Duration> = key(
    "idle",
    timeout(),
    "For the server to accept or send more of a message; then 504, or a closed connection if the \
     response has begun. A tunnel without traffic for this time is closed. Idle connections are \
     kept as long.",
)
.or(Absent::Text("60s"));

static TOTAL: OptionalKey<Duration> = key(
    "total",
    timeout(),
    "For the whole exchange; then 504, or a closed connection. Tunnels and event streams have \
     `idle` only. Without it, there is no limit.",
);

/// The upstream that an entry describes; `None`: a value of it is invalid, and its mistake was reported.
#[must_use]
pub fn build(entry: &Named) -> Option<Upstream> {
    let upstream = entry.value.fields()?;
    let kind = match (upstream.get(&RESPOND)?, upstream.get(&PLANE)?) {
        (Some(respond), _) => UpstreamKind::Respond(respond),
        (None, Some(resource)) => UpstreamKind::Guest(GuestAddress {
            guest: PLANE.spec.name,
            resource,
        }),
        (None, None) => UpstreamKind::Servers(servers(upstream)?),
    };
    Some(Upstream {
        name: entry.name.clone(),
        kind,
    })
}

fn servers(upstream: &Fields) -> Option<Servers> {
    Some(Servers {
        servers: upstream.get(&SERVERS)??,
        protocol: upstream.get(&PROTOCOL)?.0,
        tls: trust(upstream)?,
        balance: match upstream.get(&BALANCE)? {
            Some(balance) => balance,
            None => Balance::RingHash(upstream.get(&HASH_ON)??),
        },
        sticky: upstream.get(&STICKY)?,
        slow_start: upstream.get(&SLOW_START)?,
        health: upstream.get(&HEALTH)?,
        outlier: upstream.get(&OUTLIER)?,
        circuit_breaker: upstream.get(&CIRCUIT_BREAKER)?,
        retry: upstream.get(&RETRY)?,
        hedge: upstream.get(&HEDGE)?.flatten(),
        proxy_protocol: upstream.get(&PROXY_PROTOCOL)?,
        keepalive: upstream.get(&KEEPALIVE)?,
        timeouts: upstream.get(&TIMEOUTS)?,
    })
}

/// TLS to the servers of an upstream. `None` on the outside: a value is invalid, or there are no servers.
pub fn trust(upstream: &Fields) -> Option<Option<ServerTrust>> {
    match upstream.get(&PROTOCOL)? {
        (_, None) => Some(None),
        (_, Some(alpn)) => server_trust(upstream.within(&TLS)?, alpn).map(Some),
    }
}

fn server(server: &Node) -> Option<Server> {
    match server.fields() {
        Some(table) => Some(Server {
            address: table.get(&ADDRESS)?,
            weight: table.get(&WEIGHT)?,
        }),
        None => server
            .typed
            .value::<ServerAddress>()
            .cloned()
            .map(Server::from),
    }
}

fn timeouts(timeouts: &Fields) -> Option<UpstreamTimeouts> {
    Some(UpstreamTimeouts {
        connect: timeouts.get(&CONNECT)?,
        first_byte: timeouts.get(&FIRST_BYTE)?,
        idle: timeouts.get(&IDLE)?,
        total: timeouts.get(&TOTAL)?,
    })
}

/// Finds the mistakes of what several keys of an upstream say together.
pub fn check(upstream: &Fields, mistakes: &mut Mistakes) {
    exclusive(upstream, mistakes);
    if let Some(respond) = upstream.within(&RESPOND) {
        respond::check(respond, mistakes);
    }
    hash_on(upstream, mistakes);
    if let Some(health) = upstream.within(&HEALTH) {
        health::check(health, without_grpc(upstream), mistakes);
    }
    if let (Some(retry), Some(no_grpc)) = (upstream.within(&RETRY), without_grpc(upstream)) {
        retry::check(retry, no_grpc, mistakes);
    }
    protocol(upstream, mistakes);
    if let Some(tls) = upstream.within(&TLS) {
        check_servers(tls, mistakes);
        unnamed_servers(upstream, tls, mistakes);
    }
}

/// Where something else answers, no server is asked.
fn exclusive(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(first) = upstream.given.iter().find(|each| each.key.is_exclusive) else {
        return;
    };
    let name = first.key.name;
    let why = match name {
        "plane" => "a service of the request plane answers",
        _ => "the response is made here",
    };
    for field in upstream.given.iter().filter(|each| each.key.name != name) {
        let message = format!("`{}` has no effect beside `{name}`", field.key.name);
        mistakes.push(
            Mistake::new(field.span, message)
                .label("no server is asked")
                .also(first.span, why)
                .help("take one of them out"),
        );
    }
}

/// `hash_on` and `balance = "ring-hash"` say something only together.
fn hash_on(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(balance) = upstream.chosen(&BALANCE) else {
        return;
    };
    match (balance == "ring-hash", upstream.place_of(&HASH_ON)) {
        (true, None) => mistakes.push(
            Mistake::new(
                upstream.place_of(&BALANCE).unwrap_or(upstream.span),
                "\"ring-hash\" needs `hash_on`",
            )
            .label("no hash key")
            .help("add it: \"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\""),
        ),
        (false, Some(at)) => mistakes.push(
            Mistake::new(at, format!("`hash_on` has no effect with \"{balance}\""))
                .label("nothing is hashed")
                .help("set `balance` to \"ring-hash\", or take it out"),
        ),
        _ => {}
    }
}

/// The protocol of servers with which gRPC can't be spoken.
fn without_grpc(upstream: &Fields) -> Option<&'static str> {
    let (codec, _) = upstream.get(&PROTOCOL)?;
    upstream.chosen(&PROTOCOL).filter(|_| codec != H2)
}

/// Keys about the verification of servers have no effect without TLS.
fn protocol(upstream: &Fields, mistakes: &mut Mistakes) {
    // Beside `respond` there is no protocol, and `tls` was refused already.
    let (Some(at), Some(((codec, None), set_at))) =
        (upstream.place_of(&TLS), upstream.located(&PROTOCOL))
    else {
        return;
    };
    let name = upstream.chosen(&PROTOCOL).unwrap_or_default();
    let over_tls = if codec == H1 { "h1s" } else { "h2" };
    let message = format!("`tls` has no effect on servers that speak \"{name}\"");
    let mistake = Mistake::new(at, message).label("connections to them have no TLS");
    let mistake = match upstream.place_of(&PROTOCOL) {
        Some(_) => mistake.also(set_at, "set here"),
        None => mistake,
    };
    mistakes.push(mistake.help(format!(
        "set `protocol` to \"{over_tls}\", or take `tls` out"
    )));
}

/// The path of a socket is no name that a certificate could have.
fn unnamed_servers(upstream: &Fields, tls: &Fields, mistakes: &mut Mistakes) {
    let is_tls = upstream
        .get(&PROTOCOL)
        .is_some_and(|(_, alpn)| alpn.is_some());
    let is_verified = tls.get(&VERIFY) == Some(true);
    if !is_tls || !is_verified || tls.place_of(&NAME).is_some() {
        return;
    }
    for node in upstream.items(&SERVERS) {
        let of_table = node.fields().and_then(|server| server.value(&ADDRESS.spec));
        let node = of_table.unwrap_or(node);
        if let Some(address @ ServerAddress::Unix(_)) = node.typed.value() {
            mistakes.push(
                Mistake::new(
                    node.span,
                    format!("`{address}` is not a name that certificates are verified for"),
                )
                .label("not a host name")
                .help("set `tls.server_name` to a name that its certificate has"),
            );
        }
    }
}
