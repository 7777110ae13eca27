//! Threads that sleep with free blocks in their caches: the blocks go back to the system all the same.

use crate::support::{Program, hardened_library, preloaded_by, run};

fn runs(case: &str, profile: &str, purge_ms: &str) {
    let program = Program::compile("sleeping.c");
    let mut command = program.preloaded();
    command.env("STEPPE_MALLOC_PROFILE", profile);
    command.env("STEPPE_MALLOC_PURGE_MS", purge_ms);
    run(command.arg(case)).succeeded();
}

#[test]
fn caches_of_threads_that_sleep() {
    for profile in ["balanced", "speed", "lean"] {
        runs("caches", profile, "300");
    }
    let program = Program::compile("sleeping.c");
    let mut hardened = preloaded_by(hardened_library(), program.path());
    run(hardened.arg("caches")).succeeded();
}

#[test]
fn copies_of_caches_in_the_child_of_a_fork() {
    runs("copies", "balanced", "300");
}

#[test]
fn blocks_that_are_freed_into_caches_while_nothing_waits() {
    // A look each 60 decay times: three seconds.
    runs("late", "balanced", "50");
}

#[test]
fn threads_that_wake_up_while_their_caches_are_swept() {
    for profile in ["balanced", "speed"] {
        runs("woken", profile, "1");
        runs("woken", profile, "12");
    }
}
