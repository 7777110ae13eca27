//! CPU time and memory of a process and all its descendants, from `/proc`.
//!
//! Invariant: a total is the scheduler's own nanoseconds (`schedstat`) as long as no thread ended
//! between two samples, and clock ticks otherwise; the split into user and system time is always
//! the kernel's tick-based one (proc(5)).
//! Leaves out: CPU time of kernel threads and of softirqs that ran on others' account.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// A point in a process tree's CPU time.
#[derive(Debug, Clone, Default)]
pub struct CpuSample {
    /// Nanoseconds on a CPU, by thread id.
    tasks: BTreeMap<u32, u64>,
    user_ticks: u64,
    system_ticks: u64,
}

/// CPU time between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUsage {
    pub total: Duration,
    /// Share of `total` in user mode, 0 to 1.
    pub user_share: f64,
}

/// Memory of a process tree; pages that two of its processes share count twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    pub rss_bytes: u64,
    /// Sum of the peaks (`VmHWM`).
    pub peak_bytes: u64,
}

/// `root` and all its descendants.
pub fn tree(root: u32) -> Result<Vec<u32>> {
    let parents = parents_by_process()?;
    let mut members = vec![root];
    let mut next = 0;
    while let Some(&parent) = members.get(next) {
        members.extend(
            parents
                .iter()
                .filter(|(_, p)| **p == parent)
                .map(|(process, _)| *process),
        );
        next += 1;
    }
    Ok(members)
}

/// Thread ids of a process.
pub fn threads(process: u32) -> Result<Vec<u32>> {
    let path = format!("/proc/{process}/task");
    let entries = fs::read_dir(&path).with_context(|| format!("cannot list {path}"))?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// CPU time so far of `root` and its descendants.
pub fn cpu(root: u32) -> Result<CpuSample> {
    let mut sample = CpuSample::default();
    for process in tree(root)? {
        let Some(stat) = read_of_tree(root, process, "stat")? else {
            continue;
        };
        let (user, system) = parse_ticks(&stat).context("unreadable /proc/PID/stat")?;
        sample.user_ticks += user;
        sample.system_ticks += system;
        for thread in threads(process).unwrap_or_default() {
            // A kernel without schedstat leaves `tasks` empty: ticks are used then.
            let schedstat = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat"));
            if let Some(nanoseconds) = schedstat.ok().as_deref().and_then(parse_schedstat) {
                sample.tasks.insert(thread, nanoseconds);
            }
        }
    }
    Ok(sample)
}

/// The process has ended, and its parent has not waited for it yet.
pub fn has_ended(process: u32) -> Result<bool> {
    let stat = read(&format!("/proc/{process}/stat"))?;
    let state = fields_after_command(&stat).and_then(|mut fields| fields.next());
    Ok(state == Some("Z"))
}

/// Memory of `root` and its descendants.
pub fn memory(root: u32) -> Result<Memory> {
    let mut sum = Memory::default();
    for process in tree(root)? {
        let Some(status) = read_of_tree(root, process, "status")? else {
            continue;
        };
        sum.rss_bytes += parse_kib(&status, "VmRSS:").unwrap_or(0) * 1024;
        sum.peak_bytes += parse_kib(&status, "VmHWM:").unwrap_or(0) * 1024;
    }
    Ok(sum)
}

/// A file of a process of the tree of `root`; none where a descendant has ended since the tree was listed.
fn read_of_tree(root: u32, process: u32, file: &str) -> Result<Option<String>> {
    match read(&format!("/proc/{process}/{file}")) {
        Ok(text) => Ok(Some(text)),
        Err(_) if process != root => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process that traces thread `thread`, 0 for none.
pub fn tracer(process: u32, thread: u32) -> Result<u32> {
    let status = read(&format!("/proc/{process}/task/{thread}/status"))?;
    let field = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    Ok(field
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0))
}

impl CpuSample {
    /// CPU time since `before`.
    pub fn since(&self, before: &Self) -> CpuUsage {
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let user = self.user_ticks.saturating_sub(before.user_ticks);
        let system = self.system_ticks.saturating_sub(before.system_ticks);
        let ticks = user + system;
        let total = self.nanoseconds_since(before).map_or_else(
            || Duration::from_nanos(ticks * 1_000_000_000 / ticks_per_second),
            Duration::from_nanos,
        );
        let user_share = if ticks == 0 {
            0.0
        } else {
            user as f64 / ticks as f64
        };
        CpuUsage { total, user_share }
    }

    /// CPU time of threads that are there, since each began; of all, by ticks, without accounts.
    pub fn so_far(&self) -> Duration {
        if self.tasks.is_empty() {
            return self.since(&Self::default()).total;
        }
        Duration::from_nanos(self.tasks.values().sum())
    }

    /// `None` when a thread of `before` ended: what it used since is unknown.
    fn nanoseconds_since(&self, before: &Self) -> Option<u64> {
        let all_alive = before
            .tasks
            .keys()
            .all(|thread| self.tasks.contains_key(thread));
        if before.tasks.is_empty() || !all_alive {
            return None;
        }
        let total: u64 = self.tasks.values().sum();
        Some(total - before.tasks.values().sum::<u64>())
    }
}

impl CpuUsage {
    /// Total, user and system microseconds a unit, of `units` done.
    pub fn microseconds_per(&self, units: u64) -> (f64, f64, f64) {
        let each = self.total.as_secs_f64() * 1e6 / units.max(1) as f64;
        (each, each * self.user_share, each * (1.0 - self.user_share))
    }
}

fn parents_by_process() -> Result<BTreeMap<u32, u32>> {
    let entries = fs::read_dir("/proc").context("cannot list /proc")?;
    let processes = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process that ends meanwhile has no file any more: it is no member then.
    Ok(processes
        .filter_map(|process: u32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            Some((process, parse_parent(&stat)?))
        })
        .collect())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

/// The fields of `/proc/PID/stat` after the command, which may itself hold spaces and parentheses.
fn fields_after_command(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(") ")?.1.split_ascii_whitespace())
}

fn parse_parent(stat: &str) -> Option<u32> {
    fields_after_command(stat)?.nth(1)?.parse().ok()
}

/// `utime` and `stime`, fields 14 and 15 of proc(5).
fn parse_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = fields_after_command(stat)?.skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn parse_schedstat(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

fn parse_kib(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "77 (a) (b c) R 42 67 106 0 -1 4194304 2845 6602 12 1 140 31 4 3 20 0 1 0";

    #[test]
    fn stat_is_read_past_a_command_with_parentheses() {
        assert_eq!(parse_parent(STAT), Some(42));
        assert_eq!(parse_ticks(STAT), Some((140, 31)));
        assert_eq!(parse_ticks("77 (a) R 42"), None);
    }

    #[test]
    fn status_is_read_in_kib() {
        let status = "Name:\tx\nVmHWM:\t   5120 kB\nVmRSS:\t    4096 kB\n";
        assert_eq!(parse_kib(status, "VmRSS:"), Some(4096));
        assert_eq!(parse_kib(status, "VmHWM:"), Some(5120));
        assert_eq!(parse_kib(status, "VmSwap:"), None);
    }

    #[test]
    fn schedstat_is_the_first_number() {
        assert_eq!(
            parse_schedstat("1420946479 659779 64\n"),
            Some(1_420_946_479)
        );
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn usage_prefers_nanoseconds_and_counts_a_new_thread() {
        let before = sample(&[(1, 1_000)], 10, 10);
        let after = sample(&[(1, 3_000), (2, 500)], 13, 19);
        let usage = after.since(&before);
        assert_eq!(usage.total, Duration::from_nanos(2_500));
        assert_eq!(usage.user_share, 0.25);
    }

    #[test]
    fn usage_falls_back_to_ticks_when_a_thread_ended() {
        let before = sample(&[(1, 1_000), (2, 9_000)], 0, 0);
        let after = sample(&[(1, 3_000)], 50, 50);
        let expected = Duration::from_secs(100)
            / u32::try_from(rustix::param::clock_ticks_per_second())
                .expect("ticks a second are few");
        assert_eq!(after.since(&before).total, expected);
    }

    #[test]
    fn microseconds_are_split_by_the_ticks() {
        let usage = CpuUsage {
            total: Duration::from_millis(20),
            user_share: 0.25,
        };
        assert_eq!(usage.microseconds_per(1_000), (20.0, 5.0, 15.0));
    }

    #[test]
    fn the_tree_holds_a_child() {
        let mut child = std::process::Command::new("sleep")
            .arg("10")
            .spawn()
            .expect("sleep runs");
        let ours = std::process::id();
        let found = tree(ours).expect("/proc is there").contains(&child.id());
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        assert!(found);
        assert!(memory(ours).expect("/proc is there").rss_bytes > 0);
    }

    #[test]
    fn a_descendant_that_has_ended_is_left_out() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("true runs");
        child.wait().expect("it ends");
        let ours = std::process::id();
        assert_eq!(
            read_of_tree(ours, child.id(), "stat").expect("left out"),
            None
        );
        assert!(read_of_tree(child.id(), child.id(), "stat").is_err());
    }

    #[test]
    fn cpu_time_of_a_busy_child_grows() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("sh runs");
        let before = cpu(child.id()).expect("it runs");
        let grew = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            cpu(child.id()).is_ok_and(|now| now.since(&before).total > Duration::ZERO)
        });
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        assert!(grew);
    }

    fn sample(tasks: &[(u32, u64)], user_ticks: u64, system_ticks: u64) -> CpuSample {
        CpuSample {
            tasks: tasks.iter().copied().collect(),
            user_ticks,
            system_ticks,
        }
    }
}
