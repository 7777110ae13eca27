//! Slow sicknesses that are no leak of heap memory, each found by default, and their healthy twin.

use super::harness::{Lab, alone, among_others, finding, free_port, program};

/// A run of `lab-sick` at 300 requests a second, without any budget.
fn soak(kind: &str, every: u32, folder: &str) -> (i32, serde_json::Value) {
    let count = if kind == "stairs" { 60 } else { 36 };
    let lab = Lab::new(&format!("sick-{kind}"));
    let (program, port) = (program("sick"), free_port());
    let text = format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}", "{kind}", "{every}", "{folder}"]
ready = "tcp://127.0.0.1:{port}"
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
connections = 16
rate_per_s = 300
[epochs]
length = "200ms"
quiesce = "40ms"
count = {count}
"#
    );
    // The twin's times are judged as well.
    let is_timed = ["cpu", "latency", "none"].contains(&kind);
    let _alone = is_timed.then(alone);
    let _among = (!is_timed).then(among_others);
    lab.soak(&text)
}

/// That it is found.
#[track_caller]
fn found((code, verdict): &(i32, serde_json::Value), metric: &str) {
    assert_eq!(*code, 1, "{verdict:#}");
    let found = finding(verdict, metric);
    assert_eq!(found["word"], "UNBOUNDED", "{found:#}");
}

/// A time that grows: seen over the whole run. A busy machine may leave its last half open, or take the
/// blame.
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
fn descriptors_that_stay_open_are_found_and_when_they_run_out() {
    let run = soak("descriptors", 11, "");
    found(&run, "open_files_growth");
    let headline = run.1["headline"].as_str().unwrap_or_default();
    assert!(
        headline.contains("the soonest limit is that of open_files, in "),
        "{headline}"
    );
    let notes = finding(&run.1, "open_files_growth")["notes"].to_string();
    assert!(notes.contains("× /dev/null of lab-sick (pid "), "{notes}");
}

/// Every sixth epoch, as every fifteenth of a second in two minutes.
#[test]
fn memory_that_grows_in_stairs_is_found_and_named_so() {
    let run = soak("stairs", 360, "");
    found(&run, "rss_growth");
    let notes = finding(&run.1, "rss_growth")["notes"].to_string();
    assert!(notes.contains("it grows in stairs: 3"), "{notes}");
}

#[test]
fn zombies_are_found() {
    found(&soak("zombies", 11, ""), "zombies_growth");
}

#[test]
fn cpu_time_a_request_that_doubles_is_found() {
    found_in_time(&soak("cpu", 400, ""), "cpu_us_per_op_growth");
}

#[test]
fn latency_that_doubles_is_found() {
    found_in_time(&soak("latency", 250, ""), "p50_growth");
}

/// What lies in memory and is in no process's own: seen where the target has a control group.
#[test]
fn a_memfd_that_is_not_mapped_is_found() {
    let run = soak("memfd", 6, "");
    found(&run, "cgroup_growth");
    let notes = finding(&run.1, "cgroup_growth")["notes"].to_string();
    assert!(notes.contains("/memfd:left of lab-sick (pid "), "{notes}");
}

#[test]
fn files_left_in_tmpfs_are_found() {
    let folder = format!("/dev/shm/steppe-lab-{}", std::process::id());
    std::fs::create_dir_all(&folder).expect("a tmpfs");
    let run = soak("tmpfs", 6, &folder);
    _ = std::fs::remove_dir_all(&folder);
    found(&run, "cgroup_growth");
}

/// Times may be too noisy to be judged where others use the machine; nothing is an alarm.
#[test]
fn their_healthy_twin_is_stable() {
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
    let _among = among_others();
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
