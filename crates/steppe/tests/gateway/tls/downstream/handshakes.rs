//! Unusual handshakes: old versions, messages cut in any way, and bytes that are not TLS.

use steppe_testkit::{
    Authority, Issued, Leaf, Peer, RawOrigin, SClient, Steppe, TlsClient, eventually,
};

use super::hello::{Hello, record};
use super::{GET, NAME, OK, Site, expect_count, expect_outcome};

/// Alerts of RFC 8446 §6.2.
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;
/// The size of a ClientHello at most, with its header (`CLIENT_HELLO_BYTES_MAX` of `steppe-net`).
const HELLO_BYTES_MAX: usize = 16 << 10;

fn node(origin: &RawOrigin) -> Steppe {
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    Site::serving(&certificate).start(origin.address())
}

/// Sends bytes, and returns the answer up to the node's close.
fn answer(node: &Steppe, bytes: &[u8]) -> Vec<u8> {
    let mut peer = node.connect();
    peer.send(bytes);
    peer.rest()
}

#[track_caller]
fn expect_alert(answer: &[u8], description: u8) {
    let alert = [21, 3, 3, 0, 2, 2, description];
    assert_eq!(answer, alert, "as an alert");
}

/// Asserts that the node goes on with the handshake: its first record has a ServerHello.
#[track_caller]
fn expect_server_hello(peer: &mut Peer) {
    let begin = peer.bytes(6);
    assert_eq!((begin[0], begin[5]), (22, 2), "{begin:?}");
}

#[test]
fn versions_before_1_2_are_told_so() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for (number, version) in [[3, 0], [3, 1], [3, 2]].into_iter().enumerate() {
        let mut hello = Hello::of(&TlsClient::of_1_2());
        hello.version = version;
        hello.remove(Hello::SUPPORTED_VERSIONS);
        expect_alert(&answer(&node, &record(&hello.encode())), PROTOCOL_VERSION);
        let count = number as f64 + 1.0;
        expect_count(&node, "incompatible", count);
    }
    // Without an extension of TLS 1.2, rustls sends the general alert `handshake_failure`.
    for version in ["-tls1", "-tls1_1"] {
        let client = SClient::new(node.gateway());
        let said = client.args([version, "-cipher", "ALL@SECLEVEL=0"]).run();
        let text = said.text;
        assert!(text.contains("alert handshake failure"), "{text}");
    }
}

#[test]
fn nobody_renegotiates() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let said = SClient::new(node.gateway())
        .args(["-tls1_2"])
        .input("R\n")
        .run();
    assert!(said.text.contains("RENEGOTIATING"), "{}", said.text);
    assert!(said.text.contains("no renegotiation"), "{}", said.text);
    expect_count(&node, "full", 1.0);
}

#[test]
fn a_client_hello_may_be_cut_in_any_way() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let records = |bytes: usize| {
        move |hello: Vec<u8>| hello[5..].chunks(bytes).map(record).collect::<Vec<_>>()
    };
    // Records of one byte take six bytes each: the most that a ClientHello of this size may take on the wire.
    for bytes in [1, 2, 3, 100] {
        let client = TlsClient::new();
        let peer = client.try_connect_with(node.gateway(), NAME, records(bytes));
        let mut peer = peer.unwrap_or_else(|error| panic!("records of {bytes}: {error}"));
        assert_eq!(
            peer.send(GET).response().status(),
            200,
            "records of {bytes}"
        );
    }
    let bytewise = |hello: Vec<u8>| hello.chunks(1).map(<[u8]>::to_vec).collect();
    let peer = TlsClient::new().try_connect_with(node.gateway(), NAME, bytewise);
    let status = peer.expect("a session").send(GET).response().status();
    assert_eq!(status, 200, "a byte at a time");
}

#[test]
fn a_client_hello_has_16_kib_at_most() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut hello = Hello::of(&TlsClient::new());
    hello.pad_to(HELLO_BYTES_MAX);
    let mut peer = node.connect();
    peer.send(record(&hello.encode()));
    expect_server_hello(&mut peer);
    drop(peer);
    expect_count(&node, "closed", 1.0);
    hello.pad_to(HELLO_BYTES_MAX + 1);
    let message = hello.encode();
    let too_large: Vec<u8> = message.chunks(1 << 14).flat_map(record).collect();
    // The length in its header is refused; the rest need not arrive.
    let mut peer = node.connect();
    peer.send(&too_large[..100 + 5]);
    peer.finish();
    drop(peer);
    let cut = record(&message[..100]);
    expect_alert(&answer(&node, &cut), DECODE_ERROR);
    expect_outcome(&node, "hello_too_large");
}

#[test]
fn records_without_end_are_no_client_hello() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    // Empty records: the message never begins.
    let mut peer = node.connect();
    let flood = record(&[]).repeat(20_000);
    let _ = peer.try_send(&flood);
    let rest = peer.rest();
    assert!(
        rest.is_empty() || rest[..7] == [21, 3, 3, 0, 2, 2, DECODE_ERROR],
        "{rest:?}"
    );
    expect_outcome(&node, "hello_too_large");
}

#[test]
fn what_nobody_knows_in_a_client_hello_is_passed_over() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut hello = Hello::of(&TlsClient::new());
    hello.grease();
    let mut peer = node.connect();
    peer.send(record(&hello.encode()));
    expect_server_hello(&mut peer);
}

#[test]
fn alpn_without_a_common_protocol_fails() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let both = TlsClient::new().alpn(&["h2", "http/1.1"]);
    let mut peer = both.connect(node.gateway(), NAME);
    assert_eq!(peer.session().alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(peer.send(GET).response().status(), 200);
    let none = TlsClient::new().connect(node.gateway(), NAME);
    assert_eq!(none.session().alpn_protocol(), None);
    let other = TlsClient::new().alpn(&["h2", "acme-tls/1"]);
    let refused = other
        .try_connect(node.gateway(), NAME)
        .expect_err("no common one");
    assert!(
        refused.to_string().contains("NoApplicationProtocol"),
        "{refused}"
    );
    expect_outcome(&node, "incompatible");
}

#[test]
fn what_is_no_tls_is_told_what_the_port_is() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut peer = node.connect();
    let plain = peer.send(GET).response();
    assert_eq!(plain.status(), 400);
    assert_eq!(
        plain.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    peer.expect_close();
    expect_outcome(&node, "plain_http");
    let cases: [&[u8]; 5] = [
        // A ClientHello of SSLv2 that offers TLS 1.0.
        b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10\x01\x00\x80\x03\x00\x80\x07\x00\xc0",
        // SOCKS 5, random bytes, an alert, content before any handshake.
        b"\x05\x01\x00",
        b"\xde\xad\xbe\xef\x00\x11\x22\x33\x44",
        b"\x15\x03\x01\x00\x02\x01\x00",
        b"\x17\x03\x03\x00\x05hello",
    ];
    for (number, bytes) in cases.into_iter().enumerate() {
        expect_alert(&answer(&node, bytes), UNEXPECTED_MESSAGE);
        let count = number as f64 + 1.0;
        expect_count(&node, "not_tls", count);
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn whoever_leaves_within_a_handshake_is_forgotten() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let hello = TlsClient::new().hello(NAME);
    let parts = [0, 1, 5, hello.len() / 2, hello.len()];
    for (number, part) in parts.into_iter().enumerate() {
        let mut peer = node.connect();
        peer.send(&hello[..part]);
        peer.finish().rest();
        let count = number as f64 + 1.0;
        expect_count(&node, "closed", count);
    }
    let held = node.metrics().sum("steppe_http_connections", &[]);
    assert_eq!(held, 0.0);
}

/// RFC 5246 §7.2.1: after `close_notify` the client sends nothing more.
#[test]
fn close_notify_within_a_handshake_ends_it() {
    const CLOSE_NOTIFY: [u8; 7] = [21, 3, 3, 0, 2, 1, 0];
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for (number, client) in [TlsClient::of_1_2(), TlsClient::new()].iter().enumerate() {
        let mut peer = node.connect();
        peer.send(client.hello(NAME));
        assert!(!peer.some().is_empty(), "the hello is answered");
        peer.send(CLOSE_NOTIFY);
        // If the alert were ignored, the outcome would be `timeout`.
        expect_count(&node, "closed", number as f64 + 1.0);
    }
}

fn asking(clients: &Authority, certificate: &Issued, origin: &RawOrigin) -> Steppe {
    let site = Site::serving(certificate).asking("required", &clients.pem());
    site.start(origin.address())
}

#[test]
fn a_chain_of_a_client_has_a_limit() {
    let clients = Authority::new("clients");
    let certificate = clients.issue(&Leaf::named(&[NAME]));
    let origin = RawOrigin::answering(OK);
    let node = asking(&clients, &certificate, &origin);
    let large = clients.issue(&Leaf::named(&["large"]).padded(28 << 10));
    let client = TlsClient::new().showing(&large);
    for _ in 0..2 {
        let mut peer = client.connect(node.gateway(), NAME);
        assert_eq!(peer.send(GET).response().status(), 200);
        // The chain is too large for a ticket.
        assert!(!peer.is_resumed());
    }
    let too_large = clients.issue(&Leaf::named(&["large"]).padded(48 << 10));
    let client = TlsClient::new().showing(&too_large);
    let is_refused = match client.try_connect(node.gateway(), NAME) {
        Err(_) => true,
        Ok(mut peer) => peer.end().is_some(),
    };
    assert!(is_refused);
    expect_outcome(&node, "chain_too_large");
}

/// One handshake may be in progress for an address here: the others wait for it, and end with the drain.
#[test]
fn a_drain_waits_for_no_handshake_whether_it_has_begun_or_not() {
    const PEERS: usize = 12;
    const LONG: &str = "600s";
    let certificate = Authority::new("servers").issue(&Leaf::named(&[NAME]));
    let site = Site::serving(&certificate)
        .listener(|l| {
            l.set("limits.handshakes", 2)
                .set("timeouts.handshake", LONG)
                .set("timeouts.header", LONG)
        })
        .configured(|config| config.set("node.drain_timeout", LONG));
    let mut node = site.start(RawOrigin::answering(OK).address());
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| Peer::connect(node.gateway())).collect();
    eventually("they are accepted", || {
        node.metrics().sum("steppe_http_connections", &[]) >= PEERS as f64 - 1.0
    });
    node.terminate();
    assert!(node.wait().success(), "{}", node.said());
    peers.iter_mut().for_each(Peer::expect_close);
}
