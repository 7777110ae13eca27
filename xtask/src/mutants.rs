//! cargo-mutants: the library tests of `steppe-http` against code that is wrong in one place.
//!
//! A mutant that survives is a gap in the tests, or it is listed with the reason why it is harmless.
//! Integration tests are left out: a fault in code that decides about a request should fail a test near that code,
//! within seconds.

mod survivors;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::report::{Outcome, Report};
use crate::tools::Tool;
use survivors::{List, Run};

const TOOL: Tool = Tool {
    name: "cargo-mutants",
    version: "27.1.0",
    version_args: &["mutants", "--version"],
};

/// The list of files to mutate, and of mutants that may survive.
const LIST: &str = "crates/steppe-http/mutants.toml";

/// Mutants that are built at once: each has a tree and a target of its own.
const JOBS_MAX: usize = 4;

/// Lower bound of the timeout of tests, in seconds; else it is five times their time without a mutant.
const TEST_TIMEOUT: &str = "30";

/// Adds the step to a report.
pub fn step(report: &mut Report) {
    report.step("mutants", || match command(&[])? {
        true => Ok(Outcome::Passed),
        false => bail!("the list is above"),
    });
}

/// Mutates the files of the list whose paths have one of `parts`, or all of them. True if exactly the listed
/// mutants survive.
pub fn command(parts: &[String]) -> Result<bool> {
    let list = committed().context(LIST)?;
    let files = list.select(parts)?;
    let out = process::target_directory().join("mutants");
    // An earlier run that was stopped leaves whole trees there.
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    mutate(&files, list.tests(), &out)?;
    let run = read(&out.join("mutants.out"))?;
    files.iter().for_each(|file| println!("{}", run.row(file)));
    let wrong = list.compare(&files, &run);
    wrong.iter().for_each(|line| println!("{line}"));
    if !wrong.is_empty() {
        println!(
            "Write a test that fails, or say in {LIST} why the mutant is harmless; {} has each as a patch",
            out.join("mutants.out/diff").display()
        );
    }
    Ok(wrong.is_empty())
}

fn committed() -> Result<List> {
    let list = List::parse(&fs::read_to_string(process::root().join(LIST))?)?;
    // cargo-mutants accepts a name that matches no file, and mutates nothing then.
    for file in list.select(&[])? {
        let is_there = process::root().join(file).is_file();
        ensure!(is_there, "there is no {file}");
    }
    Ok(list)
}

fn mutate(files: &[&str], tests: &[String], out: &Path) -> Result<()> {
    let program = TOOL.ensure_installed()?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut command = process::command(&program);
    command.args([
        "mutants",
        "--no-config",
        "--package=steppe-http",
        "--profile=mutants",
        "--cargo-arg=--locked",
        // For the build too, which includes the integration tests otherwise.
        "--cargo-arg=--lib",
        "--baseline=run",
        "--no-shuffle",
        "--copy-target=false",
        "--colors=never",
        "--minimum-test-timeout",
        TEST_TIMEOUT,
    ]);
    command
        .arg(format!("--jobs={}", cores.min(JOBS_MAX)))
        .arg("--output")
        .arg(out);
    files.iter().for_each(|file| {
        command.args(["--file", file]);
    });
    // One `--` for cargo, and one for the test program.
    command.args(["--", "--"]).args(tests);
    // The copies of the tree go to the target directory too.
    command.env("TMPDIR", out);
    let status = command.status().context("cannot start cargo-mutants")?;
    match status.code() {
        Some(ALL_CAUGHT | SOME_MISSED | SOME_TIMED_OUT) => Ok(()),
        Some(BASELINE_FAILED) => bail!("the tests fail without a mutant, or do not build"),
        _ => bail!("cargo-mutants: {status}"),
    }
}

/// Exit codes of cargo-mutants.
const ALL_CAUGHT: i32 = 0;
const SOME_MISSED: i32 = 2;
const SOME_TIMED_OUT: i32 = 3;
const BASELINE_FAILED: i32 = 4;

fn read(out: &Path) -> Result<Run> {
    let lines = |name: &str| {
        let text = fs::read_to_string(out.join(name)).with_context(|| format!("no {name}"));
        text.map(|text| text.lines().map(survivors::without_position).collect())
    };
    Ok(Run {
        caught: lines("caught.txt")?,
        missed: lines("missed.txt")?,
        timeouts: lines("timeout.txt")?,
        unviable: lines("unviable.txt")?,
        generated: survivors::generated(&fs::read_to_string(out.join("mutants.json"))?)?,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_list_names_files_that_are_there() {
        super::committed().unwrap();
    }
}
