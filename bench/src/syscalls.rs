//! System calls of a process tree by name, counted by strace.
//!
//! strace slows a proxy down, so more events are ready at each `epoll_wait`, and fewer of those are
//! counted a request than in a run without it: the calls for each request itself are exact.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{machine, process};

/// Calls by name.
pub type Counts = BTreeMap<String, u64>;

/// strace on a process tree.
pub struct Tracer {
    child: Child,
    output: PathBuf,
}

impl Tracer {
    /// Attaches to every thread of `root` and its descendants.
    pub async fn attach(root: u32, run_dir: &Path) -> Result<Self> {
        let output = run_dir.join("strace.txt");
        let members = process::tree(root)?;
        let mut command = Command::new(machine::program("strace")?);
        command
            .args(["-f", "-q", "-c", "-U", "calls,name", "-o"])
            .arg(&output);
        for member in &members {
            command.args(["-p", &member.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command
            .kill_on_drop(true)
            .spawn()
            .context("cannot run strace")?;
        let mut tracer = Self { child, output };
        tracer.wait_until_attached(&members).await?;
        Ok(tracer)
    }

    /// Detaches and returns what was counted.
    pub async fn detach(self) -> Result<Counts> {
        if let Some(id) = self.process() {
            kill_process(id, Signal::INT).context("cannot interrupt strace")?;
        }
        // strace ends by the signal that interrupted it: its status says nothing.
        let ended = self.child.wait_with_output().await?;
        let text = fs::read_to_string(&self.output).with_context(|| {
            format!(
                "strace left no counts: {}",
                String::from_utf8_lossy(&ended.stderr)
            )
        })?;
        parse(&text)
    }

    fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    async fn wait_until_attached(&mut self, members: &[u32]) -> Result<()> {
        let deadline = Instant::now() + ATTACH_TIMEOUT;
        while !all_traced(members)? {
            if let Some(status) = self.child.try_wait()? {
                bail!("strace ended with {status}: attaching may be forbidden here");
            }
            ensure!(Instant::now() < deadline, "strace does not attach");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

fn all_traced(members: &[u32]) -> Result<bool> {
    for &member in members {
        for thread in process::threads(member)? {
            if process::tracer(member, thread)? == 0 {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The table that `strace -c -U calls,name` writes; its last row is the total.
pub fn parse(text: &str) -> Result<Counts> {
    let row = |line: &str| {
        let (calls, name) = line.trim().split_once(char::is_whitespace)?;
        Some((name.trim().to_owned(), calls.parse().ok()?))
    };
    let mut counts: Counts = text.lines().filter_map(row).collect();
    counts.remove("total");
    ensure!(
        !counts.is_empty(),
        "strace counted nothing: {}",
        text.trim()
    );
    Ok(counts)
}

/// The most frequent calls a request, such as `recvfrom 2.00, epoll_wait 0.11`.
pub fn describe(counts: &Counts, requests: u64) -> String {
    let mut by_count: Vec<(&String, f64)> = counts
        .iter()
        .map(|(name, &count)| (name, count as f64 / requests.max(1) as f64))
        .collect();
    by_count.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = by_count.iter().filter(|(_, each)| *each >= SHOWN_MIN);
    shown
        .map(|(name, each)| format!("{name} {each:.2}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Calls rarer than one in a hundred requests belong to no request.
const SHOWN_MIN: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "    calls syscall
--------- ----------------
    20000 recvfrom
    10000 writev
      500 epoll_wait
        1 accept4
--------- ----------------
    30501 total
";

    #[test]
    fn counts_are_read_without_the_total() {
        let counts = parse(TABLE).expect("it is a table");
        assert_eq!(counts.values().sum::<u64>(), 30_501);
        assert_eq!(counts["recvfrom"], 20_000);
        assert!(!counts.contains_key("total"));
    }

    #[test]
    fn nothing_counted_is_an_error() {
        assert!(parse("").is_err());
    }

    #[test]
    fn the_most_frequent_calls_come_first_and_rare_ones_not_at_all() {
        let counts = parse(TABLE).expect("it is a table");
        assert_eq!(
            describe(&counts, 10_000),
            "recvfrom 2.00, writev 1.00, epoll_wait 0.05"
        );
    }
}
