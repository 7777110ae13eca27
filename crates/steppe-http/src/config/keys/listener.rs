//! A listener, and its keys.

use std::num::NonZeroU16;
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::key::{
    Key, OptionalKey, boolean, choice, integer, key, list, of, section, size, text, timeout,
};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node, Typed, repeated};
use steppe_net::ListenAddress;
use steppe_net::config::forms;
use steppe_net::config::tls::check_listener;

use super::tls::{HTTP_1_1, HTTP_2, LISTENER, listener};
use crate::config::{H1, H2, H2C, ListenerTls, ProtocolName, Underscores};
use crate::limits;

/// One `[[http.listener]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The socket to bind.
    pub address: ListenAddress,
    /// The protocols, at least one.
    pub protocols: Vec<ProtocolName>,
    /// TLS below the protocols. `None`: plain TCP.
    pub tls: Option<ListenerTls>,
    /// The port that every request is redirected to by https, on a listener without TLS.
    pub redirect_https: Option<NonZeroU16>,
    /// Trusted proxies send a PROXY header first; other peers are turned away.
    pub proxy_protocol: bool,
    /// The routes that the listener uses.
    pub routes: ListenerRoutes,
    /// Treatment of fields whose name has an underscore.
    pub underscores: Underscores,
    /// Limits on requests.
    pub limits: ListenerLimits,
    /// Time limits for clients.
    pub timeouts: ListenerTimeouts,
    /// Names of its keys in messages.
    pub keys: ListenerKeys,
}

/// Keys that a listener comes from: those of the gateway, unless it is one of another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerKeys {
    /// The key of the address.
    pub listen: &'static str,
    /// The key of TLS.
    pub tls: &'static str,
}

impl Default for ListenerKeys {
    fn default() -> Self {
        Self {
            listen: "http.listener.listen",
            tls: "http.listener.tls",
        }
    }
}

impl Listener {
    /// Without TLS, with every default.
    #[must_use]
    pub fn of(address: ListenAddress, protocols: Vec<ProtocolName>) -> Self {
        Self {
            address,
            protocols,
            tls: None,
            redirect_https: None,
            proxy_protocol: false,
            routes: ListenerRoutes::default(),
            underscores: Underscores::default(),
            limits: ListenerLimits::default(),
            timeouts: ListenerTimeouts::default(),
            keys: ListenerKeys::default(),
        }
    }
}

/// The routes that a listener uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenerRoutes {
    /// Routes that name no listener.
    #[default]
    Shared,
    /// Only routes that name this listener.
    Own,
}

/// Limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Request line and fields together, in bytes: 431 (414 where the request line alone exceeds it).
    pub header_bytes: usize,
    /// Field lines in a request: 431.
    pub header_count: usize,
    /// Content of a request, in bytes: 413.
    pub body_bytes: u64,
    /// Connections open at once, of the node: 503.
    pub connections: usize,
    /// Exchanges at once on one connection, where the protocol has several.
    pub streams: usize,
    /// TLS handshakes in progress at once, of the node: more wait.
    pub handshakes: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        limits(&LIMIT.defaults()).expect("every limit has a default")
    }
}

/// Timeouts of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// From the connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From a request's first byte to the end of its head: 408.
    pub header: Duration,
    /// Between requests on a kept-alive connection, and between two reads of a body.
    pub idle: Duration,
    /// A response write that makes no progress.
    pub write_stall: Duration,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        timeouts(&TIMEOUT.defaults()).expect("every timeout has a default")
    }
}

/// `[[http.listener]]`.
pub static TABLE: Table = Table::new(
    "http.listener",
    "Addresses that HTTP clients connect to.",
    keys! { LISTEN, PROTOCOLS, TLS, REDIRECT_HTTPS, PROXY_PROTOCOL, UNDERSCORES, LIMITS, TIMEOUTS },
);

/// The listener's address.
pub static LISTEN: Key<ListenAddress> = key(
    "listen",
    text(&forms::LISTEN),
    "Address to listen on. Each worker has a socket of its own on it. \"[::]:8080\" is dual stack: \
     IPv4 too.",
)
.required();

static PROTOCOLS: Key<Vec<ProtocolName>> = key(
    "protocols",
    list(
        &choice(&Choices::of(&[(H1, H1), (H2C, H2C), (H2, H2)]).and_later(&["h3"])),
        1,
    ),
    "Protocols of the listener. \"h1\" is HTTP/1.1, with HTTP/1.0 below it; \"h2\" is HTTP/2 over TLS; \"h2c\" is \
     HTTP/2 without TLS, for clients with prior knowledge (no `Upgrade: h2c`). ALPN prefers `h2` in either \
     order; a client that offers no protocol speaks HTTP/1.1 if \"h1\" is listed.",
)
.or(Absent::Texts(&[H1]));

/// The listener's TLS.
pub static TLS: OptionalKey<ListenerTls> = section("tls", &LISTENER, listener);

/// The port that requests are redirected to.
pub static REDIRECT_HTTPS: Key<Option<NonZeroU16>> = key(
    "redirect_https",
    of(
        Kind::Either(&[Kind::Boolean, Kind::Integer(1, u16::MAX as u64)]),
        port,
    ),
    "Redirects every request to `https` at the same host, at this port; `true` is 443. Only \
     without `tls`.",
)
.or(Absent::No);

/// True if a PROXY protocol header begins each connection.
pub static PROXY_PROTOCOL: Key<bool> = key(
    "proxy_protocol",
    boolean(),
    "Requires a PROXY protocol header (version 1 or 2) with the client's address at the start of \
     each connection. It must arrive within `timeouts.header` from one of `trusted_proxies`; other \
     connections are closed. `LOCAL`, `UNKNOWN` and Unix sockets keep the peer's own address. \
     `X-Forwarded-For` is believed as without it; extensions (TLVs) are skipped.",
)
.or(Absent::No);

static UNDERSCORES: Key<Underscores> = key(
    "underscores",
    choice(&Choices::of(&[
        ("drop", Underscores::Drop),
        ("pass", Underscores::Pass),
        ("refuse", Underscores::Refuse),
    ])),
    "Treatment of request fields and trailers with an underscore in their name, since CGI, WSGI \
     and PHP servers read `X_Forwarded_For` as `X-Forwarded-For`. \"drop\" does not forward them, \
     \"pass\" does, unless such servers read them as a field that the node sets or removes itself, \
     \"refuse\" responds with 400.",
)
.or(Absent::Text("drop"));

/// The listener's limits.
pub static LIMITS: Key<ListenerLimits> = section("limits", &LIMIT, limits).or(Absent::Table);

static LIMIT: Table = Table::new(
    "http.listener.limits",
    "Limits of a listener.",
    keys! { HEADER_BYTES, HEADER_COUNT, BODY_BYTES, CONNECTIONS, STREAMS, HANDSHAKES },
);

static HEADER_BYTES: Key<usize> = key(
    "header_bytes",
    size(limits::HEADER_BYTES.0, limits::HEADER_BYTES.1),
    "Size of the request line and all fields together. A larger head is refused with 431, or with \
     414 if the request line alone is larger.",
)
.or(Absent::Text("16KiB"));

static HEADER_COUNT: Key<usize> = key(
    "header_count",
    integer(limits::HEADER_COUNT.0, limits::HEADER_COUNT.1),
    "Field lines of a request. A request with more is refused with 431.",
)
.or(Absent::Number(100));

static BODY_BYTES: Key<u64> = key(
    "body_bytes",
    size(limits::BODY_BYTES.0, limits::BODY_BYTES.1),
    "Content of a request. Larger content is refused with 413.",
)
.or(Absent::Text("64MiB"));

/// Open connections.
pub static CONNECTIONS: Key<usize> = key(
    "connections",
    integer(limits::CONNECTIONS.0, limits::CONNECTIONS.1),
    "Open connections of all workers together. Further ones get 503 and are closed. Each may need \
     a second file descriptor, for its server: the limit on open files is raised as far as the \
     process may; if that is too low, `connections` is lowered with a warning.",
)
.or(Absent::Number(10_000));

static STREAMS: Key<usize> = key(
    "streams",
    integer(limits::STREAMS.0, limits::STREAMS.1),
    "Concurrent requests on one connection of HTTP/2. Further ones are refused (`REFUSED_STREAM`), \
     so that the client can retry them. Fewer are announced where so many, at 32 KiB each, would \
     begin with more than a sixteenth of `node.memory_budget`.",
)
.or(Absent::Number(100));

static HANDSHAKES: Key<usize> = key(
    "handshakes",
    integer(limits::HANDSHAKES.0, limits::HANDSHAKES.1),
    "TLS handshakes in progress, of all workers together, and of one address (of IPv6: the /64 \
     network) half as many. More wait. Meanwhile those without progress for a second, unless \
     others of their address go on, or older than `timeouts.header`, are evicted.",
)
.or(Absent::Number(1_000));

static TIMEOUTS: Key<ListenerTimeouts> = section("timeouts", &TIMEOUT, timeouts).or(Absent::Table);

static TIMEOUT: Table = Table::new(
    "http.listener.timeouts",
    "Time limits for clients.",
    keys! { HANDSHAKE, HEADER, IDLE, WRITE_STALL },
);

static HANDSHAKE: Key<Duration> = key(
    "handshake",
    timeout(),
    "From the connection to the end of its TLS handshake; then the connection is closed.",
)
.or(Absent::Text("10s"));

static HEADER: Key<Duration> = key(
    "header",
    timeout(),
    "From a request's first byte to the end of its head; then 408.",
)
.or(Absent::Text("10s"));

static IDLE: Key<Duration> = key(
    "idle",
    timeout(),
    "Between requests on a connection; then it is closed. For more of a request's content; then \
     408.",
)
.or(Absent::Text("60s"));

static WRITE_STALL: Key<Duration> = key(
    "write_stall",
    timeout(),
    "For the client to accept the next part of a response; then the connection is closed.",
)
.or(Absent::Text("30s"));

/// The listener that a table describes; `None`: a value of it is invalid, and its mistake was reported.
#[must_use]
pub fn build(listener: &Fields) -> Option<Listener> {
    let protocols = listener.get(&PROTOCOLS)?;
    let mut tls = listener.get(&TLS)?;
    if let Some(tls) = &mut tls {
        tls.session.alpn = alpn(&protocols);
    }
    Some(Listener {
        address: listener.get(&LISTEN)?,
        protocols,
        tls,
        redirect_https: listener.get(&REDIRECT_HTTPS)?,
        proxy_protocol: listener.get(&PROXY_PROTOCOL)?,
        routes: ListenerRoutes::Shared,
        underscores: listener.get(&UNDERSCORES)?,
        limits: listener.get(&LIMITS)?,
        timeouts: listener.get(&TIMEOUTS)?,
        keys: ListenerKeys::default(),
    })
}

/// Protocols by their names in ALPN, the one first that is preferred where a client has both.
fn alpn(protocols: &[ProtocolName]) -> Vec<Vec<u8>> {
    let known = [(H2, HTTP_2), (H1, HTTP_1_1)];
    let spoken = known.iter().filter(|(name, _)| protocols.contains(name));
    spoken.map(|(_, alpn)| alpn.to_vec()).collect()
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn port(redirect: &Node) -> Option<Option<NonZeroU16>> {
    /// Where `true` leads.
    const HTTPS: NonZeroU16 = NonZeroU16::new(443).expect("above 0");
    match redirect.typed {
        Typed::Boolean(is_on) => Some(is_on.then_some(HTTPS)),
        Typed::Number(port) => NonZeroU16::new(port.try_into().ok()?).map(Some),
        _ => None,
    }
}

fn limits(limits: &Fields) -> Option<ListenerLimits> {
    Some(ListenerLimits {
        header_bytes: limits.get(&HEADER_BYTES)?,
        header_count: limits.get(&HEADER_COUNT)?,
        body_bytes: limits.get(&BODY_BYTES)?,
        connections: limits.get(&CONNECTIONS)?,
        streams: limits.get(&STREAMS)?,
        handshakes: limits.get(&HANDSHAKES)?,
    })
}

fn timeouts(timeouts: &Fields) -> Option<ListenerTimeouts> {
    Some(ListenerTimeouts {
        handshake: timeouts.get(&HANDSHAKE)?,
        header: timeouts.get(&HEADER)?,
        idle: timeouts.get(&IDLE)?,
        write_stall: timeouts.get(&WRITE_STALL)?,
    })
}

/// Finds the mistakes of what several keys of a listener say together.
pub fn check(listener: &Fields, mistakes: &mut Mistakes) {
    for (name, again, first) in repeated::<ProtocolName>(listener.items(&PROTOCOLS)) {
        let mistake = Mistake::new(again, format!("protocol \"{name}\" is named twice"));
        mistakes.push(mistake.label("again here").also(first, "first here"));
    }
    protocols(listener, mistakes);
    redirect(listener, mistakes);
    if let Some(tls) = listener.within(&TLS) {
        check_listener(tls, mistakes);
    }
}

/// HTTP/2 has one name with TLS, and one without.
fn protocols(listener: &Fields, mistakes: &mut Mistakes) {
    let has_tls = listener.place_of(&TLS);
    for node in listener.items(&PROTOCOLS) {
        let mistake = match (node.chosen(), has_tls) {
            (Some(H2), None) => Mistake::new(node.span, "\"h2\" needs TLS")
                .label("is negotiated only over TLS (ALPN)")
                .help("add `tls`, or set it to \"h2c\": HTTP/2 without TLS"),
            (Some(H2C), Some(tls)) => Mistake::new(node.span, "\"h2c\" is HTTP/2 without TLS")
                .label("this listener has TLS")
                .also(tls, "here")
                .help("set it to \"h2\""),
            _ => continue,
        };
        mistakes.push(mistake);
    }
}

/// A listener with TLS serves https itself.
fn redirect(listener: &Fields, mistakes: &mut Mistakes) {
    let redirect = listener.located(&REDIRECT_HTTPS);
    if let (Some(tls), Some((Some(_), at))) = (listener.place_of(&TLS), redirect) {
        let mistake = Mistake::new(at, "a listener with `tls` can't redirect to https");
        mistakes.push(
            mistake
                .label("its requests arrive over https")
                .also(tls, "of this listener")
                .help("set it on a listener without `tls`"),
        );
    }
}
