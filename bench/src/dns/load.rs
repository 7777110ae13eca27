//! dnsperf: queries of a file, at saturation or at a rate, and their outcomes.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use tokio::process::Command;

use crate::machine;

/// The pace at which dnsperf sends the queries of its file.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// Over and over, as fast as answers come, for so many seconds.
    Saturation { seconds: u64 },
    /// Once, as fast as answers come.
    Once,
    /// Over and over at so many queries a second, for so many seconds, with the latency of each.
    Rate { per_s: u64, seconds: u64 },
}

/// One run of dnsperf.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub sent: u64,
    pub completed: u64,
    /// Responses other than NOERROR.
    pub errors: u64,
    pub seconds: f64,
    /// Latencies in microseconds; empty unless the pace is [`Pace::Rate`].
    pub latencies: Histogram<u64>,
}

/// Queries outstanding at once.
const OUTSTANDING: &str = "100";
/// Sockets that queries are sent from.
const CLIENTS: &str = "16";

/// Loads `server` with the queries of `file`.
///
/// # Errors
/// When dnsperf isn't installed, fails, or prints no summary.
pub async fn run(server: SocketAddr, file: &Path, pace: Pace) -> Result<Summary> {
    let mut command = Command::new(machine::program("dnsperf")?);
    command
        .args(["-s", &server.ip().to_string()])
        .args(["-p", &server.port().to_string(), "-T", "1"])
        .args(["-c", CLIENTS, "-q", OUTSTANDING, "-d"])
        .arg(file);
    match pace {
        Pace::Saturation { seconds } => command.args(["-l", &seconds.to_string()]),
        Pace::Once => command.args(["-n", "1"]),
        Pace::Rate { per_s, seconds } => {
            command.args(["-v", "-Q", &per_s.to_string(), "-l", &seconds.to_string()])
        }
    };
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run dnsperf")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "dnsperf ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    parse(&text)
}

impl Summary {
    pub fn queries_per_second(&self) -> f64 {
        self.completed as f64 / self.seconds
    }

    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.completed)
    }

    /// Latency in microseconds at this quantile, 0 to 1.
    pub fn quantile_us(&self, part: f64) -> f64 {
        match self.latencies.len() {
            0 => f64::NAN,
            _ => self.latencies.value_at_quantile(part) as f64,
        }
    }
}

fn parse(text: &str) -> Result<Summary> {
    let after = |key: &str| {
        let found = text.lines().find_map(|line| line.trim().strip_prefix(key));
        found.with_context(|| format!("dnsperf printed no `{key}`"))
    };
    let count = |key: &str| -> Result<u64> {
        let first = after(key)?.split_whitespace().next().unwrap_or_default();
        first.parse().with_context(|| format!("dnsperf: {key}"))
    };
    let longest_us = 60_000_000;
    let mut latencies = Histogram::new_with_max(longest_us, 3).expect("three digits are allowed");
    for line in text.lines() {
        // `> NOERROR www.example A 0.000101`
        let Some(answer) = line.strip_prefix("> ") else {
            continue;
        };
        if let Some(latency) = answer.rsplit(' ').next().and_then(microseconds) {
            latencies.saturating_record(latency);
        }
    }
    let codes = after("Response codes:").unwrap_or_default();
    let completed = count("Queries completed:")?;
    // `NOERROR 98 (98.00%), SERVFAIL 2 (2.00%)`
    let good = codes.split(", ").find_map(|code| {
        let count = code.trim().strip_prefix("NOERROR ")?;
        count.split(' ').next()?.parse::<u64>().ok()
    });
    Ok(Summary {
        sent: count("Queries sent:")?,
        completed,
        errors: completed.saturating_sub(good.unwrap_or_default()),
        seconds: after("Run time (s):")?.trim().parse()?,
        latencies,
    })
}

/// Parses seconds with six decimals to microseconds.
fn microseconds(seconds: &str) -> Option<u64> {
    let (whole, decimals) = seconds.split_once('.').filter(|(_, it)| it.len() == 6)?;
    Some(whole.parse::<u64>().ok()? * 1_000_000 + decimals.parse::<u64>().ok()?)
}

/// Writes `count` names below `zone`, one query of type A each.
///
/// # Errors
/// When the file can't be written.
pub fn write_names(folder: &Path, zone: &str, count: u64) -> Result<PathBuf> {
    let path = folder.join(format!("{zone}.names"));
    let mut text = String::new();
    for number in 0..count {
        _ = writeln!(text, "n{number}.{zone}.example A");
    }
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
DNS Performance Testing Tool
> NOERROR n1.cached.example A 0.000100
> NOERROR n2.cached.example A 1.000300
> T n3.cached.example A
Statistics:

  Queries sent:         4
  Queries completed:    3 (75.00%)
  Queries lost:         1 (25.00%)

  Response codes:       NOERROR 2 (66.67%), SERVFAIL 1 (33.33%)
  Average packet size:  request 31, response 47
  Run time (s):         1.500000
  Queries per second:   2.000000

  Average Latency (s):  0.000200 (min 0.000100, max 0.000300)
";

    #[test]
    fn a_summary_is_read() {
        let read = parse(SAID).unwrap();
        assert_eq!((read.sent, read.completed, read.errors), (4, 3, 1));
        assert_eq!((read.lost(), read.latencies.len()), (1, 2));
        assert!((read.queries_per_second() - 2.0).abs() < 1e-9);
        assert!((read.quantile_us(0.5) - 100.0).abs() < 1.0);
        assert!(read.quantile_us(0.99) > 1_000_000.0);
        assert!(parse("nothing").is_err());
    }
}
