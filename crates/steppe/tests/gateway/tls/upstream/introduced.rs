//! The PROXY protocol below TLS, in both directions.

use steppe_testkit::{Curl, NodeConfig, RawOrigin, Section};

use super::*;

#[test]
fn a_client_says_who_it_is_before_its_handshake() {
    let authority = Authority::new("one");
    let issued = authority.issue(&local());
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let shown = Section::new()
        .set("cert", "{scratch}/cert.pem")
        .set("key", "{scratch}/key.pem");
    let config = NodeConfig::plain()
        .set("http.trusted_proxies", ["127.0.0.1/32"])
        .listener(|l| {
            l.set("proxy_protocol", true)
                .set("tls.certificates", [shown])
        });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("cert.pem", &issued.cert)
        .with_file("key.pem", &issued.key)
        .with_file("ca.pem", &authority.pem())
        .start(&config);
    let url = format!("https://{}/", node.gateway());
    let ca = node.scratch().join("ca.pem");
    let ca = ca.to_string_lossy();
    let answer = Curl::new(&url)
        .args(["--cacert", &ca, "--haproxy-protocol"])
        .run();
    assert_eq!(
        (answer.exit, &*answer.body),
        (0, &b"ok"[..]),
        "{}",
        answer.errors
    );
    assert!(origin.received().contains("x-forwarded-proto: https\r\n"));
    // The header names another client than the connection's peer.
    let mut peer = node.connect();
    peer.send("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
    let mut peer = steppe_testkit::TlsClient::new()
        .over(peer, "localhost")
        .expect("a session");
    assert_eq!(peer.send(GET).response().text(), "ok");
    assert!(origin.received().contains("x-forwarded-for: 192.0.2.1\r\n"));
    // Without a header there is no handshake.
    let answer = Curl::new(&url).args(["--cacert", &ca]).run();
    assert_ne!(answer.exit, 0);
    let labels = [("reason", "proxy_protocol")];
    eventually("it is counted", || {
        node.metrics().sum("steppe_http_closed_total", &labels) == 1.0
    });
}

#[test]
fn a_server_is_told_whom_a_connection_is_for_before_its_handshake() {
    let authority = Authority::new("one");
    let lines = "return 200 \"$proxy_protocol_addr $proxy_protocol_port $https\";";
    let issued = authority.issue(&local());
    for version in ["v1", "v2"] {
        let nginx = TlsNginx::listening("ssl proxy_protocol", (&authority, &issued), lines);
        let node = node(
            &authority,
            nginx.address(),
            (CA, &format!("proxy_protocol = \"{version}\"")),
        );
        let mut peer = node.connect();
        let port = peer.stream().local_addr().expect("connected").port();
        let answer = peer.send(GET).response();
        assert_eq!(answer.text(), format!("127.0.0.1 {port} on"), "{version}");
    }
}
