//! CPU time and context switches of a node's workers, as the kernel counts them.

use std::fs;
use std::ops::Sub;
use std::time::Duration;

/// CPU time and context switches of all threads called `worker-…`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerTime {
    /// CPU time in user space and in the kernel.
    pub cpu: Duration,
    /// Voluntary context switches: at least one for each time that a worker was woken.
    pub switches: u64,
}

impl WorkerTime {
    /// The times and switches of a node since its process started.
    ///
    /// # Panics
    /// When the process is gone, or has no workers.
    pub fn now(pid: u32) -> Self {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
        let paths = tasks.flatten().map(|task| task.path());
        let is_worker = |path: &std::path::PathBuf| {
            let name = fs::read_to_string(path.join("comm"));
            name.is_ok_and(|name| name.starts_with("worker-"))
        };
        let workers: Vec<_> = paths.filter(is_worker).collect();
        assert!(!workers.is_empty(), "process {pid} has no workers");
        let mut sum = Self::default();
        for worker in workers {
            let text = |name| fs::read_to_string(worker.join(name)).unwrap_or_default();
            // In nanoseconds, unlike the ticks of `stat`.
            let schedule = text("schedstat");
            let ran_ns = schedule.split_whitespace().next();
            let ran_ns = ran_ns.and_then(|ns| ns.parse().ok());
            sum.cpu += Duration::from_nanos(ran_ns.expect("the thread runs"));
            let status = text("status");
            let lines = status.lines();
            let mut switches =
                lines.filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            let switches = switches.next().and_then(|count| count.trim().parse().ok());
            sum.switches += switches.unwrap_or(0);
        }
        sum
    }
}

impl Sub for WorkerTime {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}
