//! Soaks and cycles of programs whose memory is known.

use steppe_testkit::is_left_to_long_tier;

use super::harness::{Lab, alone, among_others, finding, free_port, program, scenario};

const STEADY_LOAD: &str = "connections = 8\nrate_per_s = 1000";
const SHORT: &str = r#"
[epochs]
length = "300ms"
quiesce = "60ms"
count = 30
warmup = 8
[budget]
rss_growth_kib_per_epoch = 32
hwm_growth_kib_per_epoch = 64
errors = 0
cgroup_growth_mib_per_day = 100000   # a control group counts by the quarter of a MiB
drift = "off"                        # too short a time for latency
"#;

fn soak(lab: &Lab, text: &str) -> (i32, serde_json::Value) {
    let _among = among_others();
    lab.soak(text)
}

#[test]
fn the_steady_program_is_stable() {
    let lab = Lab::new("steady");
    let (code, verdict) = soak(&lab, &scenario("steady", "", STEADY_LOAD, SHORT));
    assert_eq!(code, 0, "{verdict:#}");
    assert_eq!(verdict["word"], "STABLE");
    // One receive and one send a request, and nothing else: the tracepoint counts right.
    let manifest: serde_json::Value = serde_json::from_str(&lab.read("run/manifest.json")).unwrap();
    let seen = manifest["capabilities"].as_array().unwrap().iter();
    let can_count = seen
        .filter(|it| it["available"] == true)
        .any(|it| it["name"] == "syscalls");
    if can_count {
        let syscalls = finding(&verdict, "syscalls_per_op")["value"]["estimate"].as_f64();
        assert!(
            syscalls.is_some_and(|count| (1.9..2.3).contains(&count)),
            "{verdict:#}"
        );
    }
}

#[test]
fn five_runs_are_a_gate() {
    let lab = Lab::new("five");
    let plan = "[epochs]\nlength = \"120ms\"\nquiesce = \"30ms\"\ncount = 12\nwarmup = 3\nruns = 5\n\
                [budget]\ncgroup_growth_mib_per_day = 100000\nrss_growth_mib_per_day = 20000\ndrift = \"off\"\n";
    let (code, verdict) = soak(&lab, &scenario("steady", "", STEADY_LOAD, plan));
    assert_eq!(code, 0, "{verdict:#}");
    let growth = finding(&verdict, "rss_growth");
    assert_eq!(
        (&growth["method"], &growth["series"]),
        (&"fresh-processes".into(), &5.into())
    );
    assert!(!growth["text"].to_string().contains("single run"));
}

#[test]
fn a_leak_is_found_with_its_bytes_a_request() {
    let lab = Lab::new("leaking");
    let (code, verdict) = soak(&lab, &scenario("leaking", ", \"1000\"", STEADY_LOAD, SHORT));
    assert_eq!(code, 1, "{verdict:#}");
    assert_eq!(verdict["word"], "LEAK");
    let notes = finding(&verdict, "rss_growth")["notes"].to_string();
    let bytes = notes
        .split(" bytes per operation")
        .next()
        .and_then(|before| before.rsplit('"').next());
    let bytes: f64 = bytes
        .and_then(|bytes| bytes.parse().ok())
        .expect("bytes per operation");
    assert!((900.0..1_100.0).contains(&bytes), "{notes}");
    assert!(notes.contains("leak: live bytes grow as well"), "{notes}");
}

#[test]
fn a_plateau_is_no_leak() {
    let lab = Lab::new("plateau");
    // 600 entries: at 1,000 requests a second it is full to 98 % within the warm-up.
    let text = scenario("plateau", ", \"600\", \"4096\"", STEADY_LOAD, SHORT);
    let (code, verdict) = soak(&lab, &text);
    assert!(code == 0 || code == 3, "{verdict:#}");
    let word = verdict["word"].as_str().unwrap_or_default();
    assert!(
        ["STABLE", "GROWING", "INCONCLUSIVE"].contains(&word),
        "{verdict:#}"
    );
    // The growth of two megabytes was measured.
    let rows = lab.read("run/epochs.csv");
    let column = rows
        .lines()
        .next()
        .unwrap_or_default()
        .split(',')
        .position(|name| name == "anonymous_bytes");
    let column = column.expect("a column");
    let bytes = |line: &str| {
        line.split(',')
            .nth(column)
            .and_then(|cell| cell.parse::<u64>().ok())
    };
    let bytes: Vec<u64> = rows.lines().skip(1).filter_map(bytes).collect();
    assert!(bytes[29] > bytes[0] + 1_000_000, "{bytes:?}");
}

#[test]
fn retention_is_not_called_a_leak() {
    let lab = Lab::new("retaining");
    let load = "connections = 8\nrate_per_s = 400";
    let (code, verdict) = soak(&lab, &scenario("retaining", "", load, SHORT));
    assert_eq!(code, 1, "{verdict:#}");
    assert_eq!(verdict["word"], "UNBOUNDED", "{verdict:#}");
    assert_eq!(
        finding(&verdict, "live_growth")["word"],
        "STABLE",
        "{verdict:#}"
    );
    let notes = finding(&verdict, "rss_growth")["notes"].to_string();
    assert!(notes.contains("retention, not a leak"), "{notes}");
}

/// A soak of a server that collects 24 MiB of garbage every 192 requests, with 20 requests an
/// epoch.
fn collecting(lab: &Lab, leak: u32, collect: &str) -> (i32, serde_json::Value) {
    let (program, port) = (program("collecting"), free_port());
    let text = format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}", "131072", "24", "{leak}"]
env = {{ MALLOC_MMAP_THRESHOLD_ = "65536" }}
ready = "tcp://127.0.0.1:{port}"
{collect}
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
connections = 4
rate_per_s = 100
[epochs]
length = "240ms"
quiesce = "40ms"
count = 30
warmup = 5
[budget]
rss_growth_kib_per_epoch = 100
errors = 0
cgroup_growth_mib_per_day = 100000
drift = "off"
"#
    );
    soak(lab, &text)
}

#[test]
fn garbage_is_told_by_the_collections_that_are_missing() {
    let lab = Lab::new("garbage");
    let (code, verdict) = collecting(&lab, 0, "");
    assert_eq!(code, 3, "{verdict:#}");
    let growth = finding(&verdict, "rss_growth")["text"].to_string();
    assert!(growth.contains("seen, 4 are needed; about"), "{growth}");
}

#[test]
fn forced_collections_leave_the_floor() {
    let collect = "collect = { signal = \"USR2\" }";
    let lab = Lab::new("collected");
    let (code, verdict) = collecting(&lab, 0, collect);
    assert_eq!(code, 0, "{verdict:#}");
    assert_eq!(finding(&verdict, "rss_growth")["word"], "STABLE");
    let lab = Lab::new("collected-leak");
    let (code, verdict) = collecting(&lab, 15_000, collect);
    assert_eq!(code, 1, "{verdict:#}");
    assert_eq!(finding(&verdict, "rss_growth")["word"], "UNBOUNDED");
}

#[test]
fn collections_that_fail_are_noted_and_nothing_is_claimed() {
    let lab = Lab::new("uncollected");
    let port = free_port();
    let collect = format!("collect = {{ url = \"http://127.0.0.1:{port}/gc\" }}");
    let (code, verdict) = collecting(&lab, 0, &collect);
    assert_eq!(code, 3, "{verdict:#}");
    let problems = verdict["problems"].to_string();
    let said = "no collection could be forced in 30 of 30 epochs: ";
    assert!(problems.contains(said), "{problems}");
}

#[test]
fn nginx_is_stable() {
    let lab = Lab::new("nginx");
    let port = free_port();
    lab.write(
        "nginx.conf",
        &format!(
            "pid nginx.pid; error_log stderr warn; events {{}} http {{ access_log off; \
             keepalive_requests 1000000; client_body_temp_path t; proxy_temp_path t; \
             fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; \
             server {{ listen 127.0.0.1:{port}; return 200 ok; }} }}"
        ),
    );
    let text = format!(
        r#"
[target]
cmd = ["/usr/sbin/nginx", "-p", ".", "-c", "nginx.conf", "-g", "daemon off;"]
ready = "http://127.0.0.1:{port}/"
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
{STEADY_LOAD}
{SHORT}"#
    );
    let (code, verdict) = soak(&lab, &text);
    assert_eq!(code, 0, "{verdict:#}");
    assert_eq!(verdict["word"], "STABLE");
    // The master and its worker.
    assert!(
        lab.read("run/epochs.csv")
            .lines()
            .nth(1)
            .unwrap_or_default()
            .contains(",2,2,")
    );
}

/// The kept rate of the load is judged as well.
#[test]
fn measured_the_worst_variant_is_the_verdict_unless_it_is_expected() {
    if is_left_to_long_tier("measured_the_worst_variant_is_the_verdict_unless_it_is_expected") {
        return;
    }
    let lab = Lab::new("variants");
    let leaking = program("leaking");
    let port = free_port();
    let steady = program("steady");
    let text = format!(
        r#"
[target]
cmd = ["{steady}", "127.0.0.1:{port}"]
ready = "tcp://127.0.0.1:{port}"
[[load]]
kind = "http"
url = "http://127.0.0.1:{port}/"
connections = 4
rate_per_s = 500
[epochs]
length = "200ms"
quiesce = "40ms"
count = 24
warmup = 6
[[variant]]
name = "steady"
[[variant]]
name = "leaking"
cmd = ["{leaking}", "127.0.0.1:{port}", "4000"]
EXPECT
[budget]
rss_growth_kib_per_epoch = 32
cgroup_growth_mib_per_day = 100000
drift = "off"
"#
    );
    let _alone = alone();
    lab.write("worst.toml", &text.replace("EXPECT", ""));
    lab.run(&["soak", "worst.toml", "-o", "worst"])
        .ended_with(1)
        .says("leaking");
    lab.write(
        "expected.toml",
        &text.replace("EXPECT", "expect = \"UNBOUNDED\""),
    );
    let soak = || lab.run(&["soak", "expected.toml", "-o", "expected"]);
    lab.in_time("expected", soak).ended_with(0).says("STABLE");
}

/// Throughput is judged as well.
#[test]
fn measured_cycles_run_a_command_to_its_end() {
    let lab = Lab::new("cycle");
    lab.write(
        "load.sh",
        "for i in 1 2 3 4 5; do echo latency_us 250 10; done; echo \"# done\"\n",
    );
    let (program, port) = (program("steady"), free_port());
    let text = format!(
        r#"
[target]
cmd = ["{program}", "127.0.0.1:{port}"]
ready = "tcp://127.0.0.1:{port}"
[[load]]
kind = "command"
cmd = ["sh", "load.sh"]
[cycles]
count = 16
warmup = 2
quiesce = "50ms"
[budget]
hwm_mib = 96
rss_growth_kib_per_cycle = 64
errors = 0
"#
    );
    let _alone = alone();
    lab.write("cycles.toml", &text)
        .run(&["cycle", "cycles.toml", "-o", "run"])
        .ended_with(0);
    let rows = lab.read("run/epochs.csv");
    // The start, and sixteen cycles of fifty operations each.
    assert_eq!(rows.lines().count(), 1 + 1 + 16);
    assert!(
        rows.lines().skip(2).all(|row| row.contains(",50,0,")),
        "{rows}"
    );
}
