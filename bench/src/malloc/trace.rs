//! Instructions and system calls an operation: two runs of different length, and the difference.
//!
//! What starting and ending cost is in both runs and falls out. Callgrind runs one thread at a
//! time, so that its figure for threads that wait for each other is without their waiting.

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::case::Case;
use super::peer::Contestant;
use super::run::{self, Figures, Launcher};
use crate::{machine, syscalls};

/// Instructions an operation, in user mode, by callgrind.
pub async fn instructions(launcher: &Launcher, contestant: &Contestant, case: Case) -> Result<f64> {
    let valgrind = machine::program("valgrind")?;
    let log = launcher.run_dir.join("callgrind.log");
    let log_option = format!("--log-file={}", log.display());
    let options = [
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        &log_option,
    ];
    let (few, many) = case.counted_units();
    let mut points = [(0, 0); 2];
    for (point, units) in points.iter_mut().zip([few, many]) {
        let mut command = launcher.within(&valgrind, &options.map(OsStr::new), case, units);
        command.envs(contestant.environment());
        let operations = operations(&mut command).await?;
        let text = fs::read_to_string(&log).context("callgrind left no log")?;
        let collected = parse_collected(&text).context("callgrind counted nothing")?;
        *point = (collected, operations);
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

/// The slope between two points of (counted, operations). Counts of short runs scatter: it is
/// never below zero.
fn marginal([few, many]: [(u64, u64); 2]) -> Result<f64> {
    ensure!(many.1 > few.1, "both runs did {} operations", few.1);
    let counted = many.0.saturating_sub(few.0);
    Ok(counted as f64 / (many.1 - few.1) as f64)
}

/// `==1== Collected : 123`, the last line of callgrind's log with a count.
fn parse_collected(log: &str) -> Option<u64> {
    let line = log.lines().rfind(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_runs_have_falls_out() {
        let slope = marginal([(1_000 + 50 * 10, 10), (1_000 + 50 * 30, 30)]);
        assert_eq!(slope.expect("two lengths"), 50.0);
        assert_eq!(marginal([(9, 10), (7, 30)]).expect("two lengths"), 0.0);
        assert!(marginal([(9, 10), (9, 10)]).is_err());
    }

    #[test]
    fn the_count_is_read_from_the_log() {
        let log = "==7== Events    : Ir\n==7== Collected : 20987450\n==7== \n";
        assert_eq!(parse_collected(log), Some(20_987_450));
        assert_eq!(parse_collected("==7== killed\n"), None);
    }
}
