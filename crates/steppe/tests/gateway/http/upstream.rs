//! The node as a client of the origin: pools, replays, timeouts, cancellation, and fields about the client.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use steppe_testkit::{
    FullQueue, Head, Nginx, NodeConfig, Port, RawOrigin, Section, Steppe, TcpStates, Wire,
    eventually,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A node in front of `server`, with this change to its upstream.
fn node(server: SocketAddr, change: impl FnOnce(Section) -> Section) -> Steppe {
    let config = NodeConfig::plain().upstream("origin", |u| change(u.servers([server])));
    Steppe::builder().start(&config)
}

/// The head of the last request that reached the origin.
fn last_head(origin: &RawOrigin) -> Head {
    let text = origin.received();
    let last = text
        .trim_end()
        .rsplit("\r\n\r\n")
        .next()
        .unwrap_or_default();
    Head::parse(format!("{last}\r\n\r\n").as_bytes())
}

#[test]
fn both_sides_are_told_who_passed_the_message_on() {
    let origin =
        RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nvia: 1.0 before\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let answer = node.exchange("GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 older\r\n\r\n");
    let via = answer.all("via").join(", ");
    assert!(via.starts_with("1.0 before, 1.1 "), "{answer:?}");
    let via = last_head(&origin).all("via").join(", ");
    assert!(via.starts_with("1.0 older, 1.1 "), "{via}");
    let date = answer
        .field("date")
        .expect("a response without Date gets one");
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
}

#[test]
fn the_origins_date_is_kept() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let response = format!("HTTP/1.1 200 OK\r\ndate: {date}\r\ncontent-length: 2\r\n\r\nok");
    let origin = RawOrigin::answering(response);
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(node.exchange(GET).field("date"), Some(date));
}

const CLAIMS: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nForwarded: for=192.0.2.7;proto=https\r\n\
                      X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
                      X-Forwarded-Host: b.example\r\n\r\n";

#[test]
fn what_strangers_say_of_the_client_is_replaced() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().set("http.trusted_proxies", ["127.0.0.9/32"]);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    assert_eq!(node.exchange(CLAIMS).text(), "ok");
    assert!(
        !origin.received().contains("192.0.2.7"),
        "{}",
        origin.received()
    );
    assert!(
        !origin.received().contains("b.example"),
        "{}",
        origin.received()
    );
    let head = last_head(&origin);
    assert_eq!(head.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(head.all("x-forwarded-proto"), [Wire::of_run().scheme()]);
    assert_eq!(head.all("x-forwarded-host"), ["a.example"]);
    let forwarded = head
        .field("forwarded")
        .unwrap_or_default()
        .to_ascii_lowercase();
    assert!(
        forwarded.contains("for=127.0.0.1")
            && forwarded.contains(&format!("proto={}", Wire::of_run().scheme())),
        "{head:?}"
    );
    assert!(!forwarded.contains(','), "{head:?}");
}

#[test]
fn what_trusted_proxies_say_of_the_client_is_extended() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().set("http.trusted_proxies", ["127.0.0.9/32"]);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let mut peer = node.connect_from(Ipv4Addr::new(127, 0, 0, 9).into());
    assert_eq!(peer.send(CLAIMS).response().text(), "ok");
    let head = last_head(&origin);
    assert_eq!(
        head.all("x-forwarded-for").join(", "),
        "192.0.2.7, 127.0.0.9"
    );
    assert_eq!(head.all("x-forwarded-proto"), ["https"]);
    assert_eq!(head.all("x-forwarded-host"), ["b.example"]);
    let forwarded = head.all("forwarded").join(", ").to_ascii_lowercase();
    assert!(
        forwarded.starts_with("for=192.0.2.7;proto=https,"),
        "{forwarded}"
    );
    assert!(forwarded.contains("for=127.0.0.9"), "{forwarded}");
}

#[test]
fn a_client_that_goes_away_takes_its_upstream_request_along() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
        peer.drain();
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send(GET);
    origin.wait_until("the request arrives", |origin| {
        !origin.received().is_empty()
    });
    drop(peer);
    origin.wait_until("it is cancelled", |origin| origin.closed() == [true]);
    let mut peer = node.connect();
    peer.send(GET);
    origin.wait_until("another arrives", |origin| origin.accepted() == 2);
    peer.reset();
    origin.wait_until("it is cancelled", |origin| origin.closed() == [true, true]);
}

#[test]
fn a_client_that_goes_away_within_a_response_takes_it_along() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
        peer.drain();
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send(GET).head();
    assert!(!peer.some().is_empty());
    drop(peer);
    origin.wait_until("it is cancelled", |origin| origin.closed() == [true]);
}

/// The origin closes each connection after one response, without `Connection: close`.
#[test]
fn a_pooled_connection_that_died_idle_is_not_the_clients_problem() {
    let origin = RawOrigin::start(|peer| {
        if peer.request().is_some() {
            peer.send(OK);
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let await_close = || {
        eventually("no connection is open both ways", || {
            TcpStates::of(node.id()).established() == 0
        });
    };
    for count in 1..=5 {
        assert_eq!(node.exchange(GET).text(), "ok");
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        // Once the FIN has arrived, the pool evicts the connection; before, no check could tell.
        await_close();
        assert_eq!(node.exchange(post).text(), "ok");
        await_close();
        assert_eq!(origin.accepted(), 2 * count);
    }
}

/// An origin that closes its first connection when the second request arrives.
fn dies_on_the_second() -> RawOrigin {
    RawOrigin::start(|peer| {
        peer.request();
        peer.send(OK);
        if peer.index == 0 {
            peer.request();
            return;
        }
        while peer.request().is_some() {
            peer.send(OK);
        }
    })
}

#[test]
fn a_safe_request_lost_with_a_pooled_connection_is_replayed() {
    let origin = dies_on_the_second();
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(node.exchange(GET).text(), "ok");
    assert_eq!(
        node.exchange("GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
            .text(),
        "ok"
    );
    assert_eq!(
        origin.received().matches("GET /again ").count(),
        2,
        "{}",
        origin.received()
    );
}

#[test]
fn a_post_that_was_sent_is_not_replayed() {
    let origin = dies_on_the_second();
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(node.exchange(GET).text(), "ok");
    let post = "POST /pay HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n100";
    assert_eq!(node.exchange(post).status(), 502);
    assert_eq!(
        origin.received().matches("POST /pay ").count(),
        1,
        "{}",
        origin.received()
    );
}

#[test]
fn a_fresh_connection_that_dies_is_no_reason_to_try_again() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
    });
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(node.exchange(GET).status(), 502);
    assert!(origin.accepted() <= 2, "{} tries", origin.accepted());
}

#[test]
fn a_refused_connection_is_502() {
    let port = Port::free();
    let node = Steppe::in_front_of(port.address());
    let mut peer = node.connect();
    assert_eq!(peer.send(GET).response().status(), 502);
    assert_eq!(peer.send(GET).response().status(), 502);
}

#[test]
fn requests_take_servers_in_turn() {
    let (one, two) = (RawOrigin::answering(OK), RawOrigin::answering(OK));
    let servers = [one.address(), two.address()];
    let node = node(servers[0], |u| u.servers(servers));
    for _ in 0..10 {
        assert_eq!(node.exchange(GET).text(), "ok");
    }
    let counts = [&one, &two].map(|origin| origin.received().matches("GET / ").count());
    assert_eq!(counts, [5, 5]);
}

#[test]
fn a_dead_server_among_several_is_passed_over() {
    let (port, live) = (Port::free(), RawOrigin::answering(OK));
    let servers = [port.address(), live.address()];
    let node = node(servers[0], |u| u.servers(servers));
    for _ in 0..6 {
        assert_eq!(node.exchange(GET).text(), "ok");
    }
}

/// The server's accept queue is full, so the kernel drops each SYN.
#[test]
fn a_connection_that_never_stands_is_504() {
    let full = FullQueue::new();
    let address = full.address();
    // Two upstreams with different deadlines: a request is given up while an older one of the other still waits.
    let config = NodeConfig::plain()
        .upstream("origin", |u| u.set("timeouts.connect", "300ms"))
        .add_upstream("patient", |u| {
            u.servers([address]).set("timeouts.connect", "1m")
        })
        .add_route("patient", |r| r.path("/patient").upstream("patient"));
    let node = Steppe::builder().with("origin", address).start(&config);
    let mut patient = node.connect();
    patient.send(GET.replacen("/", "/patient", 1));
    assert_eq!(node.exchange(GET).status(), 504);
    // The connection is established once the queue has room.
    let accepting = std::thread::spawn(move || full.answer_one(OK));
    assert_eq!(patient.response().status(), 200);
    accepting.join().expect("no panic");
}

#[test]
fn an_origin_that_never_answers_is_504() {
    let origin = RawOrigin::start(|peer| peer.drain());
    let node = node(origin.address(), |u| u.set("timeouts.first_byte", "300ms"));
    assert_eq!(node.exchange(GET).status(), 504);
    origin.wait_until("the request is given up", |origin| {
        origin.closed() == [true]
    });
}

#[test]
fn an_origin_that_stops_within_a_response_is_cut_at_the_idle_deadline() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
        peer.drain();
    });
    let node = node(origin.address(), |u| u.set("timeouts.idle", "300ms"));
    let mut peer = node.connect();
    assert_eq!(peer.send(GET).head().map(|head| head.status()), Some(200));
    assert_eq!(peer.rest(), b"hello");
    origin.wait_until("the response is given up", |origin| {
        origin.closed() == [true]
    });
}

/// An origin that sends a chunk ten times a second, `count` times: never idle, and long under way.
fn drips(kind: &'static str, count: usize) -> RawOrigin {
    RawOrigin::start(move |peer| {
        peer.request();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\n{kind}transfer-encoding: chunked\r\n\r\n"
        ));
        for _ in 0..count {
            if peer.try_send(b"5\r\nhello\r\n").is_err() {
                return;
            }
            // Small steps that add up to more than `timeouts.total`; each resets the deadline of `timeouts.idle`.
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = peer.try_send(b"0\r\n\r\n");
        peer.drain();
    })
}

/// Chunks of an exchange that takes a second, twice `timeouts.total` of the tests.
const PIECES: usize = 10;

#[test]
fn an_exchange_is_cut_at_its_total_deadline_and_a_routes_own_wins() {
    let origin = drips("", usize::MAX);
    let node = node(origin.address(), |u| {
        u.set("timeouts.total", "500ms").set("timeouts.idle", "10s")
    });
    let mut peer = node.connect();
    peer.send(GET);
    let text = String::from_utf8_lossy(&peer.rest()).into_owned();
    assert!(
        text.starts_with("HTTP/1.1 200 ") && !text.contains("0\r\n\r\n"),
        "{text}"
    );
    let origin = drips("", PIECES);
    let config = NodeConfig::plain()
        .upstream("origin", |u| u.set("timeouts.total", "500ms"))
        .route("all", |r| r.set("timeouts.total", "60s"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    assert_eq!(node.exchange(GET).text(), "hello".repeat(PIECES));
}

#[test]
fn a_total_deadline_before_the_response_is_504() {
    let origin = RawOrigin::start(|peer| peer.drain());
    let node = node(origin.address(), |u| {
        u.set("timeouts.total", "300ms")
            .set("timeouts.first_byte", "10s")
    });
    assert_eq!(node.exchange(GET).status(), 504);
}

#[test]
fn event_streams_and_tunnels_have_no_total_deadline() {
    let origin = drips("content-type: text/event-stream\r\n", PIECES);
    let node = node(origin.address(), |u| {
        u.set("timeouts.total", "500ms").set("timeouts.idle", "10s")
    });
    assert_eq!(node.exchange(GET).text(), "hello".repeat(PIECES));
}

#[test]
fn an_idle_connection_is_kept_no_longer_than_told() {
    let origin = RawOrigin::answering(OK);
    let kept = node(origin.address(), |u| u.set("timeouts.idle", "300ms"));
    assert_eq!(kept.exchange(GET).text(), "ok");
    origin.wait_until("the pool closes it", |origin| origin.closed() == [true]);
    let other = RawOrigin::answering(OK);
    let none = node(other.address(), |u| u.set("keepalive", 0));
    assert_eq!(none.exchange(GET).text(), "ok");
    other.wait_until("nothing is pooled", |other| other.closed() == [true]);
}

#[test]
fn a_server_may_be_a_name() {
    let nginx = Nginx::start("return 200 hello;");
    let node = Steppe::in_front_of(format!("localhost:{}", nginx.address().port()));
    for _ in 0..3 {
        assert_eq!(node.exchange(GET).text(), "hello");
    }
    let unknown = Steppe::in_front_of("nothing.invalid:80");
    let status = unknown.exchange(GET).status();
    assert!([502, 503, 504].contains(&status), "{status}");
}
