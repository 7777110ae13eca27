//! `cargo test` of a build of its own (loom, Miri, a sanitizer): watched, and counted.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::libtest::TestCounts;
use crate::process;
use crate::report::{Outcome, TestRun};

/// Runs a command of `cargo test` and counts what it ran. No test at all is a failure.
pub fn of(command: &mut Command) -> Result<Outcome> {
    let mut counts = TestCounts::default();
    let succeeded = process::run_and_watch(command, |line| {
        println!("{line}");
        counts.add_result_line(line);
    })?;
    // A build that broke, or a test binary that died without a result line.
    ensure!(
        succeeded || counts.failed > 0,
        "cargo test failed without a failed test"
    );
    ensure!(counts.passed + counts.failed > 0, "cargo test ran no test");
    Ok(Outcome::Tests(TestRun {
        counts,
        ..TestRun::default()
    }))
}
