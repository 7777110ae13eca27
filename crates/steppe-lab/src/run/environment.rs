//! The processes beside the lab during a run: services, the target; and the target's control group.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::observe::cgroup::{Group, own_group};
use crate::record::{Folder, Problem, ProblemKind};
use crate::scenario::{Collect, Program, Ready, Scenario, Service, TargetProcess, Variant};
use crate::target::{
    Launch, MetricClient, NotReady, Process, RunningTarget, is_taken, wait_until_ready,
};

/// A target that is up, with its services and its control group.
pub(super) struct Environment {
    pub(super) target: Target,
    services: Vec<(Service, Process)>,
    /// Dropped last: a group that has members can't be removed.
    group: Option<Group>,
    pub(super) ready_after: Duration,
    stop_timeout: Duration,
    /// The signal of `target.collect`: a target without a handler ends by it.
    collect: Option<Signal>,
}

/// The target that is judged.
pub(super) enum Target {
    /// The lab started it.
    Started(Process),
    /// The target ran before, and goes on.
    Running(RunningTarget),
}

/// The parts that may differ from run to run.
pub(super) struct RunSpec<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) variant: &'a Variant,
    /// Prefix of the names of this run's logs.
    pub(super) label: &'a str,
    /// Program to run instead of the target's with the variant's changes.
    pub(super) program: Option<Program>,
    pub(super) with_group: bool,
    /// Added to the timeouts of the target: under valgrind everything takes longer.
    pub(super) patience: Duration,
}

/// Why the environment is not up, or did not stay up.
pub(super) enum Failure {
    Interrupted,
    Broken(Problem),
}

impl Environment {
    /// Starts services, then the target, then services that wait for it.
    pub(super) fn up(
        spec: &RunSpec<'_>,
        folder: &Folder,
        client: &MetricClient,
        is_over: &AtomicBool,
    ) -> Result<Self, Failure> {
        let mut services = Vec::new();
        let scenario = spec.scenario;
        let (later, first): (Vec<_>, Vec<_>) = scenario
            .services
            .iter()
            .partition(|service| service.after_target);
        for service in first {
            services.push((
                service.clone(),
                start_service(service, spec, folder, client, is_over)?,
            ));
        }
        let group = spec
            .with_group
            .then(|| own_group(spec.label).ok())
            .flatten();
        let (mut target, ready_after) =
            start_target(spec, group.as_ref(), folder, client, is_over)?;
        for service in later {
            if let Some(problem) = target.ended(None) {
                return Err(Failure::Broken(problem));
            }
            services.push((
                service.clone(),
                start_service(service, spec, folder, client, is_over)?,
            ));
        }
        Ok(Self {
            target,
            services,
            group,
            ready_after,
            stop_timeout: scenario.target.stop_timeout + spec.patience,
            collect: match scenario.target.collect {
                Some(Collect::Signal(signal)) => Some(signal),
                _ => None,
            },
        })
    }

    /// The processes that are judged.
    pub(super) fn roots(&self) -> Vec<u32> {
        let measured = self.services.iter().filter(|(service, _)| service.measure);
        let measured = measured.map(|(_, process)| process.id());
        self.target.roots().into_iter().chain(measured).collect()
    }

    /// The control group of the target alone. With measured services beside it, the group would be only a
    /// part of what is judged.
    pub(super) fn group_path(&self) -> Option<PathBuf> {
        if let Target::Running(target) = &self.target {
            return target.group().map(Path::to_owned);
        }
        let is_alone = self.services.iter().all(|(service, _)| !service.measure);
        self.group
            .as_ref()
            .filter(|_| is_alone)
            .map(|group| group.path().to_owned())
    }

    /// The problem if a process has ended: none of the environment ends by itself.
    pub(super) fn ended_early(&mut self) -> Option<Problem> {
        if let Some(problem) = self.target.ended(self.collect) {
            return Some(problem);
        }
        self.services.iter_mut().find_map(|(_, process)| {
            let status = process.ended()?;
            Some(ended(
                process,
                &status.to_string(),
                ProblemKind::HelperFailed,
            ))
        })
    }

    /// Ends everything, in the reverse order. `Err`: the target had to be killed.
    pub(super) fn down(mut self, give_up: &dyn Fn() -> bool) -> Result<String, String> {
        let is_later = |(service, _): &(Service, Process)| service.after_target;
        let (later, first): (Vec<_>, Vec<_>) = self.services.drain(..).partition(is_later);
        for (service, mut process) in later.into_iter().rev() {
            _ = process.stop(service.stop_timeout, give_up);
        }
        let status = match &mut self.target {
            Target::Started(process) => process
                .stop(self.stop_timeout, give_up)
                .map(|status| status.to_string())
                .map_err(|status| status.to_string()),
            Target::Running(_) => Ok("left running".to_owned()),
        };
        for (service, mut process) in first.into_iter().rev() {
            _ = process.stop(service.stop_timeout, give_up);
        }
        status
    }
}

impl Target {
    /// The root processes of the target.
    fn roots(&self) -> Vec<u32> {
        match self {
            Self::Started(process) => vec![process.id()],
            Self::Running(target) => target.roots(),
        }
    }

    /// The problem if the target has ended: it never does by itself. `collect`: the signal that the lab
    /// sends it.
    fn ended(&mut self, collect: Option<Signal>) -> Option<Problem> {
        match self {
            Self::Started(process) => {
                let status = process.ended()?;
                let signal = status.signal();
                let collect = collect.filter(|collect| signal == Some(collect.as_raw()));
                Some(match collect {
                    Some(signal) => unhandled(process, signal),
                    None => ended(process, &status.to_string(), ProblemKind::TargetFailed),
                })
            }
            Self::Running(target) => {
                let how = target.ended()?;
                let text = format!("{} ended during the run: {how}", target.name());
                let help = "its own log may have the reason; a new process of that name is a new \
                            run";
                Some(Problem::new(ProblemKind::TargetFailed, text, help))
            }
        }
    }

    /// Sends a signal to the first process.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match self {
            Self::Started(process) => process.signal(signal),
            Self::Running(target) => target.signal(signal),
        }
    }

    /// The last lines of its output that speak of an error; the output of a target that ran before is not
    /// seen.
    pub(super) fn complaints(&self) -> Vec<String> {
        match self {
            Self::Started(process) => process.complaints(),
            Self::Running(_) => Vec::new(),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn start_target(
    spec: &RunSpec<'_>,
    group: Option<&Group>,
    folder: &Folder,
    client: &MetricClient,
    is_over: &AtomicBool,
) -> Result<(Target, Duration), Failure> {
    let target = &spec.scenario.target;
    let command = match &target.process {
        TargetProcess::Command(command) => command,
        TargetProcess::Running(running) => {
            let found =
                RunningTarget::find(running).map_err(|error| Failure::Broken(lost(&error)))?;
            return Ok((Target::Running(found), Duration::ZERO));
        }
    };
    refuse_if_taken("target", &target.ready, client)?;
    let procs = group.map(|group| group.path().join("cgroup.procs"));
    let launch = Launch {
        name: "target",
        program: spec
            .program
            .clone()
            .unwrap_or_else(|| program(command, spec.variant)),
        preload: spec.variant.preload.as_deref(),
        group: procs.as_deref(),
    };
    let log = folder.log_path(&format!("{} target", spec.label));
    let start = Instant::now();
    let mut process = Process::start(&launch, &log)
        .map_err(|error| Failure::Broken(not_started(&error, ProblemKind::TargetFailed)))?;
    let patience = target.ready_timeout + spec.patience;
    wait(&mut process, &target.ready, patience, client, is_over)
        .map_err(|error| unready(error, &process, ProblemKind::TargetFailed))?;
    Ok((Target::Started(process), start.elapsed()))
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn start_service(
    service: &Service,
    spec: &RunSpec<'_>,
    folder: &Folder,
    client: &MetricClient,
    is_over: &AtomicBool,
) -> Result<Process, Failure> {
    if let Some(ready) = &service.ready {
        refuse_if_taken(&service.name, ready, client)?;
    }
    let launch = Launch {
        name: &service.name,
        program: service.command.clone(),
        ..Launch::default()
    };
    let log = folder.log_path(&format!("{} {}", spec.label, service.name));
    let mut process = Process::start(&launch, &log)
        .map_err(|error| Failure::Broken(not_started(&error, ProblemKind::HelperFailed)))?;
    if let Some(ready) = &service.ready {
        wait(&mut process, ready, service.ready_timeout, client, is_over)
            .map_err(|error| unready(error, &process, ProblemKind::HelperFailed))?;
    }
    Ok(process)
}

fn refuse_if_taken(name: &str, ready: &Ready, client: &MetricClient) -> Result<(), Failure> {
    if !is_taken(ready, client) {
        return Ok(());
    }
    Err(Failure::Broken(Problem {
        kind: ProblemKind::HelperFailed,
        text: format!(
            "address in use: another process answers at the address of {name} ({})",
            shown(ready)
        ),
        help: "stop that process: the lab would load one process and measure the other".to_owned(),
    }))
}

fn shown(ready: &Ready) -> String {
    match ready {
        Ready::Http(url) => url.clone(),
        Ready::Tcp(address) => format!("tcp://{address}"),
        Ready::Log(pattern) => format!("log:{pattern}"),
        Ready::After(time) => format!("after:{}", humantime::format_duration(*time)),
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn wait(
    process: &mut Process,
    ready: &Ready,
    patience: Duration,
    client: &MetricClient,
    is_over: &AtomicBool,
) -> Result<(), NotReady> {
    wait_until_ready(process, ready, patience, client, &|| {
        is_over.load(Ordering::Relaxed)
    })
}

/// The target's program with the variant's changes.
pub(super) fn program(target: &Program, variant: &Variant) -> Program {
    let mut program = target.clone();
    if let Some(cmd) = &variant.cmd {
        program.cmd.clone_from(cmd);
    }
    program.env.extend(variant.env.clone());
    program
}

fn not_started(error: &dyn std::fmt::Display, kind: ProblemKind) -> Problem {
    Problem {
        kind,
        text: error.to_string(),
        help: "check that it is installed, in PATH or given by its path, and executable".to_owned(),
    }
}

/// The problem of a running target that was there when the command began.
fn lost(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(ProblemKind::TargetFailed, error.to_string(), "")
}

fn unready(error: NotReady, process: &Process, kind: ProblemKind) -> Failure {
    if matches!(error, NotReady::Interrupted) {
        return Failure::Interrupted;
    }
    Failure::Broken(Problem {
        kind,
        text: error.to_string(),
        help: said_last(process),
    })
}

fn ended(process: &Process, status: &str, kind: ProblemKind) -> Problem {
    Problem {
        kind,
        text: format!("{} ended during the run: {status}", process.name()),
        help: format!("run a daemon in the foreground; {}", said_last(process)),
    }
}

/// The problem of a target that ended by the lab's own signal.
fn unhandled(process: &Process, signal: Signal) -> Problem {
    Problem {
        kind: ProblemKind::TargetFailed,
        text: format!(
            "the target ended by signal {} of `target.collect`: add a handler",
            signal.as_raw()
        ),
        help: format!(
            "a handler collects garbage, see docs/lab/first-soak.md; {}",
            said_last(process)
        ),
    }
}

fn said_last(process: &Process) -> String {
    let words = process.last_words();
    let log = process.log().display();
    if words.is_empty() {
        format!("no output ({log})")
    } else {
        format!("last output ({log}):\n{words}")
    }
}
