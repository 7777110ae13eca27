//! Instructions and system calls an operation: two runs of different length, and the difference.
//!
//! The costs of starting and ending are in both runs and fall out.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::case::Case;
use super::peer::Contestant;
use super::run::{self, Figures, Launcher};
use crate::callgrind::{self, marginal};
use crate::{machine, syscalls};

/// Instructions an operation, in user mode, by callgrind.
pub async fn instructions(launcher: &Launcher, contestant: &Contestant, case: Case) -> Result<f64> {
    let valgrind = machine::program("valgrind")?;
    let log = launcher.run_dir.join("callgrind.log");
    let options = callgrind::options(&log);
    let options = options.each_ref().map(OsString::as_os_str);
    let (few, many) = case.counted_units();
    let mut points = [(0, 0); 2];
    for (point, units) in points.iter_mut().zip([few, many]) {
        let mut command = launcher.within(&valgrind, &options, case, units);
        command.envs(contestant.environment());
        let operations = operations(&mut command).await?;
        *point = (callgrind::collected(&log)?, operations);
    }
    marginal(points)
}

/// System calls an operation, of all threads, by strace.
pub async fn syscalls(
    launcher: &Launcher,
    contestant: &Contestant,
    case: Case,
    scale: f64,
) -> Result<f64> {
    let strace = machine::program("strace")?;
    let counts = launcher.run_dir.join("strace.txt");
    // strace itself is not preloaded.
    let variables: Vec<String> = contestant
        .environment()
        .iter()
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    let mut options: Vec<&OsStr> = ["-f", "-q", "-c", "-U", "calls,name", "-o"]
        .map(OsStr::new)
        .into();
    options.push(counts.as_os_str());
    for variable in &variables {
        options.extend([OsStr::new("-E"), OsStr::new(variable)]);
    }
    let few = case.units(scale / 4.0);
    let many = case.units(scale).max(few * 3);
    let mut points = [(0, 0); 2];
    for (point, units) in points.iter_mut().zip([few, many]) {
        let mut command = launcher.within(&strace, &options, case, units);
        let operations = operations(&mut command).await?;
        let text = fs::read_to_string(&counts).context("strace left no counts")?;
        *point = (syscalls::parse(&text)?.values().sum(), operations);
    }
    marginal(points)
}

async fn operations(command: &mut Command) -> Result<u64> {
    let said = run::output(command, TRACE_TIMEOUT).await?;
    Ok(Figures::parse(&said)?.all_operations())
}

const TRACE_TIMEOUT: Duration = Duration::from_secs(600);
