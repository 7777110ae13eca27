//! The vectors of `docs/plane/protocol.md`: this reader and one in Python give the same results.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use steppe_plane::frame::{
    Direction, FrameHeader, FrameType, HEADER_BYTES, Head, Hello, Service, Services, write_services,
};
use steppe_plane::{Connection, Side};

use crate::support::{config, feed, written};

fn vectors() -> Value {
    let text = include_str!("../../../../docs/plane/protocol-vectors.json");
    serde_json::from_str(text).expect("JSON")
}

fn list<'a>(vectors: &'a Value, key: &str) -> &'a [Value] {
    let list = vectors[key].as_array().expect("a list");
    assert!(!list.is_empty(), "{key}");
    list
}

/// Bytes of hex in which `78*3` stands for 787878.
fn unhex(text: &str) -> Vec<u8> {
    let part = |part: &str| {
        let (digits, count) = part.split_once('*').unwrap_or((part, "1"));
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes.repeat(count.parse().expect("a count"))
    };
    text.split(' ').flat_map(part).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A frame as the vectors describe it.
fn meaning(bytes: &[u8], direction: &Value) -> Value {
    let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>().expect("a header");
    let header = FrameHeader::read(header);
    header.check().expect("valid");
    assert_eq!(header.len as usize, payload.len());
    let mut said = json!({
        "type": header.frame_type.to_string(),
        "flags": header.flags,
        "stream": header.stream,
        "code": header.code,
        "aux": format!("{:016x}", header.aux),
    });
    match header.frame_type {
        FrameType::HELLO => {
            let hello = Hello::read(&header, payload).expect("a HELLO");
            said["fields"] = hello_fields(&hello.expect("valid"));
        }
        FrameType::HEADERS => {
            said["direction"] = direction.clone();
            let direction = match direction.as_str() {
                Some("request") => Direction::Request,
                _ => Direction::Response,
            };
            let head = Head::read(direction, header.flags, payload).expect("valid");
            said["fields"] = head_fields(&head);
            assert_eq!(head.flags(), header.flags & 0x0f);
            let mut again = Vec::new();
            head.write(&mut again);
            assert!(payload.starts_with(&again), "what is known is written so");
        }
        FrameType::DATA => said["payload"] = hex(payload).into(),
        FrameType::RESET | FrameType::END | FrameType::GOAWAY => {
            said["text"] = std::str::from_utf8(payload).expect("UTF-8").into();
        }
        FrameType::SERVICES => {
            let services = Services::read(payload).expect("valid");
            let services: Vec<Service<'_>> = services.iter().collect();
            said["services"] = services.iter().map(service_fields).collect();
            let mut again = Vec::new();
            write_services(&services, &mut again).expect("they fit");
            assert_eq!(again, payload);
        }
        _ => assert_eq!(payload, b""),
    }
    said
}

fn hello_fields(hello: &Hello) -> Value {
    json!({
        "oldest": hello.oldest,
        "newest": hello.newest,
        "streams_max": hello.streams_max,
        "stream_credit": hello.stream_credit,
        "connection_credit": hello.connection_credit,
    })
}

fn head_fields(head: &Head<'_>) -> Value {
    let micros = |deadline: Duration| u64::try_from(deadline.as_micros()).expect("short");
    let fields = [
        (
            "service",
            (!head.service.is_empty()).then(|| head.service.into()),
        ),
        ("length", head.length.map(Value::from)),
        (
            "deadline_micros",
            head.deadline.map(|deadline| micros(deadline).into()),
        ),
        ("content_type", head.content_type.map(Value::from)),
        (
            "trace_parent",
            head.trace_parent.map(|trace| hex(&trace.0).into()),
        ),
        (
            "idempotency_key",
            head.idempotency_key.map(|key| hex(key).into()),
        ),
    ];
    present(fields)
}

fn service_fields(service: &Service<'_>) -> Value {
    present([
        ("name", Some(service.name.into())),
        ("calls_max", service.calls_max.map(Value::from)),
    ])
}

fn present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<String, Value>>())
}

#[test]
fn frames_mean_what_the_page_says() {
    let vectors = vectors();
    for vector in list(&vectors, "frames") {
        let bytes = unhex(vector["hex"].as_str().expect("hex"));
        let expected = &vector["meaning"];
        let said = meaning(&bytes, &expected["direction"]);
        assert_eq!(said, *expected, "{}", vector["name"]);
    }
}

#[test]
fn a_connection_begins_with_the_first_of_them() {
    let vectors = vectors();
    let mut connection = Connection::new(config(Side::Acceptor), Instant::now());
    let first = &list(&vectors, "frames")[0];
    assert_eq!(
        hex(&written(&mut connection, 4096)),
        first["hex"].as_str().expect("hex")
    );
}

/// The code of the connection's violation, which its GOAWAY has too.
fn code_of(sent: &Value, size: usize) -> Option<u32> {
    let now = Instant::now();
    let mut connection = Connection::new(config(Side::Acceptor), now);
    written(&mut connection, 4096);
    for bytes in sent.as_array().expect("a list") {
        let bytes = unhex(bytes.as_str().expect("hex"));
        let Err(violation) = feed(&mut connection, &bytes, size, now) else {
            continue;
        };
        assert_eq!(
            connection.next_event(now).err(),
            Some(violation),
            "it stays"
        );
        let said = written(&mut connection, 1 << 20);
        let text = violation.to_string();
        let goaway = &said[said.len() - HEADER_BYTES - text.len()..];
        let (header, payload) = goaway.split_first_chunk().expect("GOAWAY");
        let header = FrameHeader::read(header);
        assert_eq!(header.frame_type, FrameType::GOAWAY);
        assert_eq!((header.code, payload), (violation.code(), text.as_bytes()));
        return Some(violation.code());
    }
    None
}

#[test]
fn who_lies_is_dismissed() {
    let vectors = vectors();
    for vector in list(&vectors, "dismissed") {
        for size in [1, 4096, 1 << 20] {
            let code = code_of(&vector["sent"], size);
            let expected = vector["code"]
                .as_u64()
                .map(|code| u32::try_from(code).expect("small"));
            assert_eq!(code, expected, "{} by {size}", vector["name"]);
        }
    }
}

#[test]
fn who_does_not_is_heard() {
    let vectors = vectors();
    for vector in list(&vectors, "accepted") {
        for size in [1, 4096, 1 << 20] {
            assert_eq!(code_of(&vector["sent"], size), None, "{}", vector["name"]);
        }
    }
}

#[test]
fn a_second_reader_agrees() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("python3")
        .arg(root.join("scripts/plane-vectors.py"))
        .arg(root.join("docs/plane/protocol-vectors.json"))
        .output();
    let Ok(output) = output else {
        steppe_testkit::skip("a_second_reader_agrees", "needs python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains(", 0 wrong"), "{said}");
}
