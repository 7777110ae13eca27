//! Tables of a listener.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::choice::Choices;
use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use super::tls::LISTENER_TLS;
use crate::config::forms;
use crate::config::limits::{
    BODY_BYTES, CONNECTIONS, HANDSHAKES, HEADER_BYTES, HEADER_COUNT, STREAMS,
};

pub(super) static LISTENER: Table = Table {
    name: "http.listener",
    doc: "Addresses that HTTP clients connect to.",
    keys: &[
        &Spec::new(
            "listen",
            Kind::Text(&forms::LISTEN),
            "Address to listen on. Each worker has a socket of its own on it. \"[::]:8080\" is \
             dual stack: IPv4 too.",
        )
        .required(),
        &Spec::new(
            "protocols",
            Kind::List(
                &Kind::Choice(
                    &Choices::of(&[("h1", "h1"), ("h2c", "h2c"), ("h2", "h2")]).and_later(&["h3"]),
                ),
                1,
            ),
            "Protocols of the listener. \"h1\" is HTTP/1.1, with HTTP/1.0 below it; \"h2\" is \
             HTTP/2 over TLS; \"h2c\" is HTTP/2 without TLS, for clients with prior knowledge \
             (no `Upgrade: h2c`). ALPN prefers `h2` in either order; a client that offers no \
             protocol speaks HTTP/1.1 if \"h1\" is listed.",
        )
        .absent(Absent::Texts(&["h1"])),
        &Spec::new("tls", Kind::Table(&LISTENER_TLS), LISTENER_TLS.doc),
        &Spec::new(
            "redirect_https",
            Kind::Either(&[Kind::Boolean, Kind::Integer(1, u16::MAX as u64)]),
            "Redirects every request to `https` at the same host, at this port; `true` is 443. \
             Only without `tls`.",
        )
        .absent(Absent::No),
        &Spec::new(
            "proxy_protocol",
            Kind::Boolean,
            "Requires a PROXY protocol header (version 1 or 2) with the client's address at the \
             start of each connection. It must arrive within `timeouts.header` from one of \
             `trusted_proxies`; other connections are closed. `LOCAL`, `UNKNOWN` and Unix \
             sockets keep the peer's own address. `X-Forwarded-For` is believed as without it; \
             extensions (TLVs) are skipped.",
        )
        .absent(Absent::No),
        &Spec::new(
            "underscores",
            Kind::Choice(&["drop", "pass", "refuse"]),
            "Treatment of request fields and trailers with an underscore in their name, since \
             CGI, WSGI and PHP servers read `X_Forwarded_For` as `X-Forwarded-For`. \"drop\" \
             does not forward them, \"pass\" does, unless such servers read them as a field that \
             the node sets or removes itself, \"refuse\" responds with 400.",
        )
        .absent(Absent::Text("drop")),
        &Spec::new("limits", Kind::Table(&LISTENER_LIMITS), LISTENER_LIMITS.doc)
            .absent(Absent::Table),
        &Spec::new(
            "timeouts",
            Kind::Table(&LISTENER_TIMEOUTS),
            LISTENER_TIMEOUTS.doc,
        )
        .absent(Absent::Table),
    ],
    needs: Needs::Nothing,
};

static LISTENER_LIMITS: Table = Table {
    name: "http.listener.limits",
    doc: "Limits of a listener.",
    keys: &[
        &Spec::new(
            "header_bytes",
            Kind::Size(HEADER_BYTES.0, HEADER_BYTES.1),
            "Size of the request line and all fields together. A larger head is refused with \
             431, or with 414 if the request line alone is larger.",
        )
        .absent(Absent::Text("16KiB")),
        &Spec::new(
            "header_count",
            Kind::Integer(HEADER_COUNT.0, HEADER_COUNT.1),
            "Field lines of a request. A request with more is refused with 431.",
        )
        .absent(Absent::Number(100)),
        &Spec::new(
            "body_bytes",
            Kind::Size(BODY_BYTES.0, BODY_BYTES.1),
            "Content of a request. Larger content is refused with 413.",
        )
        .absent(Absent::Text("64MiB")),
        &Spec::new(
            "connections",
            Kind::Integer(CONNECTIONS.0, CONNECTIONS.1),
            "Open connections of all workers together. Further ones get 503 and are closed. Each \
             may need a second file descriptor, for its server: the limit on open files is \
             raised as far as the process may; if that is too low, `connections` is lowered with \
             a warning.",
        )
        .absent(Absent::Number(10_000)),
        &Spec::new(
            "streams",
            Kind::Integer(STREAMS.0, STREAMS.1),
            "Concurrent requests on one connection of HTTP/2. Further ones are refused \
             (`REFUSED_STREAM`), so that the client can retry them. Fewer are announced where so many, \
             at 32 KiB each, would begin with more than a sixteenth of `node.memory_budget`.",
        )
        .absent(Absent::Number(100)),
        &Spec::new(
            "handshakes",
            Kind::Integer(HANDSHAKES.0, HANDSHAKES.1),
            "TLS handshakes in progress, of all workers together, and of one address (of IPv6: the \
             /64 network) half as many. More wait. Meanwhile those without progress for a second, unless \
             others of their address go on, or older than `timeouts.header`, are evicted.",
        )
        .absent(Absent::Number(1_000)),
    ],
    needs: Needs::Nothing,
};

static LISTENER_TIMEOUTS: Table = Table {
    name: "http.listener.timeouts",
    doc: "Time limits for clients.",
    keys: &[
        &Spec::new(
            "handshake",
            forms::TIMEOUT,
            "From the connection to the end of its TLS handshake; then the connection is closed.",
        )
        .absent(Absent::Text("10s")),
        &Spec::new(
            "header",
            forms::TIMEOUT,
            "From a request's first byte to the end of its head; then 408.",
        )
        .absent(Absent::Text("10s")),
        &Spec::new(
            "idle",
            forms::TIMEOUT,
            "Between requests on a connection; then it is closed. For more of a request's \
             content; then 408.",
        )
        .absent(Absent::Text("60s")),
        &Spec::new(
            "write_stall",
            forms::TIMEOUT,
            "For the client to accept the next part of a response; then the connection is closed.",
        )
        .absent(Absent::Text("30s")),
    ],
    needs: Needs::Nothing,
};
