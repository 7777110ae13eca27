//! Commands that run a scenario.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use clap::Args;
use ratatui::crossterm::terminal::size;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{USAGE_EXIT, complain, failed, is_colored, print, say};
use crate::load::check;
use crate::record::{Folder, FolderError, Outcome, RunKind, Verdict};
use crate::report::{self, Colors, escape};
use crate::run::{Dashboard, Lines, Progress, RunError, RunRequest, Silent, run as run_scenario};
use crate::scenario::{Drawing, Scenario};

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The scenario
    file: PathBuf,
    /// Seed for the order of runs and for the loads [default: the scenario's]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    output: Output,
}

/// The folder of a run's results, and the choice of progress output.
#[derive(Debug, Args)]
pub(super) struct Output {
    /// Folder for the results [default: lab-runs/NAME-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

/// A run that is to be judged: its kind, its scenario, and the scenario's text and path.
pub(super) struct Task<'a> {
    pub(super) kind: RunKind,
    pub(super) scenario: Scenario,
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
    pub(super) output: &'a Output,
}

pub(super) fn run(kind: RunKind, arguments: &RunArguments) -> u8 {
    let (mut scenario, text) = match read(&arguments.file) {
        Ok(read) => read,
        Err(code) => return code,
    };
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);
    judge(Task {
        kind,
        scenario,
        text: &text,
        path: &arguments.file,
        output: &arguments.output,
    })
}

/// Runs a scenario, writes the reports, and prints the verdict. Returns the exit code.
pub(super) fn judge(task: Task<'_>) -> u8 {
    let Task {
        kind,
        scenario,
        text,
        path,
        output,
    } = task;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&is_over)) {
            return failed(&error);
        }
    }
    let folder = output
        .output
        .clone()
        .unwrap_or_else(|| default_folder(&scenario.name));
    let command: Vec<String> = std::env::args().collect();
    let progress = progress(output.quiet);
    let verdict = run_scenario(RunRequest {
        scenario: &scenario,
        path,
        text,
        kind,
        folder: &folder,
        command: &command,
        progress: progress.as_ref(),
        is_over: &is_over,
    });
    match verdict {
        Ok(verdict) => finish(&folder, &verdict),
        Err(error) => {
            let code = failed(&error);
            let help = match &error {
                RunError::Folder(FolderError::Taken(_) | FolderError::NotOurs(_)) => {
                    "name another folder with -o, or remove this one"
                }
                RunError::Folder(_) => "name a folder with -o that can be written",
                RunError::Lost(_) => "is the disk full, or the folder gone?",
                RunError::NoPlan { .. } | RunError::Started { .. } | RunError::Lab(_) => {
                    return code;
                }
            };
            _ = writeln!(io::stderr(), "help: {help}");
            if matches!(error, RunError::Lost(_)) {
                Outcome::Invalid.exit_code()
            } else {
                code
            }
        }
    }
}

/// Reads and checks a scenario. If it is wrong, prints the mistakes and returns the exit code.
pub(super) fn read(file: &Path) -> Result<(Scenario, String), u8> {
    let text = fs::read_to_string(file).map_err(|error| {
        complain(&format!("can't read {}: {error}", file.display()));
        USAGE_EXIT
    })?;
    let scenario = Scenario::parse(file, &text).map_err(|error| {
        let drawing = if is_colored(&io::stderr()) {
            Drawing::Color
        } else {
            Drawing::Plain
        };
        _ = write!(io::stderr(), "{}", error.render(drawing));
        USAGE_EXIT
    })?;
    for load in &scenario.loads {
        check(load).map_err(|error| {
            let (file, load) = (file.display(), &load.name);
            complain(&format!("{file}: load `{load}`: {error}"));
            USAGE_EXIT
        })?;
    }
    Ok((scenario, text))
}

/// Writes the reports, and prints the verdict. Returns the exit code.
fn finish(folder: &Path, verdict: &Verdict) -> u8 {
    let reports = report::write_all(folder);
    match Folder::load(folder) {
        Ok(run) => {
            let colors = if is_colored(&io::stdout()) {
                Colors::Ansi
            } else {
                Colors::Plain
            };
            let columns = size().map_or(COLUMNS, |(columns, _)| columns);
            print(report::terminal(verdict, &run.manifest, columns, colors).trim_end());
        }
        Err(error) => return failed(&error),
    }
    match reports {
        Ok(written) => {
            say(&format!("report: {}", written.html.display()));
            hand_to_github(&written.summary);
        }
        Err(error) => _ = failed(&error),
    }
    verdict.exit_code
}

/// Appends the summary to the file `GITHUB_STEP_SUMMARY`, which GitHub shows with the job.
fn hand_to_github(summary: &Path) {
    let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY") else {
        return;
    };
    let append = || -> io::Result<()> {
        let text = fs::read(summary)?;
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)?
            .write_all(&text)
    };
    if let Err(error) = append() {
        let file = escape::terminal(&file.to_string_lossy());
        _ = writeln!(
            io::stderr(),
            "warning: can't append to GITHUB_STEP_SUMMARY ({file}): {error}"
        );
    }
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn progress(is_quiet: bool) -> Box<dyn Progress> {
    if is_quiet {
        Box::new(Silent)
    } else if is_colored(&io::stderr()) {
        Box::<Dashboard>::default()
    } else {
        Box::<Lines>::default()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a folder is named after when its run began"
)]
fn default_folder(name: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let now: String = now
        .chars()
        .filter(|c| c.is_ascii_digit() || *c == 'T')
        .collect();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(plain).collect();
    Path::new("lab-runs").join(format!("{name}-{}", now.replace('T', "-")))
}

/// Columns of a terminal whose width is unknown.
const COLUMNS: u16 = 100;
