//! The examples, run as programs: one calls the other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use steppe_testkit::{Process, eventually};

/// An example, built beside the tests.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test");
    let built = test.ancestors().nth(2).expect("deps is in a folder");
    let program: PathBuf = built.join("examples").join(name);
    assert!(
        program.exists(),
        "cargo build -p steppe-plane --examples makes it"
    );
    Command::new(program)
}

#[test]
fn the_caller_is_answered_by_the_worker() {
    let mut command = example("worker");
    command.arg("127.0.0.1:0");
    let worker = Process::start("worker", command);
    let listens = |said: &str| {
        let address = said.trim_end().strip_prefix("listening on ")?;
        address.parse::<SocketAddr>().ok()
    };
    eventually("it listens", || listens(&worker.said()).is_some());
    let address = listens(&worker.said()).expect("it listens").to_string();
    let output = example("caller").args([&address, "hello"]).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "HELLO\n1\n2\n3\n4\n5\n", "{output:?}");
}

#[test]
fn they_are_short() {
    for text in [
        include_str!("../../examples/worker.rs"),
        include_str!("../../examples/caller.rs"),
    ] {
        assert!(text.lines().count() <= 40);
    }
}
