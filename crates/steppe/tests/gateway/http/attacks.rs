//! Weaknesses that reviews found, tested from the outside: each test is named after an attack.

use std::net::SocketAddr;

use steppe_testkit::{FullQueue, Head, NodeConfig, RawOrigin, Steppe, TcpStates, eventually};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn start(origin: SocketAddr, config: &NodeConfig) -> Steppe {
    Steppe::builder().with("origin", origin).start(config)
}

/// Short fields need more memory for the list of field lines than for their bytes.
#[test]
fn a_thousand_short_fields_are_charged_with_the_list_of_them() {
    const CLIENTS: usize = 20;
    const FIELDS: usize = 991;
    const BYTES_PER_FIELD: usize = 20;
    let hanging = FullQueue::new();
    let config = NodeConfig::plain()
        .listener(|l| l.set("limits.header_count", 1000))
        .upstream("origin", |u| u.set("timeouts.connect", "1m"));
    let node = start(hanging.address(), &config);
    let reserved = || {
        let memory = node.admin_json("/memory");
        let accounts = memory["budget"]["children"].as_array().expect("there");
        let charged = accounts
            .iter()
            .filter(|account| account["name"] != "uncharged");
        let bytes = charged.map(|account| account["reserved_bytes"].as_u64().expect("there"));
        bytes.sum::<u64>()
    };
    let mut held = Vec::new();
    // The bytes that are reserved for `CLIENTS` more clients, once their requests wait for a
    // connection.
    let mut hold = |fields: &str| {
        let before = reserved();
        for _ in 0..CLIENTS {
            let mut peer = node.connect();
            peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            held.push(peer);
        }
        eventually("all wait for a connection", || {
            TcpStates::of(node.id()).connecting() == held.len()
        });
        reserved().saturating_sub(before)
    };
    let short = "a:\r\n".repeat(FIELDS);
    let plain = hold(&format!("a: {:b<1$}\r\n", "", short.len() - 5));
    let listed = hold(&short);
    let expected = CLIENTS * FIELDS * BYTES_PER_FIELD;
    assert!(
        listed >= plain + expected as u64,
        "{CLIENTS} heads of one field reserve {plain} bytes, of {FIELDS} fields {listed}"
    );
}

/// The head of a request, as it reaches the origin.
fn forwarded(node: &Steppe, origin: &RawOrigin, request: &str) -> Head {
    origin.forget();
    assert_eq!(node.exchange(request).text(), "ok");
    Head::parse(origin.received().as_bytes())
}

const CLIENT_FIELDS: [&str; 12] = [
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "x-forwarded-prefix",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Forwarded-Scheme",
    "X-FORWARDED-BY",
    "X-Real-IP",
    "X-Client-IP",
    "True-Client-IP",
];

/// A request that claims another client, in each field for that.
fn spoofed() -> String {
    let fields: String = CLIENT_FIELDS
        .iter()
        .map(|name| format!("{name}: 192.0.2.66\r\n"))
        .collect();
    format!(
        "GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=192.0.2.66\r\n{fields}X-Forwarded: kept\r\n\r\n"
    )
}

#[test]
fn nothing_that_an_untrusted_peer_says_of_the_client_is_forwarded() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let head = forwarded(&node, &origin, &spoofed());
    assert_eq!(head.field("x-forwarded"), Some("kept"));
    assert_eq!(head.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(head.field("x-forwarded-host"), Some("a"));
    assert_eq!(head.field("x-forwarded-proto"), Some("http"));
    assert!(!origin.received().contains("192.0.2.66"), "{head:?}");
}

#[test]
fn what_a_trusted_proxy_says_of_the_client_is_forwarded() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().set("http.trusted_proxies", ["127.0.0.0/8"]);
    let node = start(origin.address(), &config);
    let head = forwarded(&node, &origin, &spoofed());
    assert_eq!(head.field("x-forwarded-for"), Some("192.0.2.66, 127.0.0.1"));
    for name in &CLIENT_FIELDS[3..] {
        assert_eq!(head.all(name), ["192.0.2.66"], "{name}");
    }
}

/// A server that maps fields to variables takes the first for `X-Forwarded-For`, which the gateway
/// sets.
const UNDERSCORE: &str =
    "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 192.0.2.66\r\nX_Plain: 1\r\n\r\n";

#[test]
fn fields_with_an_underscore_are_dropped_passed_or_refused() {
    let origin = RawOrigin::answering(OK);
    let underscores = |what: &str| NodeConfig::plain().listener(|l| l.set("underscores", what));
    for (config, is_forwarded) in [(NodeConfig::plain(), false), (underscores("pass"), true)] {
        let node = start(origin.address(), &config);
        let head = forwarded(&node, &origin, UNDERSCORE);
        assert_eq!(head.field("X_Plain").is_some(), is_forwarded, "{config}");
        assert_eq!(head.field("X_Forwarded_For"), None, "{config}");
        assert_eq!(head.field("x-forwarded-for"), Some("127.0.0.1"));
    }
    let node = start(origin.address(), &underscores("refuse"));
    origin.forget();
    assert_eq!(node.exchange(UNDERSCORE).status(), 400);
    assert_eq!(origin.received(), "");
    assert_eq!(node.exchange(GET).text(), "ok");
}

/// A server may merge trailers into the head.
#[test]
fn trailers_with_an_underscore_are_dropped() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\
                   X_Forwarded_For: 192.0.2.66\r\nX-Real-IP: 192.0.2.66\r\nX-Sum: 1\r\n\r\n";
    assert_eq!(node.exchange(request).text(), "ok");
    let received = origin.received().to_ascii_lowercase();
    assert!(received.contains("x-sum: 1"), "{received}");
    assert!(!received.contains("192.0.2.66"), "{received}");
}

/// An origin that splits a list of hosts, or a gateway in front of it that inserts one, may take
/// the first one.
#[test]
fn a_list_of_hosts_is_refused() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().route("all", |r| r.set("host", "*.wild.example"));
    let node = start(origin.address(), &config);
    let get = |host: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        node.exchange(request).status()
    };
    for host in [
        "evil.example,a.wild.example",
        "a;b.wild.example",
        "*.wild.example",
    ] {
        assert_eq!(get(host), 400, "{host}");
    }
    assert_eq!(origin.received(), "");
    assert_eq!(get("a_b.wild.example"), 200);
}

/// Escaped or not, a `;` where a name should be gives an origin another path.
#[test]
fn parameters_of_no_name_have_one_verdict() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        node.exchange(request).status()
    };
    for path in ["/;/admin", "/%3B/admin", "/%3bx/admin", "/a/%3B/../b"] {
        assert_eq!(get(path), 400, "{path}");
    }
    assert_eq!(origin.received(), "");
    assert_eq!(get("/a%3Bb.txt"), 200);
    assert!(origin.received().starts_with("GET /a%3Bb.txt HTTP/1.1"));
}

/// RFC 9110 §2.5: a message of a higher minor version is one of this version that can do more.
#[test]
fn a_higher_minor_version_is_served() {
    let origin = RawOrigin::answering(OK.replace("HTTP/1.1", "HTTP/1.3"));
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    // The connection stays open, as with HTTP/1.1.
    for _ in 0..2 {
        let answer = peer.send("GET / HTTP/1.2\r\nHost: a\r\n\r\n").response();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
    }
    assert!(origin.received().starts_with("GET / HTTP/1.1\r\n"));
    assert_eq!(origin.accepted(), 1);
    assert_eq!(
        node.exchange("GET / HTTP/2.0\r\nHost: a\r\n\r\n").status(),
        505
    );
}

/// RFC 9110 §10.1.1: an expectation of HTTP/1.0 is ignored, so no server behind the node may answer
/// it.
#[test]
fn an_expectation_of_http_1_0_is_not_forwarded() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    for expectation in ["100-continue", "x"] {
        let request = format!(
            "POST / HTTP/1.0\r\nHost: a\r\nExpect: {expectation}\r\nContent-Length: 2\r\n\r\nhi"
        );
        let head = forwarded(&node, &origin, &request);
        assert_eq!(head.field("expect"), None, "{expectation}");
    }
}
