//! Large blocks in the mappings of longer ones: their tails are free memory, and go back.

use steppe_testkit::skip;

use crate::support::{Program, run};

fn runs(case: &str, profile: &str, purge_ms: &str) -> Option<i32> {
    let program = Program::compile("tails.c");
    let mut command = program.preloaded();
    command.env("STEPPE_MALLOC_PROFILE", profile);
    command.env("STEPPE_MALLOC_PURGE_MS", purge_ms);
    let ended = run(command.arg(case));
    if ended.code != Some(77) {
        ended.succeeded();
        return None;
    }
    ended.code
}

/// A decay of two milliseconds: tails go back at almost every moment.
#[test]
fn a_tail_that_goes_back_takes_no_block_with_it() {
    for profile in ["balanced", "speed"] {
        runs("content", profile, "2");
    }
}

#[test]
fn a_block_grows_into_its_tail() {
    runs("grown", "balanced", "600000");
}

#[test]
fn a_tail_that_the_kernel_refuses_stays_counted() {
    if runs("locked", "balanced", "600000").is_some() {
        skip(
            "a_tail_that_the_kernel_refuses_stays_counted",
            "may lock no 34 MiB",
        );
    }
}
