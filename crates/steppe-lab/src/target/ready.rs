//! Waits until a process is ready.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use regex::Regex;

use super::{MetricClient, POLL, Process};
use crate::scenario::Ready;

/// Why a process is not ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// The process ended first.
    #[error("{name} ended before it was ready: {status}")]
    Ended {
        /// Name of the process in the scenario.
        name: String,
        /// Exit status.
        status: String,
    },
    /// The process runs, and gives no sign of readiness.
    #[error("{name} was not ready within {patience:?}: {missing}")]
    Late {
        /// Name of the process in the scenario.
        name: String,
        /// Time given.
        patience: Duration,
        /// The sign that did not come.
        missing: String,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Returns when `process` gives the sign of `ready`.
///
/// # Errors
/// When it ends, is late, or `is_over` returns true.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub fn wait_until_ready(
    process: &mut Process,
    ready: &Ready,
    patience: Duration,
    client: &MetricClient,
    is_over: &dyn Fn() -> bool,
) -> Result<(), NotReady> {
    let start = Instant::now();
    // A pattern of a scenario compiles; an invalid one would match nothing, and be reported as late.
    let pattern = match ready {
        Ready::Log(pattern) => Regex::new(pattern).ok(),
        _ => None,
    };
    loop {
        if is_over() {
            return Err(NotReady::Interrupted);
        }
        if let Some(status) = process.ended() {
            let name = process.name().to_owned();
            return Err(NotReady::Ended {
                name,
                status: status.to_string(),
            });
        }
        let is_ready = match ready {
            Ready::Http(url) => is_success(client, url),
            Ready::Tcp(address) => TcpStream::connect_timeout(address, ANSWER).is_ok(),
            Ready::Log(_) => pattern
                .as_ref()
                .is_some_and(|pattern| has_line(process, pattern)),
            Ready::After(time) => start.elapsed() >= *time,
        };
        if is_ready {
            return Ok(());
        }
        if start.elapsed() >= patience {
            let name = process.name().to_owned();
            return Err(NotReady::Late {
                name,
                patience,
                missing: missing(ready),
            });
        }
        std::thread::sleep(POLL);
    }
}

/// True if a server answers there already: one left from before would be taken for the one that is
/// about to start.
pub fn is_taken(ready: &Ready, client: &MetricClient) -> bool {
    match ready {
        Ready::Tcp(address) => TcpStream::connect_timeout(address, ANSWER).is_ok(),
        // The test of readiness: a port that answers 502 for a service that is down is not taken.
        Ready::Http(url) => is_success(client, url),
        Ready::Log(_) | Ready::After(_) => false,
    }
}

fn is_success(client: &MetricClient, url: &str) -> bool {
    client
        .get(url, ANSWER)
        .is_ok_and(|(status, _)| (200..300).contains(&status))
}

fn has_line(process: &Process, pattern: &Regex) -> bool {
    // A process prints few lines before it is ready: the file is read again each time.
    let text = std::fs::read_to_string(process.log()).unwrap_or_default();
    text.lines().any(|line| pattern.is_match(line))
}

fn missing(ready: &Ready) -> String {
    match ready {
        Ready::Http(url) => format!("no 2xx from {url}"),
        Ready::Tcp(address) => format!("no connection accepted at {address}"),
        Ready::Log(pattern) => format!("no line of its output matches {pattern:?}"),
        Ready::After(time) => format!("`after` is longer: {time:?}"),
    }
}

/// Time limit of one request.
const ANSWER: Duration = Duration::from_secs(2);
