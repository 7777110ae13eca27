//! Signals other than those of a reload and of the end.

use rustix::process::{Pid, Signal, kill_process};
use steppe_testkit::{NodeConfig, RawOrigin, Steppe, eventually};

fn signal(node: &Steppe, signal: Signal) {
    let pid = i32::try_from(node.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("it runs"), signal).expect("it runs");
}

#[test]
fn usr1_reopens_the_log_and_usr2_is_ignored() {
    let origin = RawOrigin::permissive();
    let config = NodeConfig::plain().set("log.access.file", "{scratch}/access.log");
    let mut node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let (log, moved) = (
        node.scratch().path().join("access.log"),
        node.scratch().path().join("access.log.1"),
    );
    std::fs::rename(&log, &moved).expect("it is there");
    node.reopen_logs();
    eventually("a new file", || log.exists());
    eventually("it is told", || node.said().contains("logs reopened"));
    signal(&node, Signal::USR2);
    eventually("it is told", || node.said().contains("SIGUSR2 ignored"));
    let answer = node.exchange("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(answer.status(), 200);
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("its line is in the new file", || lines().contains("GET / "));
    assert_eq!(node.admin_json("/reload")["generation"], 1);
    assert!(node.is_running());
    assert!(node.stop().success());
}

/// A load balancer sees `/readyz` fail before listeners close, and the node serves as usual
/// meanwhile.
#[test]
fn a_drain_is_delayed_until_a_second_signal() {
    let origin = RawOrigin::permissive();
    let config = NodeConfig::plain().set("node.drain_delay", "1h");
    let mut node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    node.terminate();
    eventually("it is not ready", || {
        node.admin_get("/readyz").text() == "terminating\n"
    });
    assert_eq!(node.admin_get("/readyz").status(), 503);
    let get = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    assert_eq!(node.exchange(get).status(), 200);
    let mut kept = node.connect();
    for _ in 0..2 {
        assert_eq!(kept.send(get).response().status(), 200);
    }
    node.set_config(config.set("node.drain_timeout", "9s"));
    assert_eq!(node.admin_post("/reload").status(), 200);
    node.reopen_logs();
    eventually("it is told", || node.said().contains("logs reopened"));
    assert!(node.is_running());
    node.terminate();
    kept.expect_close();
    assert!(node.wait().success(), "{}", node.said());
}

#[test]
fn a_delayed_drain_begins_by_itself() {
    let origin = RawOrigin::permissive();
    let config = NodeConfig::plain().set("node.drain_delay", "500ms");
    let mut node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let at = std::time::Instant::now();
    node.terminate();
    assert!(node.wait().success(), "{}", node.said());
    // The delay is a lower bound, however busy the machine is.
    assert!(at.elapsed().as_millis() >= 500);
}
