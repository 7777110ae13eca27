//! A program that frees and never asks again: what it freed goes back to the system all the same.

use std::process::Command;

use steppe_testkit::skip;

use crate::support::{Program, hardened_library, preloaded_by, run};

const PROFILES: [&str; 3] = ["balanced", "lean", "speed"];

fn goes_back(case: &str) {
    let program = Program::compile("idle.c");
    for profile in PROFILES {
        let mut command = program.preloaded();
        command.env("STEPPE_MALLOC_PROFILE", profile);
        // In `speed` memory stays for ten seconds.
        command.env("STEPPE_MALLOC_PURGE_MS", "500");
        run(command.arg(case)).succeeded();
    }
    let mut hardened = preloaded_by(hardened_library(), program.path());
    run(hardened.arg(case)).succeeded();
}

#[test]
fn small_blocks() {
    goes_back("small");
}

#[test]
fn runs_and_mappings() {
    goes_back("medium");
    goes_back("large");
}

#[test]
fn blocks_of_slabs_that_empty_slowly() {
    goes_back("scattered");
}

#[test]
fn blocks_that_shrink() {
    goes_back("shrunk");
}

#[test]
fn what_another_thread_frees() {
    goes_back("ended_thread");
    goes_back("sleeping_thread");
}

#[test]
fn what_the_child_of_a_fork_frees() {
    goes_back("child");
}

/// unshare(2): a process of several threads is refused a user namespace.
#[test]
fn a_program_of_one_thread_stays_one() {
    const NAME: &str = "a_program_of_one_thread_stays_one";
    let program = Program::compile("idle.c");
    if run(Command::new(program.path()).arg("namespaced")).code != Some(0) {
        return skip(NAME, "the kernel allows no user namespaces");
    }
    for profile in PROFILES {
        for case in ["namespaced", "bare_clone"] {
            let mut command = program.preloaded();
            command.env("STEPPE_MALLOC_PROFILE", profile);
            run(command.arg(case)).succeeded();
        }
    }
}
