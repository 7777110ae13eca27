//! h2load: many streams on each connection, on one thread.
//!
//! Invariant: a run sends a number of requests and ends when all are answered, so that every request in
//! the proxy's CPU time is counted, and none is left for the next run. Percentiles come from h2load's log,
//! which has a line for every request. The loop is closed, as wrk's is.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::wrk::{Errors, Summary};
use crate::machine;

/// The target and the shape of a load.
#[derive(Debug, Clone)]
pub struct Load {
    pub url: String,
    /// Address of the URL's host.
    pub address: SocketAddr,
    pub connections: usize,
    /// Requests at once on each connection.
    pub streams: usize,
    /// File with the content of each request; `None` is a GET.
    pub content: Option<PathBuf>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub summary: Summary,
    /// Content of all responses.
    pub content_bytes: u64,
}

/// Path of the installed h2load.
///
/// # Errors
/// When h2load isn't installed, with the name of its package.
pub fn program() -> Result<PathBuf> {
    machine::program("h2load").map_err(|_| {
        anyhow::anyhow!("h2load is not installed (Debian: apt-get install nghttp2-client)")
    })
}

impl Load {
    /// Sends so many requests.
    ///
    /// # Errors
    /// When it isn't installed, ends badly, or reports nothing.
    pub async fn run(&self, requests: u64, run_dir: &Path) -> Result<Report> {
        let log = run_dir.join("h2load.log");
        // h2load appends to an existing log.
        let _ = fs::remove_file(&log);
        let mut command = Command::new(program()?);
        command
            .args(["--clients", &self.connections.to_string()])
            .args(["--max-concurrent-streams", &self.streams.to_string()])
            // The values of `OPENSSL_CONFIG`, which h2load's own defaults would override.
            .args([
                "--tls13-ciphers",
                "TLS_AES_128_GCM_SHA256",
                "--groups",
                "X25519",
            ])
            .args(["--npn-list", "h2"])
            .args(["--requests", &requests.to_string()])
            .arg(format!("--log-file={}", log.display()))
            .arg(format!("--connect-to={}", self.address));
        if let Some(content) = &self.content {
            command.arg("--data").arg(content);
        }
        let output = command
            .arg(&self.url)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot run h2load")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "h2load ended with {}: {text}{complaint}",
            output.status
        );
        let mut report =
            parse(&text).with_context(|| format!("h2load reported nothing: {text}"))?;
        let log = fs::read_to_string(&log).context("h2load wrote no log")?;
        report.summary.set_percentiles(latencies_us(&log));
        Ok(report)
    }
}

impl Summary {
    /// Sets the percentiles from the latencies of all requests, in microseconds.
    pub fn set_percentiles(&mut self, mut latencies_us: Vec<f64>) {
        latencies_us.sort_by(f64::total_cmp);
        let at = |per_mille: usize| {
            let rank = (latencies_us.len() * per_mille).div_ceil(1_000);
            let latency = latencies_us.get(rank.saturating_sub(1));
            latency.copied().unwrap_or(f64::NAN)
        };
        (self.p50_us, self.p99_us, self.p999_us) = (at(500), at(990), at(999));
    }
}

/// Latencies in microseconds: the third column of h2load's log.
fn latencies_us(log: &str) -> Vec<f64> {
    let third = |line: &str| line.split('\t').nth(2)?.trim().parse().ok();
    log.lines().filter_map(third).collect()
}

fn parse(text: &str) -> Option<Report> {
    let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let requests = after("requests: ")?;
    let statuses = after("status codes: ")?;
    let finished = after("finished in ")?;
    let rate = finished
        .split(", ")
        .find_map(|part| part.strip_suffix(" req/s"));
    let rate: f64 = rate?.parse().ok()?;
    let status = count(statuses, "4xx")? + count(statuses, "5xx")?;
    let timeout = count(requests, "timeout")?;
    let failed = count(requests, "failed")?;
    let succeeded = count(requests, "succeeded")?;
    // The number in `12.3KB (12345) data`, which follows the same for headers.
    let traffic = after("traffic: ")?.strip_suffix(" data")?;
    let content = traffic.rsplit('(').next()?.strip_suffix(')')?;
    Some(Report {
        summary: Summary {
            requests: succeeded,
            duration: Duration::try_from_secs_f64(succeeded as f64 / rate).unwrap_or_default(),
            p50_us: f64::NAN,
            p99_us: f64::NAN,
            p999_us: f64::NAN,
            errors: Errors {
                read: failed.saturating_sub(status).saturating_sub(timeout),
                status,
                timeout,
                ..Errors::default()
            },
        },
        content_bytes: content.parse().ok()?,
    })
}

/// The number before `of` in a list with commas.
fn count(list: &str, of: &str) -> Option<u64> {
    let mut entries = list.split(", ");
    entries.find_map(|entry| entry.strip_suffix(of)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
finished in 2.00s, 995.00 req/s, 1.00MB/s
requests: 2000 total, 2000 started, 2000 done, 1990 succeeded, 10 failed, 8 errored, 1 timeout
status codes: 1990 2xx, 0 3xx, 1 4xx, 1 5xx
traffic: 1.99MB (2090000) total, 3.00KB (3072) headers (space savings 90.00%), 1.94MB (2037760) data
";

    #[test]
    fn a_report_is_taken_apart() {
        let report = parse(REPORT).expect("it is complete");
        assert_eq!(report.summary.requests, 1_990);
        assert_eq!(report.summary.duration, Duration::from_secs(2));
        assert_eq!(report.content_bytes, 2_037_760);
        let errors = report.summary.errors.describe();
        assert_eq!(
            errors.as_deref(),
            Some("7 read, 2 status, 1 timeout errors")
        );
        assert_eq!(parse("finished in 1s"), None);
    }

    #[test]
    fn percentiles_are_of_every_line_of_the_log() {
        let log: String = (1..=1_000)
            .map(|us| format!("1700000000\t200\t{us}\n"))
            .collect();
        let mut summary = parse(REPORT).expect("it is complete").summary;
        summary.set_percentiles(latencies_us(&log));
        let percentiles = (summary.p50_us, summary.p99_us, summary.p999_us);
        assert_eq!(percentiles, (500.0, 990.0, 999.0));
        summary.set_percentiles(Vec::new());
        assert!(summary.p50_us.is_nan());
    }
}
