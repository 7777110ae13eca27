//! Servers that fail in a row are ejected, and return. The times are tested in virtual time, in `steppe-http`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steppe_testkit::{Load, Nginx, Port, RawOrigin, Section};

use super::{address, answering, failures, node, servers, servers_requests, states, wait_until};

#[test]
fn a_dead_server_of_three_costs_no_client_an_error_and_is_ejected() {
    let (port, live) = (Port::free(), [answering(200), answering(200)]);
    let dead = port.address().to_string();
    let node = node(&[address(&live[0]), dead, address(&live[1])], |u| u);
    assert_eq!(failures(&node, 60), 0);
    assert_eq!(states(&node), ["healthy", "ejected", "healthy"]);
    let dead = &servers(&node)[1];
    assert_eq!(dead["ejections"], 1);
    assert_eq!(dead["failures"], 5, "from then on it is not asked: {dead}");
    let reason = dead["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("connection refused"), "{reason}");
    let metrics = node.metrics();
    let labels = [
        ("upstream", "origin"),
        ("server", dead["server"].as_str().expect("text")),
    ];
    let sum = |name| metrics.sum(name, &labels);
    assert_eq!(sum("steppe_http_upstream_server_healthy"), 0.0);
    assert_eq!(sum("steppe_http_upstream_server_ejections_total"), 1.0);
    assert_eq!(sum("steppe_http_upstream_server_failures_total"), 5.0);
}

#[test]
fn a_server_that_dies_under_load_costs_no_client_an_error() {
    let body = "location / { return 200 hello; }";
    let mut nginx: Vec<_> = (0..3).map(|_| Nginx::start(body)).collect();
    let servers: Vec<_> = nginx
        .iter()
        .map(|each| each.address().to_string())
        .collect();
    let node = node(&servers, |u| {
        u.set("retry.on", ["connect", "reset"])
            .set("outlier", Section::new())
    });
    let load = Load::start(&node.url("/"), 32);
    wait_until(&node, "each is asked", |servers| {
        let mut requests = servers.iter().map(|server| server["requests"].as_u64());
        requests.all(|count| count >= Some(100))
    });
    nginx[1].kill();
    wait_until(&node, "it is ejected", |servers| {
        servers[1]["state"] == "ejected"
    });
    let output = load.stop();
    assert!(output.requests > 100, "{output:?}");
    assert_eq!((output.refused, output.errors), (0, 0), "{output:?}");
    assert_eq!(states(&node)[1], "ejected");
}

#[test]
fn so_many_failures_in_a_row_eject() {
    let origins = [answering(503), answering(200)];
    let servers = origins.each_ref().map(address);
    let node = node(&servers, |u| {
        u.set("outlier.consecutive_failures", 3)
            .set("outlier.ejection", "1h")
    });
    assert_eq!(failures(&node, 4), 2);
    assert_eq!(states(&node), ["healthy"; 2]);
    assert_eq!(failures(&node, 10), 1);
    assert_eq!(states(&node), ["ejected", "healthy"]);
    let reason = self::servers(&node)[0]["reason"].to_string();
    assert!(
        reason.contains("3 consecutive failures, the last: status 503"),
        "{reason}"
    );
    assert!(reason.contains("readmitted in 3"), "an hour: {reason}");
}

#[test]
fn without_outlier_a_status_ejects_nobody() {
    let origins = [answering(503), answering(200)];
    let node = node(&origins.each_ref().map(address), |u| u);
    assert_eq!(failures(&node, 40), 20);
    assert_eq!(states(&node), ["healthy"; 2]);
}

#[test]
fn no_more_than_the_share_is_ejected() {
    for (share, ejected) in [("25%", 1), ("75%", 3)] {
        let origins = [0; 4].map(|_| answering(502));
        let servers = origins.each_ref().map(address);
        let node = node(&servers, |u| {
            u.set("outlier.consecutive_failures", 1)
                .set("outlier.ejection", "1h")
                .set("outlier.max_ejected", share)
        });
        assert_eq!(failures(&node, 12), 12);
        let states = states(&node);
        let count = states.iter().filter(|state| *state == "ejected").count();
        assert_eq!(count, ejected, "{share}: {states:?}");
    }
}

/// An origin that answers 503 until the flag is set.
fn switched() -> (RawOrigin, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_well);
    let origin = RawOrigin::replying(move |_| {
        let status = if switch.load(Ordering::Acquire) {
            200
        } else {
            503
        };
        format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes()
    });
    (origin, is_well)
}

#[test]
fn a_server_that_returns_starts_slowly() {
    let ((origin, is_well), other) = (switched(), answering(200));
    let node = node(&[address(&origin), address(&other)], |u| {
        u.set("outlier.consecutive_failures", 1)
            .set("outlier.ejection", "100ms")
            .set("slow_start", "1h")
    });
    assert_eq!(failures(&node, 2), 1);
    is_well.store(true, Ordering::Release);
    wait_until(&node, "it is back", |servers| {
        servers[0]["state"] == "healthy"
    });
    let before = servers_requests(&node, 0);
    assert_eq!(failures(&node, 44), 0);
    assert_eq!(servers_requests(&node, 0) - before, 4);
}
