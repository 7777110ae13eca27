//! Tables of a listener.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use super::tls::LISTENER_TLS;
use crate::config::limits::{
    BODY_BYTES, CONNECTIONS, HANDSHAKES, HEADER_BYTES, HEADER_COUNT, STREAMS,
};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static LISTENER: Table = Table {
    name: "http.listener",
    doc: "Where clients connect.",
    keys: &[
        Key::new(
            "listen",
            Kind::Text(Form::Listen),
            "IPv4, IPv6 (\"[::]:8080\" is dual stack) or \"unix:PATH\".",
        )
        .required(),
        Key::new(
            "protocols",
            Kind::List(
                &Kind::Choice(&[
                    Choice::served("h1"),
                    Choice::served("h2c"),
                    Choice::served("h2"),
                    Choice::later("h3"),
                ]),
                1,
            ),
            "What is spoken: HTTP/1.1 is \"h1\", HTTP/2 is \"h2\" over TLS and \"h2c\" without.",
        )
        .absent(Absent::Texts(&["h1"])),
        Key::new("tls", Kind::Table(&LISTENER_TLS), LISTENER_TLS.doc),
        Key::new(
            "redirect_https",
            Kind::Either(&[Kind::Boolean, Kind::Integer(1, u16::MAX as u64)]),
            "Every request is redirected to https, at this port; `true` is 443.",
        )
        .absent(Absent::No),
        Key::new(
            "proxy_protocol",
            Kind::Boolean,
            "Whether trusted proxies say first whom they connect for; others are turned away.",
        )
        .absent(Absent::No),
        Key::new(
            "underscores",
            Kind::Choice(&[
                Choice::served("drop"),
                Choice::served("pass"),
                Choice::served("refuse"),
            ]),
            "What becomes of fields whose name has an underscore: CGI-like servers take them for \
             those with a hyphen.",
        )
        .absent(Absent::Text("drop")),
        Key::new("limits", Kind::Table(&LISTENER_LIMITS), LISTENER_LIMITS.doc)
            .absent(Absent::Table),
        Key::new(
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
    doc: "What one client may ask of a listener.",
    keys: &[
        Key::new(
            "header_bytes",
            Kind::Size(HEADER_BYTES.0, HEADER_BYTES.1),
            "Request line and fields together: 431, or 414 where the target alone exceeds it.",
        )
        .absent(Absent::Text("16KiB")),
        Key::new(
            "header_count",
            Kind::Integer(HEADER_COUNT.0, HEADER_COUNT.1),
            "Field lines in a request: 431.",
        )
        .absent(Absent::Number(100)),
        Key::new(
            "body_bytes",
            Kind::Size(BODY_BYTES.0, BODY_BYTES.1),
            "Content of a request: 413.",
        )
        .absent(Absent::Text("64MiB")),
        Key::new(
            "connections",
            Kind::Integer(CONNECTIONS.0, CONNECTIONS.1),
            "Connections open at once, of the node: 503.",
        )
        .absent(Absent::Number(10_000)),
        Key::new(
            "streams",
            Kind::Integer(STREAMS.0, STREAMS.1),
            "Requests at once on one connection of HTTP/2.",
        )
        .absent(Absent::Number(100)),
        Key::new(
            "handshakes",
            Kind::Integer(HANDSHAKES.0, HANDSHAKES.1),
            "TLS handshakes in progress at once, of the node: the oldest gives way.",
        )
        .absent(Absent::Number(1_000)),
    ],
    needs: Needs::Nothing,
};

static LISTENER_TIMEOUTS: Table = Table {
    name: "http.listener.timeouts",
    doc: "How long a client may take.",
    keys: &[
        Key::new(
            "handshake",
            Kind::TIMEOUT,
            "From the connection to the end of the TLS handshake: closed.",
        )
        .absent(Absent::Text("10s")),
        Key::new(
            "header",
            Kind::TIMEOUT,
            "From a request's first byte to the end of its head: 408.",
        )
        .absent(Absent::Text("10s")),
        Key::new(
            "idle",
            Kind::TIMEOUT,
            "Between requests on a kept-alive connection, and between two reads of a body.",
        )
        .absent(Absent::Text("60s")),
        Key::new(
            "write_stall",
            Kind::TIMEOUT,
            "A response write that makes no progress.",
        )
        .absent(Absent::Text("30s")),
    ],
    needs: Needs::Nothing,
};
