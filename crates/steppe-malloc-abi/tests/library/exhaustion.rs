//! Memory runs out: null and `ENOMEM`, never an abort, and it works again when some was freed.

use std::process::Command;

use crate::support::{Program, is_long, library, run};

/// Runs a program with an address space of so many KB.
fn limited(kilobytes: u32, words: &[&std::ffi::OsStr]) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v $0; exec \"$@\""])
        .arg(kilobytes.to_string())
        .args(words);
    shell
}

fn exhaust(kilobytes: u32, case: &str) {
    let program = Program::compile("exhaustion.c");
    let preload = format!("LD_PRELOAD={}", library().display());
    let bytes = (u64::from(kilobytes) * 1024).to_string();
    let words = [
        "env",
        &preload,
        &program.path().to_string_lossy(),
        case,
        &bytes,
    ];
    let words = words.map(std::ffi::OsStr::new);
    run(&mut limited(kilobytes, &words)).succeeded();
}

#[test]
fn every_size_to_the_end_and_again() {
    let large = is_long().then_some(500_000);
    for kilobytes in [150_000].into_iter().chain(large) {
        exhaust(kilobytes, "from_the_start");
    }
}

#[test]
fn in_four_threads_at_once() {
    exhaust(if is_long() { 400_000 } else { 200_000 }, "threads");
}

/// The limit is set after the allocator has reserved its address space, and is below what is mapped
/// already.
#[test]
fn a_limit_that_comes_later() {
    let program = Program::compile("exhaustion.c");
    for bytes in ["1000000", "100000000", "400000000"] {
        run(program.preloaded().args(["while_running", bytes])).succeeded();
    }
}

/// The allocator's own tables may not even fit: the program starts, or prints the reason.
#[test]
fn hardly_any_memory() {
    for kilobytes in (3_000..30_000).step_by(1_000) {
        let preload = format!("LD_PRELOAD={}", library().display());
        let words = ["env", &preload, "true"].map(std::ffi::OsStr::new);
        let ended = run(&mut limited(kilobytes, &words));
        assert!(ended.signal.is_none(), "{kilobytes} KB: {ended:#?}");
    }
}

/// A `#[global_allocator]` program ends with the message and the signal of every Rust program.
#[test]
fn a_rust_program_ends_by_the_standard_handler() {
    let program = crate::support::example("global_allocator");
    let words = [program.as_os_str(), "exhaust".as_ref()];
    let ended = run(&mut limited(300_000, &words)).aborted();
    let has_message =
        ended.errors.contains("memory allocation of") && ended.errors.contains("failed");
    assert!(has_message, "{ended:#?}");
    let work = run(Command::new(&program).arg("work")).succeeded();
    assert_eq!(work.out, "400000\n");
}
