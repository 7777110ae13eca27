//! The test programs of the workspace: built, chosen, and run several at a time, the longest first; then those of
//! their tests that measure, alone.
//!
//! A test measures when a segment of its path is `measured` or begins so: it judges time, memory, instructions or
//! system calls, and a neighbor would change what it sees. Each counts as the best of three: a test that fails is run
//! again, twice at most.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::affected::Affected;
use crate::jobs::{self, Ended, Job};
use crate::libtest::TestCounts;
use crate::process;
use crate::report::{Report, TestRun};

/// With the features that all of the workspace asks for: another set would build everything again.
const WORKSPACE: [&str; 3] = ["test", "--locked", "--workspace"];

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The package that it tests.
    pub package: String,
    /// Its name in the package; that of unit tests is `lib` or the binary's.
    pub name: String,
    executable: PathBuf,
    /// Where it runs: the package's folder.
    folder: PathBuf,
}

impl Program {
    /// `steppe-dns/rules`: unique, and what commands name it by.
    pub fn title(&self) -> String {
        format!("{}/{}", self.package, self.name)
    }

    /// A command that runs it with these arguments, as cargo would.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // The kit's tests need no cargo: `build` and `build_allocator` made all that they run.
            .env("STEPPE_BUILT", "1")
            .env("STEPPE_SKIPPED", skipped_file());
        command
    }

    /// A job that runs its ordinary tests.
    pub fn ordinary_job(&self) -> Job {
        let mut job = self.job(&["--skip", MEASURED]);
        if self.title() == WAITING {
            job.command.args(["--test-threads", "4"]);
        }
        job
    }

    fn job(&self, arguments: &[&str]) -> Job {
        Job {
            name: self.title(),
            command: self.command(arguments),
        }
    }
}

/// The program whose tests wait for most of their time: they run four at a time.
const WAITING: &str = "steppe-lab/lab";

/// The package of the allocator's library, which its tests load from the target directory.
pub const ALLOCATOR: &str = "steppe-malloc-abi";

/// Builds the allocator's library as it ships, and with the feature `hardened` in a folder of its own.
///
/// # Errors
/// It does not build.
pub fn build_allocator() -> Result<()> {
    let build = ["build", "--locked", "--profile", "release-malloc"];
    let package = ["--package", ALLOCATOR];
    process::run(process::cargo(&build).args(package))?;
    let mut hardened = process::cargo(&build);
    hardened.args(package).args(["--features", "hardened"]);
    hardened.arg("--target-dir");
    hardened.arg(process::target_directory().join("malloc-hardened"));
    process::run(&mut hardened)
}

/// A test's path has this in it when the test measures.
pub const MEASURED: &str = "measured";
/// So often a measured test may be tried.
const TRIES: usize = 3;

/// Tests that could not be done here say so in this file; for the harness they passed.
fn skipped_file() -> PathBuf {
    process::target_directory().join("skipped-tests.txt")
}

/// Builds all test programs, binaries and examples, and returns the programs.
///
/// # Errors
/// Something does not build.
pub fn build() -> Result<Vec<Program>> {
    let mut build = process::cargo(&WORKSPACE);
    build.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let text = process::output_of(&mut build)?;
    let mut programs: Vec<Program> = text.lines().filter_map(program_of).collect();
    ensure!(
        programs.len() > 20,
        "cargo built {} test programs",
        programs.len()
    );
    programs.sort_by_key(Program::title);
    Ok(programs)
}

#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The program that a line of cargo's messages tells of.
fn program_of(line: &str) -> Option<Program> {
    let artifact: Artifact = serde_json::from_str(line).ok()?;
    let executable = artifact.executable.filter(|_| artifact.profile.test)?;
    let folder = artifact.manifest_path.parent()?;
    let is_library = !["test", "bin", "example", "bench"]
        .iter()
        .any(|kind| artifact.target.kind.iter().any(|has| has == kind));
    Some(Program {
        package: package_name(&artifact.manifest_path)?,
        name: if is_library {
            "lib".to_owned()
        } else {
            artifact.target.name
        },
        executable,
        folder: folder.to_owned(),
    })
}

fn package_name(manifest: &Path) -> Option<String> {
    let manifest: toml::Table = fs::read_to_string(manifest).ok()?.parse().ok()?;
    let name = manifest.get("package")?.get("name")?.as_str()?;
    Some(name.to_owned())
}

/// The programs that a change reaches. Prints which, and why.
pub fn choose(programs: &[Program], affected: &Affected) -> Vec<Program> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut chosen = Vec::new();
    for program in programs {
        if let Some(reason) = affected.reason(&program.package, &program.name) {
            reasons.entry(reason).or_default().push(program.title());
            chosen.push(program.clone());
        }
    }
    for (reason, programs) in &reasons {
        println!("{reason}: {}", programs.join(", "));
    }
    println!("{} of {} test programs run", chosen.len(), programs.len());
    chosen
}

/// The number of cores.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The number of test programs that run at a time: one a core and three more, since tests wait for longer than they compute.
pub fn lanes() -> usize {
    cores() + 3
}

/// The jobs of one run.
pub struct Plan<'a> {
    /// Their ordinary tests run.
    pub programs: &'a [Program],
    /// Further jobs, beside them.
    pub others: Vec<Job>,
    /// Variables that the programs have.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// Runs it, the longest jobs first.
///
/// # Errors
/// A job can't be started.
pub fn run(plan: Plan<'_>) -> Result<TestRun> {
    let jobs = plan.programs.iter().map(|program| {
        let mut job = program.ordinary_job();
        job.command.envs(plan.environment.iter().copied());
        job
    });
    let mut jobs: Vec<Job> = jobs.chain(plan.others).collect();
    let history = History::read();
    jobs.sort_by(|one, other| history.longest_first(&one.name, &other.name));
    run_jobs(jobs, lanes())
}

/// Runs jobs in this order, and remembers how long they took.
///
/// # Errors
/// One can't be started.
pub fn run_jobs(jobs: Vec<Job>, lanes: usize) -> Result<TestRun> {
    let mut run = TestRun::default();
    let ended = jobs::run(jobs, lanes, show)?;
    History::write(&ended)?;
    ended.iter().for_each(|ended| take(&mut run, ended));
    Ok(run)
}

/// Moves skipped tests, which the harness counts as passed, to those that were skipped.
pub fn note_skipped(report: &mut Report) {
    let lines = fs::read_to_string(skipped_file()).unwrap_or_default();
    // The next step's tests begin with none.
    forget_skipped();
    lines.lines().for_each(|line| report.skip_test(line));
}

/// Forgets tests that an earlier run skipped and did not count, as one that was stopped.
pub fn forget_skipped() {
    let _ = fs::remove_file(skipped_file());
}

/// Runs the measured tests of the programs, one at a time.
///
/// # Errors
/// A program can't be started.
pub fn run_measured(programs: &[Program]) -> Result<TestRun> {
    let mut run = TestRun::default();
    for program in with_measured(programs)? {
        let ended = measure(&program)?;
        show(&ended);
        take(&mut run, &ended);
    }
    Ok(run)
}

/// The programs that have measured tests.
///
/// # Errors
/// A program can't be started.
pub fn with_measured(programs: &[Program]) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for program in programs {
        if lists_measured(program)? {
            found.push(program.clone());
        }
    }
    Ok(found)
}

/// Sorts programs by how long they took when they ran last.
pub fn longest_first(programs: &mut [&Program]) {
    let history = History::read();
    programs.sort_by(|one, other| history.longest_first(&one.title(), &other.title()));
}

fn lists_measured(program: &Program) -> Result<bool> {
    let mut list = program.command(&["--list", "--format", "terse", MEASURED]);
    let listed = list.output().with_context(|| program.title())?;
    ensure!(
        listed.status.success(),
        "{} --list: {}",
        program.title(),
        listed.status
    );
    Ok(String::from_utf8_lossy(&listed.stdout).contains(": test"))
}

/// Runs the measured tests of a program; those that fail are run again.
///
/// # Errors
/// It can't be started.
pub fn measure(program: &Program) -> Result<Ended> {
    const ALONE: [&str; 2] = ["--test-threads", "1"];
    let mut all = program.job(&[&ALONE[..], &[MEASURED]].concat());
    all.name += ": measured";
    let mut ended = all.run()?;
    for attempt in 2..=TRIES {
        // A program that died names no test.
        if ended.succeeded || ended.failed.is_empty() {
            break;
        }
        println!(
            "{}: try {attempt} of {TRIES} of {}",
            program.title(),
            ended.failed.join(", ")
        );
        let failed = ended.failed.iter().map(String::as_str);
        let arguments: Vec<&str> = ALONE.into_iter().chain(["--exact"]).chain(failed).collect();
        let again = program.job(&arguments).run()?;
        let ran = again.counts.passed + again.counts.failed;
        ensure!(ran == ended.failed.len(), "{}: {ran} tests ran", again.name);
        let passed = ended.counts.passed + again.counts.passed;
        ended = Ended {
            counts: TestCounts {
                passed,
                failed: again.counts.failed,
            },
            name: ended.name,
            timing: ended.timing.plus(&again.timing),
            ..again
        };
    }
    Ok(ended)
}

fn show(ended: &Ended) {
    if !ended.succeeded {
        println!("{}", ended.said.trim_end());
    }
    println!("{}", ended.line());
}

/// The job that runs Clippy.
pub const LINTS: &str = "lints";

/// Jobs whose output has no result line of Rust's harness: each counts as one test.
const OTHER_HARNESSES: [&str; 2] = ["audio", LINTS];

/// Adds a job that ended to the sums. One without a result line, or that failed without a failed test, as one that was killed,
/// counts as one failure.
fn take(run: &mut TestRun, ended: &Ended) {
    let mut counts = ended.counts;
    let has_result = ended.said.contains("test result: ");
    if ended.succeeded && !has_result && OTHER_HARNESSES.contains(&ended.name.as_str()) {
        counts.passed = 1;
    } else if counts.failed == 0 && (!ended.succeeded || !has_result) {
        counts.failed = 1;
    }
    run.counts.add(counts);
    run.programs.push(ended.timing.clone());
    let failed = ended.failed.iter();
    run.failed
        .extend(failed.map(|test| format!("{}: {test}", ended.name)));
    if counts.failed > 0 && ended.failed.is_empty() {
        run.failed
            .push(format!("{} died, or names no test", ended.name));
    }
}

/// The durations of jobs in their last runs, kept in the target directory.
struct History(BTreeMap<String, f64>);

/// The longest jobs in their order, for a target directory that has seen none.
const LONGEST: [&str; 15] = [
    LINTS,
    "steppe-lab/lab",
    "audio",
    "steppe/gateway",
    "steppe/filters",
    "steppe/exhaustion",
    "steppe-dns/forwarder",
    "steppe/faults",
    "steppe/resources",
    "steppe/dns",
    "steppe-malloc-abi/library",
    "steppe/operation",
    "steppe-http/constants",
    "steppe-plane/sockets",
    "steppe/plane",
];

impl History {
    fn read() -> Self {
        let read = fs::read(Self::path()).ok();
        Self(
            read.and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default(),
        )
    }

    fn seconds(&self, name: &str) -> f64 {
        let known = self.0.get(name).copied();
        known.unwrap_or_else(|| {
            let place = LONGEST.iter().rev().position(|long| *long == name);
            // Before all that is short, in the order of the list.
            place.map_or(0.0, |place| LONG_SECONDS * (place + 1) as f64)
        })
    }

    fn longest_first(&self, one: &str, other: &str) -> Ordering {
        self.seconds(other).total_cmp(&self.seconds(one))
    }

    fn write(ended: &[Ended]) -> Result<()> {
        let mut known = Self::read();
        for ended in ended {
            known.0.insert(ended.name.clone(), ended.timing.seconds);
        }
        fs::write(Self::path(), serde_json::to_vec(&known.0)?)?;
        Ok(())
    }

    fn path() -> PathBuf {
        process::target_directory().join("test-seconds.json")
    }
}

/// The least difference between two of the longest jobs, for their order.
const LONG_SECONDS: f64 = 10.0;
