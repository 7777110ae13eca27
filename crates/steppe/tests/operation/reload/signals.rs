//! Signals beside those of a reload and of the end.

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
