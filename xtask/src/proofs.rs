//! The allocator under tools that see what tests can't: loom, Miri and ThreadSanitizer.
//!
//! Loom tries every order of threads' steps on the lock, the depots and the heaps; Miri watches
//! every access through a pointer; ThreadSanitizer every pair of accesses that nothing orders. Each
//! needs a build of its own, in a target directory of its own.
//!
//! Miri comes with nightly toolchains only: where there is none, that step is skipped. The
//! sanitizer's runtime comes with every toolchain, behind a flag; the standard library is built
//! without it, so races that it reports there are suppressed.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::report::{Outcome, Report};
use crate::{cargo_test, process};

const PACKAGE: [&str; 3] = ["--locked", "--package", "steppe-malloc"];
/// Interior mutability as a whole, not byte by byte: the map of units alone has four million cells.
/// Memory mapped for records is never unmapped: leaks are ignored.
const MIRI_FLAGS: &str = "-Zmiri-tree-borrows -Zmiri-tree-borrows-no-precise-interior-mut \
    -Zmiri-ignore-leaks -Zmiri-disable-isolation";
const SANITIZER_FLAGS: [&str; 2] = [
    "-Zsanitizer=thread",
    // The standard library is built without the sanitizer.
    "-Cunsafe-allow-abi-mismatch=sanitizer",
];
/// Frames of code whose locks the sanitizer does not see.
const SUPPRESSIONS: &str = "race:std::\nrace:test::\n";

/// Runs all steps: `cargo xtask prove`.
pub fn command() -> Result<bool> {
    let mut report = Report::default();
    first_steps(&mut report);
    long_steps(&mut report);
    Ok(report.finish())
}

/// The steps that take seconds, once they are built.
pub fn first_steps(report: &mut Report) {
    report.step("malloc: loom", loom);
}

/// The steps that take minutes.
pub fn long_steps(report: &mut Report) {
    report.step("malloc: Miri", miri);
    report.step("malloc: ThreadSanitizer", sanitizer);
    report.step("malloc: ThreadSanitizer sees a planted race", planted_race);
}

fn loom() -> Result<Outcome> {
    let mut test = process::cargo(&["test"]);
    test.args(PACKAGE).args(["--lib", "modeled"]);
    test.env("CARGO_ENCODED_RUSTFLAGS", "--cfg=loom");
    test.env("CARGO_TARGET_DIR", process::target_directory().join("loom"));
    cargo_test::of(&mut test)
}

fn miri() -> Result<Outcome> {
    if process::output(nightly().args(["miri", "--version"])).is_err() {
        let reason = "no Miri: rustup toolchain install nightly --component miri,rust-src";
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    let mut test = nightly();
    test.args(["miri", "test"]).args(PACKAGE);
    test.args(["--test", "model", "--test", "races"]);
    test.env("MIRIFLAGS", MIRI_FLAGS)
        .env("CARGO_TARGET_DIR", process::target_directory().join("miri"));
    cargo_test::of(&mut test)
}

/// Cargo of the nightly toolchain, instead of the workspace's toolchain.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    command.current_dir(process::root());
    command
}

fn sanitizer() -> Result<Outcome> {
    let mut test = sanitized()?;
    test.env("STEPPE_LONG", "1");
    cargo_test::of(&mut test)
}

/// Checks that ThreadSanitizer reports a planted race: otherwise its silence would prove nothing.
fn planted_race() -> Result<Outcome> {
    let mut test = sanitized()?;
    test.args(["planted", "--", "--nocapture"]);
    let output = test.env("STEPPE_PLANTED_RACE", "1").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_seen = said.contains("ThreadSanitizer: data race") && said.contains("write_unasked");
    ensure!(
        !output.status.success() && is_seen,
        "no race was seen:\n{said}"
    );
    Ok(Outcome::Passed)
}

fn sanitized() -> Result<Command> {
    let target = process::target_directory().join("tsan");
    fs::create_dir_all(&target)?;
    let suppressions = target.join("suppressions.txt");
    fs::write(&suppressions, SUPPRESSIONS)?;
    let mut test = process::cargo(&["test", "--target", &process::host_triple()?]);
    test.args(PACKAGE).args(["--test", "races"]);
    test.env("CARGO_TARGET_DIR", &target);
    // The flags are unstable, but the sanitizer comes with every toolchain.
    test.env("RUSTC_BOOTSTRAP", "1");
    test.env("CARGO_ENCODED_RUSTFLAGS", SANITIZER_FLAGS.join("\u{1f}"));
    let options = format!("suppressions={}", suppressions.display());
    test.env("TSAN_OPTIONS", options);
    Ok(test)
}
