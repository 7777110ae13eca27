//! Field sections that are larger than their encoding, and the limits of heads.

use super::*;

/// RFC 7541 §4.2: the size of the dynamic table by default, in bytes.
const TABLE_BYTES: usize = 4096;
/// RFC 7541 §4.1.
const ENTRY_OVERHEAD: usize = 32;

/// A field with a value of `value_bytes` that is in the dynamic table once, and in the field
/// section `count` times more.
fn bomb(value_bytes: usize, count: usize) -> FieldSection {
    let begin = FieldSection::of("GET", "/bad").kept("x", vec![b'a'; value_bytes]);
    begin.indexed(62, count)
}

/// CVE-2016-6581: one byte of the field section stands for 4 KiB.
#[test]
fn a_bomb_of_one_field() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let value_bytes = TABLE_BYTES - ENTRY_OVERHEAD - 1;
    // 16 KiB, 60 KiB and 40 MiB; the last in 10,000 bytes.
    for count in [4, 15, 10_000] {
        let memory = Memory::of(&node);
        let mut peer = connect(&node);
        let answer = peer.exchange(&bomb(value_bytes, count));
        let goaway = peer.goaway();
        println!("{count}: {answer:?}, {goaway:?}");
        let is_refused = answer.status == Some(431) || goaway == Some(ENHANCE_YOUR_CALM);
        assert!(is_refused, "{count}: {answer:?}, {goaway:?}");
        memory.expect_grown_less(4 * MIB);
        expect_served(&node);
    }
    assert!(!origin.received().contains("/bad"));
}

/// The same on many streams at once, each just below the size that ends the connection.
#[test]
fn a_bomb_on_each_stream() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let memory = Memory::of(&node);
    let mut peers: Vec<H2Peer> = (0..20).map(|_| connect(&node)).collect();
    let first = bomb(TABLE_BYTES - ENTRY_OVERHEAD - 1, 15);
    let further = FieldSection::of("GET", "/bad").indexed(62, 15);
    for peer in &mut peers {
        let begin = H2Frame::request(peer.stream(), &first);
        let more = (1..100).map(|_| H2Frame::request(peer.stream(), &further));
        let frames: Vec<_> = std::iter::once(begin).chain(more).collect();
        peer.send(&frames);
    }
    for peer in &mut peers {
        for index in 0..100 {
            let answer = peer.answer(2 * index + 1);
            let is_refused = answer.status == Some(431) || answer.reset.is_some();
            let is_ended = peer.goaway() == Some(ENHANCE_YOUR_CALM);
            assert!(is_refused || is_ended, "{index}: {answer:?}");
        }
    }
    memory.expect_grown_less(16 * MIB);
    assert!(!origin.received().contains("/bad"));
    expect_served(&node);
}

/// An empty field is a byte of the field section, and a field line in memory.
#[test]
fn a_bomb_of_empty_fields() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let memory = Memory::of(&node);
    let mut peer = connect(&node);
    let fields = FieldSection::of("GET", "/bad")
        .kept("x", "")
        .indexed(62, 16_000);
    let answer = peer.exchange(&fields);
    let goaway = peer.goaway();
    assert!(
        answer.status == Some(431) || goaway == Some(ENHANCE_YOUR_CALM),
        "{answer:?}, {goaway:?}"
    );
    memory.expect_grown_less(4 * MIB);
    assert!(!origin.received().contains("/bad"));
    expect_served(&node);
}

/// A peer cannot make the table larger than the node allows.
#[test]
fn a_table_that_is_made_larger() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut peer = connect(&node);
    // RFC 7541 §6.3: an update of the size to 1 MiB.
    let update = [0x3f, 0xe1, 0xff, 0x3f];
    let stream = peer.stream();
    let flags = H2Frame::END_HEADERS | H2Frame::END_STREAM;
    let section = [&update, FieldSection::of("GET", "/bad").bytes()].concat();
    peer.send(&[H2Frame::new(H2Frame::HEADERS, flags, stream, section)]);
    let end = peer.end();
    assert!(
        matches!(end, Some(PROTOCOL_ERROR | COMPRESSION_ERROR)),
        "{end:?}"
    );
    assert!(!origin.received().contains("/bad"));
    expect_served(&node);
}

/// The status of a request whose head has `count` fields and `bytes` bytes, as limits of HTTP/1.1
/// count them.
fn status(node: &Steppe, count: usize, bytes: usize) -> Option<u16> {
    // The method and the path; a colon, a space and a line end for each field.
    let value_bytes = bytes - "GET".len() - "/".len() - count * ("x".len() + 4);
    let begin = FieldSection::of("GET", "/").field("x", vec![b'a'; value_bytes]);
    let fields = (1..count).fold(begin, |fields, _| fields.field("x", ""));
    let mut peer = connect(node);
    let answer = peer.exchange(&fields);
    // The error ends the stream and not the connection.
    assert_eq!(
        peer.get("/").status,
        Some(200),
        "{count} fields, {bytes} bytes"
    );
    answer.status
}

#[test]
fn limits_of_heads_are_exact() {
    let origin = RawOrigin::answering(OK);
    let node = node_with(&origin, |l| {
        l.set("limits.header_bytes", "8KiB")
            .set("limits.header_count", 50)
    });
    for (count, bytes, expected) in [
        (1, 8192, 200),
        (1, 8193, 431),
        (50, 8192, 200),
        (50, 8193, 431),
        (50, 1000, 200),
        (51, 1000, 431),
        // Refused by the `h2` crate before the gateway sees the request.
        (1, 12_000, 431),
        (1, 30_000 - 16_000, 431),
        (200, 4000, 431),
    ] {
        let status = status(&node, count, bytes);
        assert_eq!(status, Some(expected), "{count} fields, {bytes} bytes");
    }
}
