//! Purges beside threads that take and free what is near.

use crate::support::{Program, is_long, run};

/// Without the mend, three of 600 rounds found memory that was not zero.
#[test]
fn memory_that_was_freed_during_a_purge_is_cleared() {
    const DECAY_MS: &str = "30";
    let rounds = if is_long() { "3000" } else { "60" };
    let program = Program::compile("young.c");
    let mut command = program.preloaded();
    command.env("STEPPE_MALLOC_PURGE_MS", DECAY_MS);
    run(command.args([DECAY_MS, rounds])).succeeded();
}
