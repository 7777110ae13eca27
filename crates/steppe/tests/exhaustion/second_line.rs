//! The second line of defense alone: a build that charges nothing for heads of HTTP/2.
//!
//! `cargo xtask second-line` builds it and runs this module.

use steppe_testkit::{Steppe, eventually};

use crate::flood::{Crowd, Flood, SilentOrigin};
use crate::http2::heads;

/// Memory beyond the budget, in MiB, and percent of a neighbour's requests that are served.
const PROMISE: (u64, u64) = (40, 90);

#[test]
fn debt_is_paid_by_connections() {
    for (budget_mib, head_bytes) in [(64, 15_000), (64, 2_000), (16, 15_000)] {
        let origin = SilentOrigin::start();
        let case = format!("uncharged heads of {head_bytes} bytes");
        Flood::new(&case, budget_mib)
            .promising(PROMISE.0, PROMISE.1)
            .config(|config| config.set("log.level", "info"))
            .toward(origin.address(), "h1")
            .run(|node| {
                let mut crowd = Crowd::connect(node.gateway(), 400);
                crowd.send(&heads(100, head_bytes));
                assert_is_told(node);
                crowd
            });
    }
}

/// Debt and closed connections stand in `/memory`, in the metrics and in the log.
fn assert_is_told(node: &Steppe) {
    eventually("the debt is paid", || {
        node.admin_json("/memory")["uncharged"]["debt_bytes"] == 0
    });
    let memory = node.admin_json("/memory");
    assert!(memory["uncharged"]["debts"].as_u64() > Some(0), "{memory}");
    let shed = memory["clients"]["shed_total"].as_u64();
    assert!(shed > Some(0), "{memory}");
    let metrics = node.metrics();
    assert!(metrics.sum("steppe_budget_shed_connections_total", &[]) > 0.0);
    let reason = [("reason", "over_budget")];
    assert!(metrics.sum("steppe_http_closed_total", &reason) > 0.0);
    let log = node.said();
    assert!(log.contains("the memory budget is in debt"), "{log}");
}
