//! Tests of a connection against frames that are written by hand, and against the other role.

mod client;
mod floods;
pub(super) mod peer;
mod servers;

use std::time::Instant;

use expect_test::expect;
use steppe_mem::{Budget, Buffer, Chunk};

use super::send::EndStream;
use super::*;
use crate::error::{ErrorCode, SendError};
use crate::frame::flag;
use crate::frame::write::{frame, setting};
use crate::frame::{FrameType, PREFACE};
use crate::hpack::FieldLine;
use crate::limits::WINDOW_BYTES_MAX;
use crate::role::Role;
use crate::settings::LocalSettings;
use crate::stream_id::StreamId;
use peer::{Peer, get, lines};

/// The connection's answer to frames of a client, behind its preface and an empty SETTINGS frame.
fn answers(frames: &[Vec<u8>]) -> String {
    let mut peer = Peer::server();
    peer.receive(&frames.concat());
    peer.log()
}

fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(FrameType::Headers, flags, stream, block)
}

const END: u8 = flag::END_HEADERS | flag::END_STREAM;

#[test]
fn a_request_and_its_response() {
    let mut peer = Peer::server();
    peer.receive(&headers(1, END, &get("/")));
    let id = StreamId(1);
    let head = lines(&[(":status", "200"), ("content-length", "5")]);
    let sent = (peer.connection).send_head(id, head.iter().copied(), EndStream::No);
    assert_eq!(sent, Ok(()));
    let mut content = peer.chunk(b"hello");
    let sent = (peer.connection).send_content(id, &mut content, EndStream::Yes);
    assert_eq!(sent, Ok(5));
    assert!(content.is_none());
    assert!(!peer.connection.can_send(id) && !peer.connection.can_receive(id));
    expect![[r#"
        request on 1: :method GET, :scheme http, :path /
        end of 1
        > Headers 1 flags 4
        > Data 1 flags 1: hello"#]]
    .assert_eq(&peer.log());
    peer.connection.release(id, ErrorCode::CANCEL);
    assert_eq!(peer.connection.streams(), 0);
    assert_eq!(peer.log(), "", "it was closed");
}

#[test]
fn frames_on_streams_that_are_idle() {
    for (name, idle) in [
        ("DATA", frame(FrameType::Data, 0, 1, b"x")),
        ("RST_STREAM", frame(FrameType::RstStream, 0, 1, &[0; 4])),
        (
            "WINDOW_UPDATE",
            frame(FrameType::WindowUpdate, 0, 1, &[0, 0, 0, 1]),
        ),
        ("CONTINUATION", frame(FrameType::Continuation, 0, 1, b"")),
        ("HEADERS of a server", headers(2, END, &get("/"))),
        ("PUSH_PROMISE", frame(FrameType::PushPromise, 0, 1, &[0; 4])),
    ] {
        let answer = answers(&[idle]);
        assert!(
            answer.contains("> Goaway 0 flags 0: PROTOCOL_ERROR"),
            "{name}: {answer}"
        );
    }
}

/// RFC 9113 §5.1.1: a stream that was passed over is closed, and can't be opened.
#[test]
fn headers_on_streams_that_were_passed_over() {
    let reset = |id| frame(FrameType::RstStream, 0, id, &[0, 0, 0, 8]);
    let open = |id| headers(id, END, &get("/"));
    for (name, last, passed) in [("near", 7, 5), ("first", 7, 1), ("far", 255, 5)] {
        let answer = answers(&[open(3), open(last), open(passed)]);
        let error = "> Goaway 0 flags 0: PROTOCOL_ERROR";
        assert!(answer.ends_with(error), "{name}: {answer}");
    }
    let answer = answers(&[open(3), open(7), reset(3), open(3)]);
    let closed = "> Goaway 0 flags 0: STREAM_CLOSED";
    assert!(answer.ends_with(closed), "it was opened: {answer}");
    let answer = answers(&[open(7), reset(5), open(9)]);
    assert!(answer.ends_with("end of 9"), "{answer}");
}

/// A priority of RFC 7540 that depends on itself.
#[test]
fn a_stream_that_depends_on_itself() {
    let itself = |id: u8| frame(FrameType::Priority, 0, id.into(), &[0, 0, 0, id, 1]);
    let open = |id| headers(id, END, &get("/"));
    let idle = answers(&[itself(1)]);
    assert_eq!(idle, "> Goaway 0 flags 0: PROTOCOL_ERROR");
    let opened = answers(&[open(1), itself(1)]);
    assert!(
        opened.ends_with("> RstStream 1 flags 0: PROTOCOL_ERROR"),
        "{opened}"
    );
    let reset = frame(FrameType::RstStream, 0, 1, &[0, 0, 0, 8]);
    let closed = answers(&[open(1), reset, itself(1), open(5), itself(3), open(7)]);
    assert!(!closed.contains("> RstStream"), "{closed}");
    assert!(closed.ends_with("end of 7"), "{closed}");
}

#[test]
fn frames_on_streams_that_are_half_closed_or_closed() {
    let half_closed = |frame: Vec<u8>| answers(&[headers(1, END, &get("/")), frame]);
    let data = half_closed(frame(FrameType::Data, 0, 1, b"x"));
    assert!(
        data.ends_with("reset of 1 by Us: STREAM_CLOSED\n> RstStream 1 flags 0: STREAM_CLOSED"),
        "{data}"
    );
    let trailers = half_closed(headers(1, END, b""));
    assert!(
        trailers.ends_with("> RstStream 1 flags 0: STREAM_CLOSED"),
        "{trailers}"
    );
    let update = half_closed(frame(FrameType::WindowUpdate, 0, 1, &[0, 0, 0, 1]));
    assert!(update.ends_with("window of 1"), "{update}");

    let reset = frame(FrameType::RstStream, 0, 1, &[0, 0, 0, 8]);
    let closed = |frame: Vec<u8>| answers(&[headers(1, END, &get("/")), reset.clone(), frame]);
    let data = closed(frame(FrameType::Data, 0, 1, b"x"));
    assert!(
        data.ends_with("reset of 1 by Peer: CANCEL\n> RstStream 1 flags 0: STREAM_CLOSED"),
        "{data}"
    );
    let again = closed(headers(1, END, &get("/")));
    assert!(
        again.ends_with("> Goaway 0 flags 0: STREAM_CLOSED"),
        "{again}"
    );
    for ignored in [
        frame(FrameType::WindowUpdate, 0, 1, &[0, 0, 0, 1]),
        frame(FrameType::RstStream, 0, 1, &[0, 0, 0, 8]),
        frame(FrameType::Priority, 0, 1, &[0, 0, 0, 3, 1]),
    ] {
        let answer = closed(ignored);
        assert!(answer.ends_with("reset of 1 by Peer: CANCEL"), "{answer}");
    }
}

#[test]
fn what_comes_after_our_reset_is_discarded() {
    let mut peer = Peer::server();
    peer.receive(&headers(1, flag::END_HEADERS, &get("/")));
    peer.connection.release(StreamId(1), ErrorCode::CANCEL);
    peer.log();
    peer.receive(&frame(FrameType::Data, 0, 1, &[b'x'; 16_000]));
    peer.receive(&frame(FrameType::WindowUpdate, 0, 1, &[0, 0, 0, 1]));
    // It stands in the dynamic table all the same.
    peer.receive(&headers(1, END, b"\x40\x01x\x01y"));
    assert_eq!(peer.log(), "");
    peer.receive(&headers(3, END, &[&get("/")[..], b"\xbe"].concat()));
    expect![[r#"
        request on 3: :method GET, :scheme http, :path /, x y
        end of 3"#]]
    .assert_eq(&peer.log());
    // The window of the connection is given back.
    for _ in 0..3 {
        peer.receive(&frame(FrameType::Data, 0, 1, &[b'x'; 16_000]));
    }
    expect![[r#"> WindowUpdate 0 flags 0: 48000"#]].assert_eq(&peer.log());
}

#[test]
fn malformed_messages_are_reset_and_the_connection_goes_on() {
    for (name, request) in [
        (
            "a capital letter",
            headers(1, END, &[&get("/")[..], b"\x40\x01X\x01y"].concat()),
        ),
        ("no path", headers(1, END, b"\x82\x86")),
        (
            "content that is missing",
            headers(1, END, &[&get("/")[..], b"\x0f\x0d\x011"].concat()),
        ),
        ("a priority that depends on itself", {
            let block = [&[0, 0, 0, 1, 0][..], &get("/")].concat();
            headers(1, END | flag::PRIORITY, &block)
        }),
    ] {
        let answer = answers(&[request, headers(3, END, &get("/"))]);
        assert!(
            answer.contains("> RstStream 1 flags 0: PROTOCOL_ERROR"),
            "{name}: {answer}"
        );
        assert!(answer.contains("end of 3"), "{name}: {answer}");
    }
    let announced = headers(
        1,
        flag::END_HEADERS,
        &[&get("/")[..], b"\x0f\x0d\x012"].concat(),
    );
    let data = |flags, content: &[u8]| frame(FrameType::Data, flags, 1, content);
    let whole = answers(&[announced.clone(), data(flag::END_STREAM, b"ab")]);
    assert!(whole.ends_with("content of 1: ab\nend of 1"), "{whole}");
    for content in [
        data(flag::END_STREAM, b"a"),
        data(0, b"abc"),
        headers(1, END, b""),
    ] {
        let answer = answers(&[announced.clone(), content]);
        assert!(
            answer.ends_with("> RstStream 1 flags 0: PROTOCOL_ERROR"),
            "{answer}"
        );
    }
    let trailers = answers(&[
        headers(1, flag::END_HEADERS, &get("/")),
        headers(1, flag::END_HEADERS, b""),
    ]);
    assert!(
        trailers.ends_with("> RstStream 1 flags 0: PROTOCOL_ERROR"),
        "{trailers}"
    );
    let connect = headers(1, flag::END_HEADERS, b"\x02\x07CONNECT\x01\x03a:1");
    let in_tunnel = answers(&[connect, data(0, b"a"), headers(1, END, b"")]);
    assert!(
        in_tunnel.ends_with("content of 1: a\nreset of 1 by Us: PROTOCOL_ERROR\n> RstStream 1 flags 0: PROTOCOL_ERROR"),
        "{in_tunnel}"
    );
}

#[test]
fn field_blocks_are_contiguous() {
    let begun = headers(1, flag::END_STREAM, &get("/"));
    for between in [
        frame(FrameType::Ping, 0, 0, &[0; 8]),
        frame(FrameType::Settings, 0, 0, &[]),
        frame(FrameType::Settings, flag::ACK, 0, &[]),
        frame(FrameType::Unknown(0xee), 0, 0, b""),
        frame(FrameType::PriorityUpdate, 0, 0, &[0, 0, 0, 1]),
        frame(FrameType::Data, 0, 1, b""),
        headers(3, END, &get("/")),
        frame(FrameType::Continuation, 0, 3, b""),
    ] {
        let answer = answers(&[begun.clone(), between]);
        assert!(
            answer.contains("> Goaway 0 flags 0: PROTOCOL_ERROR"),
            "{answer}"
        );
    }
    let rest = frame(FrameType::Continuation, flag::END_HEADERS, 1, b"");
    assert!(answers(&[begun, rest]).ends_with("end of 1"));
}

/// Content of a stream that is not read may take what the connection's window has left: what is owed for other streams
/// is given back then, however little it is.
#[test]
fn content_of_another_stream_opens_the_window_of_the_connection() {
    let request = |stream| headers(stream, flag::END_HEADERS, &get("/"));
    let data = |stream, bytes| frame(FrameType::Data, 0, stream, &vec![b'x'; bytes]);
    let mut peer = Peer::server();
    peer.receive(&[request(1), request(3), data(1, 15_000), data(1, 15_000)].concat());
    let log = peer.log();
    assert!(!log.contains("> WindowUpdate"), "less than half: {log}");
    peer.consumes = false;
    peer.receive(&[data(3, 16_384), data(3, 16_384), data(3, 2_767)].concat());
    let log = peer.log();
    assert!(log.contains("> WindowUpdate 0 flags 0: 30000"), "{log}");
}

#[test]
fn windows_are_kept() {
    let request = headers(1, flag::END_HEADERS, &get("/"));
    let data = frame(FrameType::Data, 0, 1, &[b'x'; 16_384]);
    let mut frames = vec![request.clone()];
    frames.extend(std::iter::repeat_n(data, 4));
    let mut peer = Peer::server();
    peer.consumes = false;
    peer.receive(&frames.concat());
    assert!(
        peer.log()
            .ends_with("> Goaway 0 flags 0: FLOW_CONTROL_ERROR")
    );
    let update = |stream, increment: u32| {
        frame(FrameType::WindowUpdate, 0, stream, &increment.to_be_bytes())
    };
    let answer = answers(&[request.clone(), update(1, 0)]);
    assert!(
        answer.ends_with("> RstStream 1 flags 0: PROTOCOL_ERROR"),
        "{answer}"
    );
    let answer = answers(&[request.clone(), update(1, WINDOW_BYTES_MAX)]);
    assert!(
        answer.ends_with("> RstStream 1 flags 0: FLOW_CONTROL_ERROR"),
        "{answer}"
    );
    let answer = answers(&[update(0, 0)]);
    assert!(
        answer.ends_with("> Goaway 0 flags 0: PROTOCOL_ERROR"),
        "{answer}"
    );
    let answer = answers(&[update(0, WINDOW_BYTES_MAX)]);
    assert!(
        answer.ends_with("> Goaway 0 flags 0: FLOW_CONTROL_ERROR"),
        "{answer}"
    );
    let large = frame(FrameType::Settings, 0, 0, &setting(4, WINDOW_BYTES_MAX));
    let answer = answers(&[request, update(1, 1), large]);
    assert!(
        answer.ends_with("> Goaway 0 flags 0: FLOW_CONTROL_ERROR"),
        "{answer}"
    );
}

#[test]
fn content_is_sent_as_windows_allow() {
    let mut peer = Peer::server();
    peer.receive(&frame(FrameType::Settings, 0, 0, &setting(4, 3)));
    peer.receive(&headers(1, END, &get("/")));
    let id = StreamId(1);
    let head = lines(&[(":status", "200")]);
    let sent = (peer.connection).send_head(id, head.iter().copied(), EndStream::No);
    assert_eq!(sent, Ok(()));
    peer.log();
    let mut content = peer.chunk(b"hello");
    let connection = &mut peer.connection;
    assert_eq!(
        connection.send_content(id, &mut content, EndStream::Yes),
        Ok(3)
    );
    assert_eq!(
        connection.send_content(id, &mut content, EndStream::Yes),
        Ok(0)
    );
    peer.receive(&frame(FrameType::Settings, 0, 0, &setting(4, 1)));
    peer.receive(&frame(FrameType::WindowUpdate, 0, 1, &[0, 0, 0, 3]));
    let sent = (peer.connection).send_content(id, &mut content, EndStream::Yes);
    assert_eq!(sent, Ok(1));
    peer.receive(&frame(FrameType::WindowUpdate, 0, 1, &[0, 0, 0, 3]));
    let sent = (peer.connection).send_content(id, &mut content, EndStream::Yes);
    assert_eq!(sent, Ok(1));
    expect![[r#"
        settings
        > Data 1 flags 0: hel
        > Settings 0 flags 1
        window of 1
        window of 1
        > Data 1 flags 0: l
        > Data 1 flags 1: o"#]]
    .assert_eq(&peer.log());
}

#[test]
fn streams_above_the_limit_are_refused() {
    let mut frames: Vec<_> = (0..5)
        .map(|index| headers(2 * index + 1, END, &get("/")))
        .collect();
    frames.push(headers(3, END, &get("/")));
    let answer = answers(&frames);
    assert!(
        answer.contains("> RstStream 9 flags 0: REFUSED_STREAM"),
        "{answer}"
    );
    assert!(answer.contains("end of 7\n"), "{answer}");
}

#[test]
fn without_room_a_block_waits_and_is_refused_in_step() {
    let mut peer = Peer::server();
    peer.decides = false;
    peer.receive(&headers(
        1,
        END,
        &[&get("/")[..], b"\x40\x01x\x01y"].concat(),
    ));
    assert_eq!(peer.log(), "begins 1");
    assert!(!peer.input.is_empty(), "it is not decoded");
    peer.connection.refuse(ErrorCode::REFUSED_STREAM);
    peer.decides = true;
    peer.receive(&headers(3, END, &[&get("/")[..], b"\xbe"].concat()));
    expect![[r#"
        request on 3: :method GET, :scheme http, :path /, x y
        > RstStream 1 flags 0: REFUSED_STREAM
        end of 3"#]]
    .assert_eq(&peer.log());
}

#[test]
fn trailers_without_room_are_no_resets_of_the_peer() {
    let mut peer = Peer::server();
    for id in (1..4000).step_by(2) {
        peer.decides = true;
        peer.receive(&headers(id, flag::END_HEADERS, &get("/")));
        peer.decides = false;
        peer.receive(&headers(id, END, b""));
        assert!(peer.connection.is_undecided());
        peer.connection.refuse(ErrorCode::ENHANCE_YOUR_CALM);
        peer.receive(b"");
        peer.connection.release(StreamId(id), ErrorCode::CANCEL);
        let log = peer.log();
        assert!(log.ends_with("flags 0: ENHANCE_YOUR_CALM"), "{log}");
    }
    assert_eq!(peer.connection.error(), None);
}

#[test]
fn a_section_above_its_limit_is_cut_and_one_far_above_ends_the_connection() {
    let long = |count: usize| {
        let mut frames = vec![headers(
            1,
            flag::END_STREAM,
            &[&get("/")[..], b"\x40\x01x\x01y"].concat(),
        )];
        let line = [&b"\x00\x01a\x7f\xad\x01"[..], &[b'v'; 300]].concat();
        frames.extend((0..count).map(|_| frame(FrameType::Continuation, 0, 1, &line)));
        frames.push(frame(
            FrameType::Continuation,
            flag::END_HEADERS,
            1,
            b"\x40\x01z\x01!",
        ));
        frames.push(headers(3, END, &[&get("/")[..], b"\xbe\xbf"].concat()));
        frames
    };
    let answer = answers(&long(5));
    assert!(
        answer.contains("request on 1, cut (TooLarge): "),
        "{answer}"
    );
    assert!(
        answer.contains("request on 3: :method GET, :scheme http, :path /, z !, x y"),
        "{answer}"
    );
    let answer = answers(&long(15));
    assert!(
        answer.contains("> Goaway 0 flags 0: ENHANCE_YOUR_CALM"),
        "{answer}"
    );
}

#[test]
fn a_section_without_room_is_cut_amid_a_line_and_the_table_stays_in_step() {
    for room in 0..60 {
        let mut peer = Peer::server();
        peer.room = room;
        let line = [&b"\x40\x04name\x0avalue-"[..], b"long", b"\x0f\x0d\x013"].concat();
        peer.receive(&headers(
            1,
            flag::END_HEADERS,
            &[&get("/")[..], &line].concat(),
        ));
        peer.room = usize::MAX;
        peer.log();
        peer.receive(&headers(3, END, &[&get("/")[..], b"\xbe"].concat()));
        expect![[r#"
            request on 3: :method GET, :scheme http, :path /, name value-long
            end of 3"#]]
        .assert_eq(&peer.log());
    }
}

#[test]
fn a_shutdown_says_twice_which_streams_are_served() {
    let mut peer = Peer::server();
    peer.receive(&headers(1, flag::END_HEADERS, &get("/")));
    peer.connection.shut_down();
    peer.receive(&headers(3, END, &get("/")));
    assert!(!peer.connection.is_shut_down());
    peer.receive(&frame(FrameType::Ping, flag::ACK, 0, b"shutdown"));
    peer.receive(&headers(5, END, &get("/")));
    expect![[r#"
        request on 1: :method GET, :scheme http, :path /
        request on 3: :method GET, :scheme http, :path /
        > Goaway 0 flags 0: NO_ERROR, last 2147483647
        > Ping 0 flags 0
        end of 3
        pong
        > Goaway 0 flags 0: NO_ERROR, last 3"#]]
    .assert_eq(&peer.log());
    peer.connection.release(StreamId(1), ErrorCode::CANCEL);
    peer.connection.release(StreamId(3), ErrorCode::CANCEL);
    assert!(peer.connection.is_shut_down());
}

#[test]
fn what_is_charged_is_given_back() {
    let mut peer = Peer::server();
    for index in 0..4 {
        let id = 2 * index + 1;
        peer.receive(&headers(id, flag::END_HEADERS, &get("/")));
        peer.receive(&frame(
            FrameType::Data,
            flag::PADDED,
            id,
            &[&[9][..], &[b'x'; 5000]].concat(),
        ));
        let head = lines(&[(":status", "200")]);
        let sent = (peer.connection).send_head(StreamId(id), head.iter().copied(), EndStream::No);
        assert_eq!(sent, Ok(()));
        let mut content = peer.chunk(&[b'y'; 20_000]);
        let sent = (peer.connection).send_content(StreamId(id), &mut content, EndStream::Yes);
        assert_eq!(sent, Ok(if index == 3 { 5535 } else { 20_000 }));
        peer.log();
        peer.connection.release(StreamId(id), ErrorCode::CANCEL);
    }
    peer.log();
    let budget = peer.budget.clone();
    drop(peer);
    assert_eq!(budget.root().reserved_bytes(), 0);
}

#[test]
fn the_first_frame_is_settings() {
    for first in [
        frame(FrameType::Ping, 0, 0, &[0; 8]),
        headers(1, END, &get("/")),
        frame(FrameType::Settings, flag::ACK, 0, &[]),
    ] {
        let mut peer = Peer::new(Role::Server);
        peer.receive(&[&PREFACE[..], &first].concat());
        let log = peer.log();
        assert!(log.ends_with("> Goaway 0 flags 0: PROTOCOL_ERROR"), "{log}");
    }
}

/// Frames that were sent before the last GOAWAY was known are discarded, and the streams that are served go on.
#[test]
fn frames_beyond_the_last_stream_of_a_shutdown_are_discarded() {
    let mut peer = Peer::server();
    peer.receive(&headers(1, flag::END_HEADERS, &get("/")));
    peer.connection.shut_down();
    peer.receive(&frame(FrameType::Ping, flag::ACK, 0, b"shutdown"));
    peer.log();
    peer.receive(&headers(3, flag::END_HEADERS, &get("/")));
    peer.receive(&frame(FrameType::Data, 0, 3, b"x"));
    peer.receive(&headers(3, END, b"\x40\x01x\x01y"));
    peer.receive(&frame(FrameType::Data, flag::END_STREAM, 1, b"hello"));
    expect![[r#"
        content of 1: hello
        end of 1"#]]
    .assert_eq(&peer.log());
    peer.connection.fail(ErrorCode::INTERNAL_ERROR, "a test");
    let log = peer.log();
    assert_eq!(log, "> Goaway 0 flags 0: INTERNAL_ERROR");
}

/// A burst that is allowed is answered, however much of it comes in one read.
#[test]
fn answers_to_a_burst_are_written_in_between() {
    let mut peer = Peer::server();
    let ping = frame(FrameType::Ping, 0, 0, b"12345678");
    peer.receive(&ping.repeat(990));
    let answers = peer.log();
    assert_eq!(answers.matches("> Ping 0 flags 1").count(), 990);
}

/// The budget has no room: small heads and content leave all the same, in memory of the reservation.
#[test]
fn without_room_small_heads_and_content_are_sent() {
    let mut peer = Peer::server();
    peer.receive(&headers(1, END, &get("/")));
    let mut content = peer.chunk(b"hello");
    peer.log();
    let lease = peer.budget.root().lease();
    let mut others = Vec::new();
    for bytes in [64 << 10, 4 << 10, 64] {
        others.extend(std::iter::from_fn(|| lease.try_reserve(bytes).ok()));
    }
    let id = StreamId(1);
    let long = "v".repeat(5000);
    let head = lines(&[(":status", "200"), ("x", &long)]);
    let sent = (peer.connection).send_head(id, head.iter().copied(), EndStream::No);
    assert!(matches!(sent, Err(SendError::OverBudget(_))), "{sent:?}");
    let head = lines(&[(":status", "200"), ("x", "short")]);
    let sent = (peer.connection).send_head(id, head.iter().copied(), EndStream::No);
    assert_eq!(sent, Ok(()));
    let sent = (peer.connection).send_content(id, &mut content, EndStream::Yes);
    assert_eq!(sent, Ok(5));
    expect![[r#"
        > Headers 1 flags 4
        > Data 1 flags 1: hello"#]]
    .assert_eq(&peer.log());
    drop(others);
}

#[test]
fn more_resets_than_there_is_room_for_follow_later() {
    let mut peer = Peer::server();
    peer.connection.local.concurrent_streams_max = 2000;
    let opened: Vec<_> = (0..1500)
        .map(|index| headers(2 * index + 1, END, &get("/")))
        .collect();
    peer.receive(&opened.concat());
    peer.log();
    peer.reads = false;
    for index in 0..1500 {
        peer.connection
            .release(StreamId(2 * index + 1), ErrorCode::CANCEL);
    }
    assert_eq!(peer.connection.error(), None);
    peer.reads = true;
    let resets = peer.log();
    assert_eq!(resets.matches("> RstStream").count(), 1500);
}
