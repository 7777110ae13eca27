//! Lines of both formats, and what peers can't do to them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use steppe_mem::{Budget, Buffer};
use steppe_telemetry::Destination;

use super::*;
use crate::field::{FieldBlock, FieldList};
use crate::filter::ServedFrom;
use crate::forwarded::Peer;
use crate::h1::parse::{self, HeadLimits};
use crate::metrics::CloseReason;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 64 << 10,
    fields: 100,
};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// The bytes of a log after one exchange.
fn logged(format: AccessFormat, request: &[u8]) -> Vec<u8> {
    logged_within(format, request, 64 << 20)
}

fn logged_within(format: AccessFormat, request: &[u8], budget_bytes: u64) -> Vec<u8> {
    let path = scratch();
    let lines = LineLog::open(Destination::File(path.clone()), 1).expect("a file");
    let log = AccessLog::new(format, lines.clone());
    let budget = Budget::new(64 << 20);
    let lease = budget.root().child("heads", None).lease();
    let records = budget.root().child("records", Some(budget_bytes)).lease();
    let access = WorkerAccess {
        records: Records::new(records),
        ..log.worker(&budget.root().child("lines", None).lease())
    };
    let mut bytes = Buffer::take(&lease, request.len()).expect("room");
    bytes.put(request).expect("room");
    let mut fields = FieldList::take();
    let line = parse::request(bytes.filled(), LIMITS, &mut fields, bytes.lease()).expect("valid");
    let fields = FieldBlock::new(bytes, fields);
    let record = line.and_then(|line| access.capture(&line.view(&fields)));
    access.ended(Ended {
        peer: &Peer::new(CLIENT, &[]),
        client: CLIENT,
        tls: None,
        record,
        status: 200,
        sent_bytes: 1234,
        received_bytes: 0,
        duration: Duration::from_micros(1_002_003),
        route: Some("all \"of\" it"),
        upstream: Some("api"),
        server: None,
        filter: None,
        reason: Some(CloseReason::ClientGone),
        served_from: Some(ServedFrom::Stale),
    });
    drop(access);
    assert!(lines.close(Duration::from_secs(20)));
    let text = fs::read(&path).expect("a file");
    fs::remove_file(path).expect("a file");
    text
}

fn scratch() -> PathBuf {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("steppe-access-{}-{next}", std::process::id()))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// Without the time.
fn combined(request: &[u8]) -> String {
    let line = text(logged(AccessFormat::Combined, request));
    let (start, rest) = line.split_once('[').expect("a time");
    let (time, rest) = rest.split_once(']').expect("its end");
    assert_eq!(time.len(), 26, "{time}");
    format!("{start}[]{rest}")
}

#[test]
fn combined_is_what_nginx_writes() {
    let request =
        b"GET /a?b=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/8\r\nReferer: http://x/\r\n\r\n";
    assert_eq!(
        combined(request),
        "192.0.2.7 - - [] \"GET /a?b=1 HTTP/1.1\" 200 1234 \"http://x/\" \"curl/8\"\n"
    );
    assert_eq!(
        combined(b"GET / HTTP/1.0\r\n\r\n"),
        "192.0.2.7 - - [] \"GET / HTTP/1.0\" 200 1234 \"-\" \"-\"\n"
    );
}

#[test]
fn what_could_end_a_value_is_escaped() {
    let request = b"GET /\"\\ HTTP/1.1\r\nUser-Agent: a\" 200 \"b\tc\xff\\\r\n\r\n";
    assert_eq!(
        combined(request),
        "192.0.2.7 - - [] \"GET /\\x22\\x5C HTTP/1.1\" 200 1234 \"-\" \
         \"a\\x22 200 \\x22b\\x09c\\xFF\\x5C\"\n"
    );
}

/// A terminal may take U+009B for the start of a sequence.
#[test]
fn controls_of_eight_bits_are_escaped_in_json() {
    let format = AccessFormat::Json(vec![AccessField::UserAgent]);
    let line = text(logged(
        format,
        "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\u{9b}31m\u{e9}\u{80}\r\n\r\n".as_bytes(),
    ));
    assert_eq!(line, "{\"user_agent\":\"a\\u009B31m\u{e9}\\u0080\"}\n");
}

#[test]
fn json_has_the_chosen_fields_in_their_order() {
    let fields = vec![
        AccessField::Status,
        AccessField::Path,
        AccessField::Query,
        AccessField::Client,
        AccessField::DurationMs,
        AccessField::Route,
    ];
    let request = b"GET /a?b=\"1 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        text(logged(AccessFormat::Json(fields), request)),
        "{\"status\":200,\"path\":\"/a\",\"query\":\"b=\\\"1\",\"client\":\"192.0.2.7\",\
         \"duration_ms\":1002.003,\"route\":\"all \\\"of\\\" it\"}\n"
    );
}

#[test]
fn what_an_exchange_does_not_have_is_left_out() {
    let fields = vec![
        AccessField::Server,
        AccessField::Referer,
        AccessField::Query,
        AccessField::CloseReason,
    ];
    let line = logged(
        AccessFormat::Json(fields),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(text(line), "{\"close_reason\":\"client_gone\"}\n");
    let line = logged(
        AccessFormat::Json(vec![AccessField::Server]),
        b"GET / HTTP/1.0\r\n\r\n",
    );
    assert_eq!(text(line), "{}\n");
}

#[test]
fn every_field_has_its_value() {
    let all = AccessField::ALL.map(|(_, field)| field).to_vec();
    let request = b"PUT /p?q HTTP/1.1\r\nHost: h\r\nuser-agent: u\r\nREFERER: r\r\n\
        x-request-id: i\r\nX-Forwarded-For: f\r\nx-forwarded-for: g\r\n\r\n";
    let line = text(logged(AccessFormat::Json(all), request));
    let (time, rest) = line.split_once(',').expect("several");
    assert_eq!(time.len(), "{\"time\":\"2026-11-21T09:40:21.123Z\"".len());
    assert!(time.ends_with("Z\""), "{time}");
    assert_eq!(
        rest,
        "\"client\":\"192.0.2.7\",\"peer\":\"192.0.2.7\",\"method\":\"PUT\",\"target\":\"/p?q\",\
         \"path\":\"/p\",\"query\":\"q\",\"protocol\":\"HTTP/1.1\",\"host\":\"h\",\"status\":200,\
         \"bytes_sent\":1234,\"bytes_received\":0,\"duration_ms\":1002.003,\
         \"route\":\"all \\\"of\\\" it\",\"upstream\":\"api\",\"user_agent\":\"u\",\
         \"referer\":\"r\",\"request_id\":\"i\",\"forwarded_for\":\"f\",\
         \"close_reason\":\"client_gone\",\"cache\":\"stale\"}\n"
    );
}

#[test]
fn long_values_are_cut() {
    use crate::limits::{ACCESS_TARGET_BYTES_MAX, ACCESS_VALUE_BYTES_MAX};
    let (target, agent) = ("/".repeat(9000), "\"".repeat(9000));
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n");
    let line = combined(request.as_bytes());
    let count = |piece: &str| line.matches(piece).count();
    assert_eq!(count("/"), ACCESS_TARGET_BYTES_MAX + "HTTP/".len() - 4);
    assert_eq!(count("\\x22"), ACCESS_VALUE_BYTES_MAX);
}

#[test]
fn without_memory_the_line_has_what_needs_none() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let line = text(logged_within(AccessFormat::Combined, request, 64));
    assert!(line.ends_with("] \"\" 200 1234 \"-\" \"-\"\n"), "{line}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any bytes of a peer, an exchange is one line, with six quotes in `combined`.
    #[test]
    fn a_peer_writes_no_line_of_its_own(agent in prop::collection::vec(any::<u8>(), 0..100)) {
        let agent: Vec<u8> = agent.into_iter().filter(|byte| *byte >= b' ' && *byte != 0x7f).collect();
        let request = [b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: ", &agent[..], b"\r\n\r\n"].concat();
        let line = logged(AccessFormat::Combined, &request);
        prop_assert!(line[..line.len() - 1].iter().all(|byte| (b' '..=b'~').contains(byte)));
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'"').count(), 6);
        let line = text(logged(AccessFormat::Json(vec![AccessField::UserAgent]), &request));
        prop_assert_eq!(line.lines().count(), 1);
        let unescaped = line.replace("\\\\", "").replace("\\\"", "");
        let quotes = unescaped.matches('"').count();
        prop_assert!(quotes == 4 || line == "{}\n", "{line}");
    }
}
