//! System calls of a running process, counted by strace.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::peer::PATIENCE;
use crate::{Process, Scratch, thread_count};

/// strace attached to every thread of a process.
#[derive(Debug)]
pub struct Strace {
    process: Process,
    scratch: Scratch,
}

impl Strace {
    /// Attaches to `pid` and its threads.
    ///
    /// # Errors
    /// Why this machine doesn't allow it.
    ///
    /// # Panics
    /// When strace hangs.
    pub fn attach(pid: u32) -> Result<Self, String> {
        if let Err(error) = Command::new("strace").arg("-V").output() {
            return Err(format!("strace can't be run: {error}"));
        }
        let scratch = Scratch::new("strace");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-c", "-o"])
            .arg(scratch.join("counts"))
            .arg("-p");
        command.arg(pid.to_string());
        let mut process = Process::start("strace", command);
        let end = Instant::now() + PATIENCE;
        while tracees(pid) < thread_count(pid) {
            if !process.is_running() {
                return Err(format!("strace can't attach: {}", process.said()));
            }
            assert!(
                Instant::now() < end,
                "strace doesn't attach: {}",
                process.said()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { process, scratch })
    }

    /// Detaches and returns how often each system call was made.
    ///
    /// # Panics
    /// When strace left no table: a missing count must not pass for zero.
    pub fn finish(mut self) -> BTreeMap<String, u64> {
        self.process.signal(Signal::INT);
        self.process.wait(PATIENCE);
        let table = std::fs::read_to_string(self.scratch.join("counts")).unwrap_or_default();
        let counts = parse(&table);
        assert!(
            !counts.is_empty(),
            "strace counted nothing: {table}; {}",
            self.process.said()
        );
        counts
    }
}

/// Threads of `pid` that have a tracer.
fn tracees(pid: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let traced = |status: String| {
        status
            .lines()
            .any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    let status = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("status"));
    let count = threads
        .flatten()
        .filter_map(|thread| status(thread).ok())
        .filter(|s| traced(s.clone()));
    count.count() as u64
}

/// Columns: % time, seconds, usecs/call, calls, errors (may be blank), syscall.
fn parse(table: &str) -> BTreeMap<String, u64> {
    let rows = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, calls) = (columns.last()?, columns.get(3)?.parse().ok()?);
        columns[0].parse::<f64>().ok()?;
        (*name != "total").then(|| ((*name).to_owned(), calls))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_and_without_errors_are_counted() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     60.00    0.000300           1       200        12 recvfrom\n\
                     40.00    0.000200           1       100           sendto\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.000500           1       300        12 total\n";
        let counts = parse(table);
        assert_eq!(counts.get("recvfrom"), Some(&200));
        assert_eq!(counts.get("sendto"), Some(&100));
        assert_eq!(counts.len(), 2);
    }
}
