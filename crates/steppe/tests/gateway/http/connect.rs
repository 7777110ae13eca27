//! CONNECT that is refused, and answers to it that are none.

use std::time::Duration;

use steppe_testkit::{RawOrigin, Steppe};

const CONFIG: &str = r#"
[node]
workers = 1
[admin]
listen = "{admin}"
[[http.listener]]
listen = "{gateway}"
protocols = ["h1", "h2c"]
[http.upstream.proxy]
servers = ["{proxy}"]
timeouts = { idle = "20s" }
[http.upstream.said]
respond.body = "no tunnel"
[[http.route]]
name = "any"
path = "/{rest*}"
upstream = "proxy"
[[http.route]]
name = "tunnels"
host = "*.tunnel.example"
methods = ["CONNECT"]
upstream = "proxy"
[[http.route]]
name = "said"
host = "said.example"
methods = ["CONNECT"]
upstream = "said"
"#;

fn node(proxy: &RawOrigin) -> Steppe {
    Steppe::builder()
        .with("proxy", proxy.address())
        .start(CONFIG)
}

/// A route without `methods` matches all methods but CONNECT.
#[test]
fn routes_have_to_name_it() {
    let proxy = RawOrigin::answering("HTTP/1.1 200 OK\r\n\r\n");
    let node = node(&proxy);
    for authority in ["a.example:443", "tunnel.example:443"] {
        let behind = "GET /behind HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let mut peer = node.connect();
        peer.send(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n{behind}"
        ));
        let answer = peer.response_to("CONNECT");
        assert_eq!(answer.status(), 501);
        assert_eq!(answer.field("connection"), Some("close"));
        // The bytes that were sent ahead for the tunnel are not parsed as a request.
        assert_eq!(peer.rest(), b"");
    }
    assert_eq!(proxy.received(), "");
}

#[test]
fn a_target_is_a_host_and_a_port() {
    let proxy = RawOrigin::answering("HTTP/1.1 200 OK\r\n\r\n");
    let node = node(&proxy);
    for (target, more) in [
        ("a.tunnel.example", ""),
        ("/", ""),
        ("*", ""),
        (":443", ""),
        ("http://a.tunnel.example:443/", ""),
        ("user@a.tunnel.example:443", ""),
        ("b.tunnel.example:443", ""),
        ("a.tunnel.example:443", "Content-Length: 1\r\n"),
        ("a.tunnel.example:443", "Transfer-Encoding: chunked\r\n"),
    ] {
        let mut peer = node.connect();
        peer.send(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: a.tunnel.example:443\r\n{more}\r\nx"
        ));
        let answer = peer.response_to("CONNECT");
        assert_eq!(answer.status(), 400, "{target} {more}");
        assert_eq!(peer.rest(), b"", "{target} {more}");
    }
    assert_eq!(proxy.received(), "");
}

/// RFC 9110 §9.3.6: a 2xx response has no length; bytes sent ahead belong to the tunnel.
#[test]
fn what_says_yes_has_no_content() {
    for length in [
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "",
    ] {
        let proxy = RawOrigin::start(move |peer| {
            let Some(head) = peer.head() else { return };
            let asked = (head.method(), head.target(), head.field("host"));
            let host = "a.tunnel.example:443";
            assert_eq!(asked, ("CONNECT", host, Some(host)));
            peer.send(format!("HTTP/1.1 299 Yes\r\n{length}\r\nfirst "));
            let ahead = peer.bytes(5);
            peer.send(ahead).send(" last").finish();
        });
        let node = node(&proxy);
        let mut peer = node.connect();
        let host = "a.tunnel.example:443";
        peer.send(format!(
            "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\nahead"
        ));
        let head = peer.head().expect("it is answered");
        assert_eq!(head.status(), 299);
        for name in ["content-length", "transfer-encoding", "connection"] {
            assert_eq!(head.field(name), None, "{length}");
        }
        assert_eq!(peer.rest(), b"first ahead last", "{length}");
    }
}

/// A client would take a 2xx for a tunnel.
#[test]
fn what_is_no_tunnel_does_not_say_yes() {
    let proxy = RawOrigin::answering("HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno");
    let node = node(&proxy);
    let ask = |host: &str| {
        let mut peer = node.connect();
        peer.patience(Duration::from_secs(20));
        peer.send(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        peer.response_to("CONNECT")
    };
    assert_eq!(ask("said.example:1").status(), 502);
    let refused = ask("a.tunnel.example:1");
    assert_eq!((refused.status(), &*refused.body), (407, &b"no"[..]));
}
