//! Health checks: servers that are probed.
//!
//! Intervals, deadlines and verdicts are tested in virtual time, in `steppe-http`; here, the effect of the keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use steppe_testkit::{RawOrigin, Section, Steppe, eventually, observe_until};

use super::{GET, OK, address, failures, node, servers, wait_until};

/// The answer of a server to a probe.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Say(&'static str),
    /// Answers after this time, unless the probe leaves before.
    After(Duration),
}

/// An origin that answers requests with 200, and each probe as `say` returns.
fn probed(say: impl Fn() -> Answer + Send + Sync + 'static) -> RawOrigin {
    RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.head.target() != "/probe?x=1" {
                peer.send(OK);
                continue;
            }
            assert_eq!(request.field("user-agent"), Some("steppe-probe"));
            match say() {
                Answer::Say(answer) => peer.send(answer),
                Answer::After(time) => {
                    peer.patience(time).drain();
                    let _ = peer.try_send(OK.as_bytes());
                    return;
                }
            };
        }
    })
}

/// A node that probes two servers: one that answers as `sick` while the flag is set and as `well` after that, and one
/// that is always well.
fn probing(
    [sick, well]: [Answer; 2],
    change: impl FnOnce(Section) -> Section,
) -> (Steppe, [RawOrigin; 2], Arc<AtomicBool>) {
    let is_sick = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&is_sick);
    let say = move || {
        if told.load(Ordering::Acquire) {
            sick
        } else {
            well
        }
    };
    let origins = [probed(say), probed(move || well)];
    let health = Section::new()
        .set("path", "/probe?x=1")
        .set("interval", "20ms");
    let servers = origins.each_ref().map(address);
    let node = node(&servers, |u| u.set("health", change(health)));
    (node, origins, is_sick)
}

const NO: &str = "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n";
const SORRY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
const FOUND: &str = "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n";

#[test]
fn probes_mark_a_server_unhealthy_and_back() {
    let (node, origins, is_sick) = probing([Answer::Say(NO), Answer::Say(OK)], |health| health);
    wait_until(&node, "it is out", |servers| {
        servers[0]["state"] == "unhealthy"
    });
    let first = servers(&node)[0].clone();
    assert!(first["probe"]["failed"].as_u64() >= Some(3), "{first}");
    assert!(
        first["reason"].to_string().contains("health checks fail"),
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
    eventually("the log says so", || {
        let said = node.said();
        said.contains("server is unhealthy") && said.contains("server is healthy again")
    });
}

/// Probes in a row that would take longer than a test waits, at the default interval.
const IN_A_ROW: u16 = 40;

#[test]
fn so_many_probes_in_a_row_decide() {
    let answers = [Answer::Say(NO), Answer::Say(FOUND)];
    let (node, _origins, is_sick) = probing(answers, |health| {
        health
            .set("expect", "200, 302")
            .set("unhealthy_after", IN_A_ROW)
            .set("healthy_after", IN_A_ROW)
    });
    let is = |state: &'static str| move |server: &Value| server["state"] == state;
    let first = || servers(&node)[0].clone();
    let out = observe_until("it is out", first, is("unhealthy"));
    assert_eq!(out["probe"]["passed"], 0);
    assert!(
        out["probe"]["failed"].as_u64() >= Some(IN_A_ROW.into()),
        "{out}"
    );
    is_sick.store(false, Ordering::Release);
    let back = observe_until("it is back", first, is("healthy"));
    assert!(
        back["probe"]["passed"].as_u64() >= Some(IN_A_ROW.into()),
        "{back}"
    );
    assert_eq!(back["probe"]["last"], "302");
}

/// An answer after the probe's deadline is a failure; by the default deadline it would be in time.
#[test]
fn a_probe_waits_as_long_as_told() {
    let late = Answer::After(Duration::from_millis(300));
    let (node, _origins, _) = probing([late, Answer::Say(OK)], |health| {
        health.set("timeout", "50ms").set("unhealthy_after", 2)
    });
    wait_until(&node, "it is out", |servers| {
        servers[0]["state"] == "unhealthy"
    });
    assert_eq!(servers(&node)[0]["probe"]["last"], "no response in time");
}

/// The end of an ejection makes no server well whose probes fail, and its return is not logged.
#[test]
fn no_server_is_told_to_be_back_while_its_probes_fail() {
    const EJECTED: &str = "server ejected";
    const BACK: [&str; 2] = ["server readmitted", "server is healthy again"];
    let is_sick = Arc::new(AtomicBool::new(true));
    let origins = [(); 2].map(|()| {
        let told = Arc::clone(&is_sick);
        RawOrigin::replying(move |_| {
            let answer = if told.load(Ordering::Acquire) {
                SORRY
            } else {
                OK
            };
            answer.into()
        })
    });
    let health = Section::new().set("path", "/probe").set("interval", "20ms");
    let node = node(&origins.each_ref().map(address), |u| {
        u.set("health", health)
            .set("outlier.consecutive_failures", 1)
            .set("outlier.ejection", "50ms")
    });
    wait_until(&node, "both are out", |servers| {
        servers.iter().all(|server| server["state"] == "unhealthy")
    });
    let count = |line: &str| node.said().matches(line).count();
    // One of the two is ejected at a time, so a further ejection shows that the last one is over.
    eventually("ejections end", || {
        node.exchange(GET);
        count(EJECTED) >= 4
    });
    assert_eq!(BACK.map(count), [0, 0], "{}", node.said());
    is_sick.store(false, Ordering::Release);
    wait_until(&node, "both are back", |servers| {
        servers.iter().all(|server| server["state"] == "healthy")
    });
    eventually("the log says so", || count(BACK[1]) == 2);
    assert!(count(BACK[0]) <= 1, "of the last ejection: {}", node.said());
}
