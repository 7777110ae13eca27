//! Workers that are found in etcd: a real one, which is stopped and restarted under load.

use std::net::SocketAddr;
use std::process::Output;
use std::time::Duration;

use rustix::process::Signal;
use steppe_testkit::{EtcdServer, PATIENCE, Port, Process, Steppe, eventually, is_long};

/// The lease of workers, and of what the node knows about them.
const LEASE: &str = "3s";

fn steppe(arguments: &[&str]) -> Output {
    let mut command = Steppe::command();
    command.args(arguments).output().expect("it runs")
}

fn printed(arguments: &[&str]) -> String {
    let output = steppe(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The address of etcd in the syntax of `steppe plane`.
fn address(etcd: &EtcdServer) -> String {
    format!("{}/edge", etcd.url().replace("http://", "etcd://"))
}

/// A worker that listens, and announces itself in etcd.
fn worker(etcd: &EtcdServer) -> (Process, SocketAddr) {
    let listen = Port::free().keep();
    let mut command = Steppe::command();
    command.args(["plane", "echo", "--listen", &listen.to_string()]);
    command.args(["--announce", &address(etcd), "--lease", LEASE]);
    let process = Process::start("echo", command);
    eventually("it serves", || process.said().contains("serves "));
    (process, listen)
}

/// A node that finds workers in etcd, and the address of its plane.
fn node(etcd: &EtcdServer) -> (Steppe, SocketAddr) {
    let plane = Port::free().keep();
    let toml = format!(
        "[node]\nworkers = 2\nmemory_budget = \"64MiB\"\n[admin]\nlisten = \"{{admin}}\"\n\
         [[plane.listener]]\nlisten = \"{plane}\"\n[discovery]\nkind = \"etcd\"\n\
         endpoints = [\"{}\"]\nprefix = \"/edge\"\nlease = \"{LEASE}\"\n",
        etcd.url()
    );
    (Steppe::builder().start(&toml), plane)
}

fn serves(node: &Steppe, worker: SocketAddr) -> bool {
    let report = node.admin_json("/plane").to_string();
    report.contains(&worker.to_string())
}

#[test]
fn workers_come_and_go() {
    let etcd = EtcdServer::start();
    let at = address(&etcd);
    let (node, plane) = node(&etcd);
    let (mut first, first_at) = worker(&etcd);
    let (mut second, second_at) = worker(&etcd);
    eventually("both are dialed", || {
        serves(&node, first_at) && serves(&node, second_at)
    });
    let plane = plane.to_string();
    assert_eq!(
        printed(&["plane", "call", &plane, "echo", "--text", "a"]),
        "a"
    );
    assert_eq!(printed(&["plane", "call", &at, "echo", "--text", "b"]), "b");
    let listed = printed(&["plane", "workers", &at]);
    let mut expected = [first_at, second_at].map(|worker| format!("{worker}  echo\n"));
    expected.sort();
    assert_eq!(listed, expected.concat());
    let admin = node.admin().to_string();
    let seen = printed(&["plane", "workers", &admin]);
    assert!(seen.starts_with("SERVICE  WORKER"), "{seen}");
    assert!(seen.contains(&first_at.to_string()), "{seen}");
    // A worker that is terminated removes its key; one that is killed loses it with its lease.
    first.signal(Signal::TERM);
    assert!(first.wait(PATIENCE).success());
    assert_eq!(
        printed(&["plane", "workers", &at]),
        format!("{second_at}  echo\n")
    );
    eventually("it is left", || !serves(&node, first_at));
    second.signal(Signal::KILL);
    second.wait(PATIENCE);
    eventually("it lapsed", || {
        printed(&["plane", "workers", &at]).starts_with("no worker is announced")
    });
}

/// Calls at a constant rate.
struct Bench {
    process: Process,
    calls: u64,
}

/// Starts calls for so many seconds.
fn bench(plane: SocketAddr, seconds: u64) -> Bench {
    const RATE: u64 = 200;
    let mut command = Steppe::command();
    command.args(["plane", "bench", &plane.to_string(), "echo"]);
    command.args(["--bytes", "1000", "--concurrency", "50"]);
    command.args(["--rate", &RATE.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    Bench {
        process: Process::start("bench", command),
        calls: RATE * seconds,
    }
}

impl Bench {
    /// Waits for the end, and asserts that each call was answered.
    #[track_caller]
    fn expect_all_answered(mut self) {
        assert!(self.process.wait(Duration::from_secs(90)).success());
        let said = self.process.said();
        let counts = format!("{} answered, 0 refused, 0 failed", self.calls);
        assert!(said.starts_with(&counts), "{said}");
    }
}

#[test]
fn calls_do_not_fail_for_an_outage_of_etcd() {
    let mut etcd = EtcdServer::start();
    let (node, plane) = node(&etcd);
    let (_first, first_at) = worker(&etcd);
    let (_second, second_at) = worker(&etcd);
    eventually("both are dialed", || {
        serves(&node, first_at) && serves(&node, second_at)
    });
    // Longer than a lease; ten times as long in the long run, which also goes on for longer than a
    // missing worker is kept.
    let (outage, after) = if is_long() { (30, 6) } else { (4, 0) };
    let all = bench(plane, outage + after + 4);
    etcd.kill();
    bench(plane, outage).expect_all_answered();
    assert!(serves(&node, first_at) && serves(&node, second_at));
    etcd.restart();
    if after > 0 {
        bench(plane, after).expect_all_answered();
    }
    let at = address(&etcd);
    eventually("they are named again", || {
        printed(&["plane", "workers", &at]).lines().count() == 2
    });
    assert!(serves(&node, first_at) && serves(&node, second_at));
    all.expect_all_answered();
    // The node watches etcd again.
    let (_third, third_at) = worker(&etcd);
    eventually("one that came later", || serves(&node, third_at));
}

/// An etcd that lost its data: the workers stay known, and announce themselves again.
#[test]
fn calls_do_not_fail_for_an_etcd_that_forgot() {
    let mut etcd = EtcdServer::start();
    let (node, plane) = node(&etcd);
    let (_worker, worker_at) = worker(&etcd);
    eventually("it is dialed", || serves(&node, worker_at));
    etcd.kill();
    etcd.forget();
    etcd.restart();
    let plane = plane.to_string();
    let at = address(&etcd);
    eventually("it is named again", || {
        assert_eq!(
            printed(&["plane", "call", &plane, "echo", "--text", "a"]),
            "a"
        );
        printed(&["plane", "workers", &at]).contains(&worker_at.to_string())
    });
}

#[test]
fn what_is_wrong_with_an_address_is_said() {
    let refused = |arguments: &[&str]| {
        let output = steppe(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = refused(&["plane", "call", "etcd://root:secret@a", "echo"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("etcd users and passwords are not supported"),
        "{said}"
    );
    let nobody = "etcd://127.0.0.1:1/edge";
    let (code, said) = refused(&["plane", "workers", nobody]);
    assert_eq!(code, Some(5));
    assert!(said.contains("no response in time"), "{said}");
    let everywhere = [
        "plane",
        "echo",
        "--listen",
        "0.0.0.0:0",
        "--announce",
        nobody,
    ];
    let (code, said) = refused(&everywhere);
    assert_eq!(code, Some(3));
    assert!(said.contains("--advertise"), "{said}");
}
