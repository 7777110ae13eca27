//! Connections to servers of HTTP/2: requests that are sent again, and further connections.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steppe_testkit::{
    FieldSection, H2Frame, H2Peer, H2Server, Message, NodeConfig, RawOrigin, Steppe, eventually,
    is_left_to_long_tier,
};

const MAX_CONCURRENT_STREAMS: u16 = 3;

/// The plain configuration, whose server speaks HTTP/2.
fn config() -> NodeConfig {
    NodeConfig::plain().upstream("origin", |u| u.set("protocol", "h2c"))
}

/// A node in front of one server of HTTP/2.
fn in_front_of(server: SocketAddr) -> Steppe {
    Steppe::builder().with("origin", server).start(config())
}

/// A server whose connections follow `script`, and the number of requests that they have received.
fn server(
    settings: &'static [(u16, u32)],
    script: impl Fn(&mut H2Server<'_>, &AtomicUsize) + Send + Sync + 'static,
) -> (RawOrigin, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let origin = RawOrigin::start(move |peer| {
        if let Some(mut server) = H2Server::begin(peer, settings) {
            script(&mut server, &counter);
        }
    });
    (origin, requests)
}

fn ok(stream: u32) -> [H2Frame; 2] {
    [H2Frame::ok(stream), H2Frame::last_data(stream, "ok")]
}

fn post(node: &Steppe) -> Message {
    node.exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
}

fn get(node: &Steppe) -> Message {
    node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// RFC 7541 §6.2.3: an intermediary sends such a field line on in the same representation, even one that repeats.
#[test]
fn a_line_that_came_never_indexed_goes_on_so() {
    // Strings that the Huffman code does not make shorter.
    let secret = FieldSection::default().never_indexed("x", "!");
    let received = Arc::new(Mutex::new(Vec::new()));
    let sections = Arc::clone(&received);
    let (origin, _) = server(&[], move |server, _| {
        while let Some(frame) = server.frame() {
            if frame.kind == H2Frame::HEADERS {
                sections.lock().expect("no test failed").push(frame.payload);
                let ok = FieldSection::default().indexed(8, 1);
                let ok = ok.never_indexed("x", "!");
                server.send(&[H2Frame::request(frame.stream, &ok)]);
            }
        }
    });
    let config = config().protocols(["h1", "h2c"]);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(config);
    let mut client = H2Peer::begin(node.connect(), &[(1, 4096)]);
    let is_in = |section: &[u8]| {
        let mut places = section.windows(secret.bytes().len());
        places.any(|place| place == secret.bytes())
    };
    // A line of another representation becomes an entry of the table the second time.
    for _ in 0..4 {
        let request = FieldSection::of("GET", "/").never_indexed("x", "!");
        client.request(&request);
        let response = client.await_frame(H2Frame::HEADERS).expect("a response");
        assert!(is_in(&response.payload), "{:x?}", response.payload);
    }
    let sections = received.lock().expect("no test failed");
    assert_eq!(sections.len(), 4);
    for section in sections.iter() {
        assert!(is_in(section), "{section:x?}");
    }
}

/// RFC 9113 §8.7: a refused stream was not processed, so even requests that are not idempotent are sent again.
#[test]
fn a_refused_stream_is_sent_again() {
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            match requests.fetch_add(1, Ordering::Relaxed) {
                0 => server.send(&[H2Frame::refused(stream)]),
                _ => server.send(&ok(stream)),
            }
        }
    });
    let node = in_front_of(origin.address());
    let answer = post(&node);
    assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
    assert_eq!(requests.load(Ordering::Relaxed), 2);
    // The content is sent both times.
    assert_eq!(origin.received().matches("hello").count(), 2);
}

#[test]
fn a_server_that_refuses_for_ever_is_not_asked_for_ever() {
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            requests.fetch_add(1, Ordering::Relaxed);
            server.send(&[H2Frame::refused(stream)]);
        }
    });
    let node = in_front_of(origin.address());
    assert_eq!(post(&node).status(), 502);
    assert_eq!(get(&node).status(), 502);
    assert_eq!(requests.load(Ordering::Relaxed), 2 * 4);
}

/// Streams above the last of GOAWAY were not processed and are sent again.
#[test]
fn what_goaway_leaves_out_is_sent_again_on_another_connection() {
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            requests.fetch_add(1, Ordering::Relaxed);
            if server.index() == 0 {
                server.send(&[H2Frame::goaway(0)]);
                return server.drain();
            }
            server.send(&ok(stream));
        }
    });
    let node = in_front_of(origin.address());
    assert_eq!(post(&node).text(), "ok");
    assert_eq!(
        (origin.accepted(), requests.load(Ordering::Relaxed)),
        (2, 2)
    );
}

/// A server that resets the stream may have processed the request.
#[test]
fn what_may_have_been_processed_is_not_sent_again() {
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            requests.fetch_add(1, Ordering::Relaxed);
            match stream {
                1 => server.send(&ok(stream)),
                _ => server.send(&[H2Frame::reset(stream)]),
            }
        }
    });
    let node = in_front_of(origin.address());
    assert_eq!(post(&node).status(), 200);
    assert_eq!(post(&node).status(), 502);
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}

/// The connection is lost with many streams open: idempotent requests are sent again and served.
#[test]
fn a_connection_that_is_lost_costs_what_is_not_idempotent() {
    // All on the first connection: more streams would make the node establish the next.
    const STREAMS: usize = 80;
    let (origin, requests) = server(&[], |server, requests| {
        if server.index() == 0 {
            // The first request is answered: a connection without any answer does not count as stale.
            let first = server.request();
            first.iter().for_each(|stream| server.send(&ok(*stream)));
            for _ in 0..STREAMS {
                server.request();
                requests.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        while let Some(stream) = server.request() {
            requests.fetch_add(1, Ordering::Relaxed);
            server.send(&ok(stream));
        }
    });
    let node = in_front_of(origin.address());
    assert_eq!(get(&node).status(), 200);
    let mut peers: Vec<_> = (0..STREAMS).map(|_| node.connect()).collect();
    for (at, peer) in peers.iter_mut().enumerate() {
        let method = if at % 2 == 0 { "GET" } else { "POST" };
        peer.send(format!("{method} /{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for (at, peer) in peers.iter_mut().enumerate() {
        let expected = if at % 2 == 0 { 200 } else { 502 };
        assert_eq!(peer.response().status(), expected, "{at}");
    }
    assert_eq!(requests.load(Ordering::Relaxed), STREAMS + STREAMS / 2);
}

/// The next connection is established before the last is full, so that no request waits for it.
#[test]
fn the_next_connection_is_there_before_the_last_is_full() {
    const STREAMS: u32 = 16;
    let (origin, requests) = server(&[(MAX_CONCURRENT_STREAMS, STREAMS)], |server, requests| {
        // Requests are never answered.
        while server.request().is_some() {
            requests.fetch_add(1, Ordering::Relaxed);
        }
    });
    let node = in_front_of(origin.address());
    let mut peers = Vec::new();
    for taken in 1..=STREAMS as usize {
        let mut peer = node.connect();
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        peers.push(peer);
        eventually("the request is taken", || {
            requests.load(Ordering::Relaxed) == taken
        });
        if taken < STREAMS as usize * 7 / 8 {
            assert_eq!(origin.accepted(), 1, "after {taken}");
        }
    }
    eventually("another connection", || origin.accepted() == 2);
}

/// A server's limit of streams comes with its SETTINGS. Requests beyond it take connections of their own: the streams
/// that are open may last.
#[test]
fn a_burst_on_a_new_connection_waits_for_no_stream() {
    const BURST: usize = 8;
    let (origin, requests) = server(&[(MAX_CONCURRENT_STREAMS, 2)], |server, requests| {
        // Requests are never answered.
        while server.request().is_some() {
            requests.fetch_add(1, Ordering::Relaxed);
        }
    });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(config().protocols(["h1", "h2c"]));
    let mut client = H2Peer::connect(node.gateway());
    let heads =
        [(); BURST].map(|()| H2Frame::request(client.stream(), &FieldSection::of("GET", "/")));
    client.send(&heads);
    eventually("each request is taken", || {
        requests.load(Ordering::Relaxed) == BURST
    });
    assert_eq!(origin.accepted(), BURST / 2);
}

/// A server that sends no SETTINGS has one request; those that wait for it have another server, and it has failed to
/// connect for each.
#[test]
fn requests_leave_a_server_that_sends_no_settings() {
    const BURST: usize = 8;
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            requests.fetch_add(1, Ordering::Relaxed);
            server.send(&ok(stream));
        }
    });
    // The kernel establishes connections to it.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = listener.local_addr().expect("it is bound");
    let config = config().protocols(["h1", "h2c"]).upstream("origin", |u| {
        u.servers(["{silent}", "{origin}"])
            .set("timeouts.connect", "200ms")
    });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with("silent", silent)
        .start(config);
    let mut client = H2Peer::connect(node.gateway());
    let request = |stream| H2Frame::request(stream, &FieldSection::of("GET", "/"));
    let heads = [(); BURST].map(|()| request(client.stream()));
    client.send(&heads);
    eventually("all but one have another server", || {
        requests.load(Ordering::Relaxed) == BURST - 1
    });
    let failed = node
        .metrics()
        .sum("steppe_http_upstream_connect_failures_total", &[]);
    assert_eq!(failed, (BURST / 2 - 1) as f64);
}

/// A server that falls silent is probed with PING, and then given up. Takes a minute.
#[test]
fn a_silent_server_is_asked_and_given_up() {
    if is_left_to_long_tier("a_silent_server_is_asked_and_given_up") {
        return;
    }
    let pings = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pings);
    let (origin, _) = server(&[], move |server, _| {
        while let Some(frame) = server.frame() {
            if frame.kind == H2Frame::PING {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let node = in_front_of(origin.address());
    let mut peer = node.connect();
    peer.patience(Duration::from_secs(120));
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.response().status(), 502);
    assert_eq!(pings.load(Ordering::Relaxed), 1);
}

/// Streams are counted beside connections, at either side; a connection with open streams is not idle.
#[test]
fn streams_are_counted_while_they_are_open() {
    let (origin, requests) = server(&[], |server, requests| {
        let mut open = Vec::new();
        while let Some(stream) = server.request() {
            open.push(stream);
            if requests.fetch_add(1, Ordering::Relaxed) == 2 {
                open.drain(..).for_each(|stream| server.send(&ok(stream)));
            }
        }
    });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(config().protocols(["h1", "h2c"]));
    let mut client = H2Peer::connect(node.gateway());
    let streams = [0; 2].map(|_| client.request(&FieldSection::of("GET", "/")));
    eventually("both are taken", || requests.load(Ordering::Relaxed) == 2);
    let report = node.admin_json("/memory");
    let open = &report["connections"];
    assert_eq!(open["downstream"], 1);
    assert_eq!(open["downstream_streams"], 2);
    assert_eq!(open["upstream_streams"], 2);
    assert_eq!(
        (&open["upstream_active"], &open["upstream_idle"]),
        (&1.into(), &0.into())
    );
    let metrics = node.metrics();
    let of = |side| metrics.sum("steppe_http_streams", &[("side", side)]);
    assert_eq!((of("downstream"), of("upstream")), (2.0, 2.0));
    assert_eq!(get(&node).text(), "ok");
    for stream in streams {
        assert_eq!(client.answer(stream).text(), "ok");
    }
    eventually("none is open", || {
        let open = node.admin_json("/memory")["connections"].take();
        open["downstream_streams"] == 0
            && open["upstream_streams"] == 0
            && open["upstream_idle"] == 1
    });
}

/// RFC 9113 §8.1: a server that needs no more of a request resets the stream with NO_ERROR after its whole response.
#[test]
fn a_reset_behind_a_whole_response_takes_nothing_away() {
    let (origin, _) = server(&[], |server, _| {
        while let Some(frame) = server.frame() {
            if frame.kind == H2Frame::HEADERS {
                let stream = frame.stream;
                let no_error = H2Frame::new(H2Frame::RST_STREAM, 0, stream, [0; 4]);
                server.send(&[ok(stream).to_vec(), vec![no_error]].concat());
            }
        }
    });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(config().protocols(["h1", "h2c"]));
    let mut client = H2Peer::connect(node.gateway());
    for _ in 0..20 {
        let stream = client.stream();
        let fields = FieldSection::of("POST", "/").field("content-length", "8");
        client.send(&[
            H2Frame::opening(stream, &fields),
            H2Frame::data(stream, "half"),
        ]);
        let answer = client.answer(stream);
        assert_eq!((answer.status, answer.text().as_str()), (Some(200), "ok"));
    }
    assert_eq!(origin.accepted(), 1, "the connection goes on");
}

/// SETTINGS_MAX_CONCURRENT_STREAMS may change at any time, to 0 as well (RFC 9113 §6.5.2).
#[test]
fn a_server_that_allows_no_stream_is_asked_on_another_connection() {
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            let served = requests.fetch_add(1, Ordering::Relaxed);
            if server.index() == 0 && served == 0 {
                // The response follows the settings: the node has read them before it sends the next request.
                server.send(&[H2Frame::settings(&[(MAX_CONCURRENT_STREAMS, 0)])]);
            }
            server.send(&ok(stream));
        }
    });
    let node = in_front_of(origin.address());
    for count in 1..=4 {
        assert_eq!(post(&node).text(), "ok");
        assert_eq!(requests.load(Ordering::Relaxed), count);
    }
    assert_eq!(origin.accepted(), 2);
}

/// RFC 9113 §6.1: padding is not content, but counts in the flow-control windows.
#[test]
fn padding_of_a_server_is_taken_off_and_its_window_given_back() {
    const FRAMES: usize = 4000;
    const PADDED: u8 = 0x8;
    let (origin, _) = server(&[], |server, _| {
        while let Some(stream) = server.request() {
            server.send(&[H2Frame::ok(stream)]);
            let mut window = 65_535_usize;
            let payload = [&[199][..], b"content", &[0; 199]].concat();
            for _ in 0..FRAMES {
                while window < payload.len() {
                    let Some(frame) = server.frame() else {
                        return;
                    };
                    if frame.kind == H2Frame::WINDOW_UPDATE && frame.stream == stream {
                        let octets: [u8; 4] = frame.payload[..4].try_into().expect("four");
                        window += u32::from_be_bytes(octets) as usize;
                    }
                }
                window -= payload.len();
                server.send(&[H2Frame::new(H2Frame::DATA, PADDED, stream, payload.clone())]);
            }
            server.send(&[H2Frame::last_data(stream, "")]);
        }
    });
    let node = in_front_of(origin.address());
    assert_eq!(get(&node).text(), "content".repeat(FRAMES));
}

/// A server responds and closes: what it has sent is passed on to its end, although nothing can be written to it any more.
#[test]
fn a_server_that_closes_behind_its_response_has_answered() {
    /// Behind so much the windows have grown.
    const GROWN_BYTES: usize = 8 << 20;
    /// More than the node reads at once.
    const LAST_FRAMES: usize = 25;
    const FRAME: [u8; 16_384] = [b'x'; 16_384];
    const LAST_BYTES: usize = LAST_FRAMES * FRAME.len();
    let (origin, sent) = server(&[], |server, sent| {
        let Some(stream) = server.request() else {
            return;
        };
        server.send(&[H2Frame::ok(stream)]);
        let mut windows = [65_535_usize; 2];
        let mut bytes = 0;
        let room = |windows: [usize; 2]| windows[0].min(windows[1]);
        while bytes < GROWN_BYTES || room(windows) < LAST_BYTES {
            if bytes < GROWN_BYTES && room(windows) >= FRAME.len() {
                windows = windows.map(|window| window - FRAME.len());
                bytes += FRAME.len();
                server.send(&[H2Frame::data(stream, FRAME)]);
                continue;
            }
            let Some(frame) = server.frame() else {
                return;
            };
            if frame.kind == H2Frame::WINDOW_UPDATE {
                let octets: [u8; 4] = frame.payload[..4].try_into().expect("four");
                let of_stream = usize::from(frame.stream == stream);
                windows[of_stream] += u32::from_be_bytes(octets) as usize;
            }
        }
        let last = vec![H2Frame::data(stream, FRAME); LAST_FRAMES];
        server.send(&[last, vec![H2Frame::last_data(stream, "")]].concat());
        sent.store(bytes + LAST_BYTES, Ordering::Relaxed);
    });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(config().memory_budget("1GiB"));
    for _ in 0..8 {
        let length = get(&node).text().len();
        assert_eq!(length, sent.load(Ordering::Relaxed));
    }
    assert_eq!(origin.accepted(), 8);
}

/// RFC 8441 §5, RFC 9113 §8.5: any 2xx begins the tunnel.
#[test]
fn a_tunnel_begins_by_any_status_of_success() {
    const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    let (origin, _) = server(&[(ENABLE_CONNECT_PROTOCOL, 1)], |server, _| {
        while let Some(frame) = server.frame() {
            if frame.kind == H2Frame::HEADERS {
                let fields = FieldSection::default().field(":status", "204");
                server.send(&[H2Frame::opening(frame.stream, &fields)]);
            }
            if frame.kind == H2Frame::DATA {
                server.send(&[H2Frame::data(frame.stream, frame.payload)]);
            }
        }
    });
    let node = in_front_of(origin.address());
    let mut client = node.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = client.head().expect("the server has agreed");
    assert_eq!(head.status(), 101);
    client.send("there and back");
    assert_eq!(client.bytes(14), b"there and back");
}

/// RFC 9113 §8.4: push is disabled, so a promise ends the connection; the request may have been processed.
#[test]
fn a_promise_is_refused() {
    const PUSH_PROMISE: u8 = 5;
    let (origin, requests) = server(&[], |server, requests| {
        while let Some(stream) = server.request() {
            requests.fetch_add(1, Ordering::Relaxed);
            let fields = FieldSection::of("GET", "/");
            let promised = [&2_u32.to_be_bytes()[..], fields.bytes()];
            let flags = H2Frame::END_HEADERS;
            server.send(&[H2Frame::new(PUSH_PROMISE, flags, stream, promised.concat())]);
        }
    });
    let node = in_front_of(origin.address());
    assert_eq!(post(&node).status(), 502);
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}
