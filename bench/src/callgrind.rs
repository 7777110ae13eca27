//! Instructions in user mode, counted by valgrind's callgrind: hardly touched by what else runs.
//!
//! A program is counted over its whole life, in two runs of different length whose difference is
//! without its start and end (`marginal`). Callgrind runs one thread at a time, so that a count for
//! threads that wait for each other is without their waiting.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Options for a program whose count is read from `log` when it has ended.
pub fn options(log: &Path) -> [OsString; 3] {
    let mut log_option = OsString::from("--log-file=");
    log_option.push(log);
    [
        "--tool=callgrind".into(),
        "--callgrind-out-file=/dev/null".into(),
        log_option,
    ]
}

/// The count of a program that has ended.
///
/// # Errors
/// When `log` has none.
pub fn collected(log: &Path) -> Result<u64> {
    let text = fs::read_to_string(log).context("callgrind left no log")?;
    parse_collected(&text).context("callgrind counted nothing")
}

/// The slope between two points of (counted, operations). Counts of short runs scatter: it is
/// never below zero.
///
/// # Errors
/// When the second run did not do more operations.
pub fn marginal([few, many]: [(u64, u64); 2]) -> Result<f64> {
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
