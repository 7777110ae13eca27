//! Rows of `epochs.csv` and `samples.csv`.
//!
//! Times are on one clock a run: milliseconds since the run's first process was started.
//! Bytes and counts are summed over the target's tree of processes (and measured services).

use serde::{Deserialize, Serialize};

/// One epoch of one run (or one cycle), a row of `epochs.csv`.
///
/// `None`: could not be seen here, or does not apply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Epoch {
    pub variant: String,
    /// From 0, within the variant.
    pub run: u32,
    /// From 0, within the run.
    pub epoch: u32,
    /// Left out of every verdict.
    pub warmup: bool,
    pub start_ms: u64,
    /// How long load ran, without the quiet moment.
    pub load_ms: u64,

    /// `None`: the lab drove nothing.
    pub operations: Option<u64>,
    /// Operations that failed.
    pub errors: Option<u64>,
    /// Operations that the target refused as agreed, such as for overload.
    #[serde(default)]
    pub refused: Option<u64>,
    /// Operations that the open loops owed; `None` when every load is a closed loop.
    pub intended: Option<u64>,
    /// Of those, how many were done, well or badly.
    pub kept: Option<u64>,
    /// Response time, from the intended start, in microseconds.
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Only with 10,000 operations or more.
    pub p999_us: Option<f64>,
    pub max_us: Option<f64>,
    /// Service time, from the actual start.
    pub service_p50_us: Option<f64>,
    pub service_p99_us: Option<f64>,
    /// Share of the time that the busiest generator thread spent on, or waiting for, a CPU, 0 to 1.
    pub generator_busy: Option<f64>,
    /// Highest RSS of the programs of command loads, summed: their `VmHWM`, without their children.
    pub load_hwm_bytes: Option<u64>,

    /// In the quiet moment.
    pub rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    /// Shared memory that no file backs, each process's share of it.
    pub shmem_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// Highest RSS within the epoch: the sum of the processes' `VmHWM`, reset at its start.
    pub hwm_bytes: Option<u64>,
    /// What the target says is allocated and not freed.
    pub live_bytes: Option<u64>,
    pub cgroup_bytes: Option<u64>,
    /// Of the control group: buffers of sockets.
    pub cgroup_sock_bytes: Option<u64>,
    /// Of the control group: pages of files that the kernel drops when it needs room.
    #[serde(default)]
    pub cgroup_reclaimable_bytes: Option<u64>,

    /// User and system time of the tree within the epoch.
    pub cpu_us: Option<u64>,
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    pub syscalls: Option<u64>,
    pub instructions: Option<u64>,

    /// When the load has just paused.
    pub processes: Option<u64>,
    pub threads: Option<u64>,
    pub open_files: Option<u64>,
    /// Most at any sample of the epoch.
    pub established_max: Option<u64>,
    pub close_wait_max: Option<u64>,
    pub time_wait_max: Option<u64>,
    #[serde(default)]
    pub other_tcp_max: Option<u64>,

    /// In the quiet moment: children that ended and were not waited for.
    #[serde(default)]
    pub zombies: Option<u64>,
    #[serde(default)]
    pub mappings: Option<u64>,
    /// Until `RLIMIT_NOFILE` of the process that is nearest to its own.
    #[serde(default)]
    pub files_left: Option<u64>,
    /// Until `vm.max_map_count`, of the process that is nearest to it.
    #[serde(default)]
    pub mappings_left: Option<u64>,
    /// Processes and threads that the machine may still start.
    #[serde(default)]
    pub tasks_left: Option<u64>,

    /// Collections of garbage that were forced in the quiet moment, where the scenario asks for them:
    /// 0 or 1.
    #[serde(default)]
    pub collections: Option<u64>,

    /// CPU time of a fixed piece of work, the median over the epoch, in nanoseconds: how fast the
    /// machine was.
    #[serde(default)]
    pub control_ns: Option<u64>,
    /// Share of the machine's CPU time that others than its own processes took (steal), 0 to 1.
    #[serde(default)]
    pub steal: Option<f64>,
}

impl Epoch {
    /// What the target holds that nobody can drop for it: anonymous and shared memory, in RAM or
    /// swapped out. `None` where the kernel did not tell them apart.
    pub fn held_bytes(&self) -> Option<u64> {
        let beside = [self.shmem_bytes, self.swap_bytes].into_iter().flatten();
        Some(total(beside.chain([self.anonymous_bytes?])))
    }

    /// What its control group is charged for beside that, and nobody drops: files in a tmpfs and
    /// memfds that are not mapped, buffers of sockets, memory of the kernel.
    pub fn cgroup_rest_bytes(&self) -> Option<u64> {
        let reclaimable = self.cgroup_reclaimable_bytes?;
        let in_ram = total([self.anonymous_bytes?, self.shmem_bytes.unwrap_or(0)].into_iter());
        let kept = self.cgroup_bytes?.saturating_sub(reclaimable);
        Some(kept.saturating_sub(in_ram))
    }
}

/// A sum that a hostile file can't make panic.
pub(crate) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// One look at the target, a row of `samples.csv`.
///
/// Rows are of two kinds: frequent ones have only what is cheap (`rss_bytes`, from `statm`), the
/// others all that is sampled once a second. A cell that was not sampled is empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    pub variant: String,
    pub run: u32,
    pub at_ms: u64,
    pub rss_bytes: Option<u64>,
    pub cpu_us: Option<u64>,
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    pub processes: Option<u64>,
    pub threads: Option<u64>,
    pub open_files: Option<u64>,
    pub syscalls: Option<u64>,
    pub established: Option<u64>,
    pub close_wait: Option<u64>,
    pub time_wait: Option<u64>,
    pub listen: Option<u64>,
    /// Sockets in every other TCP state.
    pub other_tcp: Option<u64>,
    pub cgroup_bytes: Option<u64>,
    pub cgroup_sock_bytes: Option<u64>,
    pub live_bytes: Option<u64>,
}
