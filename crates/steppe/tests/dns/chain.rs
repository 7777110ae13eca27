//! A forwarder that queries another one over TLS and HTTPS: the listeners of one, the servers of the other.

use std::net::SocketAddr;

use steppe_testkit::{Authority, Forwarder, Steppe, ask_dns};

const SERVER: &str = r#"
[dns.hosts]
records = { "www.dot.example" = "192.0.2.7", "www.doh.example" = "192.0.2.8" }
[[dns.rule]]
block = "nxdomain"
"#;

const CLIENT: &str = r#"
[dns.upstream.dot]
servers = ["tls://dns.test@{dot}"]
tls.ca = "ca.pem"
[dns.upstream.doh]
servers = ["https://dns.test@{doh}/dns-query"]
tls.ca = "ca.pem"
[dns.upstream.other]
servers = ["tls://other.test@{dot}"]
tls.ca = "ca.pem"
[[dns.rule]]
suffix = "dot.example"
forward = "dot"
[[dns.rule]]
suffix = "doh.example"
forward = "doh"
[[dns.rule]]
forward = "other"
"#;

/// Queries a name's IPv4 address. Returns response code, and the last number of the address.
fn ask(server: SocketAddr, name: &str) -> (u8, Option<u8>) {
    let response = ask_dns(server, name);
    let last = (response[7] > 0).then(|| response[response.len() - 1]);
    (response[3] & 0x0f, last)
}

#[test]
fn one_forwarder_asks_another_over_tls_and_https() {
    let authority = Authority::new("chain");
    let server = Steppe::builder().start_secure_forwarder(&authority, "dns.test", SERVER);
    let client = Steppe::builder()
        .with("dot", server.dot)
        .with("doh", server.doh)
        .with_file("ca.pem", &authority.pem())
        .start_forwarder(CLIENT);
    let Forwarder {
        node: client,
        plain: listen,
    } = client;
    assert_eq!(ask(listen, "www.dot.example"), (0, Some(7)));
    assert_eq!(ask(listen, "www.doh.example"), (0, Some(8)));
    assert_eq!(ask(listen, "no.dot.example"), (3, None));
    assert_eq!(ask(listen, "no.doh.example"), (3, None));
    assert_eq!(ask(listen, "www.example"), (2, None), "another name");
    let metrics = client.metrics();
    for transport in ["tls", "https"] {
        let series = "steppe_dns_upstream_queries_total";
        assert!(metrics.sum(series, &[("transport", transport)]) > 1.0);
        assert!(server.queries(transport) > 1.0);
    }
    assert!(client.stop().success());
    assert!(server.node.stop().success());
}
