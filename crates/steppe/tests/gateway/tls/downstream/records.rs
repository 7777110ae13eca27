//! Records of an established session: invalid ones, floods of them, and ends without
//! `close_notify`.

use std::sync::{Mutex, mpsc};

use steppe_testkit::{
    Authority, ContentType, Leaf, PATIENCE, RawOrigin, RecordPeer, Steppe, TlsClient,
    resident_bytes,
};

use super::{GET, GET_AND_CLOSE, NAME, OK, Site, eventually};

/// Alerts of RFC 8446 §6.
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const DECODE_ERROR: u8 = 50;
const USER_CANCELED: u8 = 90;
/// The end of each response of the server.
const ANSWER_END: &str = "\r\n\r\nok";
/// Levels of alerts.
const WARNING: u8 = 1;
const FATAL: u8 = 2;
/// Messages of RFC 8446 §4.6.3.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

fn node(origin: &RawOrigin) -> Steppe {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    Site::serving(&certificate).start(origin.address())
}

fn open_connections(node: &Steppe) -> f64 {
    node.metrics().sum("steppe_http_connections", &[])
}

/// Asserts that a new connection is served.
#[track_caller]
fn expect_served(node: &Steppe) {
    let mut peer = TlsClient::new().connect(node.gateway(), NAME);
    assert_eq!(peer.send(GET).response().status(), 200);
}

#[test]
fn a_request_may_come_in_records_of_a_byte() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut peer = RecordPeer::connect(node.gateway(), NAME);
    for byte in GET.as_bytes() {
        peer.send(ContentType::Data, &[*byte]);
    }
    peer.text_with(ANSWER_END, 1);
    // One record, sent a byte at a time.
    let record = peer.seal(ContentType::Data, GET.as_bytes());
    for byte in record {
        peer.socket().send([byte]);
    }
    peer.text_with(ANSWER_END, 1);
    // The end of one request and the whole of two more in one record, behind an empty one.
    peer.send(ContentType::Data, &GET.as_bytes()[..20]);
    peer.send(ContentType::Data, b"");
    let rest = [&GET.as_bytes()[20..], GET.as_bytes(), GET.as_bytes()].concat();
    peer.send(ContentType::Data, &rest);
    peer.text_with(ANSWER_END, 3);
}

#[test]
fn broken_records_end_the_connection_with_an_alert() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    /// The name of the case, its bytes, and the alert.
    type Case = (&'static str, fn(&mut RecordPeer) -> Vec<u8>, u8);
    let cases: [Case; 5] = [
        (
            "a flipped bit",
            |peer| {
                let mut record = peer.seal(ContentType::Data, GET.as_bytes());
                *record.last_mut().expect("not empty") ^= 1;
                record
            },
            BAD_RECORD_MAC,
        ),
        (
            "a record sent twice",
            |peer| {
                let head = peer.seal(ContentType::Data, b"GET / HTTP/1.1\r\n");
                [&head[..], &head].concat()
            },
            BAD_RECORD_MAC,
        ),
        (
            "content of more than 16 KiB",
            |peer| peer.seal(ContentType::Data, &vec![b'a'; (16 << 10) + 1]),
            RECORD_OVERFLOW,
        ),
        (
            // RFC 8446 §5.2 demands `record_overflow`; rustls treats it as an invalid header.
            "a header of more than a record has",
            |_| vec![23, 3, 3, 0xff, 0xff, 0],
            DECODE_ERROR,
        ),
        (
            "another ClientHello",
            |peer| {
                let hello = TlsClient::new().hello(NAME);
                peer.seal(ContentType::Handshake, &hello[5..])
            },
            UNEXPECTED_MESSAGE,
        ),
    ];
    for (what, bytes, alert) in cases {
        let mut peer = RecordPeer::connect(node.gateway(), NAME);
        let bytes = bytes(&mut peer);
        peer.socket().send(bytes);
        assert_eq!(peer.alert(), alert, "{what}");
        peer.socket().drain();
    }
    assert_eq!(origin.accepted(), 0);
    eventually("all are closed", || open_connections(&node) == 0.0);
    expect_served(&node);
}

/// rustls ends the connection without an alert, since a peer that floods it would not read one.
#[test]
fn floods_of_records_without_content_end_the_connection() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let floods: [(&str, ContentType, &[u8]); 4] = [
        ("empty records", ContentType::Data, b""),
        ("empty messages", ContentType::Handshake, b""),
        ("warnings", ContentType::Alert, &[WARNING, USER_CANCELED]),
        ("end of early data", ContentType::Handshake, &[5, 0, 0, 0]),
    ];
    for (what, kind, content) in floods {
        let mut peer = RecordPeer::connect(node.gateway(), NAME);
        let mut flood = Vec::new();
        for _ in 0..1000 {
            flood.extend(peer.seal(kind, content));
        }
        let _ = peer.socket().try_send(&flood);
        peer.socket().drain();
        eventually(what, || open_connections(&node) == 0.0);
    }
    assert_eq!(origin.accepted(), 0);
    expect_served(&node);
}

#[test]
fn a_flood_of_key_updates_ends_the_connection() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut peer = TlsClient::new().connect(node.gateway(), NAME);
    // Some key updates are allowed, also between requests.
    for _ in 0..5 {
        for _ in 0..20 {
            peer.update_keys().expect("it is open");
        }
        assert_eq!(peer.send(GET).response().status(), 200);
    }
    let [before, _] = resident_bytes(node.id());
    // Until the node closes the connection; the client does not read, and the node must not queue
    // answers for it.
    let updates = (0..100_000)
        .take_while(|_| peer.update_keys().is_ok())
        .count();
    peer.drain();
    eventually("it is closed", || open_connections(&node) == 0.0);
    assert!(updates < 100_000);
    let grown = resident_bytes(node.id())[0].saturating_sub(before);
    println!("{updates} updates, {grown} bytes");
    assert!(grown < 4 << 20, "{grown} bytes");
    expect_served(&node);
    // A single KeyUpdate that requests none in return is no flood.
    let mut peer = RecordPeer::connect(node.gateway(), NAME);
    peer.send(ContentType::Handshake, &KEY_UPDATE);
    // The next record is still sealed with the old keys.
    peer.send(ContentType::Data, GET.as_bytes());
    assert_eq!(peer.alert(), BAD_RECORD_MAC);
}

/// Asserts that a request whose client leaves in the middle of its content never reaches the server
/// complete.
#[track_caller]
fn cut_in_mid_request(end: impl Fn(&mut RecordPeer)) {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for request in [
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        origin.forget();
        let accepted = origin.accepted();
        let mut peer = RecordPeer::connect(node.gateway(), NAME);
        peer.send(ContentType::Data, request.as_bytes());
        origin.wait_until("half of it is there", |origin| {
            origin.received().contains("half")
        });
        end(&mut peer);
        origin.wait_until("it ends there too", |origin| {
            origin.closed().len() > accepted && origin.closed().iter().all(|closed| *closed)
        });
        let received = origin.received();
        let content = received.split_once("\r\n\r\n").map(|(_, content)| content);
        let is_incomplete = content.is_some_and(|content| !content.contains("0\r\n\r\n"));
        assert!(is_incomplete, "{received}");
        eventually("it is closed", || open_connections(&node) == 0.0);
    }
}

#[test]
fn an_end_in_mid_request_reaches_no_server_as_a_whole_one() {
    cut_in_mid_request(|peer| {
        peer.socket().cut();
    });
    cut_in_mid_request(|peer| {
        peer.send(ContentType::Alert, &[WARNING, CLOSE_NOTIFY]);
        peer.socket().cut();
    });
}

#[test]
fn a_fatal_alert_in_mid_request_ends_it() {
    cut_in_mid_request(|peer| {
        peer.send(ContentType::Alert, &[FATAL, BAD_RECORD_MAC]);
    });
}

#[test]
fn garbage_in_mid_request_ends_it() {
    cut_in_mid_request(|peer| {
        peer.socket().send([23, 3, 3, 0, 40]).send([7; 40]);
    });
}

#[test]
fn an_end_after_a_whole_exchange_is_a_normal_one() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for client in [TlsClient::new(), TlsClient::of_1_2()] {
        let mut told = client.connect(node.gateway(), NAME);
        assert_eq!(told.send(GET).response().status(), 200);
        told.finish();
        // RFC 8446 §6.1: the node sends `close_notify` too before it closes.
        assert!(told.end().is_none());
        let mut cut = client.connect(node.gateway(), NAME);
        assert_eq!(cut.send(GET).response().status(), 200);
        cut.cut();
        drop(cut);
    }
    eventually("all are closed", || open_connections(&node) == 0.0);
    let metrics = node.metrics();
    assert_eq!(metrics.sum("steppe_http_closed_total", &[]), 0.0);
    assert_eq!(metrics.sum("steppe_http_requests_total", &[]), 4.0);
}

#[test]
fn the_node_says_that_it_closes() {
    let origin = RawOrigin::answering(OK);
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let site = Site::serving(&certificate).listener(|l| l.set("timeouts.idle", "300ms"));
    let node = site.start(origin.address());
    // Connections that are idle for too long, before a request and after one.
    let mut new = TlsClient::new().connect(node.gateway(), NAME);
    assert!(new.end().is_none());
    let mut served = TlsClient::new().connect(node.gateway(), NAME);
    assert_eq!(served.send(GET).response().status(), 200);
    assert!(served.end().is_none());
    // A connection whose client requests its close.
    let mut asked = TlsClient::new().connect(node.gateway(), NAME);
    assert_eq!(asked.send(GET_AND_CLOSE).response().status(), 200);
    assert!(asked.end().is_none());
}

/// A missing `close_notify` is the only sign that a response delimited by close is cut.
#[test]
fn a_response_that_is_cut_ends_without_a_word() {
    let (seen, is_seen) = mpsc::sync_channel::<()>(1);
    let is_seen = Mutex::new(is_seen);
    let origin = RawOrigin::start(move |peer| {
        if peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n");
            let is_seen = is_seen.lock().expect("one connection");
            let _ = is_seen.recv_timeout(PATIENCE);
        }
    });
    let node = node(&origin);
    let mut peer = TlsClient::new().connect(node.gateway(), NAME);
    peer.send("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    let head = peer.head().expect("a response");
    assert_eq!((head.status(), peer.bytes(4)), (200, b"half".to_vec()));
    seen.send(()).expect("it waits");
    assert!(peer.end().is_some());
}
