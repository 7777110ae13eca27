//! Responses that parsers read in more than one way, upgrades, and fields that are not forwarded.
//!
//! Origins answer with two lengths, answer an upgrade with 200, or break off; clients name the
//! gateway's own fields in `Connection`, or ask for h2c. RFC 9112, RFC 9110 §7.6.1 and §7.8.

use steppe_testkit::{Message, NodeConfig, RawOrigin, Steppe, Wire};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Responses that must become 502, each tried on connections of its own.
const RESPONSES: &[(&str, &[u8])] = &[
    (
        "a coding and a length",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "two differing lengths",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    ),
    (
        "a length of 5,6",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5,6\r\n\r\nhello!",
    ),
    (
        "a length of +5",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    ),
    (
        "a length of -5",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    ),
    (
        "a length of 2^64",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nhello",
    ),
    (
        "gzip, chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunked, chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "a coding in HTTP/1.0",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "obs-fold",
        b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "a bare CR in a value",
        b"HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "NUL in a value",
        b"HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "a space before the colon",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    ),
    (
        "an empty name",
        b"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "a status of two digits",
        b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "a status of four digits",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "a status of letters",
        b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "HTTP/2.0",
        b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    ("no HTTP at all", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    (
        "an upgrade that nobody asked for",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ),
];

#[test]
fn ambiguous_responses_become_502_and_their_connection_is_not_used_again() {
    let failures: Vec<String> = RESPONSES
        .iter()
        .filter_map(|(name, bytes)| {
            let bad = bytes.to_vec();
            let origin = RawOrigin::start(move |peer| {
                let first = peer.index == 0;
                while peer.request().is_some() {
                    let answer = if first { bad.as_slice() } else { OK.as_bytes() };
                    if peer.try_send(answer).is_err() {
                        return;
                    }
                }
            });
            let node = Steppe::in_front_of(origin.address());
            let mut peer = node.connect();
            let answer = peer.send(GET).try_head().ok().flatten().unwrap_or_default();
            let next = node.exchange(GET);
            let wrong = answer.status() != 502 || next.text() != "ok";
            wrong.then(|| format!("{name}: {answer:?}, then {next:?}"))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} cases fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn a_response_that_breaks_off_never_looks_whole() {
    let cases: [(&str, &[u8]); 5] = [
        (
            "length",
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        ),
        (
            "chunk",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwor",
        ),
        (
            "last",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ),
        (
            "bad size",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
        ),
        (
            "bare LF",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\n",
        ),
    ];
    for (name, bytes) in cases {
        let bytes = bytes.to_vec();
        let origin = RawOrigin::start(move |peer| {
            if peer.request().is_some() {
                peer.send(&bytes);
            }
        });
        let node = Steppe::in_front_of(origin.address());
        let mut peer = node.connect();
        let head = peer.send(GET).head().unwrap_or_default();
        // No byte of the response had been forwarded: the client gets 502, and keeps its
        // connection.
        if head.status() == 502 {
            continue;
        }
        let rest = String::from_utf8_lossy(&peer.rest()).into_owned();
        let cut = head.status() == 200 && !rest.contains("0\r\n\r\n") && rest.len() < 25;
        assert!(cut, "{name}: {head:?} {rest:?}");
    }
}

#[test]
fn bytes_behind_a_response_are_not_the_next_one() {
    let origin = RawOrigin::start(|peer| {
        let first = peer.index == 0;
        while let Some(request) = peer.request() {
            let poison = format!("{OK}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison");
            let answer = if first { poison } else { format!("{OK}{}", "") };
            assert!(request.target().starts_with('/'));
            if peer.try_send(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let node = Steppe::in_front_of(origin.address());
    for _ in 0..5 {
        assert_eq!(node.exchange(GET).text(), "ok");
    }
}

#[test]
fn h2c_is_not_forwarded() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let answer = node.exchange(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
    );
    assert_eq!(answer.status(), 200);
    let forwarded = origin.received().to_ascii_lowercase();
    assert!(
        !forwarded.contains("h2c") && !forwarded.contains("http2-settings"),
        "{forwarded}"
    );
    assert!(!forwarded.contains("upgrade"), "{forwarded}");
}

#[test]
fn an_origin_that_agrees_to_h2c_unasked_gets_no_tunnel() {
    let origin = RawOrigin::start(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n");
        }
    });
    let node = Steppe::in_front_of(origin.address());
    for upgrade in ["h2c", "H2C", "foo, h2c", " h2c ,bar"] {
        let answer = node.exchange(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n"
        ));
        assert_eq!(answer.status(), 502, "{upgrade}: {answer:?}");
    }
    assert!(
        !origin.received().to_ascii_lowercase().contains("h2c"),
        "{}",
        origin.received()
    );
}

/// A request behind an upgrade that was declined is routed like any other.
#[test]
fn an_early_request_behind_a_declined_upgrade_is_routed_on_its_own() {
    let (app, secret) = (RawOrigin::answering(OK), RawOrigin::answering(OK));
    let config = NodeConfig::plain()
        .add_upstream("denied", |u| {
            u.set("respond.status", 403).set("respond.body", "no")
        })
        .add_route("admin", |r| r.path("/admin").upstream("denied"))
        .add_upstream("secret", |u| u.servers([secret.address()]))
        .add_route("s", |r| r.path("/s").upstream("secret"));
    let node = Steppe::builder()
        .with("origin", app.address())
        .start(&config);
    let mut peer = node.connect();
    peer.send(
        "GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\
         GET /admin HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(peer.response().text(), "ok");
    assert_eq!(peer.response().status(), 403);
    assert!(!app.received().contains("/admin"), "{}", app.received());
    assert_eq!(
        peer.send("GET /s HTTP/1.1\r\nHost: a\r\n\r\n")
            .response()
            .text(),
        "ok"
    );
    assert!(secret.received().contains("GET /s HTTP/1.1\r\n"));
}

#[test]
fn connection_cannot_name_away_what_the_gateway_says() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .route("all", |r| r.filters(["ours"]))
        .add_filter("ours", |f| {
            f.set("kind", "transform")
                .set("request_headers.set.authorization", "ours")
                .set("request_headers.set.x-gateway", "steppe")
        });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let answer = node.exchange(
        "POST /hop HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nX-Hop: gone\r\nX-Kept: here\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n\
         Connection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, Forwarded, Authorization\r\n\
         Connection: Host, Via, Content-Length, X-Gateway, X-Hop, , \r\n\r\nhello",
    );
    assert_eq!(answer.text(), "ok");
    let forwarded = forwarded(&origin);
    assert_eq!(forwarded.field("host"), Some("a.example"));
    assert_eq!(forwarded.field("authorization"), Some("ours"));
    assert_eq!(forwarded.field("x-gateway"), Some("steppe"));
    assert_eq!(forwarded.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(
        forwarded.field("x-forwarded-proto"),
        Some(Wire::of_run().scheme())
    );
    assert!(
        forwarded
            .field("via")
            .is_some_and(|via| via.starts_with("1.1 ")),
        "{forwarded:?}"
    );
    assert_eq!(forwarded.text(), "hello");
    assert_eq!(forwarded.field("x-kept"), Some("here"));
    for gone in ["x-hop", "keep-alive", "proxy-connection"] {
        assert_eq!(forwarded.field(gone), None, "{forwarded:?}");
    }
    // `TE` is not forwarded; a gateway that forwards trailers may send its own `TE: trailers`.
    assert!(["", "trailers"].contains(&forwarded.field("te").unwrap_or_default()));
    let named = forwarded
        .field("connection")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let ours = |name: &str| ["", "keep-alive", "te"].contains(&name.trim());
    assert!(named.split(',').all(ours), "{forwarded:?}");
}

#[test]
fn fields_of_one_hop_end_at_the_gateway_on_the_way_back() {
    let origin = RawOrigin::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x-hop, keep-alive\r\nX-Hop: gone\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-Kept: here\r\n\r\nok",
    );
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    for _ in 0..2 {
        let answer = peer.send(GET).response();
        assert_eq!(
            (answer.text().as_str(), answer.field("x-kept")),
            ("ok", Some("here"))
        );
        for gone in ["x-hop", "keep-alive", "proxy-connection"] {
            assert_eq!(answer.field(gone), None, "{answer:?}");
        }
        assert!(
            !answer
                .field("connection")
                .unwrap_or_default()
                .contains("x-hop")
        );
    }
}

/// RFC 9110 §6.5.1: trailers that concern framing or routing are dropped (or the message refused).
#[test]
fn trailers_cannot_frame_or_route() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let answer = node.exchange(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\
         Content-Length: 50\r\nHost: evil\r\nTransfer-Encoding: gzip\r\nX-Forwarded-For: 9.9.9.9\r\n\
         X-Sum: 7\r\n\r\n",
    );
    assert!([200, 400].contains(&answer.status()), "{answer:?}");
    let text = origin.received();
    let after = text
        .split_once("hello")
        .map_or("", |(_, after)| after)
        .to_ascii_lowercase();
    for bad in [
        "content-length",
        "host",
        "transfer-encoding",
        "x-forwarded-for",
    ] {
        assert!(!after.contains(bad), "{text}");
    }
}

fn forwarded(origin: &RawOrigin) -> Message {
    let text = origin.received();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .expect("a request reached the origin");
    Message {
        head: steppe_testkit::Head::parse(format!("{head}\r\n\r\n").as_bytes()),
        body: body.as_bytes().to_vec(),
        ..Message::default()
    }
}
