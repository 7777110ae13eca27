//! `steppe-lab soak`: a scenario, or a target that runs already and needs none.
//!
//! For a target that runs already, a scenario is written from the arguments of the command line and from
//! defaults. It is an ordinary scenario: it is kept in the run's folder, and `--save` writes it to a file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::runs::{self, Output, Task};
use super::try_out::{length, quoted};
use super::{USAGE_EXIT, complain, failed, say};
use crate::limits::{EPOCH_LENGTH_MAX, EPOCH_LENGTH_MIN, EPOCHS_WANTED, PID_MAX};
use crate::record::RunKind;
use crate::scenario::{ProfileSource, Running, Scenario, TargetProcess, Until};
use crate::target::RunningTarget;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").required(true).multiple(true).args(["file", "pid", "cgroup"]))]
pub(super) struct SoakArguments {
    /// The scenario; optional with --pid or --cgroup
    file: Option<PathBuf>,
    /// Judge a running process and its descendants; the lab leaves it running
    #[arg(long, conflicts_with = "cgroup", value_parser = clap::value_parser!(u32).range(1..=i64::from(PID_MAX)))]
    pid: Option<u32>,
    /// Judge all processes of a control group: its folder, or its name in /proc/PID/cgroup
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    #[command(flatten)]
    plan: RunningPlan,
    /// Seed for the order of runs and for the loads [default: the scenario's]
    #[arg(long)]
    seed: Option<u64>,
    /// End after the planned epochs (planned), or at the first of five looks that decides every series
    /// (decided) [default: the scenario's, else planned]
    #[arg(long, value_name = "WHEN", value_parser = until)]
    until: Option<Until>,
    #[command(flatten)]
    output: Output,
}

/// Settings of a run without a scenario: length, load, metrics and budget.
#[derive(Debug, Args)]
struct RunningPlan {
    /// Duration of the load
    #[arg(
        help_heading = ALONE,
        long = "for",
        value_name = "TIME",
        default_value = "10m",
        value_parser = length,
        conflicts_with = "file"
    )]
    length: Duration,
    /// Drive it with GET requests for this URL; without it, the lab generates no load
    #[arg(long, help_heading = ALONE, value_name = "URL", conflicts_with = "file")]
    url: Option<String>,
    /// Judge the gauges of this metrics endpoint too (Prometheus text format)
    #[arg(long, help_heading = ALONE, value_name = "URL", conflicts_with = "file")]
    metrics: Option<String>,
    /// Requests per second
    #[arg(
        help_heading = ALONE,
        long,
        default_value_t = 200,
        requires = "url",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    rate: u32,
    /// MiB that memory at rest may grow a day [default: 512]
    #[arg(long, help_heading = ALONE, value_name = "MIB", value_parser = budget, conflicts_with = "file")]
    budget: Option<f64>,
    /// Write the scenario to a file, to change it and run it with `steppe-lab soak`
    #[arg(long, help_heading = ALONE, value_name = "FILE", conflicts_with = "file")]
    save: Option<PathBuf>,
}

/// Heading of these options in the help. A heading on the struct would apply to the options after it, too.
const ALONE: &str = "Options of --pid and --cgroup without a scenario";

pub(super) fn run(arguments: &SoakArguments) -> u8 {
    let pid = arguments.pid.map(Running::Pid);
    let running = pid.or_else(|| arguments.cgroup.clone().map(Running::Cgroup));
    let (mut scenario, text, path) = match (&arguments.file, &running) {
        (Some(file), _) => match runs::read(file) {
            Ok((scenario, text)) => (scenario, text, file.clone()),
            Err(code) => return code,
        },
        (None, Some(running)) => match written(running, &arguments.plan) {
            Ok((scenario, text)) => (scenario, text, PathBuf::from("running.toml")),
            Err(code) => return code,
        },
        (None, None) => {
            complain("name a scenario, or a running target by --pid or --cgroup");
            return USAGE_EXIT;
        }
    };
    if let Some(running) = running {
        if let Some(why) = needs_fresh_process(&scenario).filter(|_| arguments.file.is_some()) {
            complain(&format!(
                "{}: {why}, and {running} runs already",
                path.display()
            ));
            return USAGE_EXIT;
        }
        scenario.target.process = TargetProcess::Running(running);
    }
    // Look for the target before anything is written: a wrong name is a wrong call.
    if let Some(running) = scenario.target.running() {
        match RunningTarget::find(running) {
            Ok(found) => say(&format!("target: {}; it is left running", found.name())),
            Err(error) => return failed(&error),
        }
    }
    if let (Some(plan), Some(until)) = (&mut scenario.soak, arguments.until) {
        plan.until = until;
        if let Err(message) = plan.check_length() {
            complain(&message);
            return USAGE_EXIT;
        }
    }
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);
    runs::judge(Task {
        kind: RunKind::Soak,
        scenario,
        text: &text,
        path: &path,
        output: &arguments.output,
    })
}

fn until(text: &str) -> Result<Until, String> {
    let found = Until::NAMES.iter().find(|(name, _)| *name == text);
    let names = Until::NAMES.map(|(name, _)| name).join(" or ");
    found
        .map(|(_, until)| *until)
        .ok_or_else(|| format!("expected {names}"))
}

/// The part of a scenario that needs a fresh process, as a reason to refuse a target that runs already.
fn needs_fresh_process(scenario: &Scenario) -> Option<&'static str> {
    let runs = scenario.soak.as_ref().map_or(1, |soak| soak.runs);
    let starts_services = !scenario.services.is_empty();
    let profile = scenario.target.profile.as_ref();
    let is_prepared = matches!(profile, Some(ProfileSource::Node | ProfileSource::Python));
    match scenario.variants.len() {
        _ if runs > 1 => Some("`epochs.runs` asks for fresh processes"),
        _ if starts_services => Some("`service` is for a target that the lab starts"),
        _ if is_prepared => {
            Some("`target.profile` of Node.js or Python is for a target that the lab starts")
        }
        1 => None,
        _ => Some("each `variant` is a fresh process"),
    }
}

/// The scenario of the command line, with its text; `--save` writes it to a file.
fn written(running: &Running, plan: &RunningPlan) -> Result<(Scenario, String), u8> {
    let text = scenario(running, plan);
    if let Some(file) = &plan.save {
        if let Err(error) = fs::write(file, &text) {
            complain(&format!("can't write {}: {error}", file.display()));
            return Err(USAGE_EXIT);
        }
        say(&format!("scenario: {}", file.display()));
    }
    let scenario =
        Scenario::parse(Path::new("running.toml"), &text).map_err(|error| failed(&error))?;
    Ok((scenario, text))
}

fn scenario(running: &Running, plan: &RunningPlan) -> String {
    let (name, target) = match running {
        Running::Pid(pid) => (format!("pid-{pid}"), format!("pid = {pid}")),
        Running::Cgroup(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            let path = quoted(&path.to_string_lossy());
            (
                name.to_string_lossy().into_owned(),
                format!("cgroup = {path}"),
            )
        }
    };
    let epoch = (plan.length / EPOCHS_WANTED).clamp(EPOCH_LENGTH_MIN, EPOCH_LENGTH_MAX);
    let epoch = Duration::from_secs(epoch.as_secs());
    let count = plan.length.as_secs() / epoch.as_secs();
    let mut text = format!("name = {}\n\n[target]\n{target}\n", quoted(&name));
    if let Some(url) = &plan.metrics {
        _ = writeln!(text, "metrics = {}", quoted(url));
    }
    if let Some(url) = &plan.url {
        let (url, rate) = (quoted(url), plan.rate);
        _ = write!(
            text,
            "\n[[load]]\nkind = \"http\"\nurl = {url}\nconnections = 16\nrate_per_s = {rate}\n"
        );
    }
    let length = humantime::format_duration(epoch);
    _ = write!(
        text,
        "\n[epochs]\nlength = \"{length}\"\nquiesce = \"150ms\"\ncount = {count}\n"
    );
    if let Some(mib) = plan.budget {
        _ = write!(text, "\n[budget]\nrss_growth_mib_per_day = {mib:?}\n");
    }
    text
}

fn budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(mib) if mib.is_finite() && mib >= 0.0 => Ok(mib),
        _ => Err("a number of MiB a day, 0 or more".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_that_need_a_start_are_refused_for_running_targets() {
        let why = |runtime: &str| {
            let text = format!(
                "name = \"x\"\n[target]\ncmd = [\"x\"]\nready = \"after:1s\"\nprofile = {{ runtime = \"{runtime}\" }}\n\
                 [[load]]\nkind = \"command\"\ncmd = [\"y\"]\n"
            );
            let scenario = Scenario::parse(Path::new("x.toml"), &text).unwrap();
            needs_fresh_process(&scenario)
        };
        assert!(why("node").is_some() && why("python").is_some());
        assert_eq!(why("java"), None);
    }
}
