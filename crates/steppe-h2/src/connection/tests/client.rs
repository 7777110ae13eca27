//! The client: what it opens, and what SETTINGS and GOAWAY of a server change.

use super::*;
use crate::frame::FrameHeader;

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let octets: Vec<_> = values
        .iter()
        .flat_map(|&(id, value)| setting(id, value))
        .collect();
    frame(FrameType::Settings, 0, 0, &octets)
}

/// The payload of the last frame of HEADERS that was written.
fn last_block(peer: &mut Peer) -> Vec<u8> {
    peer.log();
    let mut rest = &peer.written[..];
    let mut last = Vec::new();
    while let Some((octets, behind)) = rest.split_first_chunk() {
        let header = FrameHeader::read(*octets);
        let (payload, behind) = behind.split_at(header.length as usize);
        if header.frame_type == FrameType::Headers {
            last = payload.to_vec();
        }
        rest = behind;
    }
    last
}

/// A block that was told of a larger table before its SETTINGS are acknowledged could not be decoded.
#[test]
fn a_change_of_the_table_follows_the_acknowledgment() {
    let mut peer = Peer::client();
    peer.receive(&settings(&[(1, 0)]));
    peer.ask("GET", EndStream::Yes);
    peer.log();
    let octets = settings(&[(1, 4096), (3, 100)]);
    // The first setting has come, and the frame is not over.
    peer.receive(&octets[..15]);
    peer.ask("GET", EndStream::Yes);
    assert_eq!(last_block(&mut peer)[0], 0x82, ":method GET");
    peer.receive(&octets[15..]);
    peer.ask("GET", EndStream::Yes);
    assert_eq!(last_block(&mut peer)[0], 0x3f, "an update");
}

/// RFC 9113 §3.4: anything but SETTINGS at first is an invalid preface, whatever it is.
#[test]
fn the_first_frame_of_a_server_is_settings() {
    for first in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &headers(1, END, b"\x88"),
        &frame(FrameType::Settings, flag::ACK, 0, &[]),
        &frame(FrameType::Ping, 0, 0, &[0; 8]),
        &frame(FrameType::Goaway, 0, 0, &[0; 8]),
        &frame(FrameType::Unknown(0xee), 0, 0, &[]),
        &PREFACE[..],
    ] {
        let mut peer = Peer::new(Role::Client);
        peer.log();
        peer.receive(first);
        let error = peer.connection.error().expect("it is no preface");
        let expected = (ErrorCode::PROTOCOL_ERROR, "the first frame is not SETTINGS");
        assert_eq!((error.code, error.reason), expected, "{first:?}");
    }
}

/// The client resets a stream while something of it is in part: its rest is dropped, and no second RST_STREAM follows.
#[test]
fn what_was_begun_before_our_reset_is_not_reported() {
    let data = |flags, payload: &[u8]| frame(FrameType::Data, flags, 1, payload);
    let begun_and_rest = [
        (
            headers(1, 0, b"\x88"),
            frame(
                FrameType::Continuation,
                flag::END_HEADERS,
                1,
                b"\x00\x01x\x01\n",
            ),
        ),
        (
            [
                headers(1, flag::END_HEADERS, b"\x88\x0f\x0d\x019"),
                data(flag::END_STREAM, b"abc"),
            ]
            .concat(),
            Vec::new(),
        ),
    ];
    for (begun, rest) in begun_and_rest {
        let mut peer = Peer::client();
        peer.ask("GET", EndStream::Yes);
        let octets = [begun, rest].concat();
        // All but the last octet.
        let (first, last) = octets.split_at(octets.len() - 1);
        peer.receive(first);
        peer.log();
        peer.connection.reset(StreamId(1), ErrorCode::CANCEL);
        peer.receive(last);
        assert_eq!(peer.log(), "> RstStream 1 flags 0: CANCEL");
    }
}

#[test]
fn the_end_of_a_stream_that_was_reset_is_not_reported() {
    let mut peer = Peer::client();
    peer.decides = false;
    let id = peer.ask("GET", EndStream::Yes);
    peer.receive(&headers(1, END, b"\x88"));
    peer.connection.accept(peer::Text::new(usize::MAX));
    let section = peer.next_event();
    assert!(
        matches!(section, Some(Event::Section { .. })),
        "{section:?}"
    );
    peer.connection.reset(id, ErrorCode::CANCEL);
    let end = peer.next_event();
    assert!(end.is_none(), "{end:?}");
}

#[test]
fn a_reset_decides_about_a_block() {
    let mut peer = Peer::client();
    peer.decides = false;
    let id = peer.ask("GET", EndStream::Yes);
    peer.ask("GET", EndStream::Yes);
    // It becomes an entry of the dynamic table.
    peer.receive(&headers(1, END, b"\x88\x40\x01x\x01y"));
    assert!(peer.connection.is_undecided());
    peer.connection.release(id, ErrorCode::CANCEL);
    assert!(!peer.connection.is_undecided());
    peer.connection.accept(peer::Text::new(0));
    peer.decides = true;
    peer.log();
    peer.receive(&headers(3, END, b"\x88\xbe"));
    expect![[r#"
        response on 3: :status 200, x y
        end of 3"#]]
    .assert_eq(&peer.log());
}
