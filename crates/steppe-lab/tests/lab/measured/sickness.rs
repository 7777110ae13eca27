//! Slow sicknesses that show in times, and the healthy twin of all, whose times are judged as well.

use steppe_testkit::is_left_to_long_tier;

use crate::harness::{Lab, alone, finding, free_port, program};
use crate::sickness::soak;

/// Checks that a time's growth is found over the whole run. A busy machine may leave its last half
/// open, or take the blame.
#[track_caller]
fn found_in_time((code, verdict): &(i32, serde_json::Value), metric: &str) {
    assert_ne!(*code, 0, "{verdict:#}");
    let found = finding(verdict, metric);
    assert_ne!(found["word"], "STABLE", "{found:#}");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let is_over = number(&found["value"]["lower"]) > number(&found["limit"]);
    assert!(is_over, "{found:#}");
}

#[test]
fn cpu_time_a_request_that_doubles_is_found() {
    let _alone = alone();
    found_in_time(&soak("cpu", 400, ""), "cpu_us_per_op_growth");
}

#[test]
fn latency_that_doubles_is_found() {
    if is_left_to_long_tier("latency_that_doubles_is_found") {
        return;
    }
    let _alone = alone();
    found_in_time(&soak("latency", 250, ""), "p50_growth");
}

/// Times may be too noisy to be judged on a busy machine; none is an alarm.
#[test]
fn their_healthy_twin_is_stable() {
    let _alone = alone();
    let (code, verdict) = soak("none", 11, "");
    assert!([0, 3].contains(&code), "{verdict:#}");
    let findings = verdict["variants"][0]["findings"]
        .as_array()
        .expect("findings");
    let of_target = |finding: &&serde_json::Value| finding["metric"] != "rate_kept";
    for finding in findings.iter().filter(of_target) {
        let word = finding["word"].as_str().unwrap_or_default();
        let quiet = ["STABLE", "GO", "INCONCLUSIVE"];
        assert!(quiet.contains(&word), "{finding:#}");
    }
    for metric in ["open_files_growth", "zombies_growth", "threads_growth"] {
        assert_eq!(finding(&verdict, metric)["word"], "STABLE", "{metric}");
    }
}

/// Each epoch would wait three seconds for operations that never end.
#[test]
fn a_target_that_lets_requests_hang_is_quoted_and_not_waited_for_each_time() {
    if is_left_to_long_tier(
        "a_target_that_lets_requests_hang_is_quoted_and_not_waited_for_each_time",
    ) {
        return;
    }
    let _alone = alone();
    let lab = Lab::new("sick-hang");
    let (program, port) = (program("sick"), free_port());
    let text = format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}", "hang", "100"]
ready = "tcp://127.0.0.1:{port}"
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
connections = 4
rate_per_s = 300
timeout = "1h"
[epochs]
length = "200ms"
quiesce = "40ms"
count = 20
"#
    );
    let said = lab
        .write("sick.toml", &text)
        .run(&["soak", "sick.toml", "-o", "run"]);
    said.says("can't accept: Too many open files (os error 24)");
    assert!(!said.out.contains("raise `quiesce`"), "{}", said.out);
    let rows = lab.read("run/epochs.csv");
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let column = rows
        .headers()
        .expect("headers")
        .iter()
        .position(|name| name == "load_ms");
    let column = column.expect("the column");
    let load_ms = rows.records().map(|row| {
        let row = row.expect("a row");
        row[column].parse::<u64>().expect("a number")
    });
    let load_ms: Vec<u64> = load_ms.collect();
    assert_eq!(load_ms.len(), 20);
    let waited = load_ms.iter().filter(|ms| **ms >= 2_900).count();
    assert_eq!(waited, 3, "{load_ms:?}");
}
