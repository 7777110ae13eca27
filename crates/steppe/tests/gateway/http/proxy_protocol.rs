//! The PROXY protocol with other implementations: curl as the proxy before the node, nginx as the
//! origin behind it.

use std::fs;
use std::net::IpAddr;

use steppe_testkit::{Curl, Nginx, NodeConfig, Peer, Port, RawOrigin, Section, Steppe, eventually};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A node whose clients have to send a header.
fn listening(origin: impl ToString) -> Steppe {
    listening_for("20s", origin)
}

/// The same with this deadline for the header.
fn listening_for(timeout: &str, origin: impl ToString) -> Steppe {
    let config = behind_a_proxy()
        .listener(|l| l.set("timeouts.header", timeout))
        .set("log.access.file", "{scratch}/access.log");
    Steppe::builder().with("origin", origin).start(&config)
}

/// A listener that requires a header from proxies at 127.0.0.1.
fn behind_a_proxy() -> NodeConfig {
    NodeConfig::plain()
        .set("http.trusted_proxies", ["127.0.0.1/32"])
        .listener(|l| l.set("proxy_protocol", true))
}

/// An nginx that requires a header, and answers with the addresses and ports in it.
fn nginx() -> (Nginx, Port) {
    let port = Port::free();
    let server = format!(
        "listen {} proxy_protocol;
         location / {{ return 200 \"$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port\"; }}",
        port.address()
    );
    (Nginx::start(&server), port)
}

fn telling(
    origin: impl ToString,
    version: &str,
    change: impl FnOnce(Section) -> Section,
) -> Steppe {
    let config = NodeConfig::plain()
        .set("http.trusted_proxies", ["127.0.0.1/32"])
        .upstream("origin", |u| change(u.set("proxy_protocol", version)));
    Steppe::builder().with("origin", origin).start(&config)
}

/// A connection is counted when its task ends, which may be after its peer sees the close.
#[track_caller]
fn expect_refused(node: &Steppe, reason: &str, count: f64) {
    let labels = [("reason", reason)];
    eventually(&format!("{count} closed for {reason}"), || {
        node.metrics().sum("steppe_http_closed_total", &labels) == count
    });
}

#[test]
fn curl_says_whom_it_connects_for() {
    let origin = RawOrigin::answering(OK);
    let node = listening(origin.address());
    let answer = Curl::new(&node.url("/")).args(["--haproxy-protocol"]).run();
    assert_eq!((answer.exit, answer.body.as_slice()), (0, &b"ok"[..]));
    assert!(origin.received().contains("x-forwarded-for: 127.0.0.1\r\n"));
}

/// Headers of versions 1 and 2: the client that they name is forwarded and logged.
#[test]
fn the_client_is_whom_the_header_names() {
    let v2: &[u8] =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x08\xc6\x33\x64\x01\x12\x34\0\x50";
    let v1: &[u8] = b"PROXY TCP6 2001:db8::7 2001:db8::1 4660 80\r\n";
    for (header, client, forwarded) in [
        (v1, "2001:db8::7", "for=\"[2001:db8::7]\""),
        (v2, "192.0.2.8", "for=192.0.2.8"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1", "for=127.0.0.1"),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
            "127.0.0.1",
            "for=127.0.0.1",
        ),
    ] {
        let origin = RawOrigin::answering(OK);
        let node = listening(origin.address());
        // The header in one piece with the request, and byte by byte; the connection is then
        // reused.
        let mut peer = node.connect();
        peer.send([header, GET.as_bytes()].concat());
        assert_eq!(peer.response().status(), 200);
        peer.send(GET);
        assert_eq!(peer.response().status(), 200);
        let mut slow = node.connect();
        for byte in header {
            slow.send([*byte]);
        }
        assert_eq!(slow.send(GET).response().status(), 200);
        let told = format!("x-forwarded-for: {client}\r\n");
        assert_eq!(origin.received().matches(&told).count(), 3, "{client}");
        assert_eq!(origin.received().matches(forwarded).count(), 3, "{client}");
        let logged = || fs::read_to_string(node.scratch().join("access.log")).unwrap_or_default();
        eventually("three lines are written", || logged().lines().count() >= 3);
        let is_named = |line: &str| line.starts_with(&format!("{client} - - ["));
        assert!(logged().lines().count() == 3 && logged().lines().all(is_named));
    }
}

/// `X-Forwarded-For` of a client that a trusted proxy names in its header is not trusted.
#[test]
fn a_named_client_is_a_stranger() {
    let origin = RawOrigin::answering(OK);
    let node = listening(origin.address());
    let request = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\
                   X-Forwarded-For: 198.51.100.1\r\n\r\n";
    assert_eq!(node.exchange(request).status(), 200);
    assert!(origin.received().contains("x-forwarded-for: 192.0.2.1\r\n"));
    assert!(!origin.received().contains("198.51.100.1"));
}

#[test]
fn without_a_header_nobody_is_served() {
    let origin = RawOrigin::answering(OK);
    let node = listening(origin.address());
    // No header at all, an invalid one, and one that never ends.
    for bytes in [
        GET.to_owned(),
        "PROXY TCP4 a b 1 2\r\n".into(),
        "x".repeat(300),
    ] {
        let mut peer = node.connect();
        peer.send(&bytes);
        peer.expect_close();
    }
    expect_refused(&node, "proxy_protocol", 3.0);
    let hasty = listening_for("300ms", origin.address());
    let mut silent = hasty.connect();
    silent.send("PROXY TCP4 192.0.2.1 ");
    silent.expect_close();
    expect_refused(&hasty, "header_timeout", 1.0);
    // A connection without a byte, as of a TCP health check, is not counted.
    node.connect().finish().expect_close();
    expect_refused(&node, "proxy_protocol", 3.0);
    assert_eq!(origin.received(), "");
}

#[test]
fn a_peer_that_is_not_trusted_is_turned_away() {
    let origin = RawOrigin::answering(OK);
    let node = listening(origin.address());
    let stranger: IpAddr = "127.0.0.2".parse().expect("an address");
    let mut peer = Peer::connect_from(stranger, node.gateway());
    let request = format!("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n{GET}");
    // The connection may be closed before the request is out.
    let _ = peer.try_send(request.as_bytes());
    peer.expect_close();
    expect_refused(&node, "proxy_protocol", 1.0);
    assert_eq!(origin.received(), "");
}

#[test]
fn nginx_is_told_who_the_client_is() {
    for version in ["v1", "v2"] {
        let (_nginx, port) = nginx();
        let node = telling(port.address(), version, |u| u);
        let mut peer = node.connect();
        let client = peer.stream().local_addr().expect("connected");
        let gateway = node.gateway();
        let own = format!("127.0.0.1 {} 127.0.0.1 {}", client.port(), gateway.port());
        assert_eq!(peer.send(GET).response().text(), own, "{version}");
        // The next request on the same connection may be another client's; nginx leaves port 0 out.
        let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 2001:db8::9\r\n\r\n";
        let other = format!("2001:db8::9  ::ffff:127.0.0.1 {}", gateway.port());
        assert_eq!(peer.send(request).response().text(), other, "{version}");
        assert_eq!(peer.send(GET).response().text(), own, "{version}");
        let opened = "steppe_http_upstream_connections_opened_total";
        assert_eq!(node.metrics().sum(opened, &[]), 3.0, "none is shared");
    }
}

/// The addresses of a client's header are sent to the server in a header.
#[test]
fn both_ends_are_passed_on() {
    let (_nginx, port) = nginx();
    let config = behind_a_proxy().upstream("origin", |u| u.set("proxy_protocol", "v2"));
    let node = Steppe::builder()
        .with("origin", port.address())
        .start(&config);
    let request = format!("PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n{GET}");
    let answer = node.exchange(request);
    assert_eq!(answer.text(), "192.0.2.1 1234 198.51.100.2 443");
}

/// A health check without a header would fail at such a server.
#[test]
fn probes_have_a_header_too() {
    let (_nginx, port) = nginx();
    for version in ["v1", "v2"] {
        let node = telling(port.address(), version, |u| {
            u.set("health.path", "/")
                .set("health.interval", "50ms")
                .set("health.healthy_after", 1)
                .set("health.unhealthy_after", 1)
        });
        let probes = |result| {
            let labels = [("upstream", "origin"), ("result", result)];
            node.metrics()
                .sum("steppe_http_upstream_probes_total", &labels)
        };
        eventually("three probes are answered", || {
            probes("passed") + probes("failed") >= 3.0
        });
        assert_eq!(probes("failed"), 0.0);
        let upstreams = node.admin_json("/upstreams").to_string();
        assert!(upstreams.contains("\"healthy\""), "{upstreams}");
        assert!(!upstreams.contains("unhealthy\""), "{upstreams}");
        assert_eq!(node.exchange(GET).status(), 200);
    }
}
