//! Slow sicknesses that are no leak of heap memory, each found by default.
//!
//! Left out: sicknesses that show only in times, and the healthy twin: `measured/sickness.rs`.

use super::harness::{Lab, among_others, finding, free_port, program};

/// A run of `lab-sick` at 300 requests a second, without any budget.
pub fn soak(kind: &str, every: u32, folder: &str) -> (i32, serde_json::Value) {
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
    lab.soak(&text)
}

/// Checks that growth of a metric is UNBOUNDED.
#[track_caller]
fn found((code, verdict): &(i32, serde_json::Value), metric: &str) {
    assert_eq!(*code, 1, "{verdict:#}");
    let found = finding(verdict, metric);
    assert_eq!(found["word"], "UNBOUNDED", "{found:#}");
}

#[test]
fn descriptors_that_stay_open_are_found_and_when_they_run_out() {
    let _among = among_others();
    let run = soak("descriptors", 11, "");
    found(&run, "open_files_growth");
    let headline = run.1["headline"].as_str().unwrap_or_default();
    assert!(
        headline.contains("open_files reaches its limit first, in "),
        "{headline}"
    );
    let notes = finding(&run.1, "open_files_growth")["notes"].to_string();
    assert!(notes.contains("× /dev/null of lab-sick (pid "), "{notes}");
}

/// A step every sixth epoch, as every fifteenth second in two minutes.
#[test]
fn memory_that_grows_in_stairs_is_found_and_named_so() {
    let _among = among_others();
    let run = soak("stairs", 360, "");
    found(&run, "rss_growth");
    let notes = finding(&run.1, "rss_growth")["notes"].to_string();
    assert!(notes.contains("it grows in steps: 3"), "{notes}");
}

#[test]
fn zombies_are_found() {
    let _among = among_others();
    found(&soak("zombies", 11, ""), "zombies_growth");
}

/// Memory of no process's mappings: seen where the target has a control group.
#[test]
fn a_memfd_that_is_not_mapped_is_found() {
    let _among = among_others();
    let run = soak("memfd", 6, "");
    found(&run, "cgroup_growth");
    let notes = finding(&run.1, "cgroup_growth")["notes"].to_string();
    assert!(notes.contains("/memfd:left of lab-sick (pid "), "{notes}");
}

#[test]
fn files_left_in_tmpfs_are_found() {
    let folder = format!("/dev/shm/steppe-lab-{}", std::process::id());
    std::fs::create_dir_all(&folder).expect("a tmpfs");
    let _among = among_others();
    let run = soak("tmpfs", 6, &folder);
    _ = std::fs::remove_dir_all(&folder);
    found(&run, "cgroup_growth");
}
