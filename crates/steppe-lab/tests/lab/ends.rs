//! Runs that end badly: each with its own exit code, and with help.

use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::harness::{Lab, among_others, free_port, program, scenario};

const LOAD: &str = "connections = 4\nrate_per_s = 200";
const EPOCHS: &str = "[epochs]\nlength = \"200ms\"\nquiesce = \"40ms\"\ncount = 20\nwarmup = 4\n";

#[test]
fn a_wrong_scenario_runs_nothing() {
    let lab = Lab::new("wrong");
    lab.write("wrong.toml", "[target]\ncmd = 1\n");
    let said = lab.run(&["soak", "wrong.toml", "-o", "run"]);
    said.ended_with(2)
        .says("`cmd` takes a list")
        .says("`target` lacks the key `ready`");
    assert!(!lab.folder.join("run").exists());
    lab.run(&["soak", "none.toml"])
        .ended_with(2)
        .says("can't read none.toml");
    lab.run(&["soak"]).ended_with(2);
    lab.run(&["check", "wrong.toml"])
        .ended_with(2)
        .says("errors");
    let contradicts = scenario("steady", "", "verify = false", EPOCHS);
    lab.write("tls.toml", &contradicts)
        .run(&["soak", "tls.toml"])
        .ended_with(2)
        .says("http 1");
    lab.write("good.toml", &scenario("steady", "", LOAD, EPOCHS));
    lab.run(&["check", "good.toml"])
        .ended_with(0)
        .says("ok: good");
    lab.run(&["cycle", "good.toml"])
        .ended_with(2)
        .says("no [cycles]");
}

#[test]
fn a_second_run_does_not_bury_the_first() {
    let _among = among_others();
    let lab = Lab::new("second");
    lab.write("soak.toml", &scenario("steady", "", LOAD, EPOCHS));
    lab.run(&["soak", "soak.toml", "-o", "run"]);
    let first = lab.read("run/manifest.json");
    let said = lab.run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(2)
        .says("run already contains a run")
        .says("name another folder");
    assert_eq!(lab.read("run/manifest.json"), first);
}

#[test]
fn a_target_that_dies_is_named_with_its_last_words() {
    let _among = among_others();
    let lab = Lab::new("dies");
    let (program, port) = (program("steady"), free_port());
    lab.write(
        "mortal.sh",
        &format!("{program} 127.0.0.1:{port} &\nsleep 4\necho goodbye, cruel world\nexit 7\n"),
    );
    let text = format!(
        "[target]\ncmd = [\"sh\", \"mortal.sh\"]\nready = \"tcp://127.0.0.1:{port}\"\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\n{LOAD}\n{EPOCHS}"
    );
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(4)
        .says("target ended during the run: exit status: 7")
        .says("cruel world");
    assert_eq!(lab.verdict("run")["complete"], false);
    // The process that it left behind is gone too.
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_target_that_dies_of_the_signal_of_collect_is_named_with_the_remedy() {
    let _among = among_others();
    let lab = Lab::new("unhandled");
    let (program, port) = (program("steady"), free_port());
    let text = format!(
        "[target]\ncmd = [\"{program}\", \"127.0.0.1:{port}\"]\n\
         ready = \"tcp://127.0.0.1:{port}\"\ncollect = {{ signal = \"USR2\" }}\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\n{LOAD}\n{EPOCHS}"
    );
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(4)
        .says("the target ended by signal 12 of `target.collect`: add a handler");
}

#[test]
fn a_target_that_never_starts_is_named() {
    let lab = Lab::new("never");
    let text = format!(
        "[target]\ncmd = [\"./no-such-server\"]\nready = \"after:1s\"\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:1/\"\n{EPOCHS}"
    );
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(4)
        .says("can't start target: ./no-such-server: No such file or directory");
}

#[test]
fn a_file_that_is_not_there_is_named_with_its_key() {
    let lab = Lab::new("missing");
    let load = "[[load]]\nkind = \"command\"\ncmd = [\"no-such-load\"]\n";
    let text = |target: &str| {
        format!(
            "[target]\ncmd = [\"{target}\"]\nready = \"after:1s\"\n{load}{EPOCHS}\
             [[variant]]\nname = \"jemalloc\"\npreload = \"./no-such.so\"\n"
        )
    };
    lab.write("soak.toml", &text("./no-such-server"))
        .run(&["check", "soak.toml"])
        .ended_with(2)
        .says("soak.toml: `target.cmd` names ./no-such-server: No such file or directory")
        .says("`preload` of variant `jemalloc` names ./no-such.so: No such file or directory")
        .says("`cmd` of load `command 1` names no-such-load: No such file or directory");
    lab.write("soak.toml", &text("sleep"))
        .run(&["soak", "soak.toml", "-o", "run"])
        .ended_with(4)
        .says("can't preload ./no-such.so: No such file or directory");
}

#[test]
fn a_server_that_was_there_before_is_not_taken_for_the_target() {
    let lab = Lab::new("stale");
    let stale = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = stale.local_addr().expect("an address");
    let text = format!(
        "[target]\ncmd = [\"sleep\", \"60\"]\nready = \"tcp://{address}\"\n\
         [[load]]\nkind = \"http\"\nurl = \"http://{address}/\"\n{EPOCHS}"
    );
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(5).says("address in use");
}

#[test]
fn a_library_that_is_not_there_is_not_left_out() {
    let lab = Lab::new("preload");
    let rest = format!("{EPOCHS}[[variant]]\nname = \"a\"\npreload = \"./none.so\"\n");
    lab.write("soak.toml", &scenario("steady", "", LOAD, &rest));
    let said = lab.run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(4).says("can't preload ./none.so");
}

#[test]
fn a_daemon_is_not_left_behind() {
    let _among = among_others();
    let lab = Lab::new("daemon");
    let (program, port) = (program("steady"), free_port());
    lab.write(
        "daemon.sh",
        &format!("setsid {program} 127.0.0.1:{port} &\nsleep 3\n"),
    );
    let text = format!(
        "[target]\ncmd = [\"sh\", \"daemon.sh\"]\nready = \"tcp://127.0.0.1:{port}\"\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\n{LOAD}\n{EPOCHS}"
    );
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(4).says("target ended during the run");
    // The daemon is found by its control group; without one it can't be found.
    let lives = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(!(has_group(&lab) && lives), "the daemon lives");
}

#[test]
fn a_required_capability_that_is_missing_is_invalid() {
    let _among = among_others();
    let lab = Lab::new("requires");
    // The target tells no live bytes: that can't be seen on any machine.
    let text = scenario(
        "steady",
        "",
        LOAD,
        &format!("{EPOCHS}[budget]\nrequire = [\"live_bytes\"]\n"),
    );
    let text = text.replace("/live_bytes\" }", "/no_such_number\" }");
    let said = lab
        .write("soak.toml", &text)
        .run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(5)
        .says("requires `live_bytes`")
        .says("steppe-lab doctor");
}

#[test]
fn a_saturated_generator_is_invalid_not_slow() {
    let _among = among_others();
    let lab = Lab::new("saturated");
    // A rate above what one thread can send, whatever the target does.
    let load = "connections = 32\nrate_per_s = 5000000";
    lab.write("soak.toml", &scenario("steady", "", load, EPOCHS));
    let said = lab.run(&["soak", "soak.toml", "-o", "run"]);
    said.ended_with(5).says("generator").says("threads");
}

#[test]
fn ctrl_c_reports_what_it_has() {
    let _among = among_others();
    let lab = Lab::new("ctrl-c");
    let epochs = EPOCHS.replace("count = 20", "count = 2000");
    lab.write("soak.toml", &scenario("steady", "", LOAD, &epochs));
    let mut child = lab.spawn(&["soak", "soak.toml", "-o", "run"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let rows = lab.folder.join("run/epochs.csv");
    let count = || std::fs::read_to_string(&rows).map_or(0, |text| text.lines().count());
    while count() < 8 {
        assert!(Instant::now() < deadline, "no epochs");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it runs");
    let status = child.wait().expect("it ends");
    let mut out = String::new();
    child
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut out)
        .expect("UTF-8");
    assert_eq!(status.code(), Some(130), "{out}");
    assert!(out.contains("incomplete"), "{out}");
    assert_eq!(lab.verdict("run")["complete"], false);
    for report in ["report.html", "report.md", "junit.xml"] {
        assert!(
            lab.read(&format!("run/{report}"))
                .to_lowercase()
                .contains("incomplete"),
            "{report}"
        );
    }
}

/// True if a process runs: a zombie has no open files.
fn runs(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists()
}

/// Returns once the condition holds. It comes true in a moment, or never.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_lab_that_is_killed_takes_everybody_along_and_leaves_a_report() {
    let _among = among_others();
    let lab = Lab::new("killed");
    let (program, port) = (program("steady"), free_port());
    lab.write(
        "server.sh",
        &format!(
            "{program} 127.0.0.1:{port} &\nworker=$!\nsetsid sleep 1000 &\n\
             echo $$ $worker $! > pids\nwait\n"
        ),
    );
    lab.write("origin.sh", "echo $$ > origin\nexec sleep 1000\n");
    let text = format!(
        "[target]\ncmd = [\"sh\", \"server.sh\"]\nready = \"tcp://127.0.0.1:{port}\"\n\
         [[service]]\nname = \"origin\"\ncmd = [\"sh\", \"origin.sh\"]\n\
         [[load]]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\n{LOAD}\n{}",
        EPOCHS.replace("count = 20", "count = 2000")
    );
    lab.write("soak.toml", &text);
    let mut child = lab.spawn(&["soak", "soak.toml", "-o", "run"]);
    let rows = lab.folder.join("run/epochs.csv");
    let count = || std::fs::read_to_string(&rows).map_or(0, |text| text.lines().count());
    wait_until("no epochs", || count() >= 8);
    let started = lab.read("pids");
    let [target, worker, daemon] = started.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{started}");
    };
    let service = lab.read("origin");
    let service = service.trim();
    for pid in [target, worker, daemon, service] {
        assert!(runs(pid), "{pid} does not run");
    }
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it runs");
    child.wait().expect("it ends");
    for pid in [target, worker, service] {
        wait_until("somebody was left", || !runs(pid));
    }
    // A process that left its process group is found by its control group only.
    if has_group(&lab) {
        wait_until("the daemon was left", || !runs(daemon));
    } else {
        _ = Pid::from_raw(daemon.parse().expect("a number"))
            .map(|pid| kill_process(pid, Signal::KILL));
    }

    let said = lab.run(&["report", "run"]);
    said.ended_with(0)
        .says("The run ended before it could be judged")
        .says("| default | Memory at rest | ");
    lab.run(&["report", "run", "--html"]).ended_with(0);
    let page = lab.read("run/report.html");
    assert!(page.contains("<svg") && page.contains("Memory at rest"));
    assert!(page.contains("The run ended before it could be judged"));
    lab.run(&["explain", "run", "rss_growth"])
        .ended_with(2)
        .says("it ended before it could be judged");
}

fn has_group(lab: &Lab) -> bool {
    let groups = lab.run(&["doctor", "--json"]).out;
    let groups: serde_json::Value = serde_json::from_str(&groups).expect("JSON");
    let list = groups["capabilities"].as_array().expect("a list");
    list.iter()
        .any(|it| it["name"] == "cgroup" && it["available"] == true)
}
