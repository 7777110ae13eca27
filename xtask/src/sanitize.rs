//! The node under AddressSanitizer: every binary of its integration tests, and the node that they
//! start, is built with it.
//!
//! Only the sanitizer's reports count, files that each process writes: tests that bound memory or time
//! fail under the sanitizer, which takes twice of both, and they pass without it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::libtest::TestCounts;
use crate::process;
use crate::report::{Outcome, Report};

const FLAGS: [&str; 2] = [
    "-Zsanitizer=address",
    // The standard library is built without the sanitizer.
    "-Cunsafe-allow-abi-mismatch=sanitizer",
];

/// Tests that are about memory alone, or about our own allocator, which this build is without.
const LEFT_OUT: [&str; 6] = [
    "what_is_planted_is_live_then_free_then_gone",
    "nearly_all_anonymous_memory_is_attributed",
    "a_profile_is_started_read_and_ended",
    "reload_memory::",
    "measured::config_memory::",
    "measured::memory::",
];

/// Tests that pass, at least: fewer mean that the node did not run.
const PASSED_MIN: usize = 400;

/// A program that reads memory after it has freed it.
const PLANTED: &str = "fn main() {
    let bytes = vec![7_u8; 640];
    let freed = std::hint::black_box(bytes.as_ptr());
    drop(bytes);
    // SAFETY: none, which is to be found.
    println!(\"{}\", unsafe { freed.read_volatile() });
}";

/// `cargo xtask asan`.
pub fn command() -> Result<bool> {
    let mut report = Report::default();
    steps(&mut report);
    Ok(report.finish())
}

pub fn steps(report: &mut Report) {
    report.step("node: AddressSanitizer", tests);
    report.step("node: AddressSanitizer sees a planted error", planted);
}

fn tests() -> Result<Outcome> {
    let target = process::target_directory().join("asan");
    let reports = empty(&target.join("reports"))?;
    let mut test = process::cargo(&["test", "--locked", "--no-fail-fast"]);
    test.args(["--target", &process::host_triple()?]);
    test.args(["--package", "steppe", "--package", "steppe-node"]);
    test.args(["--no-default-features", "--features", "alloc-system"]);
    test.args(["--tests", "--"]);
    for tests in LEFT_OUT {
        test.args(["--skip", tests]);
    }
    test.env("CARGO_TARGET_DIR", &target)
        // The flags are unstable, but the sanitizer comes with every toolchain.
        .env("RUSTC_BOOTSTRAP", "1")
        // RSS is mostly the sanitizer's.
        .env("STEPPE_UNCHARGED", "off")
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .env("ASAN_OPTIONS", options(&reports));
    let mut counts = TestCounts::default();
    process::run_and_watch(&mut test, |line| {
        println!("{line}");
        counts.add_result_line(line);
    })?;
    let said = read(&reports)?;
    ensure!(said.is_empty(), "{said}");
    ensure!(
        counts.passed >= PASSED_MIN,
        "only {} tests passed",
        counts.passed
    );
    Ok(Outcome::Passed)
}

/// Checks that AddressSanitizer reports a planted error: otherwise its silence would prove nothing.
fn planted() -> Result<Outcome> {
    let target = process::target_directory().join("asan");
    let reports = empty(&target.join("planted"))?;
    let (source, program) = (reports.join("planted.rs"), reports.join("program"));
    fs::write(&source, PLANTED)?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-g"]).args(FLAGS);
    rustc.arg(&source).arg("-o").arg(&program);
    process::run(
        rustc
            .current_dir(process::root())
            .env("RUSTC_BOOTSTRAP", "1"),
    )?;
    fs::remove_file(source)?;
    let status = Command::new(&program)
        .env("ASAN_OPTIONS", options(&reports))
        .status()?;
    fs::remove_file(program)?;
    let said = read(&reports)?;
    ensure!(
        !status.success() && said.contains("heap-use-after-free"),
        "nothing was seen: {said}"
    );
    Ok(Outcome::Passed)
}

/// Options that have each process write its reports into a file of its own: not all output is read.
fn options(reports: &Path) -> String {
    format!("log_path={}/report", reports.display())
}

fn empty(folder: &Path) -> Result<std::path::PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    Ok(folder.to_owned())
}

/// The text of all reports.
fn read(reports: &Path) -> Result<String> {
    let mut said = String::new();
    for entry in fs::read_dir(reports)? {
        said += &String::from_utf8_lossy(&fs::read(entry?.path())?);
    }
    Ok(said)
}
