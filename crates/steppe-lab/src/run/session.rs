//! Soak, cycle, A/B and calibration: runs one after the other, each in fresh processes.

mod capabilities;
mod judging;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::collect::collect;
use super::data_quality::DataQuality;
use super::environment::{Environment, Failure, RunSpec, program};
use super::growth_places::GrowthPlaces;
use super::growth_profiles::{GrowthProfiles, Moment};
use super::looking::{Due, Looking};
use super::metrics::MetricReader;
use super::plan::{Plan, Step};
use super::point::{self, Snapshots};
use super::profiler::Profiler;
use super::sampler::{Sampler, Subject};
use super::{RunError, RunRequest, SoFar, manifest};
use crate::judge::{self, RunLatency};
use crate::limits::RESTLESS_EPOCHS_MAX;
use crate::load::{Burst, Driver, Interval, LoadFailure};
use crate::record::{
    Epoch, Folder, FolderError, Manifest, Problem, ProblemKind, RunEntry, Verdict,
};
use crate::scenario::Load;
use crate::target::MetricClient;

pub(super) fn run(request: RunRequest<'_>) -> Result<Verdict, RunError> {
    let plan = Plan::of(request)?;
    let mut session = Session {
        request,
        folder: Folder::create(request.folder)?,
        manifest: manifest::begin(request, plan.entries()),
        clock: Instant::now(),
        client: MetricClient::new()?,
        epochs: Vec::new(),
        latency: BTreeMap::new(),
        run_latency: BTreeMap::new(),
        problems: Vec::new(),
        quality: DataQuality::default(),
        metrics: MetricReader::default(),
        places: GrowthPlaces::default(),
        profiles: GrowthProfiles::default(),
        looking: Looking::default(),
        lost: None,
        restless: 0,
        sampler_cpu: Duration::ZERO,
        limit_bytes: None,
        done: 0,
        plan,
    };
    session.folder.write_manifest(&session.manifest)?;
    let ended = session.run_all()?;
    session.finish(ended)
}

struct Session<'a> {
    request: RunRequest<'a>,
    plan: Plan,
    folder: Folder,
    manifest: Manifest,
    clock: Instant,
    client: MetricClient,
    epochs: Vec<Epoch>,
    /// Response times after warm-up, by variant.
    latency: BTreeMap<String, Histogram<u64>>,
    /// Response times by run, by which pairs are compared.
    run_latency: RunLatency,
    problems: Vec<Problem>,
    quality: DataQuality,
    metrics: MetricReader,
    places: GrowthPlaces,
    profiles: GrowthProfiles,
    looking: Looking,
    /// The reason why no further epoch could make the run a measurement, where it goes on until it is
    /// decided.
    lost: Option<String>,
    /// Successive epochs whose operations did not end in time.
    restless: u32,
    sampler_cpu: Duration,
    limit_bytes: Option<u64>,
    /// Steps that are over.
    done: u64,
}

/// The parts that are up during a run of a variant.
struct Running {
    environment: Environment,
    driver: Driver,
    sampler: Sampler,
    profiler: Option<Profiler>,
    variant: String,
    run: u32,
}

/// The reason why a run ends before its plan.
enum Stop {
    Failed(Failure),
    Folder(FolderError),
}

impl From<FolderError> for Stop {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Failed(Failure::Broken(problem))
    }
}

impl Session<'_> {
    /// Runs the plan. True: to its end.
    fn run_all(&mut self) -> Result<bool, RunError> {
        for (variant, run) in self.plan.runs.clone() {
            let is_over = self.looking.is_over(&self.plan.variants[variant].0);
            if is_over || self.lost.is_some() {
                self.done += self.plan.steps.len() as u64;
                continue;
            }
            match self.run_one(variant, run) {
                Ok(()) => {}
                Err(Stop::Folder(error)) => return Err(RunError::Lost(error)),
                Err(Stop::Failed(failure)) => {
                    self.problems.push(match failure {
                        Failure::Broken(problem) => problem,
                        Failure::Interrupted => interrupted(),
                    });
                    return Ok(false);
                }
            }
            self.folder
                .write_manifest(&self.manifest)
                .map_err(RunError::Lost)?;
        }
        Ok(true)
    }

    fn run_one(&mut self, variant: usize, run: u32) -> Result<(), Stop> {
        let (name, index) = self.plan.variants[variant].clone();
        let label = format!("{name} {run}");
        self.progress(0.0, &format!("{label}: starting"));
        let scenario = self.request.scenario;
        let command = scenario.target.command();
        let mut program = command.map(|it| program(it, &scenario.variants[index]));
        let source = scenario.target.profile.as_ref();
        // Pairs are compared by their costs, which profiles would add to.
        let source = source.filter(|_| self.plan.ab.is_none());
        let profiler = source.and_then(|it| {
            let program = program.get_or_insert_default();
            self.profiles.prepare(&name, it, program)
        });
        let spec = RunSpec {
            scenario,
            variant: &scenario.variants[index],
            label: &label,
            program,
            with_group: true,
            patience: Duration::ZERO,
        };
        let started = self.since_start();
        let environment = Environment::up(&spec, &self.folder, &self.client, self.request.is_over);
        let environment = environment.map_err(Stop::Failed)?;
        self.manifest.runs.push(RunEntry {
            variant: name.clone(),
            run,
            start_ms: started,
            ready_ms: milliseconds(environment.ready_after),
            ended: None,
        });
        self.folder.write_manifest(&self.manifest)?;
        let mut running = self.start_load(environment, profiler, name.clone(), run)?;
        let steps = self.plan.steps.clone();
        let mut played = Ok(());
        for (epoch, step) in steps.into_iter().enumerate() {
            played = self.step(&mut running, epoch, step);
            if played.is_err() {
                break;
            }
            self.done += 1;
            if self.is_over_after(&name, epoch + 1) {
                self.done += (self.plan.steps.len() - epoch - 1) as u64;
                break;
            }
        }
        self.tear_down(running)?;
        if let Some(Due::Runs(runs)) = self.plan.due
            && (run + 1).is_multiple_of(runs)
            && played.is_ok()
        {
            self.look(&name);
        }
        played
    }

    /// Starts the sampler and the loads for an environment that is up.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn start_load(
        &mut self,
        mut environment: Environment,
        mut profiler: Option<Profiler>,
        variant: String,
        run: u32,
    ) -> Result<Running, Stop> {
        if let Some(profiler) = &mut profiler {
            let target = &environment.target;
            self.profiles.begin(&variant, profiler, target);
        }
        let subject = Subject {
            roots: environment.roots(),
            group: environment.group_path(),
            variant: variant.clone(),
            run,
            clock: self.clock,
            sampling: self.request.scenario.sampling,
        };
        let sampler = Sampler::start(subject).map_err(|error| {
            // A process that has just ended can't be looked at either.
            environment.ended_early().unwrap_or_else(|| {
                Problem::new(
                    ProblemKind::MissingCapability,
                    format!("the target can't be observed: {error}"),
                    "`steppe-lab doctor` shows which measurements this machine allows",
                )
            })
        })?;
        if self.manifest.capabilities.is_empty() {
            self.take_capabilities(&sampler)?;
        }
        let seed = self.request.scenario.seed.wrapping_add(u64::from(run));
        let log = |load: &str| self.folder.log_path(&format!("{variant} {run} {load}"));
        let driver = Driver::start(&self.request.scenario.loads, seed, self.clock, log);
        let driver = driver.map_err(|error| {
            Problem::new(
                ProblemKind::HelperFailed,
                format!("the load can't start: {error}"),
                "",
            )
        })?;
        Ok(Running {
            environment,
            driver,
            sampler,
            profiler,
            variant,
            run,
        })
    }

    fn step(&mut self, running: &mut Running, number: usize, step: Step) -> Result<(), Stop> {
        let mut epoch = Epoch {
            variant: running.variant.clone(),
            run: running.run,
            epoch: u32::try_from(number).unwrap_or(u32::MAX),
            warmup: step.warmup,
            start_ms: self.since_start(),
            ..Epoch::default()
        };
        let before = running.sampler.begin();
        let begun = Instant::now();
        if let Some(length) = step.load {
            running.driver.resume(Burst {
                length,
                epoch: epoch.epoch,
                to_end: step.to_end,
            });
            self.wait_for_load(running, length, step.to_end)?;
        }
        let is_quiet = running.driver.pause(self.pause_patience(step.quiet));
        self.restless = if is_quiet { 0 } else { self.restless + 1 };
        // Operations in flight are counted, so their time is.
        epoch.load_ms = milliseconds(begun.elapsed());
        let after = running.sampler.now();
        self.wait(running, step.quiet)?;
        epoch.collections = self.collect(running, step.quiet)?;
        let quiet = running.sampler.quiet();
        let live_bytes = self.live_bytes();
        self.read_metrics(&epoch)?;
        self.note_places(running, number);
        let loads = running.driver.take();
        let looks = Snapshots {
            before,
            after,
            quiet,
            live_bytes,
        };
        point::fill(&mut epoch, &looks, &loads);
        self.quality.note(&epoch, &loads, is_quiet);
        self.keep(epoch, &looks, &loads)?;
        self.fetch_profile(running, number);
        if let Some(failure) = running.driver.failures().into_iter().next() {
            return Err(load_failed(&failure).into());
        }
        Ok(())
    }

    /// Time that operations in flight have to end. If a target lets them hang, each epoch would wait in
    /// vain; a command load always gets the time to report what it measured.
    fn pause_patience(&self, quiet: Duration) -> Duration {
        let has_command = self.request.scenario.loads.iter().any(Load::is_command);
        if self.restless >= RESTLESS_EPOCHS_MAX && !has_command {
            quiet
        } else {
            quiet.max(PAUSE_PATIENCE)
        }
    }

    /// Reads the target's metrics, where the scenario has their URL.
    fn read_metrics(&mut self, epoch: &Epoch) -> Result<(), FolderError> {
        let Some(url) = &self.request.scenario.target.metrics else {
            return Ok(());
        };
        let epochs = self.plan.steps.len() * self.plan.runs.len();
        let at_ms = self.since_start();
        let rows = self.metrics.read(&self.client, url, epochs, (epoch, at_ms));
        self.folder.write_metrics(&rows)
    }

    /// Notes the places of memory and files, at the first epoch that counts and at the last.
    fn note_places(&mut self, running: &Running, number: usize) {
        let steps = &self.plan.steps;
        if self.plan.ab.is_some() {
            return;
        }
        // Warm-up comes first, and once.
        let begins = number == 0 || steps[number - 1].warmup;
        if begins && !steps[number].warmup {
            self.places
                .early(&running.variant, running.sampler.places());
        } else if self.may_end_after(number) {
            self.places.late(&running.variant, running.sampler.places());
        }
    }

    /// True if the process may have no step after this one.
    fn may_end_after(&self, number: usize) -> bool {
        let is_look = match self.plan.due {
            Some(Due::Steps(every)) => (number + 1).is_multiple_of(every),
            _ => false,
        };
        is_look || number + 1 == self.plan.steps.len()
    }

    /// Fetches the profile of the target's heap, after the last point that is not judged, and after the
    /// last of all or before a look: a fetch costs the target memory and time.
    fn fetch_profile(&mut self, running: &mut Running, number: usize) {
        let is_last = self.may_end_after(number);
        let Some(profiler) = &mut running.profiler else {
            return;
        };
        let steps = &self.plan.steps;
        let ends_warmup =
            steps[number].warmup && steps.get(number + 1).is_some_and(|next| !next.warmup);
        let moment = if is_last {
            Moment::Late
        } else if ends_warmup || (number == 0 && !steps[0].warmup) {
            Moment::Early
        } else {
            return;
        };
        self.profiles.fetch(
            (&running.variant, moment),
            profiler,
            &running.environment.target,
            &running.sampler.processes(),
            &self.client,
        );
    }

    /// Forces a collection where the scenario says how, and gives the target another quiet moment for the
    /// memory that it frees. Returns the number of collections.
    fn collect(&mut self, running: &mut Running, quiet: Duration) -> Result<Option<u64>, Stop> {
        let scenario = self.request.scenario;
        let Some(how) = &scenario.target.collect else {
            return Ok(None);
        };
        let done = collect(how, &running.environment.target, &self.client);
        let count = u64::from(done.is_ok());
        self.quality.note_collection(done);
        self.wait(running, quiet)?;
        Ok(Some(count))
    }

    /// Waits until the time is over, or until command loads have ended.
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn wait_for_load(
        &self,
        running: &mut Running,
        length: Duration,
        to_end: bool,
    ) -> Result<(), Stop> {
        let has_command = self.request.scenario.loads.iter().any(Load::is_command);
        if has_command && to_end {
            let timeout = self
                .request
                .scenario
                .cycle
                .as_ref()
                .map(|cycle| cycle.timeout);
            let end = Instant::now() + timeout.unwrap_or(length);
            while !running.driver.is_done() {
                self.wait(running, TICK)?;
                if Instant::now() >= end {
                    let text = "a command load did not end within `cycles.timeout`";
                    return Err(Problem::new(ProblemKind::HelperFailed, text, "").into());
                }
            }
            return Ok(());
        }
        // A program reports at its end, and may take a moment to get there. Where there is nothing else
        // to wait for, its end is the end.
        let all_commands = self.request.scenario.loads.iter().all(Load::is_command);
        let end = Instant::now() + length;
        let overtime = end + COMMAND_OVERTIME;
        while Instant::now() < end || (has_command && Instant::now() < overtime) {
            let has_ended = has_command && running.driver.has_ended();
            if has_ended && (all_commands || Instant::now() >= end) {
                break;
            }
            let left = end.saturating_duration_since(Instant::now());
            self.wait(
                running,
                if has_command || left.is_zero() {
                    TICK
                } else {
                    left
                },
            )?;
        }
        Ok(())
    }

    /// Waits, and checks that all processes are alive.
    fn wait(&self, running: &mut Running, time: Duration) -> Result<(), Stop> {
        let end = Instant::now() + time;
        loop {
            if self.request.is_over.load(Ordering::Relaxed) {
                return Err(Stop::Failed(Failure::Interrupted));
            }
            if let Some(problem) = running.environment.ended_early() {
                return Err(problem.into());
            }
            if let Some(failure) = running.driver.failures().into_iter().next() {
                return Err(load_failed(&failure).into());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.progress(0.0, &format!("{} {}", running.variant, running.run));
            std::thread::sleep(left.min(TICK));
        }
    }

    fn keep(&mut self, epoch: Epoch, looks: &Snapshots, loads: &[Interval]) -> Result<(), Stop> {
        for look in [&looks.before, &looks.after, &looks.quiet] {
            for sample in &look.samples {
                self.folder.write_sample(sample)?;
            }
        }
        let start = Duration::from_millis(epoch.start_ms);
        let length = Duration::from_millis(epoch.load_ms);
        for load in loads.iter().filter(|load| !load.response.is_empty()) {
            let run = (epoch.variant.as_str(), epoch.run);
            self.folder
                .write_histogram(run, &load.name, (start, length), &load.response)?;
        }
        if let Some(response) = point::response(loads).filter(|_| !epoch.warmup) {
            if self.plan.ab.is_some() {
                let run = (epoch.variant.clone(), epoch.run);
                self.run_latency.insert(run, response.clone());
            }
            match self.latency.get_mut(&epoch.variant) {
                // All histograms have the same bounds.
                Some(sum) => _ = sum.add(&response),
                None => _ = self.latency.insert(epoch.variant.clone(), response),
            }
        }
        self.folder.write_epoch(&epoch)?;
        self.epochs.push(epoch);
        self.tell_so_far();
        Ok(())
    }

    /// Takes the run down, and notes how the target ended.
    fn tear_down(&mut self, mut running: Running) -> Result<(), FolderError> {
        running.driver.stop();
        // Node.js does not end while a client is connected to its inspector.
        running.profiler = None;
        // Samples of a step that was cut short.
        let left = running.sampler.now();
        let written = left
            .samples
            .iter()
            .try_for_each(|sample| self.folder.write_sample(sample));
        self.sampler_cpu += running.sampler.stop();
        self.quality.hear(running.environment.target.complaints());
        let ended = running.environment.down(&|| false);
        if let Err(status) = &ended {
            let text = format!(
                "the target of {} {} did not end on SIGTERM: {status}",
                running.variant, running.run
            );
            self.problems.push(Problem::new(
                ProblemKind::Note,
                text,
                "raise `target.stop_timeout`, or fix its shutdown",
            ));
        }
        if let Some(run) = self.manifest.runs.last_mut() {
            run.ended = Some(ended.unwrap_or_else(|status| status));
        }
        written
    }

    /// Reports the epochs so far of the process that is measured now.
    fn tell_so_far(&self) {
        let Some(last) = self.epochs.last() else {
            return;
        };
        let is_its = |epoch: &Epoch| (&epoch.variant, epoch.run) == (&last.variant, last.run);
        let before = self.epochs.iter().rposition(|epoch| !is_its(epoch));
        let epochs = &self.epochs[before.map_or(0, |at| at + 1)..];
        let budget = &self.request.scenario.budget;
        self.request.progress.epoch(&SoFar {
            epochs,
            allowed_mib_per_day: judge::allowed_at_rest(budget, self.request.kind, epochs),
            errors_max: budget.errors,
        });
    }

    fn progress(&self, part: f64, what: &str) {
        let total = self.plan.steps.len() * self.plan.runs.len();
        #[expect(clippy::cast_precision_loss, reason = "thousands of steps")]
        let done = self.done as f64 + part;
        self.request.progress.at(done, total as u64, what);
    }

    fn since_start(&self) -> u64 {
        milliseconds(self.clock.elapsed())
    }
}

pub(super) fn load_failed(failure: &LoadFailure) -> Problem {
    let said = failure
        .said
        .as_ref()
        .map(|said| format!("last output:\n{said}"));
    let text = format!(
        "the load `{}` can't go on: {}",
        failure.load, failure.reason
    );
    let help = said.unwrap_or_default();
    Problem {
        kind: ProblemKind::HelperFailed,
        text,
        help,
    }
}

pub(super) fn interrupted() -> Problem {
    Problem::new(
        ProblemKind::Interrupted,
        "the run was ended from outside (Ctrl-C or a signal) before its planned end",
        "the report covers the time until then; run it again, in another folder, for a verdict",
    )
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Time between checks of all processes.
const TICK: Duration = Duration::from_millis(100);
/// Time that operations in flight have to end, where the quiet moment is shorter: a command load that has
/// to be killed takes two seconds.
const PAUSE_PATIENCE: Duration = Duration::from_secs(3);
/// Time that a command load has to end after its load.
const COMMAND_OVERTIME: Duration = Duration::from_secs(2);
