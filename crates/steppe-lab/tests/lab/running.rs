//! Soaks of targets that run already: judged like targets that the lab starts, and not ended.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steppe_testkit::{eventually, skip};

use super::harness::{Lab, Said, among_others, finding, program};

/// A program of `testdata/` that listens; ended when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(name: &str, arguments: &[&str]) -> Self {
        Self::by(Command::new(program(name)), arguments)
    }

    /// `command` is the program, or another one that execs it.
    fn by(mut command: Command, arguments: &[&str]) -> Self {
        command.arg("127.0.0.1:0").args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a server");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().trim_start_matches("listening on ").to_owned();
        Self { child, address }
    }

    fn lives(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A load that the lab does not drive: requests one after the other, until it is dropped.
struct Driver(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Driver {
    fn start(address: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, address) = (Arc::clone(&is_over), address.to_owned());
        let thread = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("a connection");
            let mut answer = [0; 256];
            while !over.load(Ordering::Relaxed) {
                stream
                    .write_all(b"GET / HTTP/1.1\r\nhost: it\r\n\r\n")
                    .expect("a request");
                assert!(stream.read(&mut answer).expect("an answer") > 0);
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        Self(is_over, Some(thread))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            _ = thread.join();
        }
    }
}

fn column(lab: &Lab, name: &str) -> Vec<String> {
    let text = lab.read("run/epochs.csv");
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let headers = rows.headers().expect("headers").clone();
    let index = headers
        .iter()
        .position(|header| header == name)
        .expect("the column");
    rows.records()
        .map(|row| row.expect("a row")[index].to_owned())
        .collect()
}

#[test]
fn a_leak_under_load_of_its_own_is_found_and_nothing_driven_is_judged() {
    let _among = among_others();
    let lab = Lab::new("pid-leak");
    let mut server = Server::start("leaking", &["4000"]);
    let driver = Driver::start(&server.address);
    let pid = server.child.id().to_string();
    let said = lab.run(&["soak", "--pid", &pid, "--for", "20s", "-q", "-o", "run"]);
    drop(driver);
    said.ended_with(1).says("UNBOUNDED").says("left running");
    said.says("the lab generated no load: operations, errors, latency");
    assert!(server.lives(), "it was ended");
    let verdict = lab.verdict("run");
    assert_eq!(finding(&verdict, "rss_growth")["word"], "UNBOUNDED");
    let findings = verdict["variants"][0]["findings"]
        .as_array()
        .expect("findings");
    let names: Vec<&str> = findings
        .iter()
        .filter_map(|it| it["metric"].as_str())
        .collect();
    for driven in ["errors", "throughput", "cpu_us_per_op", "p50", "rate_kept"] {
        assert!(!names.contains(&driven), "{driven} in {names:?}");
    }
    for name in ["operations", "errors", "p50_us"] {
        let cells = column(&lab, name);
        assert!(
            cells.len() == 20 && cells.iter().all(String::is_empty),
            "{name}: {cells:?}"
        );
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&lab.read("run/manifest.json")).expect("JSON");
    let path = manifest["variants"][0]["executable"]
        .as_str()
        .unwrap_or_default();
    assert!(path.ends_with("lab-leaking"), "{manifest:#}");
}

#[test]
fn a_healthy_one_is_driven_by_url_and_stays() {
    let _among = among_others();
    let lab = Lab::new("pid-steady");
    let mut server = Server::start("steady", &[]);
    let pid = server.child.id().to_string();
    let url = format!("http://{}/", server.address);
    let arguments = [
        "soak",
        "--pid",
        &pid,
        "--url",
        &url,
        "--rate",
        "100",
        "--for",
        "20s",
        "--budget",
        "5000",
        "--save",
        "kept.toml",
        "-q",
        "-o",
        "run",
    ];
    let said = lab.run(&arguments);
    // Times may be too noisy to be judged on a busy machine.
    assert!([0, 3].contains(&said.code), "{said:?}");
    assert!(server.lives(), "it was ended");
    let verdict = lab.verdict("run");
    assert_eq!(finding(&verdict, "rss_growth")["word"], "STABLE");
    // The limit was converted to the unit of the finding.
    let limit = finding(&verdict, "rss_growth")["limit"].as_f64();
    assert!(
        limit.is_some_and(|limit| (limit - 5000.0).abs() < 1e-6),
        "{limit:?}"
    );
    assert_eq!(finding(&verdict, "errors")["value"]["estimate"], 0.0);
    lab.run(&["check", "kept.toml"]).ended_with(0);
}

#[test]
fn one_that_ends_meanwhile_has_failed() {
    let _among = among_others();
    let lab = Lab::new("pid-ends");
    let child = Command::new("sleep").arg("10").spawn();
    let mut child = child.expect("a process");
    let pid = child.id().to_string();
    let said = lab.run(&["soak", "--pid", &pid, "--for", "20s", "-q", "-o", "run"]);
    _ = child.wait();
    said.ended_with(4)
        .says("sleep (pid")
        .says("ended during the run");
}

#[test]
fn wrong_calls_are_told_before_anything_is_written() {
    let lab = Lab::new("pid-wrong");
    let told = |arguments: &[&str], text: &str| -> Said {
        let said = lab.run(&[&["soak", "-o", "run"], arguments].concat());
        said.ended_with(2).says(text);
        assert!(!lab.folder.join("run").exists(), "{arguments:?}");
        said
    };
    told(
        &["--pid", "4194304"],
        "there is no process 4194304; `pgrep -a NAME` finds one",
    );
    told(
        &["--cgroup", "/no/such"],
        "there is no control group /no/such",
    );
    told(
        &["--cgroup", "/proc"],
        "/proc is not a control group: it has no cgroup.procs",
    );
    told(&["--pid", "1", "--cgroup", "/x"], "cannot be used with");
    told(&["--pid", "1", "--for", "1s"], "at least 20s");
    told(&["--pid", "1", "--rate", "5"], "--url <URL>");
    told(&["--pid", "1", "--budget=-3"], "0 or more");
    told(&[], "<FILE|--pid <PID>|--cgroup <PATH>>");
    lab.write(
        "two.toml",
        "[target]\npid = 7\n[epochs]\nruns = 5\n[[variant]]\nname = \"x\"\n",
    );
    let said = told(
        &["two.toml"],
        "`variant` needs a target that the lab starts",
    );
    said.says("`epochs.runs` counts fresh processes");
    lab.write("both.toml", "[target]\npid = 7\ncmd = [\"x\"]\n[epochs]\n");
    told(
        &["both.toml"],
        "`target` takes one of `cmd`, `pid`, `cgroup`",
    );
    lab.write("pid.toml", "[target]\npid = 7\n[epochs]\n");
    let said = lab.run(&["leaks", "pid.toml", "-o", "run"]);
    said.ended_with(2).says("names a target that runs already");
}

/// The lab runs as a user who may not look at processes of root.
#[test]
fn a_process_of_another_user_is_refused_with_its_user() {
    let name = "a_process_of_another_user_is_refused_with_its_user";
    let lab = Lab::new("pid-refused");
    let lab_program = lab.command(&[]).get_program().to_owned();
    let copy = std::env::temp_dir().join(format!("steppe-lab-copy-{}", std::process::id()));
    fs::copy(&lab_program, &copy).expect("a copy that others may run");
    let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command
        .args(arguments)
        .arg(&copy)
        .current_dir("/")
        .args(["soak", "--pid"]);
    let output = command.arg(std::process::id().to_string()).output();
    _ = fs::remove_file(&copy);
    let output = match output {
        Ok(output) if output.status.code() == Some(2) => output,
        _ => return skip(name, "needs root and setpriv"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no permission to observe it (Permission denied"),
        "{said}"
    );
    assert!(said.contains("belongs to user 0"), "{said}");
}

/// The memory controller's folder that this process may make a group in.
fn own_group(name: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let v1 = groups.lines().find_map(|line| line.split_once(":memory:"));
    let parent = match v1 {
        Some((_, group)) => format!("/sys/fs/cgroup/memory{group}"),
        None => {
            let (_, group) = groups.lines().find_map(|line| line.split_once("0::"))?;
            format!("/sys/fs/cgroup{group}")
        }
    };
    let path = Path::new(&parent).join(format!("{name}-{}", std::process::id()));
    fs::create_dir(&path).ok()?;
    let counts = ["memory.usage_in_bytes", "memory.current"];
    let is_counted = counts.iter().any(|file| path.join(file).exists());
    if !is_counted {
        _ = fs::remove_dir(&path);
    }
    is_counted.then_some(path)
}

#[test]
fn a_control_group_is_judged_with_everybody_in_it_and_below() {
    let name = "a_control_group_is_judged_with_everybody_in_it_and_below";
    let _among = among_others();
    let Some(group) = own_group("steppe-lab-test") else {
        return skip(
            name,
            "needs a memory controller and the right to make a group",
        );
    };
    let below = group.join("below");
    fs::create_dir(&below).expect("a group below");
    let lab = Lab::new("cgroup");
    let empty = lab.run(&["soak", "--cgroup", &group.display().to_string()]);
    empty
        .ended_with(2)
        .says("holds no process that can be seen from here");
    let joined = |group: &Path| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        shell
            .arg(group.join("cgroup.procs"))
            .arg(program("leaking"));
        shell
    };
    let server = Server::by(joined(&below), &["4000"]);
    let driver = Driver::start(&server.address);
    let path = group.display().to_string();
    let said = lab.run(&["soak", "--cgroup", &path, "--for", "20s", "-q", "-o", "run"]);
    drop(driver);
    drop(server);
    eventually("nobody is in the group", || fs::remove_dir(&below).is_ok());
    fs::remove_dir(&group).expect("an empty group");
    said.ended_with(1)
        .says(&format!("target: control group {path}"));
    let verdict = lab.verdict("run");
    assert_eq!(finding(&verdict, "rss_growth")["word"], "UNBOUNDED");
    let cgroup = column(&lab, "cgroup_bytes");
    assert!(cgroup.iter().all(|bytes| !bytes.is_empty()), "{cgroup:?}");
}
