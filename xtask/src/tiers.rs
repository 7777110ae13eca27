//! The tiers of tests: what `make test` and `make test-all` run.

use std::num::NonZero;
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow, bail, ensure};

use crate::beside::Beside;
use crate::report::{Outcome, Report};
use crate::{audio, cargo_test, deny, fuzz, mutants, process, proofs, pypi, sanitize, tidy};

/// What every change must pass.
pub fn test(fuzz_seconds: u64) -> Result<bool> {
    let mut report = Report::default();
    first_tier(&mut report, fuzz_seconds);
    Ok(report.finish())
}

/// The first tier with longer fuzzing, then the tests that take long.
pub fn test_all(fuzz_seconds: u64) -> Result<bool> {
    let mut report = Report::default();
    first_tier(&mut report, fuzz_seconds);
    deny::long_steps(&mut report);
    report.step("install sslyze", || pypi::SSLYZE.install());
    // Each loads a node to its limits: one after the other. They use the build that is there.
    report.step("long tests", || {
        let args = [
            "test",
            "--locked",
            "--package",
            "steppe",
            "--package",
            "steppe-node",
            "--package",
            "steppe-lab",
            "--package",
            "steppe-malloc",
            "--package",
            "steppe-malloc-abi",
            "--no-fail-fast",
        ];
        let mut command = process::cargo(&args);
        command
            .args(["--", "--test-threads", "1", "--nocapture"])
            .env("STEPPE_LONG", "1");
        cargo_test::of(&mut command)
    });
    audio::long_step(&mut report);
    report.step("suite of caches", cache_suite);
    over_tls(&mut report, &TLS_TABLES_ALL, Some("1"));
    over_tls(&mut report, &TLS_TABLES_HEAVY, None);
    cargo_test::note_skipped(&mut report);
    proofs::long_steps(&mut report);
    sanitize::steps(&mut report);
    mutants::step(&mut report);
    Ok(report.finish())
}

/// npm's http-cache-tests against the node that is built, beside the caches that are installed.
fn cache_suite() -> Result<Outcome> {
    let program = process::target_directory().join("debug/steppe");
    let mut command = Command::new("python3");
    command
        .arg("scripts/cache-suite.py")
        .arg(program)
        .arg(process::target_directory().join("cache-suite"))
        .current_dir(process::root());
    match command.status()?.code() {
        Some(0) => Ok(Outcome::Passed),
        Some(SUITE_MISSING) => Ok(Outcome::Skipped("npm can't get the suite".to_owned())),
        _ => bail!("another cache passes more, or the suite did not run"),
    }
}

/// The exit code of the script without the suite.
const SUITE_MISSING: i32 = 77;

fn first_tier(report: &mut Report, fuzz_seconds: u64) {
    report.step("format", || {
        process::run(&mut process::cargo(&["fmt", "--all", "--check"]))?;
        let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
        process::run(&mut process::cargo(&fuzz))?;
        Ok(Outcome::Passed)
    });
    report.step("tidy", || match tidy::command()? {
        true => Ok(Outcome::Passed),
        false => bail!("the list is above"),
    });
    report.step("lints", || {
        let args = [
            "clippy",
            "--locked",
            "--keep-going",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        process::run(&mut process::cargo(&args))?;
        Ok(Outcome::Passed)
    });
    let mut beside = None;
    report.step("start what runs beside the tests", || {
        beside = Some(Beside::start()?);
        Ok(Outcome::Passed)
    });
    report.step("tests: build", cargo_test::build);
    report.step("tests", cargo_test::all);
    over_tls(report, &TLS_TABLES, None);
    cargo_test::note_skipped(report);
    audio::step(report);
    if let Some(beside) = beside {
        let mut theirs = Report::default();
        report.step("what ran beside the tests", || {
            theirs = beside.finish()?;
            Ok(Outcome::Passed)
        });
        report.add_beside(theirs);
    }
    fuzz_steps(report, fuzz_seconds);
}

/// Tests of `steppe` that run over TLS too.
struct Tables {
    binaries: &'static [&'static str],
    /// Modules of those binaries.
    modules: &'static [&'static str],
}

/// What every change passes over TLS too: what codecs and relays do with the pieces in which TLS hands bytes over.
const TLS_TABLES: Tables = Tables {
    binaries: &["gateway"],
    modules: &[
        "http::framing::",
        "http::framing_upstream::",
        "http::limits::",
        "http::upstream::",
    ],
};

/// With those that take longer over TLS than a change should wait for.
const TLS_TABLES_ALL: Tables = Tables {
    binaries: &["gateway", "operation"],
    modules: &[
        "http::framing::",
        "http::framing_upstream::",
        "http::limits::",
        "http::upstream::",
        "http::exchange::",
        "http::routing::",
        "http::upstream_failure::",
        "reload::changes::",
    ],
};

/// Those that load a node: in their short form, as every change passes them over TCP.
const TLS_TABLES_HEAVY: Tables = Tables {
    binaries: &["resources", "faults"],
    modules: &[
        "measured::memory::",
        "measured::reload_memory::",
        "names::",
        "network::",
        "night::",
        "peers::",
        "processes::",
    ],
};

/// Runs tables again with TLS on both sides of the node: the testkit's `STEPPE_WIRE`.
fn over_tls(report: &mut Report, tables: &Tables, long: Option<&str>) {
    report.step("tests over TLS", || {
        let mut command = cargo_test::named(tables.binaries.iter().copied());
        command.arg("--").args(tables.modules);
        command.env("STEPPE_WIRE", "tls");
        if let Some(long) = long {
            command.args(["--test-threads", "1"]);
            command.env("STEPPE_LONG", long);
        }
        cargo_test::of(&mut command)
    });
}

fn fuzz_steps(report: &mut Report, seconds: u64) {
    let mut built = None;
    report.step("fuzz: build", || {
        built = Some(fuzz::Harness::build(&fuzz::select(&[])?)?);
        Ok(Outcome::Passed)
    });
    let Some(harness) = &built else { return };
    // Each keeps one core busy.
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    for targets in harness.targets().chunks(cores) {
        report.step(&format!("fuzz: {}", targets.join(", ")), || {
            let ran: Vec<_> = thread::scope(|scope| {
                let running: Vec<_> = (targets.iter())
                    .map(|target| scope.spawn(move || harness.run(target, seconds)))
                    .collect();
                running.into_iter().map(ScopedJoinHandle::join).collect()
            });
            let mut failures = Vec::new();
            for ran in ran {
                match ran.map_err(|_| anyhow!("it panicked")).flatten() {
                    Ok(done) => println!("{done}"),
                    Err(error) => failures.push(format!("{error:#}")),
                }
            }
            ensure!(failures.is_empty(), "{}", failures.join("\n"));
            Ok(Outcome::Passed)
        });
    }
}
