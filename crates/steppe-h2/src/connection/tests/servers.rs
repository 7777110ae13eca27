//! Hostile servers: bytes that a server sends to our client, and what they cost it (`testdata/servers.txt`).

use super::*;

/// The price of what a server sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// No error.
    Fine,
    /// Stream 1 is reset with this code, and the connection goes on.
    Stream(ErrorCode),
    /// The connection ends with this code.
    Connection(ErrorCode),
}

/// Words of payloads.
const WORDS: [(&str, &[u8]); 14] = [
    ("200", b"\x88"),
    ("204", b"\x89"),
    ("304", b"\x8b"),
    ("404", b"\x8d"),
    ("103", b"\x08\x03103"),
    ("101", b"\x08\x03101"),
    ("length:3", b"\x0f\x0d\x013"),
    ("field", b"\x00\x01x\x01y"),
    ("NO_ERROR", &[0, 0, 0, 0]),
    ("CANCEL", &[0, 0, 0, 8]),
    ("0", &[0, 0, 0, 0]),
    ("1", &[0, 0, 0, 1]),
    ("3", &[0, 0, 0, 3]),
    ("2^31-1", &[0x7f, 0xff, 0xff, 0xff]),
];

fn word(word: &str) -> Vec<u8> {
    if word == "large" {
        // Two of them are above the limit of a section.
        return [&b"\x00\x01l\x7f\xf5\x03"[..], &[b'v'; 628]].concat();
    }
    if let Some(count) = word.strip_prefix("zeros:") {
        return vec![0; count.parse().expect("a count")];
    }
    let known = WORDS.iter().find(|(name, _)| *name == word);
    known.expect("a known word").1.to_vec()
}

fn payload(mut text: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    while let Some(first) = text.chars().next() {
        let used = match first {
            '{' => {
                let end = text.find('}').expect("a closed brace");
                octets.extend(word(&text[1..end]));
                end + 1
            }
            '\\' => {
                octets.push(u8::from_str_radix(&text[2..4], 16).expect("an octet"));
                4
            }
            other => {
                octets.push(u8::try_from(other).expect("ASCII"));
                1
            }
        };
        text = &text[used..];
    }
    octets
}

fn frame_of(text: &str) -> Vec<u8> {
    let (count, text) = text.split_once('*').unwrap_or(("1", text));
    let mut parts = text.splitn(4, '/');
    let mut part = || parts.next().expect("four parts");
    let frame_type = match part() {
        "DATA" => FrameType::Data,
        "HEADERS" => FrameType::Headers,
        "PRIORITY" => FrameType::Priority,
        "RST_STREAM" => FrameType::RstStream,
        "SETTINGS" => FrameType::Settings,
        "PUSH_PROMISE" => FrameType::PushPromise,
        "PING" => FrameType::Ping,
        "GOAWAY" => FrameType::Goaway,
        "WINDOW_UPDATE" => FrameType::WindowUpdate,
        "CONTINUATION" => FrameType::Continuation,
        "PRIORITY_UPDATE" => FrameType::PriorityUpdate,
        "UNKNOWN" => FrameType::Unknown(0xee),
        other => panic!("{other} is no type of a frame"),
    };
    let stream = part().parse().expect("a stream");
    let flags = part().chars().map(|name| match name {
        'S' => flag::END_STREAM,
        'H' => flag::END_HEADERS,
        'P' => flag::PADDED,
        'Y' => flag::PRIORITY,
        'A' => flag::ACK,
        _ => panic!("{name} is no flag"),
    });
    let flags = flags.fold(0, |all, flag| all | flag);
    let octets = frame(frame_type, flags, stream, &payload(part()));
    octets.repeat(count.parse().expect("a count"))
}

fn code(name: &str) -> ErrorCode {
    let known = (0..14).map(ErrorCode).find(|code| code.to_string() == name);
    known.expect("the name of a code")
}

fn expected(text: &str) -> Outcome {
    match text.split_once(' ') {
        Some(("stream", name)) => Outcome::Stream(code(name)),
        Some(("connection", name)) => Outcome::Connection(code(name)),
        _ => Outcome::Fine,
    }
}

/// The outcome of `sent` for a client whose request by `method` is stream 1; `piece` octets come at a time.
fn outcome(method: &str, sent: &[u8], piece: usize) -> (Outcome, String) {
    let mut peer = Peer::client();
    let end = match method {
        "POST" | "CONNECT" => EndStream::No,
        _ => EndStream::Yes,
    };
    peer.ask(method, end);
    for octets in sent.chunks(piece) {
        peer.receive(octets);
    }
    let log = peer.log();
    if let Some(error) = peer.connection.error() {
        let goaway = format!("> Goaway 0 flags 0: {}", error.code);
        assert!(log.ends_with(&goaway), "{log}");
        return (Outcome::Connection(error.code), log);
    }
    assert!(!log.contains("> Goaway"), "{log}");
    if peer.connection.goaway().is_none() {
        goes_on(&mut peer);
    }
    let lines = log.lines();
    let resets: Vec<_> = (lines.clone())
        .filter(|line| line.contains("RstStream"))
        .collect();
    let Some((_, after)) = log.split_once("reset of 1 by Us: ") else {
        assert_eq!(resets, <[&str; 0]>::default(), "{log}");
        return (Outcome::Fine, log);
    };
    let (name, after) = after.split_once('\n').expect("RST_STREAM is sent");
    assert_eq!(resets, [format!("> RstStream 1 flags 0: {name}")], "{log}");
    assert!(
        !after.contains(" of 1") && !after.contains(" on 1"),
        "{log}"
    );
    (Outcome::Stream(code(name)), log)
}

/// A further request gets its response.
fn goes_on(peer: &mut Peer) {
    let id = peer.ask("GET", EndStream::Yes);
    peer.receive(&headers(id.number(), END, b"\x88"));
    let log = peer.log();
    let end = format!("end of {}", id.number());
    assert!(log.ends_with(&end), "{log}");
}

#[test]
fn what_a_server_sends_costs_what_it_has_to() {
    let table = include_str!("../../../testdata/servers.txt");
    let rows = table.lines();
    let mut wrong = Vec::new();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let [name, method, frames, outcome_text] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let sent: Vec<u8> = frames.split(' ').flat_map(frame_of).collect();
        for piece in [usize::MAX, 1, 7] {
            let (found, log) = outcome(method, &sent, piece);
            if found != expected(outcome_text) {
                wrong.push(format!("{name}, by {piece}: {found:?}\n{log}\n"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
