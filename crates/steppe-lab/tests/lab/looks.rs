//! Commands that look: doctor, report, explain, watch, leaks, completions.

use std::process::{Command, Stdio};

use steppe_testkit::skip;

use super::harness::{Lab, alone, among_others, free_port, program, scenario};

#[test]
fn the_doctor_says_what_can_be_seen() {
    let lab = Lab::new("doctor");
    lab.run(&["doctor"])
        .ended_with(0)
        .says("smaps")
        .says("cgroup");
    let said = lab.run(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let list = found["capabilities"].as_array().expect("a list");
    assert!(
        list.iter()
            .all(|it| it["available"].is_boolean() && it["detail"].is_string())
    );
    assert!(list.len() > 8, "{list:?}");
}

/// The kept rate of the load is judged as well.
#[test]
fn measured_a_run_is_reported_and_explained() {
    let _alone = alone();
    let lab = Lab::new("report");
    let rest = "[epochs]\nlength = \"150ms\"\nquiesce = \"30ms\"\ncount = 24\nwarmup = 4\n\
                [budget]\nrss_growth_kib_per_epoch = 32\nerrors = 0\n\
                cgroup_growth_mib_per_day = 100000\ndrift = \"off\"\n";
    lab.write(
        "soak.toml",
        // Two requests an epoch: the last is due long before its end, so a late generator does not miss
        // it.
        &scenario("steady", "", "connections = 2\nrate_per_s = 10", rest),
    );
    let summary = lab.folder.join("github.md");
    let output = lab.in_time("run", || {
        let mut command = lab.command(&["soak", "soak.toml", "-o", "run"]);
        command.env("GITHUB_STEP_SUMMARY", &summary);
        command.output().expect("it runs")
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(lab.read("github.md").contains("STABLE"));
    lab.run(&["report", "run"])
        .ended_with(0)
        .says("STABLE")
        .says("memory grows by");
    let page = lab.folder.join("run/report.html");
    std::fs::remove_file(&page).expect("it was written by the run");
    lab.run(&["report", "run", "--html"])
        .ended_with(0)
        .says("report.html");
    assert!(lab.read("run/report.html").contains("STABLE"));
    let junit = lab.run(&["report", "run", "--format", "junit"]);
    let junit = roxmltree::Document::parse(&junit.out).expect("XML");
    let cases = junit
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
        .count();
    assert!(cases >= 4, "{cases}");
    lab.run(&["report", "run", "--format", "summary"])
        .ended_with(0)
        .says("| ");
    lab.run(&["explain", "run", "rss_growth"])
        .ended_with(0)
        .says("Theil")
        .says("budget");
    lab.run(&["explain", "run", "rss_grwth"])
        .ended_with(2)
        .says("rss_growth");
    lab.run(&["report", "nowhere"])
        .ended_with(2)
        .says("contains no run");
}

#[test]
fn a_running_process_is_watched() {
    let lab = Lab::new("watch");
    let port = free_port();
    let mut target = Command::new(program("steady"))
        .arg(format!("127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let pid = target.id().to_string();
    let said = lab.run(&[
        "watch",
        "-p",
        &pid,
        "--for",
        "3s",
        "--interval",
        "200ms",
        "--json",
    ]);
    said.ended_with(0);
    let looks = said
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
    let looks: Vec<_> = looks.collect();
    assert!(looks.len() >= 3, "{}", said.out);
    assert!(
        looks
            .iter()
            .any(|look| look["rss_bytes"].as_u64() > Some(100_000)),
        "{}",
        said.out
    );
    lab.run(&["watch", "-p", &pid, "--for", "300ms", "--interval", "100ms"])
        .ended_with(0)
        .says("MiB");
    target.kill().expect("it runs");
    target.wait().expect("it ends");
    lab.run(&["watch", "-p", &pid])
        .ended_with(2)
        .says("no process");
}

#[test]
fn a_planted_leak_is_found_by_memcheck() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip(
            "a_planted_leak_is_found_by_memcheck",
            "valgrind is not installed",
        );
    }
    let _among = among_others();
    let lab = Lab::new("leaks");
    let load = "connections = 2\nrate_per_s = 20";
    let rest = "[leaks]\nchecker = \"memcheck\"\nlength = \"2s\"\n";
    lab.write("leaks.toml", &scenario("leaking", ", \"640\"", load, rest));
    let said = lab.run(&["leaks", "leaks.toml", "-o", "run"]);
    said.ended_with(1).says("memory lost after");
    let verdict = lab.verdict("run");
    let sites = verdict["variants"][0]["leaks"]
        .as_array()
        .expect("sites")
        .clone();
    let planted = sites
        .iter()
        .find(|site| site["stack"].to_string().contains("leaking.rs"));
    let planted = planted.unwrap_or_else(|| panic!("{verdict:#}"));
    let (bytes, blocks) = (planted["bytes"].as_u64(), planted["blocks"].as_u64());
    assert_eq!(bytes, blocks.map(|blocks| blocks * 640), "{planted:#}");
    assert!(lab.read("run/report.html").contains("leaking.rs"));
}

/// Leaked objects of a collector's program are reachable: no lost bytes are no GO. A shell is between,
/// whose child only the checker's report names.
#[test]
fn a_managed_runtime_is_never_go_in_a_leak_check() {
    let has = |program| Command::new(program).arg("--version").output().is_ok();
    if !has("valgrind") || !has("python3") {
        return skip(
            "a_managed_runtime_is_never_go_in_a_leak_check",
            "valgrind or python3 is not installed",
        );
    }
    let _among = among_others();
    let lab = Lab::new("leaks-managed");
    let port = free_port();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = script.join("../../examples/lab/python-leak.py");
    let command = format!("exec python3 {} {port}", script.display());
    let text = format!(
        "[target]\ncmd = [\"sh\", \"-c\", \"{command}\"]\nready = \"tcp://127.0.0.1:{port}\"\n\
         ready_timeout = \"120s\"\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\nrate_per_s = 20\n\
         [leaks]\nlength = \"1s\"\nlost_bytes_max = 1_000_000_000\n"
    );
    lab.write("leaks.toml", &text);
    let said = lab.run(&["leaks", "leaks.toml", "-o", "run"]);
    said.ended_with(3)
        .says("Python manages memory itself, and a leak checker can't see its leaks");
    let verdict = lab.verdict("run");
    assert_eq!(verdict["word"], "INCONCLUSIVE", "{verdict:#}");
}

/// The scenario of a C program that loses 640 bytes, and ends by `end` on SIGTERM.
fn sanitized(lab: &Lab, end: &str) -> String {
    lab.write(
        "leak.c",
        &format!(
            "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
             static volatile sig_atomic_t over;\nstatic void stop(int s) {{ (void)s; over = 1; }}\n\
             __attribute__((noinline)) static void lose(void) {{ volatile char *p = malloc(640); *p = 1; }}\n\
             int main(void) {{ signal(SIGTERM, stop); while (!over) usleep(1000); lose(); {end} }}\n"
        ),
    );
    let mut cc = Command::new("cc");
    cc.args(["-g", "-fsanitize=address", "-o", "leak", "leak.c"])
        .current_dir(&lab.folder);
    assert!(cc.status().expect("cc").success());
    "[target]\ncmd = [\"./leak\"]\nready = \"after:2s\"\n\
     [[load]]\nkind = \"command\"\ncmd = [\"echo\", \"ops\", \"1\"]\n\
     [leaks]\nchecker = \"sanitizer\"\nlength = \"3s\"\n"
        .to_owned()
}

#[test]
fn a_planted_leak_is_found_by_a_sanitizer() {
    let lab = Lab::new("sanitizer");
    let scenario = sanitized(&lab, "return 0;");
    // The lab's working folder differs from the target's.
    lab.write("leaks.toml", &scenario);
    let said = lab.run(&["leaks", "leaks.toml", "-o", "run"]);
    said.ended_with(1).says("is 640 bytes");
    assert!(
        lab.verdict("run")["variants"][0]["leaks"]
            .to_string()
            .contains("lose")
    );
}

#[test]
fn what_a_sanitizer_finds_beside_leaks_is_no_clean_report() {
    let lab = Lab::new("fault");
    let fault = "volatile char *p = malloc(8); free((char *)p); *p = 1; return 0;";
    lab.write("leaks.toml", &sanitized(&lab, fault));
    lab.run(&["leaks", "leaks.toml", "-o", "run"])
        .ended_with(4)
        .says("heap-use-after-free");
}

#[test]
fn a_build_without_a_sanitizer_is_not_clean() {
    let lab = Lab::new("unsanitized");
    lab.write(
        "leaks.toml",
        "[target]\ncmd = [\"sleep\", \"100\"]\nready = \"after:1s\"\n\
         [[load]]\nkind = \"command\"\ncmd = [\"echo\", \"ops\", \"1\"]\n\
         [leaks]\nchecker = \"sanitizer\"\nlength = \"3s\"\n",
    );
    lab.run(&["leaks", "leaks.toml", "-o", "run"])
        .ended_with(5)
        .says("not built with a sanitizer");
}

#[test]
fn completions_name_the_subcommands() {
    let lab = Lab::new("completions");
    for shell in ["bash", "zsh", "fish"] {
        lab.run(&["completions", shell])
            .ended_with(0)
            .says("calibrate");
    }
}
