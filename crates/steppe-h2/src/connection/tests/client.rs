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

/// A client to which the only section of a response was reported.
fn with_section() -> (Peer, StreamId) {
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
    (peer, id)
}

#[test]
fn a_section_is_there_until_it_is_taken_or_more_is_received() {
    for is_taken in [true, false] {
        let (mut peer, _) = with_section();
        assert!(!peer.connection.is_amid_block());
        match is_taken {
            true => assert!(peer.connection.take_section().is_some()),
            false => assert!(matches!(peer.next_event(), Some(Event::End { .. }))),
        }
        assert!(peer.connection.take_section().is_none());
    }
}

#[test]
fn the_end_of_a_stream_that_was_reset_is_not_reported() {
    let (mut peer, id) = with_section();
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

fn goaway(last: u32) -> Vec<u8> {
    let payload = [&last.to_be_bytes()[..], &[0; 4]].concat();
    frame(FrameType::Goaway, 0, 0, &payload)
}

fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(FrameType::RstStream, 0, stream, &code.0.to_be_bytes())
}

#[test]
fn streams_that_goaway_excludes_are_reset_in_order() {
    let mut peer = Peer::client();
    for _ in 0..5 {
        peer.ask("GET", EndStream::Yes);
    }
    peer.log();
    peer.receive(&goaway(5));
    peer.receive(&goaway(1));
    peer.receive(&headers(1, END, b"\x88"));
    expect![[r#"
        goaway: NO_ERROR
        reset of 7 by Peer: REFUSED_STREAM
        reset of 9 by Peer: REFUSED_STREAM
        goaway: NO_ERROR
        reset of 3 by Peer: REFUSED_STREAM
        reset of 5 by Peer: REFUSED_STREAM
        response on 1: :status 200
        end of 1"#]]
    .assert_eq(&peer.log());
    assert_eq!(peer.connection.goaway(), Some(1));
    assert_eq!(peer.connection.can_open(), Err(SendError::Closed));
    assert_eq!(peer.connection.unprocessed, None, "no event looks for more");
}

#[test]
fn a_limit_of_streams_counts_those_that_are_not_closed_on_both_sides() {
    let mut peer = Peer::client();
    let connection = |peer: &Peer| peer.connection.can_open();
    let full = Err(SendError::StreamLimit);
    peer.receive(&settings(&[(3, 2)]));
    let first = peer.ask("POST", EndStream::No);
    peer.ask("GET", EndStream::Yes);
    assert_eq!(connection(&peer), full);
    // The response is whole, and the request is not.
    peer.receive(&headers(1, END, b"\x88"));
    assert_eq!(connection(&peer), full);
    let sent = (peer.connection).send_content(first, &mut None, EndStream::Yes);
    assert_eq!((sent, connection(&peer)), (Ok(0), Ok(())));
    peer.ask("POST", EndStream::No);
    assert_eq!(connection(&peer), full);
    // RST_STREAM without error, behind a whole response, ends what is left of the request.
    peer.receive(&[headers(5, END, b"\x88"), reset(5, ErrorCode::NO_ERROR)].concat());
    assert_eq!(connection(&peer), Ok(()));
    peer.receive(&settings(&[(3, 1)]));
    assert_eq!(connection(&peer), full);
    peer.connection.reset(StreamId(3), ErrorCode::CANCEL);
    assert_eq!(connection(&peer), Ok(()));
    peer.receive(&settings(&[(3, 0)]));
    assert_eq!(connection(&peer), full);
    peer.receive(&settings(&[(3, 1000)]));
    assert_eq!(connection(&peer), Ok(()));
    for id in [1, 3, 5] {
        peer.connection.release(StreamId(id), ErrorCode::CANCEL);
    }
    assert_eq!(peer.connection.streams.active(), 0);
}

/// The server has not read of the resets, so it counts their streams.
#[test]
fn a_limit_of_streams_counts_resets_that_wait() {
    let mut peer = Peer::client();
    peer.receive(&settings(&[(3, 2000)]));
    for _ in 0..2000 {
        peer.ask("GET", EndStream::Yes);
        peer.log();
    }
    peer.receive(&settings(&[(3, 1000)]));
    peer.log();
    peer.reads = false;
    for index in 0..2000 {
        peer.connection
            .release(StreamId(2 * index + 1), ErrorCode::CANCEL);
    }
    let waiting = peer.connection.owed_resets.len();
    assert!((500..1000).contains(&waiting), "{waiting} wait");
    // Some are written, and none of those that wait take their place.
    let mut slices = [std::io::IoSlice::new(&[])];
    peer.connection.output.slices(&mut slices);
    let bytes = slices[0].len();
    peer.connection.written(bytes);
    let line = lines(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
    let opened = std::iter::from_fn(|| {
        let lines = line.iter().copied();
        peer.connection.open(lines, EndStream::Yes, ()).ok()
    });
    assert_eq!(opened.count(), 1000 - waiting);
}

#[test]
fn identifiers_of_streams_end() {
    let mut peer = Peer::client();
    peer.connection.next_local = StreamId::MAX.0;
    let last = peer.ask("GET", EndStream::Yes);
    assert_eq!(last, StreamId::MAX);
    assert_eq!(peer.connection.can_open(), Err(SendError::Closed));
    peer.receive(&headers(last.number(), END, b"\x88"));
    assert!(peer.log().ends_with("end of 2147483647"));
}

#[test]
fn a_client_that_shuts_down_opens_nothing_more() {
    let mut peer = Peer::client();
    let id = peer.ask("GET", EndStream::Yes);
    peer.log();
    peer.connection.shut_down();
    assert_eq!(peer.connection.can_open(), Err(SendError::Closed));
    peer.receive(&frame(FrameType::Ping, flag::ACK, 0, b"shutdown"));
    assert!(!peer.connection.is_shut_down());
    peer.receive(&headers(id.number(), END, b"\x88"));
    assert!(peer.connection.is_shut_down());
    expect![[r#"
        pong
        > Goaway 0 flags 0: NO_ERROR, last 2147483647
        > Ping 0 flags 0
        > Goaway 0 flags 0: NO_ERROR, last 0
        response on 1: :status 200
        end of 1"#]]
    .assert_eq(&peer.log());
    // A server opens no streams, whatever GOAWAY says about them.
    peer.receive(&headers(2, END, b"\x88"));
    let error = peer.connection.error().map(|error| error.code);
    assert_eq!(error, Some(ErrorCode::PROTOCOL_ERROR));
}
