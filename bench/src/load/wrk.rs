//! wrk at saturation: one thread, and its own percentiles.
//!
//! wrk 4 closes its loop (a connection sends when its last response came), and spreads a stall over
//! the requests that it would have sent meanwhile; `open_loop` measures the effect of a stall at a
//! given arrival rate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::tls::OPENSSL_CONFIG;
use crate::machine;

/// The script `lua/summary.lua`, which prints a summary after a run.
const SCRIPT: &str = include_str!("../../lua/summary.lua");

/// The files that wrk reads: its script, and OpenSSL's configuration.
pub struct Files {
    script: PathBuf,
    openssl: PathBuf,
}

/// One run of wrk.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub requests: u64,
    pub duration: Duration,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub errors: Errors,
}

/// Socket errors, and responses with a status above 399.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Errors {
    pub connect: u64,
    pub read: u64,
    pub write: u64,
    pub status: u64,
    pub timeout: u64,
}

/// Loads `url` for `seconds`.
///
/// # Errors
/// When it isn't installed, can't connect, or prints no summary.
pub async fn run(url: &str, connections: usize, seconds: u64, files: &Files) -> Result<Summary> {
    let output = Command::new(machine::program("wrk")?)
        .args(["--threads", "1", "--connections", &connections.to_string()])
        .args(["--duration", &format!("{seconds}s"), "--script"])
        .arg(&files.script)
        .arg(url)
        .env("OPENSSL_CONF", &files.openssl)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "wrk ended with {}: {text}{complaint}",
        output.status
    );
    parse(&text)
}

impl Files {
    /// # Errors
    /// When they can't be written.
    pub fn create(folder: &Path) -> Result<Self> {
        Self::with(folder, "summary", "")
    }

    /// Writes a script of this name, which has `lua` after the summary.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn with(folder: &Path, name: &str, lua: &str) -> Result<Self> {
        let files = Self {
            script: folder.join(format!("{name}.lua")),
            openssl: folder.join("openssl.cnf"),
        };
        let script = format!("{SCRIPT}{lua}");
        for (path, text) in [
            (&files.script, script.as_str()),
            (&files.openssl, OPENSSL_CONFIG),
        ] {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(files)
    }
}

impl Summary {
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.duration.as_secs_f64()
    }
}

impl Errors {
    /// `None` without errors.
    pub fn describe(self) -> Option<String> {
        let kinds = [
            (self.connect, "connect"),
            (self.read, "read"),
            (self.write, "write"),
            (self.status, "status"),
            (self.timeout, "timeout"),
        ];
        let named: Vec<String> = kinds
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        (!named.is_empty()).then(|| format!("{} errors", named.join(", ")))
    }
}

fn parse(output: &str) -> Result<Summary> {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix("steppe-bench "));
    let line = line.with_context(|| format!("wrk printed no summary: {output}"))?;
    let summary: Value = serde_json::from_str(line)?;
    let count = |key: &str| {
        summary[key]
            .as_u64()
            .with_context(|| format!("wrk's summary has no count {key}: {line}"))
    };
    let figure = |key: &str| {
        summary[key]
            .as_f64()
            .with_context(|| format!("wrk's summary has no figure {key}: {line}"))
    };
    Ok(Summary {
        requests: count("requests")?,
        duration: Duration::from_micros(count("duration_us")?),
        p50_us: figure("p50_us")?,
        p99_us: figure("p99_us")?,
        p999_us: figure("p999_us")?,
        errors: Errors {
            connect: count("connect")?,
            read: count("read")?,
            write: count("write")?,
            status: count("status")?,
            timeout: count("timeout")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Running 2s test @ http://127.0.0.1:28081/
  1 threads and 64 connections
Requests/sec:  30000.00
Transfer/sec:     34.00MB
steppe-bench {\"requests\":60000,\"bytes\":9,\"duration_us\":2000000,\"p50_us\":2100,\"p99_us\":4200,\
\"p999_us\":9100,\"connect\":0,\"read\":2,\"write\":0,\"status\":7,\"timeout\":0}
";

    #[test]
    fn summary_is_found_after_wrks_own_report() {
        let summary = parse(OUTPUT).expect("it is there");
        assert_eq!(summary.requests, 60_000);
        assert_eq!(summary.requests_per_second(), 30_000.0);
        assert_eq!(
            (summary.p50_us, summary.p99_us, summary.p999_us),
            (2100.0, 4200.0, 9100.0)
        );
        assert_eq!(
            summary.errors.describe().as_deref(),
            Some("2 read, 7 status errors")
        );
    }

    #[test]
    fn no_errors_need_no_words() {
        assert_eq!(Errors::default().describe(), None);
    }

    #[test]
    fn a_report_without_summary_is_an_error() {
        let error = parse("unable to connect\n")
            .expect_err("no summary")
            .to_string();
        assert_eq!(error, "wrk printed no summary: unable to connect\n");
        assert!(parse("steppe-bench {\"requests\":1}").is_err());
    }
}
