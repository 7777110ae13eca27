//! A `Host` with another certificate than the connection's: 421 (RFC 9110 §15.5.20).

use steppe_testkit::{
    Authority, Curl, FieldSection, H2Peer, KeyKind, Leaf, Peer, RawOrigin, Steppe, TlsClient,
};

use super::{OK, Site};

/// A node with sites `a.example`, `*.a.example` and `b.example`.
fn node(origin: &RawOrigin) -> Steppe {
    site().start(origin.address())
}

fn site() -> Site {
    let authority = Authority::new("servers");
    let a = authority.issue(&Leaf::named(&["a.example", "also-a.example"]));
    let wild = authority.issue(&Leaf::named(&["*.a.example"]));
    let b = authority.issue(&Leaf::named(&["b.example"]));
    let b_rsa = authority.issue(&Leaf::named(&["b.example"]).key(KeyKind::Rsa2048));
    Site::serving(&a).and(&wild).and(&b).and(&b_rsa)
}

fn statuses(peer: &mut Peer, hosts: &[&str]) -> Vec<u16> {
    let status = |host: &&str| {
        let request = format!("GET /{host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        peer.send(request).response().status()
    };
    hosts.iter().map(status).collect()
}

#[test]
fn each_request_of_a_connection_is_held_against_its_certificate() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for client in [TlsClient::new(), TlsClient::of_1_2()] {
        let mut peer = client.connect(node.gateway(), "a.example");
        let hosts = [
            "a.example",
            "b.example",
            "also-a.example",
            "A.Example:8443",
            "B.EXAMPLE",
            "x.a.example",
            "unknown.example",
            "b.example:443",
            "a.example.",
            "A.example.:443",
            "b.example.",
            "B.example.:443",
            "x.a.example.",
            "a.example",
        ];
        let expected = [
            200, 421, 200, 200, 421, 421, 200, 421, 200, 200, 421, 421, 421, 200,
        ];
        assert_eq!(statuses(&mut peer, &hosts), expected);
    }
    let received = origin.received();
    for host in ["b.example", "B.EXAMPLE", "B.example", "x.a.example"] {
        assert!(!received.contains(&format!("GET /{host}")), "{received}");
    }
    // The server gets the name in one form, without the final dot.
    let mut lines = received.lines().filter(|line| !line.starts_with("GET"));
    assert!(lines.all(|line| !line.contains("example.")), "{received}");
}

#[test]
fn a_target_with_an_authority_is_held_against_it_too() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut peer = TlsClient::new().connect(node.gateway(), "a.example");
    // RFC 9112 §3.2.2: the authority of the target replaces `Host`.
    let request = "GET https://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let status = peer.send(request).response().status();
    assert!([400, 421].contains(&status), "{status}");
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn wildcards_and_kinds_of_keys_lead_to_one_certificate() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let mut wild = TlsClient::new().connect(node.gateway(), "x.a.example");
    let hosts = ["y.a.example", "x.a.example", "a.example", "z.y.a.example"];
    assert_eq!(statuses(&mut wild, &hosts), [200, 200, 421, 421]);
    let mut rsa = TlsClient::new()
        .rsa_only()
        .connect(node.gateway(), "b.example");
    assert_eq!(statuses(&mut rsa, &["b.example", "a.example"]), [200, 421]);
}

#[test]
fn whoever_asks_for_no_name_is_at_the_first_certificate() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    for client in [TlsClient::new().without_sni(), TlsClient::new()] {
        let mut peer = client.connect(node.gateway(), "unknown.example");
        let hosts = ["a.example", "b.example", "unknown.example", "127.0.0.1"];
        assert_eq!(statuses(&mut peer, &hosts), [200, 421, 200, 200]);
    }
}

/// RFC 6066 §3: SNI has no addresses, so each connection to an address is shown the first certificate.
#[test]
fn an_address_is_served_where_another_certificate_is_for_it() {
    let origin = RawOrigin::answering(OK);
    let authority = Authority::new("servers");
    let by_address = authority.issue(&Leaf::named(&["127.0.0.1"]));
    let node = site().and(&by_address).start(origin.address());
    let hosts = ["127.0.0.1", "127.0.0.1:8443", "a.example", "b.example"];
    // As for a name without a certificate.
    let unnamed = [
        TlsClient::new().without_sni(),
        TlsClient::of_1_2().without_sni(),
    ];
    for client in unnamed {
        for _ in 0..2 {
            let mut peer = client.connect(node.gateway(), "a.example");
            assert_eq!(statuses(&mut peer, &hosts), [200, 200, 200, 421]);
        }
    }
    let got = Curl::new(&format!("https://{}/", node.gateway())).args(["-k"]);
    assert_eq!(got.run().head.status(), 200);
    // A client that sent a name in SNI uses another connection for the address.
    let mut named = TlsClient::new().connect(node.gateway(), "a.example");
    assert_eq!(statuses(&mut named, &hosts), [421, 421, 200, 421]);
}

#[test]
fn a_resumed_session_is_held_against_the_name_of_its_own_hello() {
    let origin = RawOrigin::answering(OK);
    let node = node(&origin);
    let client = TlsClient::new();
    for is_resumed in [false, true] {
        let mut peer = client.connect(node.gateway(), "b.example");
        assert_eq!(statuses(&mut peer, &["b.example", "a.example"]), [200, 421]);
        assert_eq!(peer.is_resumed(), is_resumed);
    }
}

/// Clients of HTTP/2 use a connection for other names of the same address too (RFC 9113 §9.1.1): each request is
/// compared with the certificate by its `:authority`.
#[test]
fn coalesced_requests_are_held_against_the_certificate() {
    let origin = RawOrigin::answering(OK);
    let node = site()
        .listener(|l| l.protocols(["h1", "h2"]))
        .start(origin.address());
    let client = TlsClient::new().alpn(&["h2"]);
    let peer = client.connect(node.gateway(), "a.example");
    let mut peer = H2Peer::begin(peer, &[]);
    let hosts = [
        "a.example",
        "b.example",
        "also-a.example",
        "B.EXAMPLE",
        "b.example.",
        "also-a.example.",
        "a.example",
    ];
    let statuses = hosts.map(|host| {
        let request = FieldSection::default()
            .field(":method", "GET")
            .field(":scheme", "https")
            .field(":authority", host)
            .field(":path", format!("/{host}"));
        peer.exchange(&request).status
    });
    let expected = [200, 421, 200, 421, 421, 200, 200];
    assert_eq!(statuses, expected.map(Some));
    let received = origin.received();
    for host in ["b.example", "B.EXAMPLE"] {
        assert!(!received.contains(&format!("GET /{host}")), "{received}");
    }
}
