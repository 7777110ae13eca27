//! Listeners of the forwarder over TLS and over HTTPS, with common clients.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use steppe_testkit::{
    Authority, Curl, CurlOutput, Issued, NodeConfig, Peer, Port, SecureForwarder, Steppe,
    TlsClient, dns_query, eventually,
};

const TABLES: &str = r#"
[[http.listener]]
listen = "{gateway}"
[http.upstream.here]
respond.body = "the gateway's"
[[http.route]]
name = "all"
path = "/{rest*}"
upstream = "here"
[[http.route]]
name = "resolver"
path = "/resolve"
upstream = "dns"
[dns.upstream.nobody]
servers = ["udp://{nobody}"]
[[dns.rule]]
suffix = "zero.example"
block = "zero"
[[dns.rule]]
forward = "nobody"
"#;

fn start() -> SecureForwarder {
    Steppe::builder()
        .with("nobody", Port::free().keep())
        .start_secure_forwarder(&Authority::new("listeners"), "dns.test", TABLES)
}

/// A query with id 0, as RFC 8484 §4.1 recommends.
fn query(name: &str, qtype: u8) -> Vec<u8> {
    dns_query(0, name, qtype)
}

/// www.zero.example, type A, as RFC 8484 §4.1 writes it.
const IN_TARGET: &str = "AAABAAABAAAAAAAAA3d3dwR6ZXJvB2V4YW1wbGUAAAEAAQ";

const MESSAGE: &str = "content-type: application/dns-message";

/// Response code and number of answers of a response.
fn outcome(response: &[u8]) -> (u8, u8) {
    (response[3] & 0x0f, response[7])
}

fn ask_dot(peer: &mut Peer, query: &[u8]) -> Vec<u8> {
    let len = u16::try_from(query.len()).expect("a message");
    peer.send([&len.to_be_bytes()[..], query].concat());
    let len = peer.bytes(2);
    peer.bytes(usize::from(u16::from_be_bytes([len[0], len[1]])))
}

fn get(forwarder: &SecureForwarder, target: &str) -> CurlOutput {
    run(Curl::new(&format!("https://{}{target}", forwarder.doh)))
}

/// Sends a POST with content from a file.
fn post(forwarder: &SecureForwarder, content: &[u8], args: [&str; 2]) -> CurlOutput {
    let path = forwarder.node.scratch().write("content", content);
    let data = format!("@{}", path.display());
    let curl = Curl::new(&format!("https://{}/dns-query", forwarder.doh));
    run(curl.args(["--data-binary", &data]).args(args))
}

fn run(curl: Curl) -> CurlOutput {
    let got = curl.args(["--insecure"]).run();
    assert_eq!(got.exit, 0, "{}", got.errors);
    got
}

#[test]
fn queries_come_over_tls() {
    let forwarder = start();
    let tls = TlsClient::new().alpn(&["dot"]);
    let mut peer = tls.connect(forwarder.dot, "127.0.0.1");
    assert_eq!(peer.server_certificate(), forwarder.certificate.der);
    let response = ask_dot(&mut peer, &query("www.zero.example", 1));
    assert_eq!(outcome(&response), (0, 1));
    assert!((forwarder.queries("tls") - 1.0).abs() < f64::EPSILON);
    let listed = forwarder.node.admin_json("/certificates").to_string();
    assert!(listed.contains(&forwarder.dot.to_string()), "{listed}");
    // Files that change are read again; open connections go on.
    let second = Issued::self_signed("127.0.0.1");
    let scratch = forwarder.node.scratch();
    for (name, text) in [("dns.key", &second.key), ("dns.crt", &second.cert)] {
        let new = scratch.write("new", text);
        fs::rename(new, scratch.join(name)).expect("renames");
    }
    eventually("the new certificate is shown", || {
        let peer = tls.try_connect(forwarder.dot, "127.0.0.1");
        peer.is_ok_and(|peer| peer.server_certificate() == second.der)
    });
    let response = ask_dot(&mut peer, &query("www.zero.example", 1));
    assert_eq!(outcome(&response), (0, 1));
    assert!(forwarder.node.stop().success());
}

const TAKEN: &str = r#"
[admin]
listen = "{admin}"
[[dns.listener]]
listen = "{taken}"
protocols = ["https"]
tls.certificates = [{ cert = "dns.crt", key = "dns.key" }]
[[dns.rule]]
block = "nxdomain"
"#;

#[test]
fn a_port_that_is_taken_is_told_by_the_forwarders_key() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let pair = Issued::self_signed("127.0.0.1");
    let builder = Steppe::builder()
        .with("taken", taken.local_addr().expect("is bound"))
        .with_file("dns.crt", &pair.cert)
        .with_file("dns.key", &pair.key);
    let (status, said) = builder.run(&["run", "-c"], TAKEN);
    assert!(!status.success());
    assert!(said.contains("dns.listener.listen: "), "{said}");
    assert!(!said.contains("http.listener"), "{said}");
}

#[test]
fn queries_come_by_get_and_post_over_https() {
    let forwarder = start();
    for version in ["--http1.1", "--http2"] {
        let target = format!("https://{}/dns-query?dns={IN_TARGET}", forwarder.doh);
        let got = run(Curl::new(&target).args([version]));
        assert_eq!(got.head.status(), 200, "{version}");
        assert_eq!(
            got.head.field("content-type"),
            Some("application/dns-message")
        );
        assert_eq!(got.head.field("cache-control"), Some("max-age=60"));
        assert_eq!(outcome(&got.body), (0, 1));
        let posted = post(&forwarder, &query("www.zero.example", 1), ["-H", MESSAGE]);
        assert_eq!(posted.body, got.body);
    }
    let by_id = get(&forwarder, &format!("/dns-query/kids?dns={IN_TARGET}"));
    assert_eq!(outcome(&by_id.body), (0, 1));
    assert!((forwarder.queries("https") - 5.0).abs() < f64::EPSILON);
    // Messages that cannot be parsed: no question, two, a label of 64 bytes.
    for (at, byte) in [(5, 0), (5, 2), (12, 64)] {
        let mut wrong = query("www.zero.example", 1);
        wrong[at] = byte;
        let said = post(&forwarder, &wrong, ["-H", MESSAGE]);
        assert_eq!(said.head.status(), 200, "{at}");
        assert_eq!(outcome(&said.body), (1, 0), "FORMERR");
        assert_eq!(said.head.field("cache-control"), Some("max-age=0"));
    }
    // A name that no server knows, and servers that are not there.
    let denied = post(&forwarder, &query("a.invalid", 1), ["-H", MESSAGE]);
    assert_eq!(outcome(&denied.body), (3, 0));
    assert_eq!(denied.head.field("cache-control"), Some("max-age=60"));
    let failed = post(&forwarder, &query("a.example", 1), ["-H", MESSAGE]);
    assert_eq!(outcome(&failed.body), (2, 0));
    assert_eq!(failed.head.field("cache-control"), Some("max-age=0"));
    assert!(forwarder.node.stop().success());
}

#[test]
fn queries_have_a_form_in_json() {
    let forwarder = start();
    let got = get(&forwarder, "/dns-query?name=www.zero.example&type=A");
    assert_eq!(got.head.status(), 200);
    assert_eq!(got.head.field("content-type"), Some("application/dns-json"));
    assert_eq!(got.head.field("cache-control"), Some("max-age=60"));
    let said: serde_json::Value = serde_json::from_slice(&got.body).expect("an object");
    assert_eq!(said["Status"], 0);
    assert_eq!(said["Question"][0]["name"], "www.zero.example.");
    assert_eq!(said["Answer"][0]["data"], "0.0.0.0");
    assert_eq!(said["Answer"][0]["TTL"], 60);
    // The media type can be requested.
    let target = format!("https://{}/dns-query?dns={IN_TARGET}", forwarder.doh);
    let accept = ["-H", "accept: application/dns-json"];
    let asked_for = run(Curl::new(&target).args(accept));
    assert_eq!(asked_for.body, got.body);
    assert!(forwarder.node.stop().success());
}

#[test]
fn what_is_no_query_is_refused_as_http_says() {
    let forwarder = start();
    let status = |got: CurlOutput| got.head.status();
    assert_eq!(status(get(&forwarder, "/dns-query")), 400);
    assert_eq!(status(get(&forwarder, "/dns-query?dns=!")), 400);
    // A response is no query: it gets no answer but a status.
    assert_eq!(
        status(get(&forwarder, "/dns-query?dns=AACAAAABAAAAAAAA")),
        400
    );
    let long = "A".repeat(6000);
    assert_eq!(
        status(get(&forwarder, &format!("/dns-query?dns={long}"))),
        414
    );
    assert_eq!(status(get(&forwarder, "/")), 404, "it is the gateway's");
    let asked = query("www.zero.example", 1);
    let text = post(&forwarder, &asked, ["-H", "content-type: text/plain"]);
    assert_eq!(status(text), 415);
    assert_eq!(status(post(&forwarder, &[0; 5000], ["-H", MESSAGE])), 413);
    let chunked = "transfer-encoding: chunked";
    let target = format!("https://{}/dns-query", forwarder.doh);
    let path = forwarder.node.scratch().write("content", [0; 5000]);
    let data = format!("@{}", path.display());
    let curl = Curl::new(&target).args(["--http1.1", "-H", chunked, "-H", MESSAGE]);
    assert_eq!(status(run(curl.args(["--data-binary", &data]))), 413);
    let put = run(Curl::new(&target).args(["-X", "PUT"]));
    assert_eq!(put.head.field("allow"), Some("GET, HEAD, POST"));
    assert_eq!(status(put), 405);
    assert!(forwarder.node.stop().success());
}

#[test]
fn a_route_of_the_gateway_leads_to_the_forwarder() {
    let forwarder = start();
    let url = |path: &str| forwarder.node.url(path);
    let got = Curl::new(&url(&format!("/resolve?dns={IN_TARGET}"))).run();
    assert_eq!(outcome(&got.body), (0, 1));
    let path = forwarder.node.scratch().write("content", [0; 5000]);
    let data = format!("@{}", path.display());
    let large = Curl::new(&url("/resolve")).args(["--data-binary", &data, "-H", MESSAGE]);
    assert_eq!(large.run().head.status(), 413);
    // A listener of the forwarder's own is not needed for this.
    let other = Curl::new(&url(&format!("/dns-query?dns={IN_TARGET}"))).run();
    assert_eq!(other.body, b"the gateway's");
    assert_eq!(get(&forwarder, "/resolve").head.status(), 404);
    // Without a listener too.
    let without = NodeConfig::parse(&forwarder.node.config()).remove("dns.listener");
    forwarder.node.set_config(&without);
    assert_eq!(forwarder.node.admin_post("/reload").status(), 200);
    let got = Curl::new(&url(&format!("/resolve?dns={IN_TARGET}"))).run();
    assert_eq!(outcome(&got.body), (0, 1));
    assert!(forwarder.node.stop().success());
}

#[test]
fn curl_resolves_names_by_it() {
    let forwarder = start();
    let port = forwarder.node.gateway().port();
    // 0.0.0.0 is this machine.
    let got = Curl::new(&format!("http://www.zero.example:{port}/"))
        .args(["--doh-insecure", "--ipv4", "--doh-url"])
        .args([&format!("https://{}/dns-query", forwarder.doh)])
        .run();
    assert_eq!(
        (got.exit, got.body.as_slice()),
        (0, &b"the gateway's"[..]),
        "{}",
        got.errors
    );
    assert!(forwarder.node.stop().success());
}

/// The output of kdig for an address, without its optional sections. `None` if it is not installed.
fn kdig(forwarder: &SecureForwarder, server: SocketAddr, args: &[&str]) -> Option<String> {
    let mut command = Command::new("kdig");
    command
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()])
        .args(args)
        .args(["+time=5", "+retry=0", "www.zero.example", "A"]);
    let Ok(output) = command.output() else {
        eprintln!("skipped: kdig is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", forwarder.node.said());
    Some(said)
}

#[test]
fn kdig_asks_over_every_transport() {
    let forwarder = start();
    for (server, args) in [
        (forwarder.plain, &["+notcp"][..]),
        (forwarder.plain, &["+tcp", "+keepopen"]),
        (forwarder.dot, &["+tls"]),
        (forwarder.dot, &["+tls", "+padding"]),
        (forwarder.doh, &["+https"]),
        (forwarder.doh, &["+https-get"]),
    ] {
        let Some(said) = kdig(&forwarder, server, args) else {
            return;
        };
        assert!(said.contains("status: NOERROR"), "{args:?}: {said}");
        assert!(said.contains("0.0.0.0"), "{args:?}: {said}");
    }
    assert!(forwarder.node.stop().success());
}
