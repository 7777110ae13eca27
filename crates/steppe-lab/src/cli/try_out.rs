//! `steppe-lab try`: a first look at any program that listens, without a scenario.
//!
//! The program is started once to find the port that it listens on and the status of its response, then soaked for
//! the length of `--for`. The resulting scenario is an ordinary one, and `--save` writes it to a file. Left out:
//! programs that listen on another port every time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::runs::{self, Output, Task};
use super::{USAGE_EXIT, complain, failed, say};
use crate::limits::{TRY_ANSWER, TRY_PATIENCE, TRY_POLL};
use crate::observe::{Observer, Wanted};
use crate::record::RunKind;
use crate::scenario::{Program, Scenario};
use crate::target::{Launch, MetricClient, Process};

#[derive(Debug, Args)]
pub(super) struct TryArguments {
    /// Duration of the load
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "1m",
        value_parser = length
    )]
    length: Duration,
    /// Requests per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Path to request
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path)]
    path: String,
    /// Write the scenario to a file, to change it and run it with `steppe-lab soak`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

/// The port that the program listens on, and the status of its response.
struct Found {
    port: u16,
    status: u16,
}

pub(super) fn run(arguments: &TryArguments) -> u8 {
    let found = match find(&arguments.command, &arguments.path) {
        Ok(found) => found,
        Err(text) => {
            complain(&text);
            return USAGE_EXIT;
        }
    };
    say(&format!(
        "listening on port {}; GET {} returned {}",
        found.port, arguments.path, found.status
    ));
    let text = scenario(arguments, &found);
    if let Some(file) = &arguments.save {
        if let Err(error) = fs::write(file, &text) {
            complain(&format!("can't write {}: {error}", file.display()));
            return USAGE_EXIT;
        }
        say(&format!(
            "scenario: {0}; run it again with `steppe-lab soak {0}`",
            file.display()
        ));
    }
    let path = Path::new("try.toml");
    let scenario = match Scenario::parse(path, &text) {
        Ok(scenario) => scenario,
        Err(error) => return failed(&error),
    };
    runs::judge(Task {
        kind: RunKind::Soak,
        scenario,
        text: &text,
        path,
        output: &arguments.output,
    })
}

/// Starts the program, waits until it answers, and ends it.
fn find(command: &[String], path: &str) -> Result<Found, String> {
    let log = std::env::temp_dir().join(format!("steppe-lab-try-{}.log", std::process::id()));
    let found = find_with(command, path, &log);
    _ = fs::remove_file(&log);
    found
}

fn find_with(command: &[String], path: &str, log: &Path) -> Result<Found, String> {
    let launch = Launch {
        name: "target",
        program: Program {
            cmd: command.to_vec(),
            ..Program::default()
        },
        ..Launch::default()
    };
    let mut process = Process::start(&launch, log).map_err(|error| error.to_string())?;
    let client = MetricClient::new().map_err(|error| error.to_string())?;
    let answered = wait_for_answer(&mut process, &client, path);
    _ = process.stop(TRY_PATIENCE, &|| false);
    answered
}

fn wait_for_answer(
    process: &mut Process,
    client: &MetricClient,
    path: &str,
) -> Result<Found, String> {
    let mut observer = Observer::attach(&[process.id()], Wanted::default()).ok();
    let deadline = Instant::now() + TRY_PATIENCE;
    let mut ports = Vec::new();
    while Instant::now() < deadline {
        if let Some(status) = process.ended() {
            let words = process.last_words();
            return Err(format!("{} ended ({status}): {words}", process.name()));
        }
        ports = observer
            .as_mut()
            .map(Observer::listening_ports)
            .unwrap_or_default();
        for &port in &ports {
            let url = format!("http://127.0.0.1:{port}{path}");
            if let Ok((status, _)) = client.get(&url, TRY_ANSWER) {
                return Ok(Found { port, status });
            }
        }
        std::thread::sleep(TRY_POLL);
    }
    let words = process.last_words();
    let waited = humantime::format_duration(TRY_PATIENCE);
    Err(match ports.as_slice() {
        [] => format!("no listening TCP port found after {waited}; last output: {words}"),
        ports => format!(
            "no HTTP response from 127.0.0.1 at port {ports:?} after {waited}: a server of another \
             protocol needs a scenario, see docs/lab/scenarios.md"
        ),
    })
}

fn scenario(arguments: &TryArguments, found: &Found) -> String {
    let command: Vec<String> = arguments.command.iter().map(|word| quoted(word)).collect();
    let (port, rate) = (found.port, arguments.rate);
    let url = quoted(&format!("http://127.0.0.1:{port}{}", arguments.path));
    let name = Path::new(&arguments.command[0])
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // Epochs of a second each, of which the quiet moment takes about a sixth.
    let count = arguments.length.as_secs().max(1);
    // A status outside of 2xx and 3xx is then the expected one: `try` asks for no success.
    let expected = if (200..400).contains(&found.status) {
        String::new()
    } else {
        format!("expect_status = \"{}\"\n", found.status)
    };
    format!(
        "name = {}\n\n\
         [target]\ncmd = [{}]\nready = \"tcp://127.0.0.1:{port}\"\n\n\
         [[load]]\nkind = \"http\"\nurl = {url}\nconnections = 16\nrate_per_s = {rate}\n{expected}\n\
         [epochs]\nlength = \"1s\"\nquiesce = \"150ms\"\ncount = {count}\n",
        quoted(&name),
        command.join(", "),
    )
}

/// A text as a string of TOML, which has the escapes of JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Parses the length of a load, at least 20 s: a shorter run can't be judged.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if length < Duration::from_secs(20) {
        return Err("at least 20s".to_owned());
    }
    Ok(length)
}

fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("it begins with /".to_owned())
    }
}
