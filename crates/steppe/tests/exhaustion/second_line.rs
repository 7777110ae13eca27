//! The second line of defense alone: a build that charges nothing for connections of clients and their heads.
//!
//! `cargo xtask second-line` builds it and runs this module.

use steppe_testkit::{Steppe, eventually};

use crate::flood::{Crowd, Flood, SilentOrigin};
use crate::http2::heads;

/// Memory beyond the budget, in MiB, and percent of a neighbour's requests that are served.
const PROMISE: (u64, u64) = (40, 90);

#[test]
fn debt_for_few_large_heads_is_paid_by_connections() {
    debt_is_paid("uncharged heads of 15 KB", 15_000);
}

#[test]
fn debt_for_small_heads_is_paid_by_connections() {
    debt_is_paid("uncharged heads of 2 KB", 2_000);
}

fn debt_is_paid(case: &str, head_bytes: usize) {
    let origin = SilentOrigin::start();
    Flood::new(case, 64)
        .promising(PROMISE.0, PROMISE.1)
        // The first line of defense would hold the flood, too.
        .config(|config| {
            let config = config.set("node.client_share", "off");
            config.set("log.level", "info")
        })
        .toward(origin.address(), "h1")
        .run(|node| {
            let mut crowd = Crowd::connect(node.gateway(), 400);
            crowd.send(&heads(100, head_bytes));
            assert_is_told(node);
            crowd
        });
}

/// Checks that debt and closed connections are shown by `/memory`, the metrics and the log.
fn assert_is_told(node: &Steppe) {
    // The node still works through the received bytes.
    eventually("a debt began, and is paid", || {
        let uncharged = node.admin_json("/memory")["uncharged"].take();
        uncharged["debts"].as_u64() > Some(0) && uncharged["debt_bytes"] == 0
    });
    let memory = node.admin_json("/memory");
    let shed = memory["clients"]["shed_total"].as_u64();
    assert!(shed > Some(0), "{memory}");
    let metrics = node.metrics();
    assert!(metrics.sum("steppe_budget_shed_connections_total", &[]) > 0.0);
    // Counted only when the last task of a connection has ended.
    eventually("closed connections are counted", || {
        let reason = [("reason", "over_budget")];
        node.metrics().sum("steppe_http_closed_total", &reason) > 0.0
    });
    let log = node.said();
    assert!(log.contains("the memory budget is in debt"), "{log}");
}
