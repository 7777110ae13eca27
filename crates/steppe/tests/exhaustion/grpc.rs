//! gRPC, and gRPC-Web over HTTP/1.1 and HTTP/2: messages that wait for their server, and unread responses.

use steppe_testkit::{
    FieldSection, H2Frame, H2Server, RawOrigin, grpc_message, is_left_to_long_tier,
};

use crate::http2::{connection, list, streams};
use crate::row::{Origin, Over, Row};

const GRPC: &str = "application/grpc";
const WEB: &str = "application/grpc-web+proto";
/// The media type of gRPC-Web in Base64.
const WEB_TEXT: &str = "application/grpc-web-text";

/// Small messages of each call.
const MESSAGES: usize = 8;

/// A server whose windows are closed (RFC 9113 §6.5.2): messages to it wait.
fn closed_origin() -> Origin {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    Origin::Scripted(RawOrigin::start_plain(|peer| {
        if let Some(mut server) = H2Server::begin(peer, &[(INITIAL_WINDOW_SIZE, 0)]) {
            server.drain();
        }
    }))
}

/// A server that answers a call at its beginning: messages, and a status with a text of 4 KB.
fn answering_origin() -> Origin {
    Origin::Scripted(RawOrigin::start_plain(|peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(frame) = server.frame() {
            if frame.kind == H2Frame::HEADERS {
                server.send(&answer(frame.stream));
            }
        }
    }))
}

fn answer(stream: u32) -> Vec<H2Frame> {
    let head = FieldSection::default()
        .field(":status", "200")
        .field("content-type", GRPC);
    let status = FieldSection::default()
        .field("grpc-status", "0")
        .field("grpc-message", vec![b'a'; 4000]);
    let mut frames = vec![H2Frame::opening(stream, &head)];
    // Within the connection's first window, since the gateway may not extend it for a while.
    frames.push(H2Frame::data(stream, grpc_message(&[7; 400])));
    frames.extend(list(stream, &status, H2Frame::END_STREAM));
    frames
}

/// The messages of a call, in the encoding of `content_type`.
fn messages(content_type: &str) -> Vec<u8> {
    let message = grpc_message(b"a");
    match content_type {
        // RFC 4648 §4, with padding: each message is encoded by itself.
        WEB_TEXT => b"AAAAAAFh".repeat(MESSAGES),
        _ => message.repeat(MESSAGES),
    }
}

/// Calls of one connection over HTTP/2, each with messages and without an end.
fn calls(content_type: &str) -> Vec<u8> {
    let fields = FieldSection::of("POST", "/flood/a")
        .field("content-type", content_type)
        .field("te", "trailers");
    let content = messages(content_type);
    let each = |stream| {
        [
            H2Frame::opening(stream, &fields),
            H2Frame::data(stream, content.clone()),
        ]
    };
    // As many as a budget of 16 MiB has room for on a connection.
    connection(streams(30).flat_map(each))
}

/// A call over HTTP/1.1 with messages and without an end.
fn call(content_type: &str) -> Vec<u8> {
    let content = messages(content_type);
    let mut bytes = format!(
        "POST /flood/a HTTP/1.1\r\nhost: a\r\ncontent-type: {content_type}\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n",
        content.len()
    )
    .into_bytes();
    bytes.extend(content);
    bytes.extend(b"\r\n");
    bytes
}

/// Calls over HTTP/2 whose messages wait.
fn messages_that_wait(content_type: &str) -> Row {
    Row {
        name: format!("500 × 30 calls whose messages wait, {content_type}"),
        origin: closed_origin(),
        protocol: "h2c",
        connections: 500,
        sent: calls(content_type),
    }
}

/// Responses over HTTP/2 that the client does not read.
fn responses_unread(content_type: &str) -> Row {
    Row {
        name: format!("500 × 30 calls whose responses are unread, {content_type}"),
        origin: answering_origin(),
        protocol: "h2c",
        connections: 500,
        sent: calls(content_type),
    }
}

/// Calls over HTTP/1.1 whose messages wait.
fn messages_of_http1_that_wait(content_type: &str) -> Row {
    Row {
        name: format!("2000 calls by HTTP/1.1 whose messages wait, {content_type}"),
        origin: closed_origin(),
        protocol: "h2c",
        connections: 2000,
        sent: call(content_type),
    }
}

/// Pipelined calls over HTTP/1.1 whose responses the client does not read.
fn responses_of_http1_unread(content_type: &str) -> Row {
    let content = messages(content_type);
    let head = format!(
        "POST /flood/a HTTP/1.1\r\nhost: a\r\ncontent-type: {content_type}\r\n\
         content-length: {}\r\n\r\n",
        content.len()
    );
    let call = [head.into_bytes(), content].concat();
    Row {
        name: format!("1000 × 100 calls by HTTP/1.1 whose responses are unread, {content_type}"),
        origin: answering_origin(),
        protocol: "h2c",
        connections: 1000,
        sent: call.repeat(100),
    }
}

/// Makes the row of calls with this kind of content.
type MakeRow = fn(&str) -> Row;

/// The rows with their kinds of content.
const ROWS: [(MakeRow, &str); 10] = [
    (messages_that_wait, GRPC),
    (responses_unread, GRPC),
    (messages_that_wait, WEB),
    (responses_unread, WEB),
    (messages_that_wait, WEB_TEXT),
    (responses_unread, WEB_TEXT),
    (messages_of_http1_that_wait, WEB),
    (responses_of_http1_unread, WEB),
    (messages_of_http1_that_wait, WEB_TEXT),
    (responses_of_http1_unread, WEB_TEXT),
];

#[test]
fn calls_whose_messages_wait() {
    messages_that_wait(GRPC).run(Over::Tcp, 64);
}

/// Each has a connection to the server for itself (`keepalive = 0`), whose memory is its client's.
#[test]
fn calls_of_http1_whose_messages_wait() {
    messages_of_http1_that_wait(WEB_TEXT).run(Over::Tcp, 64);
}

#[test]
fn every_row_of_grpc() {
    if is_left_to_long_tier("every row of gRPC and gRPC-Web") {
        return;
    }
    for budget_mib in [64, 16, 256] {
        for (row, content_type) in ROWS {
            row(content_type).run(Over::Tcp, budget_mib);
        }
    }
    for (row, content_type) in &ROWS[..2] {
        row(content_type).run(Over::Tls, 64);
    }
}
