//! Instructions in user mode, counted by valgrind's callgrind: hardly touched by what else runs.
//!
//! A program is counted over its whole life, in two runs of different length whose difference is
//! without its start and end (`marginal`). A server is counted while it works, from a reset to a
//! dump (`Counted`). Callgrind runs one thread at a time, so that a count for threads that wait for
//! each other is without their waiting.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::machine;
use crate::server::{Launch, Server};

/// A server that runs under callgrind.
pub struct Counted {
    server: Server,
    counts: Dumps,
}

/// The files that callgrind writes at each request: `NAME.1`, `NAME.2` and so on.
struct Dumps {
    folder: PathBuf,
    name: String,
    taken: u32,
}

/// A server starts some 50 times slower than alone.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const DUMP_TIMEOUT: Duration = Duration::from_secs(60);
/// Far longer than any work that is counted takes.
const WORK_TIMEOUT: Duration = Duration::from_secs(180);

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

impl Counted {
    /// Starts a server under callgrind and waits until it accepts connections.
    ///
    /// # Errors
    /// When valgrind isn't installed, or as of `Server::start`.
    pub async fn start(launch: &Launch, run_dir: &Path) -> Result<Self> {
        let counts = Dumps {
            folder: run_dir.to_owned(),
            name: format!("{}.callgrind", launch.name),
            taken: 0,
        };
        counts.clear();
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(run_dir.join(&counts.name));
        // Names and lines of functions are of no interest here, and cost a dump seconds.
        let options = ["--tool=callgrind", "--demangle=no", "--dump-line=no"];
        let mut arguments: Vec<OsString> = options.map(Into::into).into();
        arguments.extend([out, launch.program.clone().into()]);
        arguments.extend(launch.arguments.iter().cloned());
        let mut environment = launch.environment.clone();
        // RSS is mostly valgrind's: a node must not charge its budget with that.
        environment.push(("STEPPE_UNCHARGED", "off".to_owned()));
        let launch = Launch {
            program: machine::program("valgrind")?,
            arguments,
            environment,
            ..launch.clone()
        };
        let server = Server::start_within(&launch, run_dir, START_TIMEOUT).await?;
        Ok(Self { server, counts })
    }

    /// The process that is counted.
    pub fn process(&self) -> u32 {
        self.server.process()
    }

    /// Instructions of all threads while `work` goes on, and what came of it.
    ///
    /// # Errors
    /// When `work` fails, the server ends, or callgrind does not answer.
    pub async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<(u64, T)> {
        control("--zero", self.process()).await?;
        let outcome = tokio::time::timeout(WORK_TIMEOUT, work).await;
        let outcome = outcome.context("the server does not get on with it")??;
        control("--dump", self.process()).await?;
        let count = self.counts.next().await?;
        self.server.ensure_alive()?;
        Ok((count, outcome))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.clear();
    }
}

impl Dumps {
    /// The total of the next dump, once it is whole.
    async fn next(&mut self) -> Result<u64> {
        self.taken += 1;
        let path = self.folder.join(format!("{}.{}", self.name, self.taken));
        let deadline = Instant::now() + DUMP_TIMEOUT;
        loop {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if let Some(total) = parse_total(&text) {
                return Ok(total);
            }
            let in_time = Instant::now() < deadline;
            ensure!(in_time, "callgrind wrote no counts to {}", path.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn clear(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(&self.name) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

async fn control(what: &str, process: u32) -> Result<()> {
    let mut command = Command::new(machine::program("callgrind_control")?);
    command.arg(what).arg(process.to_string());
    command.kill_on_drop(true);
    let ended = tokio::time::timeout(DUMP_TIMEOUT, command.output()).await;
    let output = ended.with_context(|| format!("callgrind_control {what} does not end"))??;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(
        output.status.success(),
        "callgrind_control {what}: {}",
        said.trim()
    );
    Ok(())
}

/// `==1== Collected : 123`, the last line of callgrind's log with a count.
fn parse_collected(log: &str) -> Option<u64> {
    let line = log.lines().rfind(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// `totals: 123`, the last line of a dump.
fn parse_total(dump: &str) -> Option<u64> {
    let line = dump.lines().rfind(|line| line.starts_with("totals:"))?;
    line.strip_prefix("totals:")?.trim().parse().ok()
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

    #[test]
    fn the_total_of_a_dump_is_its_last_line() {
        let dump = "events: Ir\nsummary: 9\nfn=(1) main\n1 9\n\ntotals: 9\n";
        assert_eq!(parse_total(dump), Some(9));
        assert_eq!(parse_total("events: Ir\nfn=(1) main\n1 9\n"), None);
    }
}
