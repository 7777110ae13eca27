//! The error log: lines for requests that failed at their upstream.

use steppe_testkit::{FullQueue, NodeConfig, Port, RawOrigin, Steppe, eventually};

use super::{OK, answering, resetting, silent};

const LINE: &str = "request failed at its upstream";

/// A node that logs as it does by default, in front of one server.
fn node(server: &str) -> Steppe {
    let config = NodeConfig::plain()
        .set("log.level", "info")
        .upstream("origin", |u| {
            u.servers([server]).set("timeouts.first_byte", "300ms")
        });
    Steppe::builder().start(&config)
}

/// The lines of the error log, once there are at least `count`.
fn lines(node: &Steppe, count: usize) -> Vec<String> {
    let lines = || -> Vec<String> {
        let said = node.said();
        said.lines()
            .filter(|line| line.contains(LINE))
            .map(str::to_owned)
            .collect()
    };
    eventually("the lines of the error log", || lines().len() >= count);
    lines()
}

#[test]
fn each_failed_request_has_a_line() {
    let garbage = RawOrigin::answering("no response of HTTP\r\n\r\n");
    let no_length = RawOrigin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok");
    });
    let (reset, silent) = (resetting(), silent());
    let port = Port::free();
    let cases = [
        (port.address().to_string(), 502, "connect_failed"),
        (garbage.address().to_string(), 502, "bad_response"),
        (reset.address().to_string(), 502, "upstream_reset"),
        (silent.address().to_string(), 504, "first_byte_timeout"),
        // The response has begun.
        (no_length.address().to_string(), 502, "upstream_reset"),
    ];
    for (server, status, reason) in cases {
        let node = node(&server);
        let mut peer = node.connect();
        peer.send("GET /p%0a?token=s3cret HTTP/1.1\r\nHost: a.example\r\nCookie: s3cret\r\nConnection: close\r\n\r\n");
        let _ = peer.rest();
        let line = &lines(&node, 1)[0];
        let fields = [
            "WARN".to_owned(),
            "client=127.0.0.1".to_owned(),
            "host=a.example".to_owned(),
            "path=/p%0A ".to_owned(),
            "upstream=\"origin\"".to_owned(),
            format!("server=\"{server}\""),
            format!("reason=\"{reason}\""),
            format!("status={status}"),
            "attempts=1".to_owned(),
        ];
        for field in fields {
            assert!(line.contains(&field), "{field} is not in {line}");
        }
        assert!(!node.said().contains("s3cret"));
        let state = node.admin_json("/upstreams")["upstreams"][0]["servers"][0].take();
        assert_eq!(state["state"], "healthy");
        let why = state["reason"].as_str().unwrap_or_default();
        assert!(why.starts_with("last request failed: "), "{state}");
    }
}

/// The deadline of an exchange passes while a connection is being established. That counts as a failure of the server
/// only if it was the first attempt.
#[test]
fn a_connection_that_takes_all_the_time_is_an_attempt() {
    let (first, hanging) = (resetting(), FullQueue::new());
    let (first, hanging) = (first.address().to_string(), hanging.address().to_string());
    for (servers, failures) in [
        (vec![&first, &hanging], vec![1, 0]),
        (vec![&hanging], vec![1]),
    ] {
        let config = NodeConfig::plain().upstream("origin", |u| {
            u.servers(servers.clone())
                .set("timeouts.connect", "600s")
                .set("timeouts.total", "1s")
                .set("retry.on", ["reset"])
        });
        let node = Steppe::builder().start(config.set("log.level", "info"));
        assert_eq!(
            node.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status(),
            504
        );
        let line = &lines(&node, 1)[0];
        for field in [
            "reason=\"total_timeout\"".to_owned(),
            format!("server=\"{hanging}\""),
            format!("attempts={}", servers.len()),
        ] {
            assert!(line.contains(&field), "{field} is not in {line}");
        }
        let counted = super::servers(&node);
        let counted: Vec<_> = counted
            .iter()
            .map(|server| server["failures"].clone())
            .collect();
        assert_eq!(counted, failures);
    }
}

#[test]
fn requests_that_are_served_or_their_clients_fault_have_none() {
    let origin = RawOrigin::answering(OK);
    let refusing = answering(503);
    for server in [&origin, &refusing] {
        let node = node(&server.address().to_string());
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            node.exchange(request);
        }
        assert!(!node.said().contains(LINE), "{}", node.said());
    }
}

#[test]
fn a_storm_of_failures_is_a_few_lines_and_a_number() {
    const COUNT: usize = 200;
    let port = Port::free();
    let node = node(&port.address().to_string());
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut sent = 0;
    let outcome = |outcome: &str| {
        let labels = [("outcome", outcome)];
        node.metrics()
            .sum("steppe_http_error_log_lines_total", &labels)
    };
    // A batch may straddle two seconds: further ones follow until lines are omitted.
    eventually("some are left out", || {
        (0..COUNT).for_each(|_| assert_eq!(node.exchange(request).status(), 502));
        sent += COUNT;
        outcome("omitted") > 0.0
    });
    eventually("another second has come", || {
        node.exchange(request);
        sent += 1;
        node.said().contains("omitted=")
    });
    assert_eq!(outcome("written") + outcome("omitted"), sent as f64);
    assert_eq!(lines(&node, 1).len() as f64, outcome("written"));
}
