//! Requests that parsers read in more than one way: refused, the connection closed, nothing
//! forwarded.
//!
//! Each case is followed by a request that a lenient parser would forward. The origin is lenient on
//! purpose and records every byte; a plain request after each case proves that the origin got that
//! one alone. RFC 9112, and the cases that nginx, `HAProxy`, Envoy and others answer differently.

use steppe_testkit::{RawOrigin, Steppe};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Name, request bytes, and the statuses that refuse it.
type Case<'a> = (&'a str, &'a [u8], &'a [u16]);

const REFUSED: &[u16] = &[400];
const CODING: &[u16] = &[400, 501];
const VERSION: &[u16] = &[400, 505];
const LENGTH: &[u16] = &[400, 413];

/// Heads that are invalid in any reading: not a byte may reach the origin.
const HEADS: &[Case] = &[
    (
        "Content-Length, then Transfer-Encoding",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "Transfer-Encoding, then Content-Length",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "TE.CL: a chunk that hides a request",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n\
          24\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "Transfer-Encoding in HTTP/1.0",
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "identity, chunked in HTTP/1.0",
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    ("two Host fields", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", REFUSED),
    ("two equal Host fields", b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", REFUSED),
    ("two Host fields in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", REFUSED),
    ("no Host", b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", REFUSED),
    ("no fields at all", b"GET / HTTP/1.1\r\n\r\n", REFUSED),
    ("a space in Host", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", REFUSED),
    ("a path in Host", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", REFUSED),
    ("user information in Host", b"GET / HTTP/1.1\r\nHost: me@a\r\n\r\n", REFUSED),
    ("a port of letters in Host", b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", REFUSED),
    ("obs-fold by space", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n", REFUSED),
    ("obs-fold by tab", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\tc\r\n\r\n", REFUSED),
    (
        "obs-fold that hides a coding",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    ("a space before the first field", b"GET / HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n", REFUSED),
    ("a bare CR in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n", REFUSED),
    ("a bare CR at a value's end", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\r\n\r\n", REFUSED),
    ("a bare CR in a name", b"GET / HTTP/1.1\r\nHost: a\r\nX\r-A: b\r\n\r\n", REFUSED),
    ("a bare CR in the target", b"GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("NUL in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n", REFUSED),
    ("NUL in a name", b"GET / HTTP/1.1\r\nHost: a\r\nX\0A: b\r\n\r\n", REFUSED),
    ("DEL in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x7fc\r\n\r\n", REFUSED),
    ("bare LF everywhere", b"GET / HTTP/1.1\nHost: a\n\n", REFUSED),
    ("bare LF after the request line", b"GET / HTTP/1.1\nHost: a\r\n\r\n", REFUSED),
    ("bare LF after a field", b"GET / HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n", REFUSED),
    ("bare LF for the empty line", b"GET / HTTP/1.1\r\nHost: a\r\n\n", REFUSED),
    ("a space before the colon", b"GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n", REFUSED),
    ("a tab before the colon", b"GET / HTTP/1.1\r\nHost: a\r\nX-A\t: b\r\n\r\n", REFUSED),
    (
        "a space before the colon of a coding",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    (
        "a space before the colon of a length",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello",
        REFUSED,
    ),
    ("an empty field name", b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", REFUSED),
    ("a field without a colon", b"GET / HTTP/1.1\r\nHost: a\r\nX-A\r\n\r\n", REFUSED),
    ("a space within a name", b"GET / HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n", REFUSED),
    ("a parenthesis in a name", b"GET / HTTP/1.1\r\nHost: a\r\nX(A): b\r\n\r\n", REFUSED),
    ("a byte over 127 in a name", b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9: b\r\n\r\n", REFUSED),
    ("gzip, chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CODING),
    ("chunked, chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", CODING),
    ("identity, chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", CODING),
    ("chunked, identity", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", CODING),
    ("identity", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", CODING),
    ("xchunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", CODING),
    ("chunked with a parameter", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", CODING),
    ("chunked in quotes", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", CODING),
    ("chunked after a vertical tab", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", CODING),
    ("chunked before a form feed", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\x0c\r\n\r\n0\r\n\r\n", CODING),
    ("an empty coding", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n0\r\n\r\n", CODING),
    (
        "two Transfer-Encoding fields",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        CODING,
    ),
    (
        "Transfer-Encoding: chunked twice",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CODING,
    ),
    ("Content-Length: +5", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", REFUSED),
    ("Content-Length: 5,5", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,5\r\n\r\nhello", REFUSED),
    ("Content-Length: 5, 6", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello", REFUSED),
    ("Content-Length: -1", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nhello", REFUSED),
    ("Content-Length: 5 5", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello", REFUSED),
    ("Content-Length: 0x5", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", REFUSED),
    ("Content-Length: 5.0", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nhello", REFUSED),
    ("Content-Length: 5_0", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5_0\r\n\r\nhello", REFUSED),
    ("an empty Content-Length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\nhello", REFUSED),
    ("Content-Length of 2^64", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\nhello", LENGTH),
    ("Content-Length of 2^64 + 5", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello", LENGTH),
    ("Content-Length of 2^63", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\nhello", LENGTH),
    ("Content-Length of 40 digits", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999999999999999999999999\r\n\r\nhello", LENGTH),
    (
        "two differing lengths",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        REFUSED,
    ),
    (
        "two equal lengths",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        REFUSED,
    ),
    ("two spaces after the method", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("two spaces after the target", b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a space after the version", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", REFUSED),
    ("a space before the method", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a tab in the request line", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a space in the target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a control character in the target", b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("NUL in the target", b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a fragment in the target", b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a target without a slash", b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("an asterisk with GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("no target", b"GET HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a parenthesis in the method", b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    ("a version in lower case", b"GET / http/1.1\r\nHost: a\r\n\r\n", VERSION),
    ("HTTP/2.0", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", VERSION),
    ("HTTP/0.9 with a version", b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", VERSION),
    ("HTTP/1.10", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", VERSION),
    ("HTTP/01.1", b"GET / HTTP/01.1\r\nHost: a\r\n\r\n", VERSION),
    ("HTTP/1", b"GET / HTTP/1\r\nHost: a\r\n\r\n", VERSION),
    ("HTTP/0.9", b"GET /\r\nHost: a\r\n\r\n", VERSION),
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VERSION),
    ("CONNECT", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", &[400, 405, 501]),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", REFUSED),
];

/// Bodies that break their framing: the request must never be complete for the origin.
const BODIES: &[(&str, &[u8])] = &[
    (
        "an extension ended by a bare LF",
        b"5;a\nhello\r\n0\r\n\r\n",
    ),
    ("a size ended by a bare LF", b"5\nhello\r\n0\r\n\r\n"),
    ("a size ended by a bare CR", b"5\rhello\r\n0\r\n\r\n"),
    ("a bare CR in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    ("NUL in an extension", b"5;a\0b\r\nhello\r\n0\r\n\r\n"),
    ("a chunk ended by a bare LF", b"5\r\nhello\n0\r\n\r\n"),
    ("a chunk longer than its size", b"3\r\nhello\r\n0\r\n\r\n"),
    ("a chunk shorter than its size", b"6\r\nhello\r\n0\r\n\r\n"),
    (
        "a size of 2^64 + 5",
        b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    ),
    (
        "a size of 20 digits",
        b"FFFFFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
    ),
    ("a negative size", b"-5\r\nhello\r\n0\r\n\r\n"),
    ("a size with a plus", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("a size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("a size after a space", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("a size before a space", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("a size with an underscore", b"0_5\r\nhello\r\n0\r\n\r\n"),
    ("no size", b"\r\nhello\r\n0\r\n\r\n"),
    ("an extension without a size", b";a\r\nhello\r\n0\r\n\r\n"),
    ("no digit at all", b"xyz\r\nhello\r\n0\r\n\r\n"),
    (
        "a trailer with a space before its colon",
        b"5\r\nhello\r\n0\r\nX-A : b\r\n\r\n",
    ),
    (
        "a folded trailer",
        b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n",
    ),
    (
        "a trailer ended by a bare LF",
        b"5\r\nhello\r\n0\r\nX-A: b\n\r\n",
    ),
    (
        "a trailer with a bare CR",
        b"5\r\nhello\r\n0\r\nX-A: b\rc\r\n\r\n",
    ),
    (
        "a trailer without a name",
        b"5\r\nhello\r\n0\r\n: b\r\n\r\n",
    ),
    ("bare LF for the last line", b"5\r\nhello\r\n0\r\n\n"),
];

/// Requests with sound framing: these must pass, since refusing everything is no strictness.
const SOUND: &[(&str, &[u8])] = &[
    ("no body", b"GET /sound HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a length", b"POST /sound HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
    ("a length of zeros", b"POST /sound HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello"),
    (
        "chunks with an extension",
        b"POST /sound HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\n\r\n",
    ),
    (
        "a coding in capitals, a size with zeros",
        b"POST /sound HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: Chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n",
    ),
    ("a host with a port", b"GET /sound HTTP/1.1\r\nHost: a.example:8080\r\n\r\n"),
    ("an IPv6 host", b"GET /sound HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
    ("tabs and spaces around a value", b"GET /sound HTTP/1.1\r\nHost:\t a \t\r\nX-A:b\r\n\r\n"),
    ("an empty value", b"GET /sound HTTP/1.1\r\nHost: a\r\nX-A:\r\n\r\n"),
    ("bytes over 127 in a value", b"GET /sound HTTP/1.1\r\nHost: a\r\nX-A: caf\xe9\r\n\r\n"),
    ("a method of its own", b"PROPFIND /sound HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("HTTP/1.0 without a host", b"GET /sound HTTP/1.0\r\n\r\n"),
];

#[test]
fn ambiguous_heads_are_refused_and_nothing_is_forwarded() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    let judged = HEADS.iter().filter_map(|(name, bytes, statuses)| {
        let refused = refusal(&node, bytes, statuses).err();
        let reached = only_sentinel_reached(&node, &origin).err();
        refused.or(reached).map(|why| format!("{name}: {why}"))
    });
    none_left(judged.collect());
}

#[test]
fn heads_are_judged_alike_when_they_come_byte_by_byte() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    let judged = HEADS
        .iter()
        .step_by(4)
        .filter_map(|(name, bytes, statuses)| {
            let mut peer = node.connect();
            for byte in *bytes {
                if peer.try_send(std::slice::from_ref(byte)).is_err() {
                    break;
                }
            }
            let status = peer
                .try_head()
                .ok()
                .flatten()
                .map_or(0, |head| head.status());
            let refused = !statuses.contains(&status);
            let reached = only_sentinel_reached(&node, &origin).err();
            refused
                .then(|| format!("answered {status}"))
                .or(reached)
                .map(|why| format!("{name}: {why}"))
        });
    none_left(judged.collect());
}

#[test]
fn broken_chunks_are_refused_and_the_request_never_looks_whole() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let judged = BODIES.iter().filter_map(|(name, body)| {
        let head = b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let request = [head.as_slice(), body].concat();
        let refused = refusal(&node, &request, REFUSED).err();
        refused.map(|why| format!("{name}: {why}"))
    });
    none_left(judged.collect());
    node.exchange("GET /sentinel HTTP/1.1\r\nHost: a\r\n\r\n");
    for bytes in origin.connections() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(
            !text.contains("0\r\n\r\n"),
            "a broken body looks whole: {text:?}"
        );
        assert!(!text.contains("/smuggled"), "{text:?}");
    }
}

#[test]
fn an_endless_chunk_extension_is_refused() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;");
    for _ in 0..256 {
        if peer.try_send(&[b'a'; 4096]).is_err() {
            break;
        }
    }
    let answer = peer.response();
    assert!([400, 413, 431].contains(&answer.status()), "{answer:?}");
    peer.drain();
}

#[test]
fn sound_messages_pass() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let judged = SOUND.iter().filter_map(|(name, bytes)| {
        let answer = node.exchange(bytes);
        let passed = answer.status() == 200 && answer.text() == "ok";
        (!passed).then(|| format!("{name}: {answer:?}"))
    });
    none_left(judged.collect());
    let reached = origin.received().matches(" /sound HTTP/1.1\r\n").count();
    assert_eq!(reached, SOUND.len(), "{}", origin.received());
    assert_eq!(origin.received().matches("hello").count(), 4);
}

/// RFC 9112 §3.2.2: the target's authority replaces `Host`; refusing the request is stricter still.
#[test]
fn an_absolute_target_and_a_differing_host_have_one_reading() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let differing = node.exchange("GET http://b.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!([200, 400].contains(&differing.status()), "{differing:?}");
    assert!(
        !origin.received().contains("a.example"),
        "{}",
        origin.received()
    );
    let same = node.exchange("GET http://c.example/y HTTP/1.1\r\nHost: c.example\r\n\r\n");
    assert_eq!(same.status(), 200);
    let forwarded = origin.received();
    assert!(forwarded.contains("GET /y HTTP/1.1\r\n"), "{forwarded}");
    assert!(
        forwarded
            .to_ascii_lowercase()
            .contains("\r\nhost: c.example\r\n"),
        "{forwarded}"
    );
}

#[test]
fn an_escaped_line_end_in_the_path_stays_escaped() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let answer = node.exchange("GET /a%0d%0ax-evil:%201 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!([200, 400].contains(&answer.status()), "{answer:?}");
    assert!(
        !origin.received().contains("\nx-evil"),
        "{}",
        origin.received()
    );
    let query = node.exchange("GET /?a=%0d%0ax-evil:%201 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!([200, 400].contains(&query.status()), "{query:?}");
    assert!(
        !origin.received().contains("\nx-evil"),
        "{}",
        origin.received()
    );
}

#[test]
fn a_refused_request_does_not_touch_its_predecessor() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    peer.send(
        "GET /first HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /second HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n\
         GET /third HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(peer.response().text(), "ok");
    assert_eq!(peer.response().status(), 400);
    peer.expect_close();
    assert!(!origin.received().contains("/second") && !origin.received().contains("/third"));
}

/// Sends a bad request with another behind it. An error describes a wrong answer.
fn refusal(node: &Steppe, request: &[u8], statuses: &[u16]) -> Result<(), String> {
    let mut peer = node.connect();
    let _ = peer.try_send(&[request, SMUGGLED.as_bytes()].concat());
    let Some(head) = peer.try_head()? else {
        return Err("closed without an answer".into());
    };
    if !statuses.contains(&head.status()) {
        return Err(format!("answered {}", head.start));
    }
    let close = head
        .field("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if !close {
        return Err(format!("no connection: close in {head:?}"));
    }
    let rest = String::from_utf8_lossy(&peer.rest()).into_owned();
    if rest.contains("HTTP/1.1 ") {
        return Err(format!("a second answer: {rest:?}"));
    }
    Ok(())
}

/// Sends a plain request, and checks that the origin got no other.
fn only_sentinel_reached(node: &Steppe, origin: &RawOrigin) -> Result<(), String> {
    let answer = node.exchange("GET /sentinel HTTP/1.1\r\nHost: a\r\n\r\n");
    if answer.status() != 200 {
        return Err(format!("the plain request got {answer:?}"));
    }
    let reached = origin.received();
    origin.forget();
    let sentinel = |head: &str| head.starts_with("GET /sentinel HTTP/1.1\r\n");
    match reached.split_inclusive("\r\n\r\n").all(sentinel) {
        true => Ok(()),
        false => Err(format!("reached the origin: {reached:?}")),
    }
}

#[track_caller]
fn none_left(failures: Vec<String>) {
    assert!(
        failures.is_empty(),
        "{} cases fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
