//! Connections to servers: kept, resumed, probed, and abandoned for another server.

use steppe_testkit::Validity;

use super::*;

const WHO: &str = "return 200 \"$connection $connection_requests $ssl_session_reused\";";

fn words(node: &Steppe) -> Vec<String> {
    get(node).text().split(' ').map(str::to_owned).collect()
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let authority = Authority::new("one");
    let nginx = TlsNginx::start(&authority, &authority.issue(&local()), WHO);
    let node = node(&authority, nginx.address(), (CA, ""));
    let first = words(&node);
    assert_eq!(first[1], "1");
    for count in 2..=5 {
        assert_eq!(words(&node)[..2], [first[0].clone(), count.to_string()]);
    }
}

/// With `keepalive = 0` each request makes a handshake, the first of them a full one.
#[test]
fn a_session_is_resumed_by_the_next_connection() {
    let authority = Authority::new("one");
    for version in ["TLSv1.2", "TLSv1.3"] {
        let lines = format!("ssl_protocols {version}; {WHO}");
        let nginx = TlsNginx::start(&authority, &authority.issue(&local()), &lines);
        let node = node(&authority, nginx.address(), (CA, "keepalive = 0"));
        let reused: Vec<_> = (0..4).map(|_| words(&node).remove(2)).collect();
        assert_eq!(reused, [".", "r", "r", "r"], "{version}");
    }
}

const HEALTH: &str =
    "health = { path = \"/health\", interval = \"50ms\", healthy_after = 1, unhealthy_after = 2 }";

#[test]
fn probes_speak_tls_and_say_why_they_fail() {
    let authority = Authority::new("one");
    let old = authority.issue(&local().valid(Validity::Expired));
    let lines = "location = /health { return 204; } location / { return 200 ok; }";
    let nginx = TlsNginx::start(&authority, &old, lines);
    let node = node(&authority, nginx.address(), (CA, HEALTH));
    eventually("the server is unhealthy", || {
        server(&node)["state"] == "unhealthy"
    });
    let expected = "certificate expired or not valid yet";
    assert_eq!(server(&node)["probe"]["last"], expected);
    assert_eq!(
        reason(&node),
        format!("health checks fail; last result: {expected}")
    );
    nginx.renew(&authority.issue(&local()));
    // A worker with the old certificate may accept once more.
    eventually("the server is healthy", || {
        let server = server(&node);
        server["state"] == "healthy" && server["probe"]["last"] == "204"
    });
    eventually("it is asked", || get(&node).text() == "ok");
}

/// No byte of the request was sent to the first server, so any request may go to the second.
#[test]
fn a_request_goes_on_to_a_server_whose_tls_is_well() {
    let authority = Authority::new("one");
    let old = authority.issue(&local().valid(Validity::Expired));
    let bad = TlsNginx::start(&authority, &old, "return 200 bad;");
    let good = TlsNginx::start(&authority, &authority.issue(&local()), "return 200 good;");
    let servers = [bad.address(), good.address()];
    for retry in ["", "retry = { attempts = 1, on = [\"connect\"] }"] {
        let node = start(&authority, servers, &config(CA, retry));
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        for request in [GET, post, GET, post] {
            assert_eq!(node.exchange(request).text(), "good", "{retry}");
        }
        let bad = server(&node);
        assert!(
            bad["failures"].as_u64() > Some(0),
            "it was never asked: {bad}"
        );
        assert_eq!(bad["reason"], "certificate expired or not valid yet");
    }
}

/// The server fails at each connection; once ejected, it gets no more requests.
#[test]
fn a_server_without_tls_is_ejected_in_the_end() {
    let authority = Authority::new("one");
    let good = TlsNginx::start(&authority, &authority.issue(&local()), "return 200 good;");
    let plain = Nginx::start("return 200 plain;");
    let servers = [plain.address(), good.address()];
    let node = start(&authority, servers, &config(CA, ""));
    eventually("it is ejected", || {
        assert_eq!(get(&node).text(), "good");
        server(&node)["state"] == "ejected"
    });
    assert!(
        reason(&node).contains("TLS handshake failed"),
        "{}",
        reason(&node)
    );
}
