//! The exchange: connections kept, bodies streamed, interim responses, tunnels, pools, timeouts.
//!
//! Real programs where they can show it (curl, nginx, a WebSocket library); a
//! scripted origin where a test is about just when bytes come or stop.
//! RFC 9112, RFC 9110.

use std::time::Duration;

use steppe_testkit::{
    Curl, Gate, MemoryMeter, Nginx, NodeConfig, RawOrigin, Scratch, Steppe, heavy,
    websocket_connect, websocket_echo,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A node in front of an origin that answers each request with its target.
fn echo_targets() -> (RawOrigin, Steppe) {
    let origin = RawOrigin::replying(|request| {
        let body = request.target().to_owned();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    let node = Steppe::in_front_of(origin.address());
    (origin, node)
}

#[test]
fn connections_are_kept_on_both_sides() {
    let (origin, node) = echo_targets();
    let mut peer = node.connect();
    for number in 0..50 {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(peer.send(request).response().text(), format!("/{number}"));
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (_origin, node) = echo_targets();
    let mut peer = node.connect();
    let requests: String = (0..40)
        .map(|number| match number % 3 {
            0 => format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("PUT /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET "),
            _ => format!(
                "PUT /{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nGET\r\n0\r\n\r\n"
            ),
        })
        .collect();
    for part in requests.as_bytes().chunks(700) {
        peer.send(part);
    }
    for number in 0..40 {
        assert_eq!(peer.response().text(), format!("/{number}"));
    }
}

#[test]
fn close_is_honored_from_either_side() {
    let (_origin, node) = echo_targets();
    let mut peer = node.connect();
    let answer = peer
        .send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .response();
    assert_eq!(
        (answer.text().as_str(), answer.field("connection")),
        ("/a", Some("close"))
    );
    peer.expect_close();
    let closing = RawOrigin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    });
    let node = Steppe::in_front_of(closing.address());
    let mut peer = node.connect();
    for _ in 0..3 {
        assert_eq!(peer.send(GET).response().text(), "ok");
    }
    assert_eq!(closing.accepted(), 3);
}

#[test]
fn chunks_and_trailers_pass_both_ways() {
    let origin = RawOrigin::start(|peer| {
        while let Some(request) = peer.request() {
            let sum = request
                .trailers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case("x-sum"));
            let body = format!(
                "{} {}",
                request.text(),
                sum.map_or("none", |(_, value)| value)
            );
            let half = body.len() / 2;
            peer.send(format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-back\r\n\r\n\
                 {:x}\r\n{}\r\n{:X};last\r\n{}\r\n0\r\nX-Back: 9\r\n\r\n",
                half,
                &body[..half],
                body.len() - half,
                &body[half..]
            ));
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    for _ in 0..3 {
        peer.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-Sum\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 7\r\n\r\n",
        );
        let answer = peer.response();
        assert_eq!(answer.text(), "hello world 7");
        let trailers: Vec<String> = answer
            .trailers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(trailers.join(";").to_ascii_lowercase(), "x-back: 9");
    }
}

/// A chunk must not wait for the next one: either side may be waiting for the answer to it.
#[test]
fn chunks_pass_as_they_come() {
    let origin = RawOrigin::start(|peer| {
        let Some(head) = peer.head() else { return };
        assert_eq!(head.method(), "POST");
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        loop {
            let part = peer.some();
            let text = String::from_utf8_lossy(&part);
            if part.is_empty() || text.contains("0\r\n\r\n") {
                peer.send("0\r\n\r\n");
                return;
            }
            peer.send("4\r\npong\r\n");
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(peer.head().map(|head| head.status()), Some(200));
    for _ in 0..5 {
        peer.send("4\r\nping\r\n");
        let mut heard = Vec::new();
        while !heard.ends_with(b"pong\r\n") {
            let part = peer.some();
            assert!(!part.is_empty(), "closed after {heard:?}");
            heard.extend(part);
        }
    }
    peer.send("0\r\n\r\n");
}

#[test]
fn interim_responses_are_passed_on() {
    let origin = RawOrigin::start(|peer| {
        while peer.request().is_some() {
            peer.send(format!(
                "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n\
                 HTTP/1.1 103 Early Hints\r\nlink: </b.css>\r\n\r\n\
                 HTTP/1.1 102 Processing\r\n\r\n{OK}"
            ));
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    for _ in 0..2 {
        let answer = peer.send(GET).response();
        let codes: Vec<u16> = answer.interim.iter().map(|head| head.status()).collect();
        assert_eq!((codes, answer.text().as_str()), (vec![103, 103, 102], "ok"));
        assert_eq!(
            answer.interim[0].field("link"),
            Some("</a.css>; rel=preload")
        );
    }
    let old = node.exchange("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(
        old.interim.is_empty(),
        "HTTP/1.0 knows no interim response: {old:?}"
    );
}

#[test]
fn large_interim_responses_in_one_burst_stay_whole_and_in_order() {
    const COUNT: usize = 8;
    let burst = (0..COUNT).fold(String::new(), |burst, index| {
        let link = "x".repeat(14_000);
        format!("{burst}HTTP/1.1 103 Early Hints\r\nlink: {link}{index}\r\n\r\n")
    });
    let origin = RawOrigin::answering(burst + OK);
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    for _ in 0..2 {
        let answer = peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
        let links = answer.interim.iter().map(|head| head.field("link"));
        for (index, link) in links.enumerate() {
            let last = link.and_then(|link| link.chars().last());
            assert_eq!(last, char::from_digit(u32::try_from(index).unwrap(), 10));
        }
        assert_eq!(answer.interim.len(), COUNT);
        assert_eq!(answer.text(), "ok");
    }
}

#[test]
fn expect_continue_reaches_the_origin_and_its_answer_the_client() {
    let origin = RawOrigin::start(|peer| {
        while let Some(head) = peer.head() {
            assert_eq!(head.field("expect"), Some("100-continue"));
            if head.target() == "/no" {
                let no =
                    "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
                peer.send(no);
                return;
            }
            peer.send("HTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(peer.bytes(5), b"hello");
            peer.send(OK);
        }
    });
    let node = Steppe::in_front_of(origin.address());
    let request = |path: &str| {
        format!(
            "PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    let mut peer = node.connect();
    for _ in 0..2 {
        assert_eq!(
            peer.send(request("/yes")).head().map(|head| head.status()),
            Some(100)
        );
        let answer = peer.send("hello").response();
        assert_eq!((answer.text().as_str(), answer.interim.len()), ("ok", 0));
    }
    let refused = peer.send(request("/no")).response();
    assert_eq!((refused.status(), refused.interim.len()), (403, 0));
    assert!(!origin.received().contains("hellohello"));
}

#[test]
fn curl_uploads_with_expect_continue() {
    let nginx =
        Nginx::start("location / { root {root}; dav_methods PUT; create_full_put_path on; }");
    let node = Steppe::in_front_of(nginx.address());
    let scratch = Scratch::new("expect");
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let file = scratch.write("content", &content);
    let put = Curl::new(&node.url("/up"))
        .args(["-H", "Expect: 100-continue", "-T", &file.to_string_lossy()])
        .args(["--expect100-timeout", "60"])
        .run();
    assert_eq!((put.exit, put.head.status()), (0, 201), "{put:?}");
    let codes: Vec<u16> = put.heads.iter().map(|head| head.status()).collect();
    assert_eq!(codes, [100, 201]);
    let got = Curl::new(&node.url("/up")).run();
    assert_eq!(got.exit, 0);
    assert!(got.body == content, "{} bytes came back", got.body.len());
}

#[test]
fn responses_without_content_leave_the_connection_in_step() {
    let origin = RawOrigin::replying(|request| match (request.method(), request.target()) {
        ("HEAD", _) => b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\nx-a: b\r\n\r\n".to_vec(),
        (_, "/204") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        (_, "/304") => {
            b"HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\netag: \"a\"\r\n\r\n".to_vec()
        }
        (_, "/0") => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(),
        _ => OK.into(),
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    for _ in 0..2 {
        let head = peer
            .send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .response_to("HEAD");
        assert_eq!(
            (head.status(), head.field("content-length")),
            (200, Some("1000"))
        );
        let empty = peer.send("GET /204 HTTP/1.1\r\nHost: a\r\n\r\n").response();
        assert_eq!((empty.status(), empty.field("content-length")), (204, None));
        assert_eq!(empty.field("transfer-encoding"), None);
        let same = peer.send("GET /304 HTTP/1.1\r\nHost: a\r\n\r\n").response();
        assert_eq!((same.status(), same.field("etag")), (304, Some("\"a\"")));
        assert_eq!(
            peer.send("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n")
                .response()
                .text(),
            ""
        );
        assert_eq!(peer.send(GET).response().text(), "ok");
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn http_1_0_clients_get_no_chunks_and_a_close() {
    let origin = RawOrigin::answering(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n",
    );
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    let answer = peer.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n").response();
    assert_eq!(
        (answer.text().as_str(), answer.field("transfer-encoding")),
        ("hello", None)
    );
    peer.expect_close();
    let mut peer = node.connect();
    peer.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(peer.response().text(), "hello");
    peer.expect_close();
    assert!(
        origin.received().contains("GET / HTTP/1.1\r\n"),
        "{}",
        origin.received()
    );
}

#[test]
fn http_1_0_clients_may_keep_the_connection() {
    let (_origin, node) = echo_targets();
    let mut peer = node.connect();
    for _ in 0..3 {
        peer.send("GET /k HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        let answer = peer.response();
        assert_eq!(answer.text(), "/k");
        assert_eq!(
            answer
                .field("connection")
                .map(str::to_ascii_lowercase)
                .as_deref(),
            Some("keep-alive")
        );
    }
    assert_eq!(
        peer.send("GET /k HTTP/1.0\r\nHost: a\r\n\r\n")
            .response()
            .text(),
        "/k"
    );
    peer.expect_close();
}

#[test]
fn a_body_that_ends_by_close_is_told_apart_from_the_connection() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\nall of it");
    });
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(node.exchange(GET).text(), "all of it");
    assert_eq!(
        node.exchange("GET / HTTP/1.0\r\nHost: a\r\n\r\n").text(),
        "all of it"
    );
}

#[test]
fn hundred_megabytes_pass_each_way_unchanged_and_memory_stays_flat() {
    let _alone = heavy();
    let nginx = Nginx::start("location / { root {root}; dav_methods PUT; }");
    let config = NodeConfig::plain().listener(|l| l.set("limits.body_bytes", "200MiB"));
    let node = Steppe::builder()
        .with("origin", nginx.address())
        .start(&config);
    let scratch = Scratch::new("large");
    let noise: Vec<u8> = (0..1_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect();
    let content = noise.repeat(100);
    let file = scratch.write("content", &content);
    let meter = MemoryMeter::watch(node.id());
    for framing in ["Content-Type: a/b", "Transfer-Encoding: chunked"] {
        let put = Curl::new(&node.url("/large"))
            .args([
                "-H",
                framing,
                "-H",
                "Expect:",
                "-T",
                &file.to_string_lossy(),
            ])
            .run();
        assert!(
            [201, 204].contains(&put.head.status()),
            "{framing}: {put:?}"
        );
        let got = Curl::new(&node.url("/large")).run();
        assert_eq!(got.exit, 0, "{}", got.errors);
        assert!(
            got.body == content,
            "{framing}: {} bytes came back",
            got.body.len()
        );
    }
    let peak = meter.finish();
    println!("{peak:?}");
    assert!(peak.high_water_bytes < 64 << 20, "{peak:?}");
}

/// Content that the origin does not read stays with the client, and is not buffered in the node.
#[test]
fn a_slow_origin_stalls_the_client() {
    let is_over = Gate::new();
    let gate = is_over.clone();
    let origin = RawOrigin::start_narrow(Some(8 << 10), move |peer| {
        peer.head();
        gate.wait();
    });
    let config = NodeConfig::plain().listener(|l| l.set("limits.body_bytes", "200MiB"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let meter = MemoryMeter::watch(node.id());
    let mut peer = node.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n");
    let sent = peer.send_until_stall(&vec![b'x'; 100 << 20], Duration::from_secs(3));
    let peak = meter.finish();
    is_over.open();
    println!("{sent} bytes taken, {peak:?}");
    // Kernel buffers on the way hold about 4 + 32 MiB at most; the node must not take more than
    // that.
    assert!(sent < 72 << 20, "{sent} bytes were taken");
    assert!(peak.high_water_bytes < 48 << 20, "{peak:?}");
}

#[test]
fn a_slow_client_stalls_the_origin() {
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&sent);
    let origin = RawOrigin::start(move |peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n");
        let taken = peer.send_until_stall(&vec![b'x'; 100 << 20], Duration::from_secs(3));
        count.store(taken.max(1), std::sync::atomic::Ordering::Release);
        peer.drain();
    });
    let node = Steppe::in_front_of(origin.address());
    let meter = MemoryMeter::watch(node.id());
    let mut peer = node.connect_narrow(8 << 10);
    peer.send(GET);
    let taken = || sent.load(std::sync::atomic::Ordering::Acquire);
    origin.wait_until("the origin stalls", |_| taken() > 0);
    let peak = meter.finish();
    println!("{} bytes taken, {peak:?}", taken());
    assert!(taken() < 72 << 20, "{} bytes were taken", taken());
    assert!(peak.high_water_bytes < 48 << 20, "{peak:?}");
}

#[test]
fn a_websocket_passes_through() {
    let origin = websocket_echo();
    let node = Steppe::in_front_of(origin.address());
    let (mut socket, response) = websocket_connect(node.gateway(), "/chat");
    assert_eq!(response.status().as_u16(), 101);
    for size in [1, 100, 100_000, 3_000_000] {
        let message = "x".repeat(size);
        socket
            .send(message.clone().into())
            .expect("the tunnel is open");
        let back = socket.read().expect("an echo comes");
        assert!(back.into_text().is_ok_and(|text| text.as_str() == message));
    }
    socket.close(None).expect("a close can be sent");
    while socket.read().is_ok() {}
    drop(socket);
}

#[test]
fn bytes_behind_an_upgrade_go_into_the_tunnel_and_it_closes_by_halves() {
    let origin = RawOrigin::start(|peer| {
        let head = peer.head().unwrap_or_default();
        assert!(
            head.field("upgrade")
                .is_some_and(|upgrade| upgrade == "lines/1"),
            "{head:?}"
        );
        peer.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: lines/1\r\n\r\nhello\n");
        let all = peer.rest();
        // Only after the client's half has ended does this half speak again.
        peer.send([b"all of: ".as_slice(), &all].concat());
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send(
        "GET /lines HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: lines/1\r\n\r\nearly ",
    );
    let head = peer.head().unwrap_or_default();
    assert_eq!(
        (head.status(), head.field("upgrade")),
        (101, Some("lines/1"))
    );
    assert_eq!(peer.bytes(6), b"hello\n");
    peer.send("late").finish();
    assert_eq!(String::from_utf8_lossy(&peer.rest()), "all of: early late");
}

#[test]
fn a_tunnel_closes_by_halves_the_other_way_too() {
    let origin = RawOrigin::start(|peer| {
        peer.head();
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nbye",
        );
        peer.finish();
        assert_eq!(peer.rest(), b"still here");
    });
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(peer.head().map(|head| head.status()), Some(101));
    assert_eq!(peer.rest(), b"bye");
    peer.send("still here").finish();
    origin.wait_until("the tunnel ends", |origin| origin.closed() == [true]);
    assert!(
        origin.received().ends_with("still here"),
        "{}",
        origin.received()
    );
}
