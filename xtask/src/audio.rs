//! `@steppe/audio`: its package with the addon, which Node.js tests, and the addon for systems that tests
//! don't run on, which is type-checked.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::jobs::Job;
use crate::report::{Outcome, Report};
use crate::{process, pypi};

/// The addon's package in the workspace; a change that reaches it runs the tests of `@steppe/audio`.
pub const PACKAGE: &str = "steppe-audio";

/// Builds what the tests of [`job`] run. True: it is built.
pub fn build_step(report: &mut Report) -> bool {
    let mut is_built = false;
    report.step("audio: build", || {
        build(&[])?;
        is_built = true;
        Ok(Outcome::Passed)
    });
    is_built
}

/// The tests in JavaScript. They run the gateway and the plane's examples, which are built with the test programs.
pub fn job() -> Result<Job> {
    Ok(Job {
        name: "audio".to_owned(),
        command: script("test")?,
    })
}

/// The package with the addon as it is published.
pub fn build_for_soak() -> Result<()> {
    build(&["--", "--release"])
}

fn build(cargo: &[&str]) -> Result<()> {
    process::run(&mut npm(&["ci", "--no-audit", "--no-fund"]))?;
    process::run(&mut npm(&["run", "build"]))?;
    process::run(npm(&["run", "build:native"]).args(cargo))?;
    Ok(())
}

/// Builds what is published, installs what is packed on each Node.js, and captures a sound server for three
/// minutes.
pub fn long_step(report: &mut Report) {
    report.step("audio: install cargo-zigbuild", || pypi::ZIGBUILD.install());
    report.step("audio: long tests", || {
        process::run(&mut script("test:long")?)?;
        Ok(Outcome::Passed)
    });
}

fn script(name: &str) -> Result<Command> {
    let known = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(pypi::ZIGBUILD.folder()).chain(std::env::split_paths(&known));
    let mut npm = npm(&["run", name]);
    npm.env("CARGO_TARGET_DIR", process::target_directory());
    npm.env("PATH", std::env::join_paths(folders)?);
    Ok(npm)
}

fn npm(args: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(args)
        .current_dir(process::root().join("clients/node-audio"));
    npm
}

/// Other systems that the addon is checked for, with flags of rustc: a shared library of musl links its
/// libc dynamically.
const TARGETS: [(&str, &str); 5] = [
    ("x86_64-pc-windows-msvc", ""),
    ("aarch64-apple-darwin", ""),
    ("x86_64-apple-darwin", ""),
    ("x86_64-unknown-linux-musl", "-C target-feature=-crt-static"),
    ("aarch64-unknown-linux-gnu", ""),
];

/// Adds the step to a report.
pub fn check_other_systems(report: &mut Report) {
    report.step("audio: other systems", || {
        if let Err(error) = add_targets() {
            return Ok(Outcome::Skipped(format!(
                "standard libraries of other systems can't be had: {error:#}"
            )));
        }
        let failed: Vec<&str> = TARGETS
            .iter()
            .filter(|(target, flags)| !is_sound(target, flags))
            .map(|(target, _)| *target)
            .collect();
        if !failed.is_empty() {
            bail!("does not check: {}", failed.join(", "));
        }
        Ok(Outcome::Passed)
    });
}

fn add_targets() -> Result<()> {
    let mut rustup = process::command("rustup".as_ref());
    rustup.args(["target", "add"]);
    rustup.args(TARGETS.map(|(target, _)| target));
    process::output(&mut rustup).context("rustup")?;
    Ok(())
}

fn is_sound(target: &str, flags: &str) -> bool {
    let args = ["check", "--locked", "--package", "steppe-audio", "--target"];
    let mut check = process::cargo(&args);
    check
        .arg(target)
        .env("RUSTFLAGS", format!("-D warnings {flags}"));
    check.env(
        "CARGO_TARGET_DIR",
        process::target_directory().join("audio-targets"),
    );
    process::run(&mut check).is_ok()
}
