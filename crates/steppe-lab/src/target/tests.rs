//! Tests with real processes: shells that print, ignore signals, leave children, and end early.

use std::collections::BTreeMap;

use super::*;
use crate::scenario::Ready;

fn sh(script: &str) -> Program {
    Program {
        cmd: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::from([("WORD".to_owned(), "marmot".to_owned())]),
        cwd: None,
    }
}

fn start(name: &str, program: Program) -> Process {
    let log = std::env::temp_dir().join(format!("steppe-lab-{name}-{}.log", std::process::id()));
    _ = std::fs::remove_file(&log);
    let launch = Launch {
        name,
        program,
        ..Launch::default()
    };
    Process::start(&launch, &log).unwrap()
}

fn ready(process: &mut Process, ready: &Ready, patience: Duration) -> Result<(), NotReady> {
    wait_until_ready(
        process,
        ready,
        patience,
        &MetricClient::new().unwrap(),
        &|| false,
    )
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_line_makes_it_ready_and_term_ends_it() {
    let mut process = start("line", sh("sleep 0.1; echo ready at $WORD; exec sleep 100"));
    ready(
        &mut process,
        &Ready::Log("ready at mar+mot".to_owned()),
        LONG,
    )
    .unwrap();
    assert_eq!(process.last_words(), "ready at marmot");
    let status = process.stop(LONG, &|| false).unwrap();
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn what_ignores_term_is_killed() {
    let mut process = start(
        "deaf",
        sh("trap '' TERM; echo up; while :; do sleep 0.05; done"),
    );
    ready(&mut process, &Ready::Log("up".to_owned()), LONG).unwrap();
    let status = process
        .stop(Duration::from_millis(200), &|| false)
        .unwrap_err();
    assert_eq!(status.signal(), Some(9));
}

#[test]
fn children_go_with_it() {
    let mut process = start("parent", sh("sleep 100 & echo child $!; wait"));
    ready(&mut process, &Ready::Log("child".to_owned()), LONG).unwrap();
    let child: u32 = process.last_words()["child ".len()..].parse().unwrap();
    process.stop(LONG, &|| false).unwrap();
    let gone = || !Path::new(&format!("/proc/{child}/fd/0")).exists();
    let deadline = Instant::now() + LONG;
    while !gone() {
        assert!(Instant::now() < deadline, "child {child} lives");
        std::thread::sleep(POLL);
    }
}

#[test]
fn an_early_end_and_a_late_start_are_told() {
    let mut process = start("ends", sh("exit 3"));
    let error = ready(&mut process, &Ready::After(LONG), LONG).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ends ended before it was ready: exit status: 3"
    );
    let mut process = start("late", sh("exec sleep 100"));
    let address = "127.0.0.1:1".parse().unwrap();
    let error = ready(
        &mut process,
        &Ready::Tcp(address),
        Duration::from_millis(100),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no connection accepted at 127.0.0.1:1"),
        "{error}"
    );
}

#[test]
fn a_missing_program_is_named() {
    let program = Program {
        cmd: vec!["no-such-server".to_owned()],
        ..Program::default()
    };
    let log = std::env::temp_dir().join(format!("steppe-lab-none-{}.log", std::process::id()));
    let launch = Launch {
        name: "target",
        program,
        ..Launch::default()
    };
    let error = Process::start(&launch, &log).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("can't start target: no-such-server: No such file or directory"),
        "{error}"
    );
}

#[test]
fn the_last_lines_that_speak_of_errors_are_quoted_once() {
    let output = "ERROR: long ago\nerror: one\nGET / 200\naccept: Too many open files\nGET / 200\n\
                  accept: Too many open files\nthread panicked at main.rs\nGET / 200\n";
    assert_eq!(
        complaints(output),
        [
            "error: one",
            "accept: Too many open files",
            "thread panicked at main.rs"
        ]
    );
    assert!(complaints("GET / 200\n").is_empty());
}
