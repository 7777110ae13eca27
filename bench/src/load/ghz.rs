//! ghz: unary calls of gRPC, one after another by each of its workers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::wrk::{Errors, Summary};

/// The service definition for ghz: the part of `grpc.testing` that it calls.
const PROTO: &str = include_str!("../../proto/test.proto");
const CALL: &str = "grpc.testing.TestService.UnaryCall";
/// The request: 128 bytes in Base64, for a response of 1 kB.
const CONTENT: &str = r#"{"response_size":1024,"payload":{"body":"{body}"}}"#;
const WORKERS: &str = "64";
const CONNECTIONS: &str = "32";

/// The program ghz and its files.
#[derive(Debug)]
pub struct Ghz {
    program: PathBuf,
    proto: PathBuf,
    output: PathBuf,
}

impl Ghz {
    /// # Errors
    /// When a file can't be written.
    pub fn create(program: PathBuf, folder: &Path) -> Result<Self> {
        let proto = folder.join("test.proto");
        fs::write(&proto, PROTO).with_context(|| format!("cannot write {}", proto.display()))?;
        let output = folder.join("ghz.json");
        Ok(Self {
            program,
            proto,
            output,
        })
    }

    /// Calls for `seconds`, and waits for the calls in flight.
    ///
    /// # Errors
    /// When it ends badly, or reports nothing.
    pub async fn run(&self, address: SocketAddr, seconds: u64) -> Result<Summary> {
        let body = "AAAA".repeat(42) + "AAA=";
        let output = Command::new(&self.program)
            .args(["--insecure", "--call", CALL, "--proto"])
            .arg(&self.proto)
            .args(["--concurrency", WORKERS, "--connections", CONNECTIONS])
            .args([
                "--duration",
                &format!("{seconds}s"),
                "--duration-stop",
                "wait",
            ])
            .args(["--data", &CONTENT.replace("{body}", &body)])
            .args(["--format", "json", "--output"])
            .arg(&self.output)
            .arg(address.to_string())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot run ghz")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "ghz ended with {}: {complaint}",
            output.status
        );
        let text = fs::read_to_string(&self.output).context("ghz wrote no report")?;
        parse(&serde_json::from_str(&text)?).context("ghz's report lacks its figures")
    }
}

fn parse(report: &Value) -> Option<Summary> {
    let all = report["count"].as_u64()?;
    let right = report["statusCodeDistribution"]["OK"].as_u64().unwrap_or(0);
    let calls = report["details"].as_array()?;
    let ok = calls.iter().filter(|call| call["status"] == "OK");
    let latencies = ok.filter_map(|call| Some(call["latency"].as_f64()? / 1e3));
    let mut summary = Summary {
        requests: right,
        duration: Duration::from_nanos(report["total"].as_u64()?),
        p50_us: f64::NAN,
        p99_us: f64::NAN,
        p999_us: f64::NAN,
        errors: Errors {
            status: all.saturating_sub(right),
            ..Errors::default()
        },
    };
    summary.set_percentiles(latencies.collect());
    Some(summary)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_taken_apart() {
        let report = json!({
            "count": 3, "total": 2_000_000_000_u64,
            "statusCodeDistribution": {"OK": 2, "Unavailable": 1},
            "details": [
                {"latency": 1_000_000, "status": "OK"},
                {"latency": 9_000_000, "status": "Unavailable"},
                {"latency": 2_000_000, "status": "OK"},
            ],
        });
        let summary = parse(&report).expect("it is complete");
        assert_eq!(summary.requests_per_second(), 1.0);
        assert_eq!((summary.p50_us, summary.p999_us), (1_000.0, 2_000.0));
        assert_eq!(
            summary.errors.describe().as_deref(),
            Some("1 status errors")
        );
        assert_eq!(parse(&json!({})), None);
    }
}
