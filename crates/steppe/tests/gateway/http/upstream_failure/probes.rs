//! Servers that are asked whether they are well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use steppe_testkit::{RawOrigin, Section, Steppe, eventually};

use super::{OK, address, failures, node, servers, wait_until};

/// Answers requests, and each probe, of which it is told the number, by what `say` has for it; counts probes.
fn probed(say: impl Fn(usize) -> u8 + Send + Sync + 'static) -> (RawOrigin, Arc<AtomicUsize>) {
    let probes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&probes);
    let origin = RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.head.target() != "/probe?x=1" {
                peer.send(OK);
                continue;
            }
            assert_eq!(request.field("user-agent"), Some("steppe-probe"));
            match say(count.fetch_add(1, Ordering::AcqRel)) {
                b'.' => peer.send(OK),
                b'!' => peer.send("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"),
                b'3' => peer.send("HTTP/1.1 302 No\r\ncontent-length: 0\r\n\r\n"),
                b'~' => {
                    // Longer than a probe waits for an answer that has to come soon.
                    peer.expect_silence(Duration::from_millis(300));
                    peer.send(OK)
                }
                _ => return peer.drain(),
            };
        }
    });
    (origin, probes)
}

/// A node that probes two servers: one that goes by `script`, its last word for good, and one that is always well.
fn probing(
    script: &'static str,
    change: impl FnOnce(Section) -> Section,
) -> (Steppe, [RawOrigin; 2], Arc<AtomicUsize>) {
    let say = |at: usize| script.as_bytes()[at.min(script.len() - 1)];
    probing_by(say, change)
}

fn probing_by(
    say: impl Fn(usize) -> u8 + Send + Sync + 'static,
    change: impl FnOnce(Section) -> Section,
) -> (Steppe, [RawOrigin; 2], Arc<AtomicUsize>) {
    let ((origin, probes), (other, _)) = (probed(say), probed(|_| b'.'));
    let servers = [address(&origin), address(&other)];
    let node = node(&servers, |u| u.set("health", change(health())));
    (node, [origin, other], probes)
}

/// Probes in quick succession.
fn health() -> Section {
    Section::new()
        .set("path", "/probe?x=1")
        .set("interval", "20ms")
}

fn wait_for_probes(probes: &AtomicUsize, count: usize) {
    eventually("so many probes", || probes.load(Ordering::Acquire) >= count);
}

#[test]
fn probes_mark_a_server_unhealthy_and_back() {
    let is_sick = Arc::new(AtomicBool::new(true));
    let say = {
        let is_sick = Arc::clone(&is_sick);
        move |_| match is_sick.load(Ordering::Acquire) {
            true => b'!',
            false => b'.',
        }
    };
    let (node, origins, _) = probing_by(say, |health| health);
    wait_until(&node, "it is out", |servers| {
        servers[0]["state"] == "unhealthy"
    });
    let first = servers(&node)[0].clone();
    assert!(first["probe"]["failed"].as_u64() >= Some(3), "{first}");
    assert!(
        first["reason"].to_string().contains("probes fail"),
        "{first}"
    );
    let requests = |origin: &RawOrigin| origin.received().matches("GET / ").count();
    assert_eq!(failures(&node, 6), 0);
    assert_eq!(requests(&origins[0]), 0, "it is asked nothing");
    is_sick.store(false, Ordering::Release);
    wait_until(&node, "it is back", |servers| {
        servers[0]["state"] == "healthy"
    });
    assert_eq!(failures(&node, 6), 0);
    assert!(requests(&origins[0]) >= 3);
    let first = &servers(&node)[0];
    assert_eq!(first["probe"]["last"], "200");
    let labels = |result| [("upstream", "origin"), ("result", result)];
    let metrics = node.metrics();
    let probes = |result| metrics.sum("steppe_http_upstream_probes_total", &labels(result));
    assert!(
        probes("failed") >= 3.0 && probes("passed") >= 2.0,
        "{}",
        metrics.text()
    );
}

const OUT: &str = "server is unhealthy";
const BACK: &str = "server is healthy again";

#[test]
fn so_many_probes_in_a_row_decide() {
    let (node, _origins, probes) = probing("!!.!!.!!!.", |h| h.set("unhealthy_after", 4));
    wait_for_probes(&probes, 14);
    assert!(!node.said().contains(OUT), "{}", node.said());
    let (node, _origins, probes) = probing("!!.!!.!!!.", |h| h.set("unhealthy_after", 3));
    wait_for_probes(&probes, 14);
    eventually("it was out, and is back", || {
        node.said().contains(OUT) && node.said().contains(BACK)
    });
    let (node, _origins, probes) = probing("!!!..!...!..!...!", |h| h.set("healthy_after", 4));
    wait_for_probes(&probes, 20);
    eventually("it is out", || node.said().contains(OUT));
    assert!(!node.said().contains(BACK), "{}", node.said());
    let (node, _origins, probes) = probing("!!!..!...!..!...!", |h| h.set("healthy_after", 3));
    wait_for_probes(&probes, 20);
    eventually("it is back", || node.said().contains(BACK));
}

#[test]
fn the_statuses_that_are_expected_are_good() {
    for (expect, is_good) in [("2xx", false), ("200-399", true), ("200, 302", true)] {
        let (node, _origins, probes) = probing("3", |h| h.set("expect", expect));
        wait_for_probes(&probes, 6);
        if is_good {
            assert!(!node.said().contains(OUT), "{expect}: {}", node.said());
        } else {
            eventually("it is out", || node.said().contains(OUT));
        }
    }
}

#[test]
fn a_probe_waits_as_long_as_told() {
    let (node, _origins, _) = probing("-", |h| h.set("timeout", "50ms").set("unhealthy_after", 2));
    wait_until(&node, "it is out", |servers| {
        servers[0]["state"] == "unhealthy"
    });
    assert_eq!(servers(&node)[0]["probe"]["last"], "no answer in time");
    let (node, _origins, _) = probing("~", |h| h.set("timeout", "10s").set("unhealthy_after", 1));
    wait_until(&node, "it is asked", |servers| {
        servers[0]["probe"]["passed"].as_u64() > Some(2)
    });
    assert!(!node.said().contains(OUT), "{}", node.said());
}

#[test]
fn where_none_is_well_all_are_asked() {
    let ((one, _), (other, _)) = (probed(|_| b'!'), probed(|_| b'!'));
    let servers = [address(&one), address(&other)];
    let node = node(&servers, |u| u.set("health", health()));
    wait_until(&node, "both are out", |servers| {
        servers.iter().all(|server| server["state"] == "unhealthy")
    });
    assert_eq!(failures(&node, 4), 0);
}
