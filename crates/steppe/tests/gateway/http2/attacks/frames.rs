//! Frames that no valid client sends, and a client that sends many valid ones.

use std::sync::{Arc, Mutex, mpsc};

use steppe_testkit::{BodyDecoder, PATIENCE, Peer};

use super::*;

/// RFC 9113 §7.
const FRAME_SIZE_ERROR: u32 = 0x6;
const REFUSED_STREAM: u32 = 0x7;

/// RFC 9113 §3.2 has no `Upgrade` any more: such a request is served as HTTP/1.1.
#[test]
fn an_upgrade_is_not_one() {
    let origin = RawOrigin::answering(OK);
    let node = start(&origin, &NodeConfig::plain().protocols(["h1", "h2c"]));
    for connection in ["Upgrade, HTTP2-Settings", "upgrade"] {
        origin.forget();
        let mut peer = Peer::connect(node.gateway());
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\nUpgrade: h2c\r\n\
             HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
        );
        let answer = peer.send(&request).response();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
        assert!(answer.interim.is_empty());
        let received = origin.received().to_ascii_lowercase();
        assert!(!received.contains("upgrade"), "{connection}: {received}");
        assert!(!received.contains("h2c"), "{connection}: {received}");
        assert!(
            !received.contains("http2-settings"),
            "{connection}: {received}"
        );
        // The next bytes are another request, even if the client expected HTTP/2.
        let answer = peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
        assert_eq!(answer.status(), 200);
    }
    expect_served(&node);
}

#[test]
fn more_streams_than_allowed() {
    const ALLOWED: usize = 4;
    let origin = RawOrigin::start(|peer| while peer.request().is_some() {});
    let node = node_with(&origin, |l| l.set("limits.streams", ALLOWED));
    let mut peer = connect(&node);
    let fields = FieldSection::of("GET", "/bad");
    let ids: Vec<u32> = (0..10).map(|_| peer.stream()).collect();
    let frames: Vec<_> = ids
        .iter()
        .map(|id| H2Frame::request(*id, &fields))
        .collect();
    peer.send(&frames);
    for id in &ids[ALLOWED..] {
        assert_eq!(peer.answer(*id).reset, Some(REFUSED_STREAM), "{id}");
    }
    origin.wait_until("it has the others", |origin| {
        origin.received().matches("GET /bad ").count() == ALLOWED
    });
    assert_eq!(peer.goaway(), None);
}

#[test]
fn prefaces_that_are_none() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for bytes in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX",
        "PRI * HTTP/2.0\r\nHost: a\r\n\r\n",
        "PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n",
        "\0\0\0\x04\0\0\0\0\0",
    ] {
        let mut peer = Peer::connect(node.gateway());
        let _ = peer.try_send(bytes.as_bytes());
        peer.end();
        assert_eq!(origin.received(), "", "{bytes:?}");
    }
    expect_served(&node);
}

/// Frames that are invalid on a connection without open streams, and the error that ends it.
#[test]
fn frames_out_of_place() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let get = FieldSection::of("GET", "/bad");
    let frame = |kind, flags, stream, payload: &[u8]| H2Frame::new(kind, flags, stream, payload);
    let large = [0; 16_385];
    let rows = [
        ("DATA on no stream", H2Frame::data(0, "x"), PROTOCOL_ERROR),
        (
            "DATA on an idle stream",
            H2Frame::data(1, "x"),
            PROTOCOL_ERROR,
        ),
        (
            "HEADERS on no stream",
            H2Frame::request(0, &get),
            PROTOCOL_ERROR,
        ),
        (
            "HEADERS on a stream of the server",
            H2Frame::request(2, &get),
            PROTOCOL_ERROR,
        ),
        (
            "RST_STREAM on an idle stream",
            H2Frame::reset(1),
            PROTOCOL_ERROR,
        ),
        ("RST_STREAM on no stream", H2Frame::reset(0), PROTOCOL_ERROR),
        (
            "WINDOW_UPDATE on an idle stream",
            H2Frame::window(1, 1),
            PROTOCOL_ERROR,
        ),
        (
            "a CONTINUATION alone",
            frame(H2Frame::CONTINUATION, 4, 1, get.bytes()),
            PROTOCOL_ERROR,
        ),
        (
            "SETTINGS on a stream",
            frame(H2Frame::SETTINGS, 0, 1, &[]),
            PROTOCOL_ERROR,
        ),
        (
            "PING on a stream",
            frame(H2Frame::PING, 0, 1, &[0; 8]),
            PROTOCOL_ERROR,
        ),
        (
            "PUSH_PROMISE",
            frame(5, 4, 1, &[&[0, 0, 0, 2], get.bytes()].concat()),
            PROTOCOL_ERROR,
        ),
        (
            "too large a frame",
            H2Frame::data(1, large),
            FRAME_SIZE_ERROR,
        ),
        (
            "too large a frame of fields",
            frame(H2Frame::HEADERS, 5, 1, &large),
            FRAME_SIZE_ERROR,
        ),
        (
            "too short a PING",
            frame(H2Frame::PING, 0, 0, &[0; 7]),
            FRAME_SIZE_ERROR,
        ),
        (
            "too short a WINDOW_UPDATE",
            frame(H2Frame::WINDOW_UPDATE, 0, 0, &[0; 3]),
            FRAME_SIZE_ERROR,
        ),
        (
            "settings of no pairs",
            frame(H2Frame::SETTINGS, 0, 0, &[0; 5]),
            FRAME_SIZE_ERROR,
        ),
        (
            "padding beyond the end",
            frame(H2Frame::HEADERS, 0xd, 1, &[200, 0x82]),
            PROTOCOL_ERROR,
        ),
    ];
    let mut wrong = Vec::new();
    for (what, frame, expected) in rows {
        let mut peer = connect(&node);
        let _ = peer.socket().try_send(&frame.bytes());
        let end = peer.end();
        if end != Some(expected) {
            wrong.push(format!("{what}: {end:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(origin.received(), "");
    expect_served(&node);
}

/// Content in frames of 20 bytes is no flood. The client waits for the server, so that at most
/// `AT_ONCE` frames are under way.
#[test]
fn a_hundred_thousand_small_frames_are_served() {
    const FRAMES: usize = 100_000;
    const AT_ONCE: usize = 500;
    let content = Arc::<Mutex<Vec<u8>>>::default();
    let kept = Arc::clone(&content);
    let (taken, came) = mpsc::sync_channel(1024);
    let origin = RawOrigin::start(move |peer| {
        let head = peer.head().expect("a request");
        let mut decoder = BodyDecoder::new(head.request_framing());
        while head.method() == "POST" && !decoder.is_done() {
            let bytes = peer.some();
            let mut kept = kept.lock().expect("nobody panics");
            decoder.feed(&bytes, &mut |part| kept.extend_from_slice(part));
            let _ = taken.send(kept.len());
        }
        peer.send(OK);
    });
    let node = node(&origin);
    let memory = Memory::of(&node);
    let mut peer = connect(&node);
    let stream = peer.stream();
    peer.send(&[H2Frame::opening(stream, &FieldSection::of("POST", "/"))]);
    let piece = |index: usize| format!("{index:020}").into_bytes();
    for begin in (0..FRAMES).step_by(AT_ONCE) {
        let end = begin + AT_ONCE;
        while peer.granted(stream) < 20 * end as u64 {
            assert!(peer.frame().is_some(), "{:?}", peer.goaway());
        }
        let frames: Vec<_> = (begin..end)
            .map(|index| H2Frame::data(stream, piece(index)))
            .collect();
        peer.send(&frames);
        while came.recv_timeout(PATIENCE).expect("it comes") < 20 * end {}
    }
    peer.send(&[H2Frame::last_data(stream, "")]);
    let answer = peer.answer(stream);
    assert_eq!(answer.status, Some(200), "{answer:?}, {:?}", peer.goaway());
    let expected: Vec<u8> = (0..FRAMES).flat_map(piece).collect();
    assert!(*content.lock().expect("nobody panics") == expected);
    memory.expect_grown_less(16 * MIB);
    expect_served(&node);
}

/// RFC 9113 §6.8: the last GOAWAY names the last stream, also to a client that acknowledges no PING.
#[test]
fn an_idle_connection_ends_with_the_last_stream() {
    const ANY_STREAM: u32 = 0x7fff_ffff;
    let origin = RawOrigin::answering(OK);
    let node = node_with(&origin, |l| l.set("timeouts.idle", "1s"));
    let mut peer = connect(&node);
    assert_eq!(peer.get("/").status, Some(200));
    let mut last_streams = Vec::new();
    while let Some(frame) = peer.await_frame(H2Frame::GOAWAY) {
        let last = frame.payload.first_chunk().expect("RFC 9113 §6.8");
        last_streams.push(u32::from_be_bytes(*last));
    }
    assert_eq!(last_streams, [ANY_STREAM, 1]);
}
