//! Clients that wait or leave while a node waits for memory, for a server, or for them.

mod crowds;

use std::time::Duration;

use steppe_testkit::{FullQueue, NodeConfig, Peer, RawOrigin, Steppe, eventually};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn start(server: impl ToString, config: &NodeConfig) -> Steppe {
    Steppe::builder().with("origin", server).start(config)
}

fn open_connections(node: &Steppe) -> f64 {
    node.metrics().sum("steppe_http_connections", &[])
}

/// The bytes that a child of the node's account has reserved.
#[track_caller]
fn reserved_bytes(node: &Steppe, account: &str) -> u64 {
    let report = node.admin_json("/memory");
    let children = report["budget"]["children"].as_array();
    let all = children.expect("the gateway has accounts");
    let found = all.iter().find(|child| child["name"] == account);
    let found = found.unwrap_or_else(|| panic!("no account {account}: {report}"));
    found["reserved_bytes"].as_u64().expect("a number")
}

fn listener_account(node: &Steppe) -> String {
    format!("listener {}", node.gateway())
}

/// Clients that leave while a connect hangs free their memory at once.
#[test]
fn clients_that_leave_while_a_connect_hangs_hold_nothing() {
    let post = |content: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n{content}")
    };
    let server = FullQueue::new();
    let config = NodeConfig::plain()
        .listener(|l| l.set("timeouts.idle", "600s"))
        .upstream("origin", |u| u.set("timeouts.connect", "600s"));
    let node = start(server.address(), &config);
    let requests = [
        ("nothing else", GET.to_owned()),
        ("content to come", post("")),
        // No more than kernel buffers hold: the FIN behind more content would not be seen.
        ("content unread", post(&"x".repeat(20_000))),
        ("another request", GET.repeat(2)),
        ("many other requests", GET.repeat(300)),
        ("half a request", format!("{GET}{}", &GET[..10])),
        ("an empty line", format!("{GET}\r\n")),
    ];
    for (what, request) in requests {
        let mut peers: Vec<Peer> = (0..20).map(|_| node.connect()).collect();
        for (index, peer) in peers.iter_mut().enumerate() {
            peer.send_until_stall(request.as_bytes(), Duration::from_millis(100));
            if index % 2 == 0 {
                peer.reset_at_end();
            }
        }
        eventually(&format!("they wait, with {what}"), || active(&node) == 20);
        drop(peers);
        eventually(&format!("they are gone, with {what}"), || {
            open_connections(&node) == 0.0 && active(&node) == 0
        });
        assert_eq!(reserved_bytes(&node, "route all"), 0, "with {what}");
        assert_eq!(
            reserved_bytes(&node, &listener_account(&node)),
            0,
            "with {what}"
        );
    }
}

/// The total deadline of an exchange runs while a connection is being established, and a request is
/// not sent after it.
#[test]
fn a_connect_that_hangs_takes_no_longer_than_its_exchange_may() {
    let server = FullQueue::new();
    let config = NodeConfig::plain().upstream("origin", |u| {
        u.set("timeouts.connect", "600s")
            .set("timeouts.total", "500ms")
    });
    let node = start(server.address(), &config);
    assert_eq!(node.exchange(GET).status(), 504);
    let closed = node.metrics();
    let of = |reason| closed.sum("steppe_http_closed_total", &[("reason", reason)]);
    assert_eq!((of("total_timeout"), of("connect_timeout")), (1.0, 0.0));
}

/// The response's deadline begins when the request is out, however long its head took.
#[test]
fn a_slow_head_is_not_held_against_its_server() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().upstream("origin", |u| u.set("timeouts.first_byte", "2s"));
    let node = start(origin.address(), &config);
    // From now on there is a connection to the server.
    assert_eq!(node.exchange(GET).status(), 200);
    let mut slow = node.connect();
    slow.send(&GET[..10]);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(slow.send(&GET[10..]).response().status(), 200);
    let closed = node.metrics();
    assert_eq!(
        closed.sum(
            "steppe_http_closed_total",
            &[("reason", "first_byte_timeout")]
        ),
        0.0
    );
}

/// Requests in flight to the only server, those that wait for a connection included.
fn active(node: &Steppe) -> u64 {
    let report = node.admin_json("/upstreams");
    let text = report.to_string();
    report["upstreams"][0]["servers"][0]["active"]
        .as_u64()
        .unwrap_or_else(|| panic!("a number: {text}"))
}

/// RFC 9112 §2.2: an empty line does not begin a request.
#[test]
fn an_empty_line_does_not_start_the_deadline_of_a_head() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .listener(|l| l.set("timeouts.header", "2s").set("timeouts.idle", "60s"));
    let node = start(origin.address(), &config);
    let mut before = node.connect();
    before.send("\r\n");
    let mut behind = node.connect();
    behind.send(format!("{GET}\r\n"));
    assert_eq!(behind.response().status(), 200);
    let mut after = node.connect();
    assert_eq!(after.send(GET).response().status(), 200);
    after.send("\r\n");
    // Sent later than all of these, and answered 408 before they would be.
    let mut half = node.connect();
    assert_eq!(half.send("GET / HTTP/1.1\r\n").response().status(), 408);
    for (what, peer) in [
        ("before a request", &mut before),
        ("behind one", &mut behind),
        ("after a response", &mut after),
    ] {
        let answer = peer.send(GET).response();
        assert_eq!(answer.status(), 200, "{what}");
    }
}

/// RFC 9110 §7.8: a server switches to a protocol that the request names, and to no other.
#[test]
fn a_switch_to_what_nobody_asked_for_is_502() {
    let origin = RawOrigin::start(|peer| {
        while let Some(request) = peer.request() {
            let answer = request.field("x-answer").unwrap_or_default().to_owned();
            let fields = match answer.as_str() {
                "" => String::new(),
                upgrade => format!("connection: upgrade\r\nupgrade: {upgrade}\r\n"),
            };
            peer.send(format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n"));
            let bytes = peer.some();
            if bytes.is_empty() || peer.try_send(&bytes).is_err() {
                return;
            }
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let switch = |asked: &str, answer: &str| {
        let asked = match asked {
            "" => String::new(),
            asked => format!("Connection: upgrade\r\nUpgrade: {asked}\r\n"),
        };
        let mut peer = node.connect();
        peer.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{asked}X-Answer: {answer}\r\n\r\n"
        ));
        let status = peer.head().expect("an answer").status();
        if status == 101 {
            peer.send("ping");
            assert_eq!(peer.bytes(4), b"ping", "{asked} {answer}");
        }
        status
    };
    assert_eq!(switch("websocket", "websocket"), 101);
    assert_eq!(switch("websocket", "WebSocket"), 101);
    assert_eq!(switch("a/2, websocket", "websocket"), 101);
    assert_eq!(switch("websocket", "lines/1"), 502);
    assert_eq!(switch("websocket", "websocket, lines/1"), 502);
    assert_eq!(switch("websocket", ""), 502);
    assert_eq!(switch("lines/1", "lines/2"), 502);
    assert_eq!(switch("", "websocket"), 502);
    assert_eq!(switch("", ""), 502);
}

/// A filter that sets or removes a field decides its value: no trailer of that name is forwarded.
#[test]
fn fields_that_a_filter_sets_or_removes_do_not_pass_as_trailers() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .route("all", |r| r.filters(["user"]))
        .add_filter("user", |f| {
            f.set("kind", "transform")
                .set("request_headers.set.x-user", "nobody")
                .set("request_headers.remove", ["x-admin"])
        });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let request = "POST / HTTP/1.1\r\nHost: a\r\nX-User: root\r\nTransfer-Encoding: chunked\r\n\
                   Trailer: x-user, x-admin, x-kept\r\n\r\n2\r\nhi\r\n0\r\n\
                   X-User: root\r\nx-ADMIN: yes\r\nX-Kept: yes\r\nx-admin: again\r\n\r\n";
    assert_eq!(node.exchange(request).status(), 200);
    let received = origin.received().to_ascii_lowercase();
    assert!(received.contains("x-user: nobody\r\n"), "{received}");
    assert!(received.contains("x-kept: yes\r\n"), "{received}");
    assert!(!received.contains("root"), "{received}");
    assert!(!received.contains("x-admin:"), "{received}");
}
