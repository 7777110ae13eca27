//! The command line.
//!
//! Invariant: the exit code is that of the verdict, the same for every command that judges. A wrong call or
//! a wrong file exits with 2, and every mistake in it is named. Left out: judging, which is the library's.

mod runs;
mod soak;
mod try_out;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::limits::WATCH_INTERVAL_MIN;
use crate::record::{Folder, RunKind};
use crate::report::{self, ReportError, escape};
use crate::run::missing;
use crate::scenario::Scenario;
use crate::{doctor, watch};

use runs::RunArguments;
use soak::SoakArguments;
use try_out::TryArguments;

/// Soaks any server and reports whether its memory stays flat.
#[derive(Debug, Parser)]
#[command(name = "steppe-lab", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Report which measurements this machine allows, and the cost of each missing one
    #[command(
        after_help = "Examples:\n  steppe-lab doctor\n  steppe-lab doctor --json | jq '.capabilities[] | select(.available | not)'"
    )]
    Doctor {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Report every error in a scenario file, without running anything
    Check {
        /// The scenario
        file: PathBuf,
    },
    /// Start a program, find its port, drive it for a minute and report a verdict
    #[command(
        after_help = "Examples:\n  steppe-lab try -- node app.js\n  steppe-lab try --for 5m --path /api/health --save soak.toml -- ./server --port 8080"
    )]
    Try(TryArguments),
    /// Drive a server for many epochs, or observe a running one, and judge its growth
    #[command(
        after_help = "Examples:\n  steppe-lab soak scenarios/nginx.toml\n  steppe-lab soak soak.toml -o runs/tuesday && echo flat\n  steppe-lab soak soak.toml --until decided    # goes on until every series is decided\n  steppe-lab soak --pid $(pidof -s nginx) --for 1h\n  steppe-lab soak --pid 4711 --url http://127.0.0.1:8080/ --rate 300 --budget 100\n  steppe-lab soak --pid 4711 --metrics http://127.0.0.1:9100/metrics\n  steppe-lab soak --cgroup /system.slice/nginx.service --for 1h"
    )]
    Soak(SoakArguments),
    /// Run the load to its end repeatedly, and judge memory growth from cycle to cycle
    #[command(after_help = "Example:\n  steppe-lab cycle examples/cycles.toml")]
    Cycle(RunArguments),
    /// Compare two variants, pair by pair, against a limit
    #[command(
        after_help = "Example:\n  steppe-lab ab before-after.toml   # exit 0: GO, 1: NO-GO, 3: INCONCLUSIVE"
    )]
    Ab(RunArguments),
    /// Compare the first variant with itself: measures noise and the smallest difference seen here
    #[command(after_help = "Example:\n  steppe-lab calibrate before-after.toml")]
    Calibrate(RunArguments),
    /// Run the target under a leak checker, stop it cleanly, and report lost memory
    #[command(after_help = "Example:\n  steppe-lab leaks scenarios/gateway-leaks.toml")]
    Leaks(RunArguments),
    /// Show the report of a run
    #[command(
        after_help = "Examples:\n  steppe-lab report lab-runs/soak-20260101-120000\n  steppe-lab report runs/tuesday --html      # rewrites report.html and prints its path\n  steppe-lab report runs/tuesday --format junit > junit.xml"
    )]
    Report {
        /// The folder of a run
        folder: PathBuf,
        /// Write report.html (and the other reports) again, and print where it is
        #[arg(long, conflicts_with = "format")]
        html: bool,
        /// Format to print
        #[arg(long, value_enum, default_value_t = Format::Markdown)]
        format: Format,
    },
    /// Explain one finding: the rule, the points, the interval and the next step
    #[command(after_help = "Example:\n  steppe-lab explain runs/tuesday rss_growth")]
    Explain {
        /// The folder of a run
        folder: PathBuf,
        /// A metric of its verdict, such as rss_growth or p99
        metric: String,
    },
    /// Show memory, CPU, files and sockets of a running process, live
    #[command(
        after_help = "Examples:\n  steppe-lab watch -p $(pidof -s nginx)\n  steppe-lab watch -p 4711 --for 1min --json > looks.jsonl"
    )]
    Watch {
        /// Process to watch, with all of its descendants
        #[arg(short, long)]
        pid: u32,
        /// Duration [default: until the process ends or Ctrl-C]
        #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
        length: Option<Duration>,
        /// Interval between two looks
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
        interval: Duration,
        /// Print one line of JSON per look
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script
    #[command(
        after_help = "Example:\n  steppe-lab completions bash > ~/.local/share/bash-completion/completions/steppe-lab"
    )]
    Completions {
        /// Shell to complete commands for
        shell: Shell,
    },
}

/// The format in which a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The full report
    Markdown,
    /// A few lines of Markdown, for the summary of a GitHub job
    Summary,
    /// JUnit XML, for a CI system
    Junit,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if interval < WATCH_INTERVAL_MIN {
        return Err(format!(
            "at least {}",
            humantime::format_duration(WATCH_INTERVAL_MIN)
        ));
    }
    Ok(interval)
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let code = match Arguments::parse().command {
        Command::Doctor { json } => doctor(json),
        Command::Check { file } => check(&file),
        Command::Try(arguments) => try_out::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Cycle(arguments) => runs::run(RunKind::Cycle, &arguments),
        Command::Ab(arguments) => runs::run(RunKind::Ab, &arguments),
        Command::Calibrate(arguments) => runs::run(RunKind::Calibrate, &arguments),
        Command::Leaks(arguments) => runs::run(RunKind::Leaks, &arguments),
        Command::Report {
            folder,
            html,
            format,
        } => show(&folder, html, format),
        Command::Explain { folder, metric } => explain(&folder, &metric),
        Command::Watch {
            pid,
            length,
            interval,
            json,
        } => {
            let options = watch::WatchOptions {
                pid,
                length,
                interval,
                json,
            };
            watch::run(options).unwrap_or_else(|error| {
                failed(&error);
                error.exit_code()
            })
        }
        Command::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "steppe-lab", &mut io::stdout());
            0
        }
    };
    ExitCode::from(code)
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn doctor(json: bool) -> u8 {
    let format = if json {
        doctor::Format::Json
    } else {
        doctor::Format::Table
    };
    let (machine, capabilities) = (doctor::machine(), doctor::examine());
    match doctor::print(&machine, &capabilities, format, &mut io::stdout()) {
        Ok(()) => 0,
        Err(error) => failed(&error),
    }
}

fn check(file: &Path) -> u8 {
    match runs::read(file) {
        Ok((scenario, _)) => {
            let missing = missing(&scenario);
            for each in &missing {
                complain(&format!("{}: {each}", file.display()));
            }
            if !missing.is_empty() {
                return USAGE_EXIT;
            }
            say(&format!("ok: {}", summary(&scenario)));
            0
        }
        Err(code) => code,
    }
}

fn summary(scenario: &Scenario) -> String {
    let is_started = scenario.target.command().is_some();
    let plans = [
        (scenario.soak.is_some(), "soak"),
        (scenario.cycle.is_some(), "cycle"),
        (scenario.ab.is_some(), "ab"),
        (is_started, "calibrate"),
        (is_started, "leaks"),
    ];
    let plans = plans
        .iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, name)| *name)
        .collect::<Vec<_>>();
    let plans = match plans.as_slice() {
        [] => "nothing, until it has [epochs]".to_owned(),
        plans => plans.join(", "),
    };
    format!(
        "{}: {} load(s), {} variant(s); for {plans}",
        scenario.name,
        scenario.loads.len(),
        scenario.variants.len()
    )
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn show(folder: &Path, html: bool, format: Format) -> u8 {
    if html {
        return match report::write_all(folder) {
            Ok(written) => {
                say(&written.html.display().to_string());
                0
            }
            Err(error) => failed(&error),
        };
    }
    match render(folder, format) {
        Ok(text) => {
            print(text.trim_end());
            0
        }
        Err(error) => failed(&error),
    }
}

fn render(folder: &Path, format: Format) -> Result<String, ReportError> {
    let run = Folder::load(folder)?;
    match format {
        Format::Markdown => report::markdown(&run),
        Format::Summary => report::summary(&run),
        Format::Junit => report::junit(&run),
    }
}

fn explain(folder: &Path, metric: &str) -> u8 {
    let run = match Folder::load(folder) {
        Ok(run) => run,
        Err(error) => return failed(&error),
    };
    match report::explain(&run, metric) {
        Ok(text) => {
            print(text.trim_end());
            0
        }
        Err(error) => failed(&error),
    }
}

/// Prints a line, with the control characters of foreign names escaped.
fn say(text: &str) {
    print(&escape::terminal(text));
}

/// Prints a report, which is escaped already. A closed pipe is ignored, where `println!` would panic.
fn print(text: &str) {
    _ = writeln!(io::stdout(), "{text}");
}

/// Prints an error message to stderr.
fn complain(text: &str) {
    _ = writeln!(io::stderr(), "{}", complaint(text));
}

/// The text of an error message, escaped. Line breaks are kept, since a target's last output may have some.
fn complaint(text: &str) -> String {
    format!("error: {}", escape::terminal_lines(text))
}

/// Prints an error with its causes. Returns the exit code of a wrong call.
fn failed(error: &dyn std::error::Error) -> u8 {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some errors have the text of their cause in their own.
        if text.contains(&cause.to_string()) {
            break;
        }
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    complain(&text);
    USAGE_EXIT
}

fn is_colored(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Exit code for wrong arguments, a wrong scenario, or a folder that can't be used.
const USAGE_EXIT: u8 = 2;

const AFTER_HELP: &str = "\
Exit codes:
  0    GO or STABLE
  1    NO-GO, UNBOUNDED or a leak
  2    wrong arguments or a wrong scenario
  3    INCONCLUSIVE or GROWING
  4    the target failed
  5    the measurement is invalid
  130  ended by Ctrl-C; the report covers the time until then

Examples:
  steppe-lab doctor
  steppe-lab soak scenarios/nginx.toml
  steppe-lab report lab-runs/nginx-20260101-120000 --html";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_error_is_no_command_of_a_terminal() {
        let said = complaint("a\u{1b}[2J.toml ended:\nits \u{9b}2J words");
        assert_eq!(said, "error: a\\u{1b}[2J.toml ended:\nits \\u{9b}2J words");
    }

    #[test]
    fn only_what_is_for_running_targets_stands_under_their_heading() {
        let mut command = Arguments::command();
        let soak = command.find_subcommand_mut("soak").expect("soak");
        let help = soak.clone().after_help("").render_help().to_string();
        let (all, alone) = help.split_once("without a scenario:").expect("a heading");
        let has = |text: &str, option: &str| {
            let is_it = |line: &str| line.split_whitespace().any(|word| word == option);
            text.lines().any(is_it)
        };
        for option in ["--seed", "--until", "--output", "--quiet", "--pid"] {
            assert!(
                has(all, option) && !has(alone, option),
                "{option} in {help}"
            );
        }
        for option in [
            "--for",
            "--url",
            "--metrics",
            "--rate",
            "--budget",
            "--save",
        ] {
            assert!(has(alone, option), "{option} in {help}");
        }
    }

    #[test]
    fn a_summary_names_what_a_scenario_can_be_run_with() {
        let of =
            |text: &str| summary(&Scenario::parse(Path::new("it.toml"), text).expect("a scenario"));
        let running = "[target]\npid = 1\n";
        let epochs = "[epochs]\ncount = 40\n";
        let started = "[target]\ncmd = [\"x\"]\nready = \"after:1s\"\n[[load]]\nkind = \"http\"\n\
            url = \"http://h/\"\n";
        for (text, plans) in [
            (running.to_owned(), "for nothing, until it has [epochs]"),
            (format!("{running}{epochs}"), "for soak"),
            (format!("{started}{epochs}"), "for soak, calibrate, leaks"),
        ] {
            let said = of(&text);
            assert!(said.ends_with(&format!("; {plans}")), "{said}");
        }
    }
}
