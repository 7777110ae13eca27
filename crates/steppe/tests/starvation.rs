//! Crowds that want memory which is not there, and clients that leave while they wait.

use std::time::{Duration, Instant};

use steppe_testkit::{
    FullQueue, PATIENCE, Peer, RawOrigin, Steppe, WorkerTime, eventually, heavy, raise_file_limit,
    skip,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A node with this budget, whose listener and upstream have these further lines.
fn node(server: impl ToString, budget: &str, listener: &str, upstream: &str) -> Steppe {
    let toml = Steppe::PLAIN
        .replace("64MiB", budget)
        .replace(
            "protocols = [\"h1\"]\n",
            &format!("protocols = [\"h1\"]\n{listener}\n"),
        )
        .replace("[[http.route]]", &format!("{upstream}\n[[http.route]]"));
    Steppe::builder().with("origin", server).start(&toml)
}

/// Whether enough files can be opened for `connections`, on both ends.
fn has_files(test: &str, connections: u64) -> bool {
    let files = raise_file_limit();
    let is_enough = files > 2 * connections;
    if !is_enough {
        skip(test, &format!("{files} open files are too few"));
    }
    is_enough
}

fn open_connections(node: &Steppe) -> f64 {
    node.metrics().sum("steppe_http_connections", &[])
}

/// What a child of the node's account has reserved.
#[track_caller]
fn reserved_bytes(node: &Steppe, account: &str) -> u64 {
    let report = node.admin_json("/memory");
    let children = report["budget"]["children"].as_array();
    let all = children.expect("the gateway has accounts");
    let found = all.iter().find(|child| child["name"] == account);
    let found = found.unwrap_or_else(|| panic!("no account {account}: {report}"));
    found["reserved_bytes"].as_u64().expect("a number")
}

/// What the worker's thread does in some seconds.
fn worker_time_of(node: &Steppe, window: Duration) -> WorkerTime {
    let before = WorkerTime::now(node.id());
    std::thread::sleep(window);
    WorkerTime::now(node.id()) - before
}

/// Opens connections until there is no room for another.
fn fill_with_idle(node: &Steppe, most: usize) -> Vec<Peer> {
    let mut idle = Vec::new();
    loop {
        assert!(idle.len() < most, "the budget is never used up");
        let mut peer = node.connect();
        peer.patience(Duration::from_millis(1));
        // Accepted ones stay silent, so that each look lasts: one at some is enough.
        let is_refused = idle.len() % 512 == 0 && {
            peer.patience(Duration::from_millis(200));
            peer.try_head().is_ok()
        };
        peer.patience(PATIENCE);
        if is_refused {
            return idle;
        }
        idle.push(peer);
    }
}

/// Whoever waits for budget costs nothing until some comes back.
#[test]
fn one_byte_of_each_of_a_crowd_costs_nothing_while_the_budget_is_full() {
    const TEST: &str = "one_byte_of_each_of_a_crowd_costs_nothing_while_the_budget_is_full";
    const CROWD: usize = 300;
    let _alone = heavy();
    if !has_files(TEST, 7_000) {
        return;
    }
    let origin = RawOrigin::answering(OK);
    let listener = "limits = { connections = 7000 }\n\
                    timeouts = { header = \"60s\", idle = \"600s\" }";
    let node = node(origin.address(), "16MiB", listener, "");
    let window = Duration::from_secs(2);
    let alone = worker_time_of(&node, window);
    let mut idle = fill_with_idle(&node, 7_000);
    for peer in &mut idle[..CROWD] {
        peer.send("G");
    }
    eventually("the crowd's bytes are seen", || {
        waits_calmly(&worker_time_of(&node, Duration::from_millis(200)))
    });
    let crowded = worker_time_of(&node, window);
    println!(
        "{} connections: alone {alone:?}, crowded {crowded:?}",
        idle.len()
    );
    assert!(
        crowded.cpu <= alone.cpu + window / 20,
        "alone {alone:?}, crowded {crowded:?}"
    );
    assert!(
        crowded.switches < alone.switches + CROWD as u64,
        "alone {alone:?}, crowded {crowded:?}"
    );
    // They are served as soon as there is room.
    idle.truncate(CROWD);
    for peer in &mut idle {
        assert_eq!(peer.send(&GET[1..]).response().status(), 200);
    }
}

/// Less than a fifth of the time.
fn waits_calmly(time: &WorkerTime) -> bool {
    time.cpu < Duration::from_millis(40)
}

/// Heads that hold memory and need more do not wait for each other for ever.
#[test]
fn memory_of_half_heads_comes_back_when_their_clients_leave() {
    const TEST: &str = "memory_of_half_heads_comes_back_when_their_clients_leave";
    const CROWD: usize = 2_400;
    let _alone = heavy();
    if !has_files(TEST, CROWD as u64 + 100) {
        return;
    }
    let origin = RawOrigin::answering(OK);
    let listener = "limits = { connections = 7000, header_bytes = \"16KiB\" }\n\
                    timeouts = { header = \"120s\", idle = \"120s\" }";
    let node = node(origin.address(), "16MiB", listener, "");
    let half = half_head(5 << 10);
    let mut crowd: Vec<Peer> = (0..CROWD)
        .filter_map(|_| {
            let mut peer = node.connect();
            peer.try_send(&half).is_ok().then_some(peer)
        })
        .collect();
    eventually("it is refused or waits", || {
        waits_calmly(&worker_time_of(&node, Duration::from_millis(200)))
    });
    for peer in &mut crowd {
        let _ = peer.try_send(b"\r\n\r\n");
    }
    let (mut served, mut refused, mut cut, mut hung) = (0, 0, 0, 0);
    for peer in &mut crowd {
        match peer.try_head() {
            Ok(Some(head)) if head.status() == 200 => served += 1,
            Ok(Some(head)) => {
                assert_eq!(head.status(), 503);
                refused += 1;
            }
            // A reset overtook the refusal.
            Ok(None) => cut += 1,
            Err(why) => {
                println!("{why}");
                hung += 1;
            }
        }
    }
    println!("{served} served, {refused} refused, {cut} cut, {hung} hung of {CROWD}");
    assert!(served > 0, "nobody is let finish");
    assert_eq!(hung, 0, "each is told what became of it");
    drop(crowd);
    leave(&node, &half, CROWD);
}

/// As many half heads again, whose clients leave before anything became of them.
fn leave(node: &Steppe, half: &[u8], crowd: usize) {
    eventually("the memory is back", || open_connections(node) == 0.0);
    let mut crowd: Vec<Peer> = (0..crowd)
        .filter_map(|_| {
            let mut peer = node.connect();
            peer.try_send(half).is_ok().then_some(peer)
        })
        .collect();
    eventually("it is refused or waits", || {
        waits_calmly(&worker_time_of(node, Duration::from_millis(200)))
    });
    let held = reserved_bytes(node, &listener_account(node));
    for (index, peer) in crowd.iter_mut().enumerate() {
        if index % 2 == 0 {
            peer.reset_at_end();
        }
    }
    drop(crowd);
    let left_at = Instant::now();
    eventually("all connections are gone", || open_connections(node) == 0.0);
    println!("{held} bytes held, back after {:?}", left_at.elapsed());
    for _ in 0..20 {
        assert_eq!(node.exchange(GET).status(), 200);
    }
    eventually("the memory is back", || {
        reserved_bytes(node, &listener_account(node)) == 0
    });
}

fn listener_account(node: &Steppe) -> String {
    format!("listener {}", node.gateway())
}

/// The first `bytes` of a request's head.
fn half_head(bytes: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ".to_vec();
    head.resize(bytes, b'a');
    head
}

/// Clients that leave while a connect hangs free at once what they held.
#[test]
fn clients_that_leave_while_a_connect_hangs_hold_nothing() {
    let post = |content: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n{content}")
    };
    let server = FullQueue::new();
    let upstream = "timeouts = { connect = \"600s\" }";
    let node = node(
        server.address(),
        "64MiB",
        "timeouts = { idle = \"600s\" }",
        upstream,
    );
    let requests = [
        ("nothing else", GET.to_owned()),
        ("content to come", post("")),
        // No more than the kernel takes: an end behind what it has no room for can't be seen.
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

/// The time of an exchange counts while a connection is being established, and a request is not
/// sent once it is over. A head that takes its time is not the server's.
#[test]
fn a_connect_that_hangs_takes_no_longer_than_its_exchange_may() {
    let server = FullQueue::new();
    let upstream = "timeouts = { connect = \"600s\", total = \"500ms\" }";
    let node = node(server.address(), "64MiB", "", upstream);
    assert_eq!(node.exchange(GET).status(), 504);
    let closed = node.metrics();
    let of = |reason| closed.sum("steppe_http_closed_total", &[("reason", reason)]);
    assert_eq!((of("total_timeout"), of("connect_timeout")), (1.0, 0.0));
}

/// The response's deadline begins when the request is out, however long its head took.
#[test]
fn a_slow_head_is_not_held_against_its_server() {
    let origin = RawOrigin::answering(OK);
    let upstream = "timeouts = { first_byte = \"2s\" }";
    let node = node(origin.address(), "64MiB", "", upstream);
    // A connection to the server is there from now on.
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
    let listener = "timeouts = { header = \"2s\", idle = \"60s\" }";
    let node = node(origin.address(), "64MiB", listener, "");
    let mut before = node.connect();
    before.send("\r\n");
    let mut behind = node.connect();
    behind.send(format!("{GET}\r\n"));
    assert_eq!(behind.response().status(), 200);
    let mut after = node.connect();
    assert_eq!(after.send(GET).response().status(), 200);
    after.send("\r\n");
    // Sent later than all of these, and cut off before them.
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

/// RFC 9110 §7.8: a server switches to a protocol that it was asked for, and to no other.
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

/// Who sets or removes a field vouches for it: no trailer of that name passes.
#[test]
fn fields_that_a_filter_sets_or_removes_do_not_pass_as_trailers() {
    let origin = RawOrigin::answering(OK);
    let toml = Steppe::PLAIN.replace(
        "upstream = \"origin\"\n",
        "upstream = \"origin\"\nfilters = [\"user\"]\n",
    ) + "[http.filter.user]\nkind = \"transform\"\n\
           request_headers = { set = { x-user = \"nobody\" }, remove = [\"x-admin\"] }\n";
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&toml);
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
