//! The system refuses memory, at any one call or for good: the program gets null and `ENOMEM`, or
//! goes on, and never crashes.

use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Ended, Program, is_long, library, run};
use steppe_testkit::skip;

/// The test program, and the library that refuses memory.
fn program() -> &'static (Program, Program) {
    static COMPILED: OnceLock<(Program, Program)> = OnceLock::new();
    COMPILED.get_or_init(|| {
        (
            Program::compile("refusals.c"),
            Program::compile_library("refuse.c"),
        )
    })
}

/// Runs the program to its end; returns the number of calls made, and of those refused.
fn refuse(setting: &str, value: u64, arguments: &[&str]) -> (u64, u64) {
    let (program, refuse) = program();
    let preload = format!("{}:{}", refuse.path().display(), library().display());
    let mut command = Command::new(program.path());
    command
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env(setting, value.to_string());
    let ended = run(&mut command);
    let is_done = ended.code == Some(0) && ended.out == "done\n";
    assert!(is_done, "{setting}={value} {arguments:?}: {ended:#?}");
    counts(&ended)
}

fn counts(ended: &Ended) -> (u64, u64) {
    let line = ended.errors.lines().find(|line| line.ends_with(" refused"));
    let numbers: Vec<u64> = line
        .unwrap_or_default()
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers.len(), 2, "{ended:#?}");
    (numbers[0], numbers[1])
}

/// Both kinds of runs.
const THREADS: [&[&str]; 2] = [&[], &["threads"]];

#[test]
fn it_can_count() {
    let (calls, refused) = refuse("REFUSE_NOTHING", 1, &[]);
    assert!(calls > 0, "the library maps without the C library's mmap");
    assert_eq!(refused, 0);
}

/// The last call that is refused. Threads differ in their calls: half as many again as a run made.
fn last_call(arguments: &[&str]) -> u64 {
    let (calls, _) = refuse("REFUSE_NOTHING", 1, arguments);
    if is_long() { 400 } else { calls * 3 / 2 }
}

#[test]
fn any_one_call() {
    let (calls, _) = refuse("REFUSE_NOTHING", 1, &[]);
    for arguments in THREADS {
        for call in 1..=last_call(arguments) {
            let (_, refused) = refuse("REFUSE_CALL", call, arguments);
            // Only a single-threaded run is sure to make the call at all.
            let is_sure = arguments.is_empty() && call <= calls / 2;
            assert!(refused == 1 || !is_sure, "call {call} was not refused");
        }
    }
}

#[test]
fn all_calls_from_one_on() {
    for arguments in THREADS {
        for call in 1..=last_call(arguments) {
            refuse("REFUSE_FROM", call, arguments);
        }
    }
    let (_, refused) = refuse("REFUSE_FROM", 2, &[]);
    assert!(refused > 0);
}

#[test]
fn any_mapping_above_a_size() {
    for bytes in [1 << 20, 1 << 22, 1 << 16, 1 << 26] {
        for arguments in THREADS {
            let (_, refused) = refuse("REFUSE_ABOVE", bytes, arguments);
            assert!(refused > 0 || bytes > 1 << 24);
        }
    }
}

#[test]
fn reservations() {
    for arguments in THREADS {
        refuse("REFUSE_RESERVE", 1, arguments);
    }
}

/// The system refuses to take memory back: it stays, and `errno` does not change for the caller.
#[test]
fn giving_back() {
    for arguments in THREADS {
        let (_, refused) = refuse("REFUSE_RELEASE", 1, arguments);
        assert!(refused > 0, "nothing was given back");
    }
}

/// valgrind refuses large reservations, and maps where it likes.
#[test]
fn under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip("under_valgrind", "valgrind is not installed");
    }
    let (program, _) = program();
    for arguments in THREADS {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=none", "--quiet"])
            .arg(program.path())
            .args(arguments)
            .env("LD_PRELOAD", library());
        let ended = run(&mut command).succeeded();
        assert_eq!(ended.out, "done\n");
    }
}
