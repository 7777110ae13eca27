//! The configurations of docs/gateway/tls.md, run as they are there: only addresses and the folder
//! of the files are replaced.

use steppe_testkit::{
    Authority, Issued, Leaf, NodeConfig, Peer, Port, RawOrigin, Steppe, SteppeBuilder, TlsClient,
    TlsServer, Validity, page_example, page_examples,
};

/// The configuration below `heading`, with an admin listener.
fn example(heading: &str) -> NodeConfig {
    NodeConfig::parse(&page_example("gateway/tls", heading)).set("admin.listen", "{admin}")
}

/// The same, with its TLS listener at `{gateway}`.
fn secure_example(heading: &str) -> NodeConfig {
    example(heading).listener_at("0.0.0.0:8443", |l| l.set("listen", "{gateway}"))
}

/// An authority, and its certificates for the names of the page.
struct Files {
    ca: Authority,
    www: Issued,
    api: Issued,
    billing: Issued,
    other: Issued,
    ledger: Issued,
}

impl Files {
    fn new() -> Self {
        let ca = Authority::new("ca");
        let issue = |name: &str, serial| ca.issue(&Leaf::named(&[name]).serial(serial));
        Self {
            www: issue("www.example.com", 1),
            api: issue("api.example.com", 2),
            billing: issue("billing.internal", 3),
            other: issue("other.internal", 4),
            ledger: issue("ledger.internal", 5),
            ca,
        }
    }

    /// A builder of a node, with every file of the page beside its configuration.
    fn builder(&self) -> SteppeBuilder<'static> {
        let revoked = self.ca.revocation_list(&[&self.api], Validity::Current);
        Steppe::builder()
            .with_file("www.pem", &self.www.cert)
            .with_file("www.key", &self.www.key)
            .with_file("api.pem", &self.api.cert)
            .with_file("api.key", &self.api.key)
            .with_file("gateway.pem", &self.billing.cert)
            .with_file("gateway.key", &self.billing.key)
            .with_file("clients-ca.pem", &self.ca.pem())
            .with_file("internal-ca.pem", &self.ca.pem())
            .with_file("revoked.crl", &revoked)
            .with_file("tickets.keys", &format!("{}\n", "5a".repeat(32)))
    }
}

fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// The content of a response to a request with `name` in SNI and `host` in `Host`.
fn text(client: &TlsClient, node: &Steppe, (name, host): (&str, &str)) -> String {
    let mut peer = client.connect(node.gateway(), name);
    peer.send(get(host, "/")).response().text()
}

#[test]
fn every_configuration_of_the_page_is_valid() {
    let files = Files::new();
    let examples = page_examples("gateway/tls");
    assert!(examples.len() >= 4, "{examples:?}");
    for (heading, toml) in examples {
        let (status, said) = files.builder().run(&["check"], &toml);
        assert!(status.success(), "{heading}: {said}");
    }
}

#[test]
fn a_site_has_two_names() {
    let files = Files::new();
    let (builder, plain) = files.builder().with_port("plain");
    let config = secure_example("Serve HTTPS for two names")
        .listener_at("0.0.0.0:8080", |l| l.set("listen", "127.0.0.1:{plain}"));
    let node = builder.start(&config);
    let client = TlsClient::new();
    let mut peer = client.connect(node.gateway(), "www.example.com");
    assert_eq!(peer.server_certificate(), files.www.der);
    let answer = peer.send(get("www.example.com", "/")).response();
    assert_eq!(answer.text(), "site\n");
    assert_eq!(
        answer.field("strict-transport-security"),
        Some("max-age=31536000")
    );
    let misdirected = peer.send(get("api.example.com", "/")).response();
    assert_eq!(misdirected.status(), 421);
    let api = text(&client, &node, ("api.example.com", "api.example.com"));
    assert_eq!(api, "api\n");
    let mut redirected = Peer::connect(([127, 0, 0, 1], plain).into());
    let answer = redirected.send(get("www.example.com", "/a?b")).response();
    assert_eq!(
        answer.field("location"),
        Some("https://www.example.com:8443/a?b")
    );
}

#[test]
fn services_know_each_other() {
    let files = Files::new();
    let node = files.builder().start(secure_example("Mutual TLS"));
    let status = |client: &TlsClient, path: &str| {
        let mut peer = client.connect(node.gateway(), "www.example.com");
        peer.send(get("www.example.com", path)).response().status()
    };
    let billing = TlsClient::new().showing(&files.billing);
    assert_eq!(
        [status(&billing, "/orders/1"), status(&billing, "/status")],
        [200, 200]
    );
    let other = TlsClient::new().showing(&files.other);
    assert_eq!(
        [status(&other, "/orders/1"), status(&other, "/status")],
        [404, 200]
    );
    for refused in [TlsClient::new(), TlsClient::new().showing(&files.api)] {
        // The alert arrives with the first read.
        let ended = refused
            .try_connect(node.gateway(), "www.example.com")
            .map(|mut peer| peer.end());
        assert!(
            !matches!(ended, Ok(None)),
            "a client that is unknown or revoked"
        );
    }
}

#[test]
fn a_private_authority_vouches_for_servers() {
    let files = Files::new();
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nledger\n";
    let origin = RawOrigin::start_tls(TlsServer::showing(&files.ledger), move |peer| {
        while peer.request().is_some() {
            peer.send(ok);
        }
    });
    let config = example("TLS to upstreams")
        .listener_at("0.0.0.0:8080", |l| l.set("listen", "{gateway}"))
        .upstream("ledger", |u| u.servers([origin.address()]));
    let node = files.builder().start(&config);
    let mut peer = Peer::connect(node.gateway());
    assert_eq!(peer.send(get("a", "/")).response().text(), "ledger\n");
    drop(node);
}

/// The second node stands in for another node at the same address.
#[test]
fn nodes_share_their_tickets() {
    let files = Files::new();
    // The port stays reserved for all three nodes: tickets are bound to the listener's address.
    let port = Port::free();
    let builder = || files.builder().with("shared", port.number());
    let config = example("Share session tickets between nodes")
        .listener_at("0.0.0.0:8443", |l| l.set("listen", "127.0.0.1:{shared}"));
    let first = builder().start(&config);
    let address = port.address();
    let client = TlsClient::new();
    let ask = || {
        let mut peer = client.connect(address, "www.example.com");
        assert_eq!(peer.send(get("a", "/")).response().text(), "site\n");
        peer.is_resumed()
    };
    assert_eq!([ask(), ask()], [false, true]);
    drop(first);
    let _second = builder().start(&config);
    assert!(ask(), "its key is the same");
    drop(_second);
    let own = config.listener_at("127.0.0.1:{shared}", |l| l.remove("tls.ticket_keys"));
    let _third = builder().start(&own);
    assert!(!ask(), "its key is its own");
}
