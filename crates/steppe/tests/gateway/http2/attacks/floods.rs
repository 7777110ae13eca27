//! Frames without end: each is cheap to send, and costs the node work or memory.

use std::time::Duration;

use super::*;

/// The time after which a write that makes no progress ends a flood: no test depends on it.
const QUIET: Duration = Duration::from_secs(2);

/// Sends a flood on a connection that begins with `opening`, and asserts that the node ends the
/// connection with ENHANCE_YOUR_CALM, counts that, keeps no memory for it, and serves others.
/// Returns the number of bytes that were taken.
#[track_caller]
fn expect_calmed(node: &Steppe, opening: &[H2Frame], flood: &[u8]) -> usize {
    let memory = Memory::of(node);
    let before = closed(node, "flood");
    let mut peer = connect(node);
    peer.send(opening);
    let sent = peer.flood(flood, QUIET);
    assert_eq!(peer.end(), Some(ENHANCE_YOUR_CALM));
    eventually("it is counted", || closed(node, "flood") == before + 1.0);
    memory.expect_grown_less(8 * MIB);
    expect_served(node);
    sent
}

fn bytes(frames: impl IntoIterator<Item = H2Frame>) -> Vec<u8> {
    let bytes = frames.into_iter().map(|frame| frame.bytes());
    bytes.collect::<Vec<_>>().concat()
}

/// The number of requests that have reached the origin.
fn requests(origin: &RawOrigin) -> usize {
    origin.received().matches("GET /bad ").count()
}

fn bad() -> FieldSection {
    FieldSection::of("GET", "/bad")
}

/// CVE-2023-44487: a stream that is reset at once does not count as open.
#[test]
fn rapid_reset() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let streams = (0..1000).map(|index| 2 * index + 1);
    let pairs = streams.flat_map(|id| [H2Frame::request(id, &bad()), H2Frame::reset(id)]);
    expect_calmed(&node, &[], &bytes(pairs));
    assert!(requests(&origin) <= 220, "{} requests", requests(&origin));
}

/// The same with one pair of frames at a time: each is acknowledged before the next is sent.
#[test]
fn patient_reset() {
    let origin = RawOrigin::start(|peer| while peer.request().is_some() {});
    let node = node(&origin);
    let memory = Memory::of(&node);
    let mut peer = connect(&node);
    let mut sent = 0;
    let ping = H2Frame::new(H2Frame::PING, 0, 0, [7; 8]);
    while peer.goaway().is_none() && sent < 1000 {
        let id = peer.stream();
        let pair = [
            H2Frame::request(id, &bad()),
            H2Frame::reset(id),
            ping.clone(),
        ];
        peer.send(&pair);
        peer.await_frame(H2Frame::PING);
        sent += 1;
    }
    assert_eq!(peer.end(), Some(ENHANCE_YOUR_CALM));
    // A burst of 200 and 20 a second after it, which adds few on any machine.
    assert!((200..900).contains(&sent), "{sent} streams");
    assert!(requests(&origin) <= sent, "{} requests", requests(&origin));
    eventually("it is counted", || closed(&node, "flood") == 1.0);
    memory.expect_grown_less(8 * MIB);
}

/// CVE-2025-8671: frames that make the node reset streams whose requests it has forwarded.
#[test]
fn made_you_reset() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let bad = bad();
    let post = FieldSection::of("GET", "/bad").field("content-length", "2");
    // A stream that depends on itself: an error that only shows when the payload is parsed.
    let own = |id: u32| {
        H2Frame::new(
            H2Frame::PRIORITY,
            0,
            id,
            [&id.to_be_bytes()[..], &[0]].concat(),
        )
    };
    type Pair<'a> = Box<dyn Fn(u32) -> [H2Frame; 2] + 'a>;
    let rows: [(&str, Pair<'_>); 5] = [
        (
            "a window of 0",
            Box::new(|id| [H2Frame::request(id, &bad), H2Frame::window(id, 0)]),
        ),
        (
            "a window too large",
            Box::new(|id| [H2Frame::request(id, &bad), H2Frame::window(id, 0x7fff_ffff)]),
        ),
        (
            "itself for a parent",
            Box::new(|id| [H2Frame::request(id, &bad), own(id)]),
        ),
        (
            "content after the end",
            Box::new(|id| [H2Frame::request(id, &bad), H2Frame::data(id, "x")]),
        ),
        (
            "too much content",
            Box::new(|id| [H2Frame::opening(id, &post), H2Frame::data(id, "xyz")]),
        ),
    ];
    for (what, pair) in rows {
        origin.forget();
        let memory = Memory::of(&node);
        let before = closed(&node, "flood");
        let mut peer = connect(&node);
        peer.flood(
            &bytes((0..1000).flat_map(|index| pair(2 * index + 1))),
            QUIET,
        );
        let end = peer.end();
        let requests = requests(&origin);
        println!("{what}: {end:?}, {requests} requests");
        match end {
            // The first of them ends the connection.
            Some(PROTOCOL_ERROR | STREAM_CLOSED) => {}
            Some(ENHANCE_YOUR_CALM) => {
                eventually("it is counted", || closed(&node, "flood") == before + 1.0)
            }
            other => panic!("{what}: {other:?}"),
        }
        assert!(requests <= 220, "{what}: {requests} requests");
        memory.expect_grown_less(8 * MIB);
        expect_served(&node);
    }
}

/// VU#421644: a field section that never ends.
#[test]
fn continuations_without_end() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let fields = bad();
    let begun = H2Frame::new(H2Frame::HEADERS, H2Frame::END_STREAM, 1, fields.bytes());
    let more = FieldSection::default().field("x-more", vec![b'a'; 16_000]);
    let more = H2Frame::new(H2Frame::CONTINUATION, 0, 1, more.bytes());
    let small = H2Frame::new(H2Frame::CONTINUATION, 0, 1, []);
    for (what, more, count) in [("large", more, 4000), ("empty", small, 1_000_000)] {
        let memory = Memory::of(&node);
        let mut peer = connect(&node);
        peer.send(std::slice::from_ref(&begun));
        let sent = peer.flood(&more.bytes().repeat(count), QUIET);
        let end = peer.end();
        println!("{what}: {sent} bytes taken, {end:?}");
        assert_eq!(end, Some(ENHANCE_YOUR_CALM), "{what}");
        // The node reads little of it; the rest is in kernel buffers at both ends.
        assert!(sent < 16 << 20, "{what}: {sent} bytes");
        memory.expect_grown_less(8 * MIB);
        expect_served(&node);
    }
    assert_eq!(requests(&origin), 0);
}

/// CVE-2019-9512: each PING is answered, and the answers are never read.
#[test]
fn pings_whose_answers_nobody_reads() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let ping = H2Frame::new(H2Frame::PING, 0, 0, [7; 8]);
    expect_calmed(&node, &[], &ping.bytes().repeat(10_000));
}

/// CVE-2019-9515.
#[test]
fn settings_whose_acknowledgements_nobody_reads() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for settings in [&[][..], &[(4, 1000)]] {
        let flood = H2Frame::settings(settings).bytes().repeat(10_000);
        expect_calmed(&node, &[], &flood);
    }
}

/// CVE-2019-9513: each frame moves a stream in the tree of priorities.
#[test]
fn priorities_of_streams_that_never_come() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let priority = |index: u32| {
        let payload = [&(index.wrapping_mul(7) | 1).to_be_bytes()[..], &[16]].concat();
        H2Frame::new(H2Frame::PRIORITY, 0, 2 * index + 1, payload)
    };
    expect_calmed(&node, &[], &bytes((1..10_000).map(priority)));
}

/// CVE-2019-9518: empty frames end no stream, and no window bounds them.
#[test]
fn data_without_content() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let post = H2Frame::opening(1, &FieldSection::of("POST", "/bad"));
    let empty = H2Frame::data(1, []).bytes().repeat(10_000);
    expect_calmed(&node, &[post], &empty);
}

/// RFC 9113 §5.5: frames of unknown types are ignored, but not without end.
#[test]
fn frames_that_nobody_knows() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let unknown = H2Frame::new(0xee, 0xff, 0, [7; 8]);
    let mut peer = connect(&node);
    peer.send(&vec![unknown.clone(); 100]);
    assert_eq!(peer.get("/").status, Some(200));
    expect_calmed(&node, &[], &unknown.bytes().repeat(10_000));
}
