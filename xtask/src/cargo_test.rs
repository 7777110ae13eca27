//! `cargo test`, watched and counted.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use crate::process;
use crate::report::{Outcome, Report, TestRun};

/// With the features that all of the workspace asks for: another set would build everything again.
const WORKSPACE: [&str; 4] = ["test", "--locked", "--workspace", "--no-fail-fast"];

/// Programs of tests that run while the others do: the lab's wait for most of their time.
const BESIDE: [&str; 1] = ["lab"];

/// Builds all tests.
pub fn build() -> Result<Outcome> {
    process::run(process::cargo(&WORKSPACE).arg("--no-run"))?;
    Ok(Outcome::Passed)
}

/// Runs all tests. What those beside the others print comes at the end.
pub fn all() -> Result<Outcome> {
    let others = integration_tests()?;
    let others = others
        .iter()
        .filter(|name| !BESIDE.contains(&name.as_str()));
    let mut others = named(others.map(String::as_str));
    // Libraries that have no tests (`test = false`) are asked as well, and say so.
    others.args(["--lib", "--bins"]);
    let (beside, others, documents) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut said = String::new();
            let run = run(&mut named(BESIDE), |line| said += &format!("{line}\n"));
            (run, said)
        });
        let others = run(&mut others, print);
        let documents = run(process::cargo(&WORKSPACE).arg("--doc"), print);
        (beside.join(), others, documents)
    });
    let (beside, said) = beside.map_err(|_| anyhow!("it panicked"))?;
    print!("{said}");
    let mut run = TestRun::default();
    let mut failures = Vec::new();
    for part in [others, documents, beside] {
        match part {
            Ok(part) => run.add(part),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    let counts = run.counts;
    ensure!(
        failures.is_empty(),
        "{}; of the rest {} tests passed, {} failed",
        failures.join(", "),
        counts.passed,
        counts.failed
    );
    Ok(Outcome::Tests(run))
}

/// Runs a command of `cargo test` and counts what it ran. No test at all is a failure.
pub fn of(command: &mut Command) -> Result<Outcome> {
    Ok(Outcome::Tests(run(command, print)?))
}

fn print(line: &str) {
    println!("{line}");
}

/// `cargo test` of the integration tests of these names.
pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = process::cargo(&WORKSPACE);
    names.into_iter().for_each(|name| {
        command.args(["--test", name]);
    });
    command
}

fn run(command: &mut Command, mut show: impl FnMut(&str)) -> Result<TestRun> {
    let mut run = TestRun::default();
    command.env("STEPPE_SKIPPED", skipped_file());
    let succeeded = process::run_and_watch(command, |line| {
        show(line);
        run.see(line);
    })?;
    let counts = run.counts;
    // A build that broke, or a test binary that died without a result line.
    ensure!(
        succeeded || counts.failed > 0,
        "cargo test failed without a failed test"
    );
    ensure!(counts.passed + counts.failed > 0, "cargo test ran no test");
    Ok(run)
}

/// Where tests that can't be done here say so; for the harness they passed.
fn skipped_file() -> PathBuf {
    process::target_directory().join("skipped-tests.txt")
}

/// Moves what the tests of a step skipped from what passed to what was skipped.
pub fn note_skipped(report: &mut Report) {
    let lines = fs::read_to_string(skipped_file()).unwrap_or_default();
    // The next step's tests begin with none.
    let _ = fs::remove_file(skipped_file());
    lines.lines().for_each(|line| report.skip_test(line));
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
    test: bool,
}

/// What the crates of the workspace call their integration tests.
fn integration_tests() -> Result<BTreeSet<String>> {
    let arguments = ["metadata", "--locked", "--format-version=1", "--no-deps"];
    let text = process::output(&mut process::cargo(&arguments))?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let targets = metadata
        .packages
        .into_iter()
        .flat_map(|package| package.targets);
    let tests = targets.filter(|target| target.test && target.kind == ["test"]);
    Ok(tests.map(|target| target.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_beside_the_others_are_integration_tests() {
        let all = integration_tests().unwrap();
        assert!(BESIDE.iter().all(|name| all.contains(*name)), "{all:?}");
        assert!(all.len() > 30, "{all:?}");
    }
}
