//! HTTP/2, toward clients and toward servers.

use std::time::Duration;

use steppe_testkit::{FieldSection, H2Frame, H2Server, RawOrigin, is_left_to_long_tier};

use crate::flood::{Crowd, Flood};
use crate::row::{Origin, Over, Row};

/// The preface of a client (RFC 9113 §3.4), and empty settings.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A connection's bytes: the preface and `frames`.
pub fn connection(frames: impl IntoIterator<Item = H2Frame>) -> Vec<u8> {
    let mut bytes = BEGIN.to_vec();
    frames
        .into_iter()
        .for_each(|frame| bytes.extend_from_slice(&frame.bytes()));
    bytes
}

/// The identifiers of the first streams of a client, in order.
pub fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// Requests whose heads have this number of bytes.
pub fn heads(count: u32, head_bytes: usize) -> Vec<u8> {
    let fields = FieldSection::of("GET", "/flood/a").field("x", vec![b'a'; head_bytes]);
    connection(streams(count).map(|stream| H2Frame::request(stream, &fields)))
}

/// The head of an HTTP/2 response with this status and number of bytes.
fn response(stream: u32, status: &str, head_bytes: usize) -> Vec<H2Frame> {
    let fields = FieldSection::default()
        .field(":status", status)
        .field("x", vec![b'a'; head_bytes]);
    list(stream, &fields, 0)
}

/// A field section in as many frames as needed (RFC 9113 §4.2), the first with these flags.
pub fn list(stream: u32, fields: &FieldSection, flags: u8) -> Vec<H2Frame> {
    const FRAME_BYTES: usize = 16 << 10;
    let parts: Vec<_> = fields.bytes().chunks(FRAME_BYTES).collect();
    let last = parts.len() - 1;
    let frame = |(index, part): (usize, &&[u8])| {
        let end = if index == last {
            H2Frame::END_HEADERS
        } else {
            0
        };
        let (kind, flags) = match index {
            0 => (H2Frame::HEADERS, flags),
            _ => (H2Frame::CONTINUATION, 0),
        };
        H2Frame::new(kind, flags | end, stream, *part)
    };
    parts.iter().enumerate().map(frame).collect()
}

/// A server of HTTP/2 that answers each request with the frames of `answer`.
pub fn h2_origin(answer: impl Fn(u32) -> Vec<H2Frame> + Send + Sync + 'static) -> Origin {
    Origin::Scripted(RawOrigin::start_plain(move |peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(stream) = server.request() {
            server.send(&answer(stream));
        }
    }))
}

/// Connections, requests on each, and bytes of each head.
type Crowded = (usize, u32, usize);

/// Heads for a server that answers nothing.
pub fn heads_that_wait((connections, count, bytes): Crowded) -> Row {
    Row {
        name: format!("{connections} × {count} heads of {bytes} bytes that wait"),
        origin: Origin::silent(),
        protocol: "h1",
        connections,
        sent: heads(count, bytes),
    }
}

#[test]
fn heads_that_wait_for_memory() {
    heads_that_wait((150, 100, 15_000)).run(Over::Tcp, 64);
}

#[test]
fn heads_that_wait_for_memory_of_small_and_large_budgets() {
    heads_that_wait((100, 100, 15_000)).run(Over::Tcp, 16);
    if is_left_to_long_tier("heads that wait, the whole table") {
        return;
    }
    for (budget, crowd) in [
        (64, (400, 100, 15_000)),
        (64, (400, 80, 15_000)),
        (64, (400, 200, 2_000)),
        (256, (400, 100, 15_000)),
        (16, (400, 100, 15_000)),
    ] {
        heads_that_wait(crowd).run(Over::Tcp, budget);
    }
}

/// Heads of short fields, each of which takes a hundred bytes of memory.
fn heads_of_many_fields() -> Row {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut fields = FieldSection::of("GET", "/flood/a");
    for first in names {
        for second in names {
            fields = fields.kept([first, second].concat(), "");
        }
    }
    // HPACK's dynamic table has them from then on: a byte each.
    let again = (62..126).fold(FieldSection::of("GET", "/flood/a"), |fields, index| {
        fields.indexed(index, 1)
    });
    let frames = streams(100).map(|stream| match stream {
        1 => H2Frame::request(stream, &fields),
        _ => H2Frame::request(stream, &again),
    });
    Row {
        name: "200 × 100 heads of 64 indexed fields".into(),
        origin: Origin::silent(),
        protocol: "h1",
        connections: 200,
        sent: connection(frames),
    }
}

/// Heads that never end.
fn heads_in_part() -> Row {
    let fields = FieldSection::of("GET", "/flood/a").field("x", vec![b'a'; 15_000]);
    let open = H2Frame::new(H2Frame::HEADERS, 0, 1, fields.bytes());
    Row {
        name: "1000 heads of 15 KB in part".into(),
        origin: Origin::silent(),
        protocol: "h1",
        connections: 1000,
        sent: connection([open]),
    }
}

/// Trailers that their server does not take.
fn trailers_that_wait() -> Row {
    let trailers = FieldSection::default().field("x", vec![b'a'; 15_000]);
    let fields = FieldSection::of("POST", "/flood/a");
    let frames = streams(100).flat_map(|stream| {
        let data = H2Frame::data(stream, vec![b'a'; 100]);
        let mut frames = vec![H2Frame::opening(stream, &fields), data];
        frames.extend(list(stream, &trailers, H2Frame::END_STREAM));
        frames
    });
    Row {
        name: "100 × 100 trailers of 15 KB".into(),
        origin: Origin::silent(),
        protocol: "h2c",
        connections: 100,
        sent: connection(frames),
    }
}

/// Heads of responses, and refusals, to clients that read nothing.
fn responses_unread() -> Row {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: {}\r\n\r\nok",
        "a".repeat(4000)
    );
    Row {
        name: "100 × 100 responses of 4 KB unread".into(),
        origin: Origin::Scripted(RawOrigin::answering(head)),
        protocol: "h1",
        connections: 100,
        sent: heads(100, 10),
    }
}

/// The same with servers of HTTP/2, and trailers.
fn responses_of_http2_unread() -> Row {
    let origin = h2_origin(|stream| {
        let mut frames = response(stream, "200", 4000);
        frames.push(H2Frame::data(stream, "ok"));
        let trailers = FieldSection::default().field("y", vec![b'a'; 4000]);
        frames.extend(list(stream, &trailers, H2Frame::END_STREAM));
        frames
    });
    Row {
        name: "100 × 100 responses of HTTP/2 with trailers unread".into(),
        origin,
        protocol: "h2c",
        connections: 100,
        sent: heads(100, 10),
    }
}

/// Interim responses that no client reads (RFC 9110 §15.2).
fn interim_responses_unread() -> Row {
    let interim = format!(
        "HTTP/1.1 103 Early Hints\r\nx: {}\r\n\r\n",
        "a".repeat(60_000)
    );
    let response = interim.repeat(16) + "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    Row {
        name: "5 × 100 × 16 interim heads of 60 KB".into(),
        origin: Origin::Scripted(RawOrigin::answering(response)),
        protocol: "h1",
        connections: 5,
        sent: heads(100, 10),
    }
}

/// The same with servers of HTTP/2.
fn interim_responses_of_http2_unread() -> Row {
    let origin = h2_origin(|stream| {
        let mut frames: Vec<_> = (0..16)
            .flat_map(|_| response(stream, "103", 60_000))
            .collect();
        frames.push(H2Frame::ok(stream));
        frames.push(H2Frame::last_data(stream, "ok"));
        frames
    });
    Row {
        name: "5 × 100 × 16 interim heads of 60 KB of HTTP/2".into(),
        origin,
        protocol: "h2c",
        connections: 5,
        sent: heads(100, 10),
    }
}

/// Uploads of one-byte frames beside streams that are reset.
fn small_frames_beside_resets() -> Row {
    let fields = FieldSection::of("POST", "/flood/a");
    let uploads = streams(10).map(|stream| H2Frame::opening(stream, &fields));
    let rounds = (0..40_u32).flat_map(|round| {
        let fresh = 2 * (10 + round) + 1;
        let small = (0..400).map(|index| H2Frame::data(2 * (index % 10) + 1, "a"));
        let begin = [
            H2Frame::opening(fresh, &FieldSection::of("POST", "/flood/a")),
            H2Frame::data(fresh, "a"),
            H2Frame::reset(fresh),
        ];
        begin.into_iter().chain(small)
    });
    Row {
        name: "60 × one-byte frames beside resets".into(),
        origin: Origin::silent(),
        protocol: "h1",
        connections: 60,
        sent: connection(uploads.chain(rounds)),
    }
}

/// The rows, but for heads that wait, and streams that have ended.
pub const ROWS: [fn() -> Row; 8] = [
    heads_of_many_fields,
    heads_in_part,
    trailers_that_wait,
    responses_unread,
    responses_of_http2_unread,
    interim_responses_unread,
    interim_responses_of_http2_unread,
    small_frames_beside_resets,
];

#[test]
fn heads_of_many_fields_that_wait_for_memory() {
    heads_of_many_fields().run(Over::Tcp, 64);
}

#[test]
fn heads_of_which_the_end_never_comes() {
    heads_in_part().run(Over::Tcp, 64);
}

#[test]
fn trailers_that_wait_for_their_server() {
    trailers_that_wait().run(Over::Tcp, 64);
}

#[test]
fn responses_that_nobody_reads() {
    responses_unread().run(Over::Tcp, 64);
}

#[test]
fn responses_of_http2_that_nobody_reads() {
    responses_of_http2_unread().run(Over::Tcp, 64);
}

#[test]
fn interim_responses_that_nobody_reads() {
    interim_responses_unread().run(Over::Tcp, 64);
}

#[test]
fn interim_responses_of_http2_that_nobody_reads() {
    interim_responses_of_http2_unread().run(Over::Tcp, 64);
}

#[test]
fn small_frames_beside_streams_that_are_reset() {
    small_frames_beside_resets().run(Over::Tcp, 64);
}

#[test]
fn the_other_rows_with_other_budgets() {
    if is_left_to_long_tier("the other rows of HTTP/2 with other budgets") {
        return;
    }
    for budget_mib in [16, 256] {
        for row in ROWS {
            row().run(Over::Tcp, budget_mib);
        }
        were_busy(budget_mib);
    }
}

/// Connections that had many streams at once, and have none any more.
#[track_caller]
fn were_busy(budget_mib: u64) {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let name = format!("h2c, 300 connections that had 100 streams, {budget_mib} MiB");
    let flood = Flood::new(&name, budget_mib).toward(origin.address(), "h1");
    flood.by_charges_alone().run(|node| {
        let mut crowd = Crowd::connect(node.gateway(), 300);
        crowd.send(&heads(100, 100));
        crowd.read_until_quiet(Duration::from_secs(1));
        crowd
    });
}

#[test]
fn connections_that_were_busy() {
    were_busy(64);
}
