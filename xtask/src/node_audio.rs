//! `@steppe/audio`: builds the package with its addon, and runs its tests by Node.js.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::report::{Outcome, Report};

/// What every change passes. The gateway and the plane's examples are built by the tests before.
pub fn step(report: &mut Report) {
    report.step("audio: build", || {
        process::run(&mut npm(&["ci", "--no-audit", "--no-fund"]))?;
        process::run(&mut npm(&["run", "build"]))?;
        process::run(&mut npm(&["run", "build:native"]))?;
        Ok(Outcome::Passed)
    });
    report.step("audio", || run("test"));
}

/// Installs what is packed on each Node.js, and captures for three minutes.
pub fn long_step(report: &mut Report) {
    report.step("audio: long tests", || run("test:long"));
}

fn run(script: &str) -> Result<Outcome> {
    let mut npm = npm(&["run", script]);
    npm.env("CARGO_TARGET_DIR", process::target_directory());
    process::run(&mut npm)?;
    Ok(Outcome::Passed)
}

fn npm(args: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(args)
        .current_dir(process::root().join("clients/node-audio"));
    npm
}
