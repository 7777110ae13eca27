//! The target under a leak checker: loaded, ended cleanly, and its lost blocks read.
//!
//! A checker looks for unreachable blocks when the process ends, so a target that has to be killed
//! has no verdict. Nothing is timed: under valgrind everything takes many times as long.

mod managed;
mod memcheck;
mod sanitizer;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::environment::{Environment, Failure, RunSpec, program};
use super::session::{interrupted, load_failed};
use super::{RunError, RunRequest, manifest, mask};
use crate::judge;
use crate::load::{Burst, Driver};
use crate::record::{
    Folder, LeakSite, Problem, ProblemKind, VariantVerdict, Verdict, file_name, total,
};
use crate::scenario::{LeakChecker, LeaksPlan, Program, Variant};
use crate::target::MetricClient;

/// Checks each variant; `command` is that of the scenario's target.
pub(super) fn run(request: RunRequest<'_>, command: &Program) -> Result<Verdict, RunError> {
    let plan = request.scenario.leaks.clone().unwrap_or_default();
    let names = request.scenario.variants.iter().enumerate();
    let names: Vec<_> = names
        .map(|(index, variant)| (variant.name.clone(), index))
        .collect();
    let folder = Folder::create(request.folder)?;
    let mut manifest = manifest::begin(request, &names);
    folder.write_manifest(&manifest)?;
    let check = Check {
        request,
        command,
        plan: &plan,
        folder: &folder,
        client: MetricClient::new()?,
    };
    let (mut verdicts, mut problems) = (Vec::new(), Vec::new());
    for (index, variant) in request.scenario.variants.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a handful of variants")]
        request
            .progress
            .at(index as f64, names.len() as u64, &variant.name);
        let mut runtime = check.runtime(variant);
        match check.variant(variant) {
            Ok(found) => {
                runtime = runtime.or(found.runtime);
                if found.lost_bytes == 0 && plan.checker == LeakChecker::Sanitizer {
                    problems.push(unproven());
                }
                if found.errors > 0 {
                    let text = format!("{} operations failed", found.errors);
                    problems.push(Problem::new(
                        ProblemKind::Note,
                        text,
                        "leaks of failed operations are unknown",
                    ));
                }
                let lost = (found.lost_bytes, plan.lost_bytes_max);
                let errors = (found.errors, request.scenario.budget.errors);
                let mut findings = judge::lost(lost, errors, found.operations);
                if let Some(runtime) = runtime {
                    judge::doubt_lost(&mut findings, runtime);
                }
                verdicts.push(VariantVerdict {
                    name: variant.name.clone(),
                    outcome: judge::worst(&findings),
                    expect: variant.expect,
                    runs: 1,
                    findings,
                    leaks: found.sites,
                    growing: Vec::new(),
                    looks: Vec::new(),
                });
            }
            Err(Failure::Interrupted) => {
                problems.push(interrupted());
                break;
            }
            Err(Failure::Broken(problem)) => {
                problems.push(problem);
                problems.extend(runtime.map(unseen));
                break;
            }
        }
        // Variants may have the same runtime.
        problems.extend(runtime.map(unseen).filter(|note| !problems.contains(note)));
    }
    request.progress.end();
    let complete = verdicts.len() == names.len();
    manifest::finish(&mut manifest, Duration::ZERO, complete);
    mask::problems(&mut problems);
    let verdict = judge::whole(request.kind, complete, verdicts, Vec::new(), problems);
    folder.write_manifest(&manifest)?;
    folder.write_verdict(&verdict)?;
    Ok(verdict)
}

/// The findings of a checker.
#[derive(Debug, Default, PartialEq)]
struct Found {
    sites: Vec<LeakSite>,
    /// Bytes in unreachable blocks.
    lost_bytes: u64,
    operations: u64,
    errors: u64,
    /// The runtime that manages the memory of one of the processes, hidden from a checker.
    runtime: Option<&'static str>,
    /// A fault other than a leak, over which the checker ended the process.
    fault: Option<String>,
}

struct Check<'a> {
    request: RunRequest<'a>,
    command: &'a Program,
    plan: &'a LeaksPlan,
    folder: &'a Folder,
    client: MetricClient,
}

impl Check<'_> {
    /// The runtime that manages the memory of the program to check, as far as its file tells.
    fn runtime(&self, variant: &Variant) -> Option<&'static str> {
        let mut target = program(self.command, variant);
        if let Some(cmd) = &self.plan.command {
            target.cmd.clone_from(cmd);
        }
        managed::of_command(&target)
    }

    fn variant(&self, variant: &Variant) -> Result<Found, Failure> {
        let said = format!("logs/checker-{}", file_name(&variant.name));
        // The target may have a folder of its own.
        let said = std::path::absolute(self.folder.path().join(said));
        let said = said.map_err(|error| Failure::Broken(silent(&error.to_string())))?;
        let target = program(self.command, variant);
        let checked = match self.plan.checker {
            LeakChecker::Memcheck => memcheck::program(self.plan, target, &said),
            LeakChecker::Sanitizer => sanitizer::program(self.plan, target, &said),
        };
        let is_sanitizer = self.plan.checker == LeakChecker::Sanitizer;
        if is_sanitizer && !sanitizer::is_built_in(&checked) {
            return Err(Failure::Broken(without_sanitizer(&checked)));
        }
        let spec = RunSpec {
            scenario: self.request.scenario,
            variant,
            label: &variant.name,
            program: Some(checked),
            with_group: false,
            patience: CHECKER_PATIENCE,
        };
        let mut environment =
            Environment::up(&spec, self.folder, &self.client, self.request.is_over)?;
        let (operations, errors) = self.load(&mut environment, &variant.name)?;
        let is_over = || self.request.is_over.load(Ordering::Relaxed);
        match environment.down(&is_over) {
            _ if is_over() => return Err(Failure::Interrupted),
            // Memcheck reports when a signal ends the process; a sanitizer does not.
            Ok(status) if is_sanitizer && status.starts_with("signal") => {
                return Err(Failure::Broken(unclean(&status)));
            }
            Ok(_) => {}
            Err(status) => return Err(Failure::Broken(unclean(&status))),
        }
        let mut found = match self.plan.checker {
            LeakChecker::Memcheck => memcheck::read(&said),
            LeakChecker::Sanitizer => sanitizer::read(&said),
        }
        .map_err(|error| Failure::Broken(silent(&error)))?;
        if let Some(fault) = &found.fault {
            return Err(Failure::Broken(faulty(fault)));
        }
        (found.operations, found.errors) = (operations, errors);
        Ok(found)
    }

    /// Drives the target for the length of the plan. Returns operations and errors.
    fn load(&self, environment: &mut Environment, name: &str) -> Result<(u64, u64), Failure> {
        let broken =
            |text: &str| Failure::Broken(Problem::new(ProblemKind::HelperFailed, text, ""));
        let scenario = self.request.scenario;
        let clock = Instant::now();
        let log = |load: &str| self.folder.log_path(&format!("{name} {load}"));
        let mut driver = Driver::start(&scenario.loads, scenario.seed, clock, log)
            .map_err(|error| broken(&format!("the load can't start: {error}")))?;
        driver.resume(Burst {
            length: self.plan.length,
            epoch: 0,
            to_end: false,
        });
        while clock.elapsed() < self.plan.length {
            if self.request.is_over.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            if let Some(problem) = environment.ended_early() {
                return Err(Failure::Broken(problem));
            }
            if let Some(failure) = driver.failures().into_iter().next() {
                return Err(Failure::Broken(load_failed(&failure)));
            }
            std::thread::sleep(TICK);
        }
        let end = Instant::now() + CHECKER_PATIENCE;
        while !driver.pause(TICK) && Instant::now() < end {
            if self.request.is_over.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
        }
        let loads = driver.take();
        let operations = total(loads.iter().map(|load| load.operations));
        let errors = total(loads.iter().map(|load| load.errors));
        driver.stop();
        if operations == 0 {
            return Err(broken("no operation succeeded, so nothing was checked"));
        }
        Ok((operations, errors))
    }
}

/// The note on a runtime that manages memory itself.
fn unseen(runtime: &'static str) -> Problem {
    Problem::new(
        ProblemKind::Note,
        format!(
            "{runtime} manages memory itself, and a leak checker can't see its leaks: kept memory \
             is reachable, and lost memory is collected"
        ),
        "soak it instead; `target.profile` names the growing code of Go, Node.js, Python and Java",
    )
}

fn unclean(status: &str) -> Problem {
    Problem::new(
        ProblemKind::TargetFailed,
        format!(
            "the target did not end on SIGTERM ({status}): a leak checker reports nothing for a \
             killed process"
        ),
        "make it shut down cleanly, or raise `target.stop_timeout`",
    )
}

fn without_sanitizer(program: &Program) -> Problem {
    let name = program.cmd.first().map_or("", String::as_str);
    Problem::new(
        ProblemKind::MissingCapability,
        format!("{name} is not built with a sanitizer that finds leaks"),
        "build it with -fsanitize=address or -fsanitize=leak and name it in `leaks.cmd`, or use \
         checker = \"memcheck\"",
    )
}

fn faulty(fault: &str) -> Problem {
    Problem::new(
        ProblemKind::TargetFailed,
        format!("the checker found an error that is not a leak: {fault}"),
        "its whole report is in `logs/` of the run's folder",
    )
}

/// The note on a sanitizer without a report, which proves nothing.
fn unproven() -> Problem {
    Problem::new(
        ProblemKind::Note,
        "the sanitizer wrote no report: it found nothing, or it did not run",
        "a process that ends by `_exit` or by a signal is never checked; memcheck checks those too",
    )
}

fn silent(error: &str) -> Problem {
    Problem::new(
        ProblemKind::MissingCapability,
        format!("the leak checker left no report: {error}"),
        "the target's log has the checker's output",
    )
}

/// The target's program with another command line.
fn with_command(target: Program, cmd: Vec<String>) -> Program {
    Program { cmd, ..target }
}

/// All files whose name begins like that of `said`: a checker writes one a process.
fn reports(said: &Path) -> std::io::Result<Vec<PathBuf>> {
    let folder = said.parent().unwrap_or(said);
    // The dot is part of the prefix: `checker-leak2.17` is no report of `checker-leak`.
    let prefix = said
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
        + ".";
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

const TICK: Duration = Duration::from_millis(100);
/// Under a checker, a second of work takes half a minute.
const CHECKER_PATIENCE: Duration = Duration::from_secs(120);
