//! `hedge` on the wire: the second server, its time, and the answer that the client gets.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use steppe_testkit::{
    FieldSection, FullQueue, Gate, H2Frame, H2Peer, H2Server, NodeConfig, OriginPeer, RawOrigin,
    Section, Steppe, eventually,
};

use super::ask;

fn ok(name: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
        name.len()
    )
    .into()
}

/// A server that answers at once, and one that never does.
struct Pair {
    quick: RawOrigin,
    stuck: RawOrigin,
}

impl Pair {
    fn start(answer: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self {
            quick: RawOrigin::replying(move |_| answer()),
            stuck: RawOrigin::start(|peer| while peer.request().is_some() {}),
        }
    }

    /// The stuck server is the first.
    fn node(&self, further: &str) -> Steppe {
        start(&[&self.stuck, &self.quick], |u| u.with_toml(further))
    }
}

/// A node in front of `servers`, with this change to the upstream.
fn start(servers: &[&RawOrigin], change: impl FnOnce(Section) -> Section) -> Steppe {
    let servers: Vec<_> = servers.iter().map(|server| server.address()).collect();
    let config = NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .upstream("origin", |u| change(u.servers(servers)));
    Steppe::builder().start(&config)
}

fn hedges(node: &Steppe, outcome: &str) -> f64 {
    let labels = [("upstream", "origin"), ("outcome", outcome)];
    node.metrics()
        .sum("steppe_http_upstream_hedges_total", &labels)
}

const SOON: &str = "hedge = { after = \"5ms\", budget = \"100%\" }";

#[test]
fn a_second_server_answers_where_the_first_takes_long() {
    let pair = Pair::start(|| ok("quick"));
    let node = pair.node(SOON);
    // In turn: each second request goes to the stuck server.
    for _ in 0..10 {
        assert_eq!(ask(&node, "GET /", "").text(), "quick");
    }
    // On a busy machine requests to the quick server are hedged too, without a win.
    assert_eq!(hedges(&node, "won"), 5.0);
    assert!(hedges(&node, "sent") >= 5.0);
    // The losing request is cancelled: its connection is closed.
    eventually("those that lost are closed", || {
        let closed = pair.stuck.closed();
        closed.len() >= 5 && closed.iter().all(|&closed| closed)
    });
}

#[test]
fn clients_of_http2_have_it_too() {
    let pair = Pair::start(|| ok("quick"));
    let node = pair.node(SOON);
    let mut client = H2Peer::connect(node.gateway());
    for _ in 0..6 {
        let answer = client.exchange(&FieldSection::of("GET", "/"));
        assert_eq!(
            (answer.status, answer.text()),
            (Some(200), "quick".to_owned())
        );
    }
    assert_eq!(hedges(&node, "won"), 3.0);
}

/// Over HTTP/2 the stream of the losing request is reset, and its connection goes on.
#[test]
fn servers_of_http2_are_hedged_by_the_stream() {
    let frames = Arc::<Mutex<Vec<u8>>>::default();
    let kept = Arc::clone(&frames);
    let stuck = RawOrigin::start(move |peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(frame) = server.frame() {
            kept.lock().expect("no panic").push(frame.kind);
        }
    });
    let quick = RawOrigin::start(|peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(stream) = server.request() {
            server.send(&[H2Frame::ok(stream), H2Frame::last_data(stream, "quick")]);
        }
    });
    let node = start(&[&stuck, &quick], |u| {
        u.set("protocol", "h2c").with_toml(SOON)
    });
    for _ in 0..8 {
        assert_eq!(ask(&node, "GET /", "").text(), "quick");
    }
    assert_eq!(hedges(&node, "won"), 4.0);
    eventually("four streams are reset", || {
        let frames = frames.lock().expect("no panic");
        frames
            .iter()
            .filter(|&&kind| kind == H2Frame::RST_STREAM)
            .count()
            >= 4
    });
    assert_eq!(stuck.accepted(), 1);
}

#[test]
fn content_is_sent_to_both() {
    let pair = Pair::start(|| ok("quick"));
    let node = pair.node(SOON);
    for _ in 0..2 {
        let request = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n again\r\n0\r\n\r\n";
        assert_eq!(node.exchange(request).text(), "quick");
    }
    assert_eq!(hedges(&node, "won"), 1.0);
    for origin in [&pair.quick, &pair.stuck] {
        eventually("it has the content", || {
            let received = origin.received();
            received.contains("hello") && received.contains(" again")
        });
    }
}

/// A second server that responds before it has read the request gets all of it.
#[test]
fn content_is_sent_whole_to_a_second_server_that_responds_early() {
    const CONTENT: usize = 60_000;
    let stuck = RawOrigin::start(|peer| {
        if let Some(mut server) = H2Server::begin(peer, &[]) {
            // A window for the content of every request: a hedge begins once the first server was sent all of it.
            server.send(&[H2Frame::window(0, 1 << 20)]);
            server.drain();
        }
    });
    // SETTINGS_INITIAL_WINDOW_SIZE: a quarter of the content. The rest may be sent once the node has had time to see
    // the response: after two round trips.
    let early = RawOrigin::start(|peer| {
        let Some(mut server) = H2Server::begin(peer, &[(4, 16_384)]) else {
            return;
        };
        let ping = || H2Frame::new(H2Frame::PING, 0, 0, vec![0; 8]);
        let (mut stream, mut read, mut pongs) = (0, 0, 0);
        while let Some(frame) = server.frame() {
            match frame.kind {
                H2Frame::HEADERS => {
                    (stream, read, pongs) = (frame.stream, 0, 0);
                    server.send(&[H2Frame::ok(stream), ping()]);
                }
                H2Frame::PING if frame.has(H2Frame::ACK) => {
                    pongs += 1;
                    match pongs {
                        1 => server.send(&[ping()]),
                        _ => server.send(&[0, stream].map(|of| H2Frame::window(of, 1 << 20))),
                    }
                }
                H2Frame::DATA => {
                    read += frame.payload.len();
                    if frame.has(H2Frame::END_STREAM) {
                        server.send(&[H2Frame::last_data(stream, read.to_string())]);
                    }
                }
                _ => {}
            }
        }
    });
    let node = start(&[&early, &stuck], |u| {
        u.set("protocol", "h2c").with_toml(SOON)
    });
    // A new connection may send before it knows the window: the first of the four is for the early server.
    for _ in 0..4 {
        let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {CONTENT}\r\n\r\n");
        let request = head + &"x".repeat(CONTENT);
        assert_eq!(node.exchange(&request).text(), CONTENT.to_string());
    }
    assert_eq!(hedges(&node, "won"), 2.0);
}

#[test]
fn what_is_not_idempotent_is_sent_once() {
    let pair = Pair::start(|| ok("quick"));
    let node = pair.node(&format!("{SOON}\ntimeouts = {{ first_byte = \"2s\" }}"));
    let statuses = (0..4).map(|_| ask(&node, "POST /", "Content-Length: 0\r\n").status());
    let mut statuses: Vec<_> = statuses.collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 504, 504]);
    assert_eq!(hedges(&node, "sent"), 0.0);
}

/// The budget is a share of requests, and a few a second besides.
#[test]
fn the_budget_bounds_how_many_are_sent_twice() {
    let pair = Pair::start(|| ok("quick"));
    let keys =
        "hedge = { after = \"1ms\", budget = \"0.0001%\" }\ntimeouts = { first_byte = \"200ms\" }";
    let node = pair.node(keys);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..30).for_each(|_| drop(ask(&node, "GET /", ""))));
        }
    });
    assert!(hedges(&node, "denied") > 0.0);
    assert!(hedges(&node, "sent") < 120.0);
}

#[test]
fn a_second_server_that_fails_is_not_the_answer() {
    let sick = Pair::start(|| b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec());
    let node = sick.node(&format!("{SOON}\ntimeouts = {{ first_byte = \"2s\" }}"));
    // Requests whose turn is the failing server get its answer; others wait for the first.
    let mut statuses: Vec<_> = (0..2).map(|_| ask(&node, "GET /", "").status()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [503, 504]);
    assert!(hedges(&node, "sent") >= 1.0);
    assert_eq!(hedges(&node, "won"), 0.0);
}

/// The first fails while the second has the request: the client waits for the second.
#[test]
fn the_second_takes_the_place_of_a_first_that_fails() {
    let asked = Arc::<AtomicUsize>::default();
    let (second_is_asked, first_is_over) = (Gate::new(), Gate::new());
    let second = RawOrigin::replying({
        let (count, is_asked, goes_on) = (
            Arc::clone(&asked),
            second_is_asked.clone(),
            first_is_over.clone(),
        );
        move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            is_asked.open();
            goes_on.wait();
            ok("second")
        }
    });
    let first = RawOrigin::start(move |peer| {
        if peer.request().is_some() {
            second_is_asked.wait();
            peer.reset_at_end();
            first_is_over.open();
        }
    });
    let node = start(&[&first, &second], |u| u.with_toml(SOON));
    assert_eq!(ask(&node, "GET /", "").text(), "second");
    assert_eq!(hedges(&node, "sent"), 1.0);
    // The origin was asked once: the answer to that request was used.
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// The first fails while the connection to the second is being established: the client waits for the second.
#[test]
fn a_second_that_is_still_connecting_takes_the_place_of_a_first_that_fails() {
    let fails = |peer: &mut OriginPeer| {
        peer.reset_at_end();
    };
    let busy = |peer: &mut OriginPeer| {
        peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    };
    let retry = "retry = { on = [\"503\"] }";
    let ends: [fn(&mut OriginPeer); 2] = [fails, busy];
    for (end, retry) in ends.into_iter().zip(["", retry]) {
        let is_hedged = Gate::new();
        let first = RawOrigin::start({
            let is_hedged = is_hedged.clone();
            move |peer| {
                if peer.request().is_some() {
                    is_hedged.wait();
                    end(peer);
                }
            }
        });
        let second = FullQueue::new();
        let servers = [first.address(), second.address()];
        let config = NodeConfig::plain().upstream("origin", |u| {
            let u = u.servers(servers).set("timeouts.connect", "60s");
            u.with_toml(&format!("{SOON}\n{retry}"))
        });
        let node = Steppe::builder().start(&config);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&node, "GET /", "").text());
            eventually("a second is asked", || hedges(&node, "sent") == 1.0);
            is_hedged.open();
            eventually("the first has failed", || failures_of_first(&node) == 1);
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";
            // The second waits for a request, which may never come.
            std::thread::spawn(|| second.answer_one(answer));
            assert_eq!(asked.join().expect("no panic"), "second");
        });
        // The hedge was sent to the second before the first failed.
        assert_eq!(retries(&node), 0.0);
    }
}

fn failures_of_first(node: &Steppe) -> u64 {
    let report = node.admin_json("/upstreams");
    let failures = &report["upstreams"][0]["servers"][0]["failures"];
    failures.as_u64().expect("a number")
}

/// A response that is turned down while the second server has the request costs no retry.
#[test]
fn a_first_that_is_turned_down_beside_a_second_costs_no_retry() {
    let (second_is_asked, first_is_over) = (Gate::new(), Gate::new());
    let second = RawOrigin::replying({
        let (is_asked, goes_on) = (second_is_asked.clone(), first_is_over.clone());
        move |_| {
            is_asked.open();
            goes_on.wait();
            ok("second")
        }
    });
    let first = RawOrigin::start(move |peer| {
        if peer.request().is_some() {
            second_is_asked.wait();
            peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
            // The node closes the connection of a response that it turns down.
            peer.drain();
            first_is_over.open();
        }
    });
    let node = start(&[&first, &second], |u| {
        u.with_toml(SOON).with_toml("retry = { on = [\"503\"] }")
    });
    assert_eq!(ask(&node, "GET /", "").text(), "second");
    assert_eq!(hedges(&node, "sent"), 1.0);
    assert_eq!(retries(&node), 0.0);
}

fn retries(node: &Steppe) -> f64 {
    let labels = [("upstream", "origin")];
    node.metrics()
        .sum("steppe_http_upstream_retries_total", &labels)
}

/// A percentile is known once enough answers have come; then it is the delay of the hedge.
#[test]
fn a_percentile_of_the_answers_is_waited_for() {
    let pair = Pair::start(|| ok("quick"));
    let stalls = Arc::<AtomicBool>::default();
    let told = Arc::clone(&stalls);
    let sometimes = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            if !told.load(Ordering::SeqCst) {
                peer.send(ok("first"));
            }
        }
    });
    let node = start(&[&sometimes, &pair.quick], |u| {
        u.set("hedge.after", "p90").set("hedge.budget", "100%")
    });
    // The percentile is computed four times a second.
    let began_at = Instant::now();
    let mut answers = 0;
    while answers < 300 || began_at.elapsed() < Duration::from_millis(700) {
        assert_eq!(ask(&node, "GET /", "").status(), 200);
        answers += 1;
    }
    stalls.store(true, Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(ask(&node, "GET /", "").text(), "quick");
    }
    assert!(hedges(&node, "won") >= 1.0);
}

#[test]
fn one_server_and_max_0_hedge_nothing() {
    let pair = Pair::start(|| ok("quick"));
    let node =
        pair.node("hedge = { after = \"1ms\", max = 0 }\ntimeouts = { first_byte = \"2s\" }");
    let mut statuses: Vec<_> = (0..2).map(|_| ask(&node, "GET /", "").status()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 504]);
    let alone = start(&[&pair.stuck], |u| {
        u.with_toml(SOON).set("timeouts.first_byte", "200ms")
    });
    assert_eq!(ask(&alone, "GET /", "").status(), 504);
    assert_eq!(hedges(&alone, "sent"), 0.0);
}
