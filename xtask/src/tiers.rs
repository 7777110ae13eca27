//! The tiers of tests: what `make test` and `make test-all` run.

use std::process::Command;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow, bail, ensure};

use crate::affected::{Affected, Green};
use crate::costs::Table;
use crate::jobs::Job;
use crate::programs::{self, Plan, Program};
use crate::report::{Outcome, Report};
use crate::{
    audio, cargo_test, deny, fuzz, mutants, outside_links, process, proofs, pypi, sanitize, tidy,
};

/// The first tier: all that a change can break. `ALL=1` in the environment runs it whole.
pub fn test(fuzz_seconds: u64) -> Result<bool> {
    let is_all = std::env::var_os("ALL").is_some_and(|value| value == "1");
    let affected = Affected::find(is_all.then_some("ALL=1"))?;
    let candidate = Green::candidate();
    let mut report = Report::default();
    first_tier(&mut report, &affected, fuzz_seconds);
    report.leave_out("Miri, sanitizers, mutants, long tests, foreign suites");
    let is_green = report.finish();
    if let Some(candidate) = candidate.filter(|_| is_green) {
        candidate.record()?;
    }
    Ok(is_green)
}

/// The first tier with longer fuzzing, then the tests that take long.
pub fn test_all(fuzz_seconds: u64) -> Result<bool> {
    let affected = Affected::find(Some("make test-all runs everything"))?;
    let mut report = Report::default();
    let programs = first_tier(&mut report, &affected, fuzz_seconds);
    deny::long_steps(&mut report);
    outside_links::step(&mut report);
    report.step("install sslyze", || pypi::SSLYZE.install());
    long_tests(&mut report, &programs);
    audio::long_step(&mut report);
    report.step("suite of caches", cache_suite);
    for table in [&TLS_TABLE_LONG, &TLS_TABLE_HEAVY] {
        report.step("long tests over TLS", || {
            let jobs = over_tls(&programs, table).collect();
            Ok(Outcome::Tests(programs::run_jobs(jobs, 1)?))
        });
    }
    programs::note_skipped(&mut report);
    proofs::long_steps(&mut report);
    sanitize::steps(&mut report);
    report.step("node: the budget's second line", second_line);
    mutants::step(&mut report);
    Ok(report.finish())
}

/// `cargo xtask second-line`.
pub fn second_line_command() -> Result<bool> {
    let mut report = Report::default();
    report.step("node: the budget's second line", second_line);
    Ok(report.finish())
}

/// A node that charges nothing for heads of HTTP/2 keeps its budget by closing connections.
fn second_line() -> Result<Outcome> {
    let mut test = process::cargo(&["test", "--locked", "--package", "steppe"]);
    test.args(["--features", "uncharged-heads", "--test", "exhaustion"]);
    test.args(["second_line", "--", "--nocapture"]);
    let target = process::target_directory().join("second-line");
    test.env("CARGO_TARGET_DIR", target);
    cargo_test::of(&mut test)
}

/// Packages whose tests have sizes that are promised and take long.
const LONG_PACKAGES: [&str; 7] = [
    "steppe",
    "steppe-fuzz-targets",
    "steppe-http",
    "steppe-node",
    "steppe-lab",
    "steppe-malloc",
    "steppe-malloc-abi",
];

/// Each loads a node to its limits: one after the other.
fn long_tests(report: &mut Report, programs: &[Program]) {
    report.step("long tests", || {
        let long = programs.iter();
        let long = long.filter(|program| LONG_PACKAGES.contains(&program.package.as_str()));
        let jobs = long.map(|program| {
            let mut command = program.command(&["--test-threads", "1", "--nocapture"]);
            command.env("STEPPE_LONG", "1");
            Job {
                name: format!("{}: long", program.title()),
                command,
            }
        });
        Ok(Outcome::Tests(programs::run_jobs(jobs.collect(), 1)?))
    });
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

/// Runs what a change can break, and returns all test programs.
fn first_tier(report: &mut Report, affected: &Affected, fuzz_seconds: u64) -> Vec<Program> {
    println!("compared with {}", affected.rare.since);
    programs::forget_skipped();
    static_steps(report);
    let mut all = Vec::new();
    report.step("tests: build", || {
        all = programs::build()?;
        Ok(Outcome::Passed)
    });
    let chosen = programs::choose(&all, affected);
    if chosen.len() < all.len() {
        let count = all.len() - chosen.len();
        report.leave_out(format!(
            "{count} test programs that the change does not reach"
        ));
    }
    if chosen
        .iter()
        .any(|program| program.package == programs::ALLOCATOR)
    {
        report.step("allocator: build", || {
            programs::build_allocator()?;
            Ok(Outcome::Passed)
        });
    }
    let is_audio = affected.package_reason(audio::PACKAGE);
    let is_audio = is_audio.is_some_and(|reason| {
        println!("audio runs: {reason}");
        audio::build_step(report)
    });
    report.step("tests and lints", || {
        let mut others: Vec<Job> = over_tls(&chosen, &TLS_TABLE).collect();
        others.push(lints());
        if !chosen.is_empty() {
            others.push(documents());
        }
        if is_audio {
            others.push(audio::job()?);
        }
        let mut environment = Vec::new();
        if affected.rare.has_statistics {
            environment.push(("STEPPE_STATS_CHANGED", "1"));
        }
        Ok(Outcome::Tests(programs::run(Plan {
            programs: &chosen,
            others,
            environment,
        })?))
    });
    report.step("measured tests", || {
        Ok(Outcome::Tests(programs::run_measured(&chosen)?))
    });
    programs::note_skipped(report);
    rare_steps(report, affected, fuzz_seconds);
    match Table::read() {
        Ok(table) => table
            .warnings(report.steps())
            .into_iter()
            .for_each(|warning| report.warn(warning)),
        Err(error) => report.warn(format!("{error:#}")),
    }
    all
}

/// Steps without a test program. They cost nothing for crates that are built already.
fn static_steps(report: &mut Report) {
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
    deny::first_steps(report);
}

/// Steps that take long and see what few changes can break.
fn rare_steps(report: &mut Report, affected: &Affected, fuzz_seconds: u64) {
    let rare = &affected.rare;
    let Some(changed) = &rare.changed else {
        report.leave_out(format!("libFuzzer, loom, other systems: {}", rare.since));
        return;
    };
    if rare.has("steppe-malloc") {
        proofs::first_steps(report);
    } else {
        report.leave_out(format!("loom (steppe-malloc is as in {})", rare.since));
    }
    if rare.has(audio::PACKAGE) {
        audio::check_other_systems(report);
    } else {
        report.leave_out("other systems of @steppe/audio (unchanged)");
    }
    let targets = if rare.is_everything {
        fuzz::select(&[])
    } else {
        fuzz::targets_of_crates(changed)
    };
    match targets {
        Ok(targets) if targets.is_empty() => report.leave_out("libFuzzer (no parser changed)"),
        Ok(targets) => fuzz_steps(report, &targets, fuzz_seconds),
        Err(error) => report.step("fuzz", || Err(error)),
    }
}

/// Clippy, beside tests that wait for most of their time: it compiles all crates once more, and no test needs that.
fn lints() -> Job {
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
    Job {
        name: programs::LINTS.to_owned(),
        command: process::cargo(&args),
    }
}

/// Examples in documentation.
fn documents() -> Job {
    Job {
        name: "examples in documentation".to_owned(),
        command: process::cargo(&["test", "--locked", "--workspace", "--no-fail-fast", "--doc"]),
    }
}

/// Tests of the node that run over TLS too.
struct TlsTable {
    name: &'static str,
    programs: &'static [&'static str],
    /// Modules of those programs.
    modules: &'static [&'static str],
    /// Further arguments of the harness.
    arguments: &'static [&'static str],
    is_long: bool,
}

/// The first tier's: codecs and relays meet the pieces in which TLS hands bytes over.
const TLS_TABLE: TlsTable = TlsTable {
    name: "over TLS",
    programs: &["gateway"],
    modules: &[
        "http::framing::",
        "http::framing_upstream::",
        "http::limits::",
        "http::upstream::",
    ],
    arguments: &["--skip", programs::MEASURED],
    is_long: false,
};

/// With those that take longer over TLS than a change should wait for.
const TLS_TABLE_LONG: TlsTable = TlsTable {
    name: "over TLS, long",
    programs: &["gateway", "operation"],
    modules: &[
        "http::framing::",
        "http::framing_upstream::",
        "http::limits::",
        "http::upstream::",
        "http::exchange::",
        "http::routing::",
        "reload::changes::",
        "http::upstream_failure::",
    ],
    arguments: &["--test-threads", "1"],
    is_long: true,
};

/// Those that load a node: in their short form, as every change passes them over TCP.
const TLS_TABLE_HEAVY: TlsTable = TlsTable {
    name: "over TLS, heavy",
    programs: &["resources", "faults"],
    modules: &[
        "measured::memory::",
        "reload_memory::",
        "names::",
        "network::",
        "night::",
        "peers::",
        "processes::",
    ],
    arguments: &[],
    is_long: false,
};

/// Jobs that run a table with TLS on both sides of the node: the testkit's `STEPPE_WIRE`.
fn over_tls<'a>(
    programs: &'a [Program],
    table: &'a TlsTable,
) -> impl Iterator<Item = Job> + use<'a> {
    let named = programs.iter().filter(|program| {
        program.package == "steppe" && table.programs.contains(&program.name.as_str())
    });
    named.map(|program| {
        let mut command = program.command(table.modules);
        command.env("STEPPE_WIRE", "tls");
        command.args(table.arguments);
        command.env("STEPPE_NIGHT_MINUTES", "0");
        if table.is_long {
            command.env("STEPPE_LONG", "1");
        }
        Job {
            name: format!("{} {}", program.title(), table.name),
            command,
        }
    })
}

fn fuzz_steps(report: &mut Report, targets: &[String], seconds: u64) {
    let mut built = None;
    report.step("fuzz: build", || {
        built = Some(fuzz::Harness::build(targets)?);
        Ok(Outcome::Passed)
    });
    let Some(harness) = &built else { return };
    // Each keeps one core busy.
    for targets in harness.targets().chunks(programs::cores()) {
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
