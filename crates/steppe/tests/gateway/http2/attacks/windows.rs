//! Peers that open no window, read nothing, or send nothing: the memory for them is freed.

use std::sync::{Arc, Mutex};

use steppe_testkit::{Peer, heavy};

use super::*;

/// RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u16 = 4;

const STREAMS: usize = 100;

/// Sends all requests at once, on a connection whose streams begin with this window.
fn requests(peer: Peer, window: u32) -> H2Peer {
    let mut peer = H2Peer::begin(peer, &[(INITIAL_WINDOW_SIZE, window)]);
    let fields = FieldSection::of("GET", "/large");
    let frames: Vec<_> = (0..STREAMS)
        .map(|_| H2Frame::request(peer.stream(), &fields))
        .collect();
    peer.send(&frames);
    peer
}

/// A server whose responses together exceed the memory budget.
fn large() -> RawOrigin {
    let mut response = b"HTTP/1.1 200 OK\r\ncontent-length: 4000000\r\n\r\n".to_vec();
    response.resize(response.len() + 4_000_000, b'x');
    RawOrigin::replying(move |request| {
        if request.start.contains("/good") {
            OK.into()
        } else {
            response.clone()
        }
    })
}

fn open_connections(node: &Steppe) -> f64 {
    node.metrics().sum("steppe_http_connections", &[])
}

/// CVE-2019-9517 and CVE-2019-9511: 1.2 GB are requested, and no byte of it is read.
#[test]
fn windows_that_never_open() {
    const CONNECTIONS: usize = 3;
    let _alone = heavy();
    let origin = large();
    let node = node_with(&origin, |l| l.set("timeouts.write_stall", "1s"));
    let memory = Memory::of(&node);
    let begin = |_| requests(Peer::connect(node.gateway()), 0);
    let mut peers: Vec<_> = (0..CONNECTIONS).map(begin).collect();
    let (mut cut, mut refused) = (0, 0);
    for peer in &mut peers {
        for index in 0..STREAMS {
            let id = u32::try_from(2 * index + 1).expect("small");
            let answer = peer.answer(id);
            assert!(answer.is_over(), "{id}: {answer:?}, {:?}", peer.goaway());
            match (answer.status, answer.reset) {
                (Some(200), Some(_)) => cut += 1,
                // There was no memory for the response, and no window for the content of an error
                // response.
                (_, Some(_)) | (Some(503), None) => refused += 1,
                _ => panic!("{id}: {answer:?}"),
            }
            assert_eq!(answer.content, b"", "{id}");
        }
        // The connection goes on.
        assert_eq!(peer.goaway(), None);
    }
    println!("{cut} cut, {refused} refused");
    assert!(cut > 0);
    let stalled = closed(&node, "write_stall");
    assert!(stalled >= f64::from(cut), "{stalled} counted, {cut} cut");
    origin.wait_until("the server is let go", |origin| {
        origin.closed().iter().all(|closed| *closed)
    });
    expect_served(&node);
    memory.expect_grown_less(BUDGET);
}

/// Windows are wide open, and the socket is never read.
#[test]
fn a_socket_that_is_never_read() {
    let _alone = heavy();
    let origin = large();
    let node = node_with(&origin, |l| l.set("timeouts.write_stall", "1s"));
    let memory = Memory::of(&node);
    let narrow = Peer::connect_narrow(node.gateway(), 4096);
    let mut peer = requests(narrow, 0x7fff_ffff);
    peer.send(&[H2Frame::window(0, 0x7fff_0000)]);
    eventually("it is answered", || open_connections(&node) == 1.0);
    eventually("the connection is closed", || {
        open_connections(&node) == 0.0
    });
    assert!(closed(&node, "write_stall") >= 1.0);
    origin.wait_until("the server is let go", |origin| {
        origin.closed().iter().all(|closed| *closed)
    });
    expect_served(&node);
    memory.expect_grown_less(BUDGET);
}

/// Windows that open by a byte at a time make progress, so such a response goes on; but it holds
/// no more than any other.
#[test]
fn a_byte_at_a_time() {
    let origin = large();
    let node = node(&origin);
    let memory = Memory::of(&node);
    let mut peer = requests(Peer::connect(node.gateway()), 0);
    for round in 1..50 {
        let ids = (0..STREAMS).map(|index| u32::try_from(2 * index + 1).expect("small"));
        let windows: Vec<_> = ids.clone().map(|id| H2Frame::window(id, 1)).collect();
        peer.send(&windows);
        for id in ids {
            while peer.so_far(id).content.len() < round && !peer.so_far(id).is_over() {
                assert!(peer.frame().is_some(), "{:?}", peer.goaway());
            }
            let answer = peer.so_far(id);
            assert_eq!((answer.content.len(), answer.reset), (round, None), "{id}");
        }
    }
    expect_served(&node);
    memory.expect_grown_less(BUDGET);
}

/// Requests whose content never comes.
#[test]
fn content_that_never_comes() {
    let origin = RawOrigin::start(|peer| {
        while let Some(head) = peer.head() {
            match head.method() {
                "GET" => _ = peer.send(OK),
                _ => return peer.drain(),
            }
        }
    });
    let node = node_with(&origin, |l| l.set("timeouts.idle", "1s"));
    let memory = Memory::of(&node);
    let mut peer = connect(&node);
    let fields = FieldSection::of("POST", "/bad");
    let ids: Vec<u32> = (0..STREAMS).map(|_| peer.stream()).collect();
    let frames: Vec<_> = ids
        .iter()
        .map(|id| H2Frame::opening(*id, &fields))
        .collect();
    peer.send(&frames);
    for id in ids {
        let answer = peer.answer(id);
        assert_eq!(answer.status, Some(408), "{id}: {answer:?}");
    }
    assert_eq!(closed(&node, "body_timeout"), STREAMS as f64);
    origin.wait_until("the server is let go", |origin| {
        origin.closed().iter().all(|closed| *closed)
    });
    // The server was told of no request that it was complete.
    assert!(!origin.received().contains("0\r\n\r\n"));
    memory.expect_grown_less(8 * MIB);
    expect_served(&node);
}

/// Content fills every window that the node grants, and its server reads none of it.
#[test]
fn windows_of_the_node_that_are_filled() {
    const CONNECTIONS: usize = 300;
    const PIECE_BYTES: usize = 4 << 10;
    let _alone = heavy();
    let stalled = Arc::new(Mutex::new(()));
    let until_the_end = stalled.lock().expect("it is new");
    let shared = Arc::clone(&stalled);
    let origin = RawOrigin::start_narrow(Some(4096), move |peer| match peer.head() {
        Some(head) if head.method() == "GET" => _ = peer.send(OK),
        _ => drop(shared.lock()),
    });
    // One address stands for many clients.
    let config = NodeConfig::plain().listener(|l| l.protocols(["h2c"]).set("timeouts.idle", "5s"));
    let node = start(&origin, &config.set("node.client_share", "off"));
    let memory = Memory::of(&node);
    let mut peers: Vec<_> = (0..CONNECTIONS).map(|_| connect(&node)).collect();
    let mut sent = 0;
    for peer in &mut peers {
        let streams: Vec<_> = (0..4).map(|_| peer.stream()).collect();
        for &id in &streams {
            peer.send(&[H2Frame::opening(id, &FieldSection::of("POST", "/bad"))]);
        }
        // While there is memory, the window of the connection grows to the sum of its streams'
        // windows.
        peer.send(&[H2Frame::new(H2Frame::PING, 0, 0, [0; 8])]);
        while peer
            .await_frame(H2Frame::PING)
            .is_some_and(|frame| !frame.has(H2Frame::ACK))
        {}
        let bytes = |granted: u64| usize::try_from(granted).expect("small") / PIECE_BYTES;
        let mut pieces = bytes(peer.granted(0));
        for &id in &streams {
            for _ in 0..pieces.min(bytes(peer.granted(id))) {
                peer.send(&[H2Frame::data(id, [0; PIECE_BYTES])]);
                pieces -= 1;
                sent += PIECE_BYTES;
            }
        }
    }
    let taken = [("direction", "read")];
    eventually("the node has read much of it", || {
        let metrics = node.metrics();
        metrics.sum("steppe_http_downstream_bytes_total", &taken) >= sent as f64 / 2.0
    });
    println!("{sent} bytes sent");
    memory.expect_grown_less(BUDGET);
    drop((peers, until_the_end));
}

/// The windows of a connection's streams stay charged to the account where they began, whatever
/// configuration its listener has since.
#[test]
fn a_reload_between_uploads_harms_none() {
    let origin = RawOrigin::replying(|_| OK.into());
    let node = node(&origin);
    let mut peer = connect(&node);
    // A stream that has a whole window, and does not end.
    let endless = FieldSection::of("POST", "/endless");
    let opened = peer.stream();
    peer.send(&[
        H2Frame::opening(opened, &endless),
        H2Frame::data(opened, "a"),
    ]);
    for round in 0..4_usize {
        let content = vec![b'x'; 10 + 7 * round];
        let length = content.len().to_string();
        let upload = FieldSection::of("POST", "/good").field("content-length", length);
        let stream = peer.stream();
        peer.send(&[
            H2Frame::opening(stream, &upload),
            H2Frame::last_data(stream, content),
        ]);
        let answer = peer.answer(stream);
        assert_eq!((answer.status, answer.reset), (Some(200), None), "{round}");
        node.set_config(format!("{}\n# {round}\n", node.config()));
        assert_eq!(node.admin_post("/reload").status(), 200);
    }
    peer.send(&[H2Frame::reset(opened)]);
    assert!(node.said().lines().all(|line| !line.contains("panicked")));
}

/// Content above `limits.body_bytes` is refused, and its bytes are given back to the window of the
/// connection.
#[test]
fn content_that_is_refused_gives_the_window_of_the_connection_back() {
    let origin = RawOrigin::answering(OK);
    let node = node_with(&origin, |l| l.set("limits.body_bytes", "10KiB"));
    let mut peer = connect(&node);
    for round in 0..12 {
        let stream = peer.stream();
        let fields = FieldSection::of("POST", "/bad");
        let content = H2Frame::data(stream, vec![b'x'; 16_000]);
        peer.send(&[H2Frame::opening(stream, &fields), content]);
        let answer = peer.answer(stream);
        assert_eq!((answer.status, peer.goaway()), (Some(413), None), "{round}");
    }
    assert_eq!(peer.get("/good").status, Some(200));
}
