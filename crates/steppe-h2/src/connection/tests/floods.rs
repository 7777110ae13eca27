//! Work without progress that a peer asks for, and what no server is blamed for.

use super::*;

const ROUNDS: u32 = 1200;

fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(FrameType::RstStream, 0, stream, &code.0.to_be_bytes())
}

#[test]
fn floods_of_a_server_end_the_connection_and_are_named() {
    let control = "the peer sent too many control frames";
    let resets = "the peer caused too many resets of streams";
    let closed = headers(1, END, b"\x88");
    let headers_on_reset = headers(3, END, b"\x88");
    for (name, flood, reason) in [
        ("SETTINGS", frame(FrameType::Settings, 0, 0, &[]), control),
        (
            "SETTINGS ACK",
            frame(FrameType::Settings, flag::ACK, 0, &[]),
            control,
        ),
        ("PING", frame(FrameType::Ping, 0, 0, &[0; 8]), control),
        (
            "PING ACK",
            frame(FrameType::Ping, flag::ACK, 0, &[0; 8]),
            control,
        ),
        (
            "GOAWAY",
            frame(FrameType::Goaway, 0, 0, &[0x7f; 8]),
            control,
        ),
        (
            "PRIORITY",
            frame(FrameType::Priority, 0, 1, &[0, 0, 0, 3, 1]),
            control,
        ),
        (
            "unknown frames",
            frame(FrameType::Unknown(0xee), 0, 0, b""),
            control,
        ),
        (
            "RST_STREAM of a closed stream",
            reset(1, ErrorCode::NO_ERROR),
            control,
        ),
        ("empty DATA", frame(FrameType::Data, 0, 5, b""), control),
        ("HEADERS behind a reset", headers_on_reset, control),
        (
            "DATA of a closed stream",
            frame(FrameType::Data, 0, 1, b"a"),
            resets,
        ),
    ] {
        let mut peer = Peer::client();
        for _ in 0..3 {
            peer.ask("GET", EndStream::Yes);
        }
        peer.receive(&[closed.clone(), headers(5, flag::END_HEADERS, b"\x88")].concat());
        peer.connection.release(StreamId(1), ErrorCode::CANCEL);
        peer.connection.release(StreamId(3), ErrorCode::CANCEL);
        peer.receive(&flood.repeat(ROUNDS as usize));
        let error = peer
            .connection
            .error()
            .map(|error| (error.code, error.reason));
        assert_eq!(
            error,
            Some((ErrorCode::ENHANCE_YOUR_CALM, reason)),
            "{name}"
        );
    }
}

/// Each stream that a server ends costs it a request of ours: a server that refuses them all, or errs in each, loses no
/// more than those.
#[test]
fn streams_that_a_server_ends_are_not_counted() {
    type Made = fn(u32) -> Vec<u8>;
    let ends: [(&str, Made); 4] = [
        ("refusals", |id| reset(id, ErrorCode::REFUSED_STREAM)),
        ("resets", |id| reset(id, ErrorCode::INTERNAL_ERROR)),
        ("resets behind a response", |id| {
            [headers(id, END, b"\x88"), reset(id, ErrorCode::NO_ERROR)].concat()
        }),
        ("malformed responses", |id| headers(id, END, b"")),
    ];
    for (name, end) in ends {
        for (method, request_end) in [("POST", EndStream::No), ("GET", EndStream::Yes)] {
            let mut peer = Peer::client();
            peer.releases = true;
            for _ in 0..ROUNDS {
                let id = peer.ask(method, request_end);
                peer.receive(&end(id.number()));
                peer.connection.release(id, ErrorCode::CANCEL);
                peer.log();
            }
            assert_eq!(peer.connection.error(), None, "{name} to {method}");
        }
    }
}

/// The holder has no room for responses, whatever code it refuses them with.
#[test]
fn responses_without_room_are_no_fault_of_the_server() {
    let mut peer = Peer::client();
    for _ in 0..ROUNDS {
        peer.decides = false;
        let id = peer.ask("GET", EndStream::Yes);
        peer.receive(&headers(id.number(), END, b"\x88"));
        peer.connection.refuse(ErrorCode::CANCEL);
        peer.receive(b"");
        let log = peer.log();
        assert!(
            log.ends_with(&format!("> RstStream {} flags 0: CANCEL", id.number())),
            "{log}"
        );
        peer.connection.release(id, ErrorCode::CANCEL);
    }
    assert_eq!(peer.connection.error(), None);
}

/// Many requests are given up at once, and all responses come late.
#[test]
fn late_responses_to_many_requests_are_discarded() {
    let mut peer = Peer::client();
    let ids: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let id = peer.ask("GET", EndStream::Yes);
            peer.log();
            id
        })
        .collect();
    for &id in &ids {
        peer.connection.release(id, ErrorCode::CANCEL);
        peer.log();
    }
    for id in ids {
        let response = headers(id.number(), flag::END_HEADERS, b"\x88");
        peer.receive(&response);
        peer.receive(&frame(
            FrameType::Data,
            flag::END_STREAM,
            id.number(),
            b"late",
        ));
    }
    assert_eq!(peer.connection.error(), None);
    assert!(!peer.log().contains("RstStream"));
}

/// The rest of a window in small DATA frames is no flood where we cancel what it answers.
#[test]
fn late_content_of_a_cancelled_request_is_discarded() {
    let mut peer = Peer::client();
    let (cancelled, other) = (
        peer.ask("GET", EndStream::Yes),
        peer.ask("GET", EndStream::Yes),
    );
    peer.receive(&headers(cancelled.number(), flag::END_HEADERS, b"\x88"));
    peer.connection.release(cancelled, ErrorCode::CANCEL);
    let small = |id: StreamId| frame(FrameType::Data, 0, id.number(), b"0123456789");
    for _ in 0..3000 {
        peer.receive(&small(cancelled));
        peer.log();
    }
    assert_eq!(peer.connection.error(), None);
    peer.receive(&headers(other.number(), flag::END_HEADERS, b"\x88"));
    let log = peer.log();
    assert!(log.contains("response on 3"), "{log}");
    // No more than the window had room for.
    for _ in 0..5000 {
        peer.receive(&small(cancelled));
        peer.log();
    }
    let error = peer.connection.error().expect("it is a flood now");
    assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM);
}

#[test]
fn work_without_progress_ends_the_connection() {
    let calm = "> Goaway 0 flags 0: ENHANCE_YOUR_CALM";
    let opened = headers(1, flag::END_HEADERS, &get("/"));
    for (name, flood) in [
        ("PING", frame(FrameType::Ping, 0, 0, &[0; 8])),
        ("SETTINGS", frame(FrameType::Settings, 0, 0, &[])),
        (
            "acknowledgments",
            frame(FrameType::Settings, flag::ACK, 0, &[]),
        ),
        (
            "PRIORITY",
            frame(FrameType::Priority, 0, 1, &[0, 0, 0, 3, 1]),
        ),
        (
            "PRIORITY_UPDATE",
            frame(FrameType::PriorityUpdate, 0, 0, &[0, 0, 0, 1]),
        ),
        ("unknown frames", frame(FrameType::Unknown(0xee), 0, 0, b"")),
        ("empty DATA", frame(FrameType::Data, 0, 1, b"")),
        (
            "padding alone",
            frame(FrameType::Data, flag::PADDED, 1, b"\x01\0"),
        ),
    ] {
        let mut peer = Peer::server();
        peer.receive(&opened);
        for _ in 0..1100 {
            peer.receive(&flood);
        }
        let answer = peer.log();
        assert!(
            answer.ends_with(calm),
            "{name}: {}",
            answer.lines().last().unwrap_or_default()
        );
    }
    type Made = fn(u32) -> Vec<u8>;
    let resets: [(&str, Made); 5] = [
        ("rapid resets", |id| {
            frame(FrameType::RstStream, 0, id, &[0, 0, 0, 8])
        }),
        ("MadeYouReset by WINDOW_UPDATE", |id| {
            frame(FrameType::WindowUpdate, 0, id, &[0; 4])
        }),
        ("MadeYouReset by overflow", |id| {
            frame(FrameType::WindowUpdate, 0, id, &[0x7f, 0xff, 0xff, 0xff])
        }),
        ("MadeYouReset by DATA", |id| {
            frame(FrameType::Data, 0, id, b"x")
        }),
        ("MadeYouReset by HEADERS", |id| headers(id, END, b"")),
    ];
    for (name, reset) in resets {
        let mut peer = Peer::server();
        peer.releases = true;
        for index in 0..220 {
            let id = 2 * index + 1;
            peer.receive(&[headers(id, END, &get("/")), reset(id)].concat());
        }
        let answer = peer.log();
        assert!(
            answer.ends_with(calm),
            "{name}: {}",
            answer.lines().last().unwrap_or_default()
        );
    }
}

#[test]
fn a_peer_that_reads_nothing_can_provoke_no_more_than_a_bound() {
    let mut peer = Peer::server();
    peer.reads = false;
    for _ in 0..900 {
        peer.receive(&frame(FrameType::Ping, 0, 0, &[0; 8]));
    }
    assert!(peer.connection.unwritten_bytes() <= crate::limits::GATHERED_BYTES);
}
