//! Limits and deadlines of a listener, and the kinds of sockets that it listens on.
//!
//! Deadlines are tested here for their keys alone: `steppe-http` tests them in virtual time.

use steppe_testkit::{Curl, NodeConfig, Peer, RawOrigin, Section, Steppe, eventually};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A node with this change to its listener.
fn node(origin: &RawOrigin, change: impl FnOnce(Section) -> Section) -> Steppe {
    let config = NodeConfig::plain().listener(change);
    Steppe::builder()
        .with("origin", origin.address())
        .start(&config)
}

#[test]
fn a_head_that_stops_gets_408_and_the_close() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| {
        l.set("timeouts.header", "500ms")
            .set("timeouts.idle", "60s")
    });
    let mut peer = node.connect();
    let answer = peer.send("GET / HTTP/1.1\r\nHost: a\r\n").response();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (408, Some("close"))
    );
    peer.expect_close();
    assert_eq!(node.exchange(GET).text(), "ok");
}

/// Two listeners with different deadlines: a half head is answered 408 while an older one at the
/// other still waits.
#[test]
fn each_listener_waits_for_heads_as_long_as_it_is_told() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .listener(|l| l.set("timeouts.header", "500ms"))
        .add_listener("127.0.0.1:{patient}", |l| l.set("timeouts.header", "1m"));
    let builder = Steppe::builder().with("origin", origin.address());
    let (builder, patient) = builder.with_port("patient");
    let node = builder.start(&config);
    let half = "GET / HTTP/1.1\r\nHost: a\r\n";
    let mut patient = Peer::connect(([127, 0, 0, 1], patient).into());
    patient.send(half);
    assert_eq!(node.connect().send(half).response().status(), 408);
    assert_eq!(patient.send("\r\n").response().text(), "ok");
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| l.set("timeouts.idle", "500ms"));
    let mut peer = node.connect();
    assert_eq!(peer.send(GET).response().text(), "ok");
    peer.expect_close();
}

#[test]
fn a_declared_body_over_the_limit_gets_413_unforwarded() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| l.set("limits.body_bytes", "1KiB"));
    let at = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\n{:x<1024}",
        ""
    );
    assert_eq!(node.exchange(at).text(), "ok");
    origin.forget();
    let over = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n";
    let mut peer = node.connect();
    assert_eq!(peer.send(over).response().status(), 413);
    peer.drain();
    assert_eq!(origin.received(), "");
}

#[test]
fn chunks_over_the_limit_get_413_and_never_look_whole() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| l.set("limits.body_bytes", "1KiB"));
    let mut peer = node.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..32 {
        if peer
            .try_send(format!("40\r\n{:Z<64}\r\n", "").as_bytes())
            .is_err()
        {
            break;
        }
    }
    let _ = peer.try_send(b"0\r\n\r\n");
    assert_eq!(peer.response().status(), 413);
    peer.drain();
    assert!(
        !origin.received().contains("0\r\n\r\n"),
        "{}",
        origin.received()
    );
    // No field of the head has this letter.
    assert!(origin.received().matches('Z').count() <= 1024);
}

#[test]
fn a_head_over_the_limits_gets_431_and_a_request_line_414() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| {
        l.set("limits.header_bytes", "2KiB")
            .set("limits.header_count", 10)
    });
    let status = |request: String| {
        let mut peer = node.connect();
        let _ = peer.try_send(request.as_bytes());
        peer.response().status()
    };
    let fields = |count: usize| {
        (0..count)
            .map(|n| format!("x-{n}: v\r\n"))
            .collect::<String>()
    };
    assert_eq!(
        status(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(9))),
        200
    );
    assert_eq!(
        status(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(10))),
        431
    );
    assert_eq!(
        status(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: {:a<1900}\r\n\r\n",
            ""
        )),
        200
    );
    assert_eq!(
        status(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: {:a<2100}\r\n\r\n",
            ""
        )),
        431
    );
    assert_eq!(
        status(format!("GET /{:a<1900} HTTP/1.1\r\nHost: a\r\n\r\n", "")),
        200
    );
    assert_eq!(
        status(format!("GET /{:a<2100} HTTP/1.1\r\nHost: a\r\n\r\n", "")),
        414
    );
    assert_eq!(status(format!("GET /{}", "a".repeat(99_000))), 414);
    assert_eq!(
        status(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: {}",
            "a".repeat(99_000)
        )),
        431
    );
}

#[test]
fn trailers_count_against_the_limits() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| {
        l.set("limits.header_bytes", "2KiB")
            .set("limits.header_count", 10)
    });
    let mut peer = node.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n");
    for number in 0..500 {
        if peer
            .try_send(format!("x-{number}: {:a<100}\r\n", "").as_bytes())
            .is_err()
        {
            break;
        }
    }
    let _ = peer.try_send(b"\r\n");
    let status = peer.response().status();
    assert!([400, 413, 431].contains(&status), "{status}");
    assert!(!origin.received().contains("x-499"));
}

#[test]
fn connections_over_the_limit_get_503_and_the_others_go_on() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin, |l| l.set("limits.connections", 3));
    let mut held: Vec<Peer> = (0..3).map(|_| node.connect()).collect();
    for peer in &mut held {
        assert_eq!(peer.send(GET).response().text(), "ok");
    }
    let mut over = node.connect();
    let _ = over.try_send(GET.as_bytes());
    let answer = over.response();
    assert_eq!(
        (answer.status(), answer.field("connection")),
        (503, Some("close"))
    );
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    over.drain();
    for peer in &mut held {
        assert_eq!(peer.send(GET).response().text(), "ok");
    }
    drop(held);
    eventually("there is room again", || node.exchange(GET).status() == 200);
}

/// The origin's close is the proof: nothing else ends its endless response.
#[test]
fn a_reader_that_stops_is_closed_at_the_write_deadline() {
    let origin = RawOrigin::start(|peer| {
        if peer.request().is_none() {
            return;
        }
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
        while peer.try_send(chunk.as_bytes()).is_ok() {}
        peer.drain();
    });
    let node = node(&origin, |l| {
        l.set("timeouts.write_stall", "1s")
            .set("timeouts.idle", "60s")
    });
    let mut peer = node.connect_narrow(8 << 10);
    peer.send(GET);
    origin.wait_until("the response is given up", |origin| {
        origin.closed() == [true]
    });
    peer.drain();
}

#[test]
fn a_unix_socket_serves_and_goes_away_with_the_node() {
    let origin = RawOrigin::answering(OK);
    let config =
        NodeConfig::plain().add_listener("unix:{scratch}/h1.sock", |l| l.protocols(["h1"]));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let path = node.scratch().join("h1.sock");
    let socket = path.to_string_lossy();
    let got = Curl::new("http://a.example/")
        .args(["--unix-socket", &socket])
        .run();
    assert_eq!(
        (got.head.status(), got.body.as_slice()),
        (200, &b"ok"[..]),
        "{got:?}"
    );
    assert_eq!(node.exchange(GET).text(), "ok");
    assert!(node.stop().success());
    assert!(!path.exists());
}

#[test]
fn an_origin_behind_a_unix_socket_is_reached() {
    let origin = RawOrigin::answering(OK);
    let socket = "unix:{scratch}/inner.sock";
    let config = NodeConfig::plain()
        .add_listener(socket, |l| l.protocols(["h1"]))
        .add_upstream("inner", |u| u.servers([socket]))
        .add_route("outer", |r| {
            r.path("/outer")
                .upstream("inner")
                .set("headers.x-outer", "1")
                .filters(["once"])
        })
        .add_filter("once", |f| {
            f.set("kind", "transform")
                .set("request_headers.remove", ["x-outer"])
        });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let answer = node.exchange("GET /outer HTTP/1.1\r\nHost: a\r\nX-Outer: 1\r\n\r\n");
    assert_eq!(answer.text(), "ok", "{answer:?}");
    let via = origin.received().to_ascii_lowercase();
    assert_eq!(via.matches("1.1 ").count(), 2, "two passes: {via}");
}

#[test]
fn ipv6_and_dual_stack_listeners_serve() {
    let origin = RawOrigin::answering(OK);
    let (builder, dual) = Steppe::builder()
        .with("origin", origin.address())
        .with_port("dual");
    let (builder, only) = builder.with_port("only");
    let config = NodeConfig::plain()
        .add_listener("[::]:{dual}", |l| l.protocols(["h1"]))
        .add_listener("[::1]:{only}", |l| l.protocols(["h1"]));
    let _node = builder.start(&config);
    let text = |address: String| {
        let address = address.parse().expect("an address");
        Peer::connect(address).send(GET).response().text()
    };
    assert_eq!(text(format!("127.0.0.1:{dual}")), "ok");
    assert_eq!(text(format!("[::1]:{dual}")), "ok");
    assert_eq!(text(format!("[::1]:{only}")), "ok");
    assert!(
        origin.received().contains("::1"),
        "the client's address: {}",
        origin.received()
    );
}
