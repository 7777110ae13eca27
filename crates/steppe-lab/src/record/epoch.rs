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
    /// Number of the run from 0, within the variant.
    pub run: u32,
    /// Number of the epoch from 0, within the run.
    pub epoch: u32,
    /// True if the epoch is left out of every verdict.
    pub warmup: bool,
    pub start_ms: u64,
    /// Duration of the load, without the quiet moment.
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
    /// Operations of `intended` that were done, well or badly.
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

    /// RSS in the quiet moment, like the parts of memory that follow.
    pub rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    /// Shared memory that no file backs, each process's share of it.
    pub shmem_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// Highest RSS within the epoch: the sum of the processes' `VmHWM`, reset at its start.
    pub hwm_bytes: Option<u64>,
    /// Bytes that are allocated and not freed, as the target reports them.
    pub live_bytes: Option<u64>,
    pub cgroup_bytes: Option<u64>,
    /// Socket buffers of the control group.
    pub cgroup_sock_bytes: Option<u64>,
    /// Pages of files in the control group that the kernel drops when it needs room.
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

    /// Count when the load has just paused, like the next two.
    pub processes: Option<u64>,
    pub threads: Option<u64>,
    pub open_files: Option<u64>,
    /// Highest count in any sample of the epoch, like the next ones.
    pub established_max: Option<u64>,
    pub close_wait_max: Option<u64>,
    pub time_wait_max: Option<u64>,
    #[serde(default)]
    pub other_tcp_max: Option<u64>,

    /// Children that ended and were not waited for, in the quiet moment.
    #[serde(default)]
    pub zombies: Option<u64>,
    #[serde(default)]
    pub mappings: Option<u64>,
    /// Descriptors left until `RLIMIT_NOFILE`, of the process that is nearest to its own.
    #[serde(default)]
    pub files_left: Option<u64>,
    /// Mappings left until `vm.max_map_count`, of the process that is nearest to it.
    #[serde(default)]
    pub mappings_left: Option<u64>,
    /// Processes and threads that the machine may still start.
    #[serde(default)]
    pub tasks_left: Option<u64>,

    /// Garbage collections that were forced in the quiet moment, where the scenario asks for them: 0
    /// or 1.
    #[serde(default)]
    pub collections: Option<u64>,

    /// CPU time of a fixed piece of work, the median over the epoch, in nanoseconds: the speed of the
    /// machine.
    #[serde(default)]
    pub control_ns: Option<u64>,
    /// Share of the machine's CPU time that its host gave to others (steal), 0 to 1.
    #[serde(default)]
    pub steal: Option<f64>,
}

impl Epoch {
    /// Memory of the target that the kernel can't drop: anonymous and shared memory, in RAM or
    /// swapped out. `None` where the kernel did not tell them apart.
    pub fn held_bytes(&self) -> Option<u64> {
        let beside = [self.shmem_bytes, self.swap_bytes].into_iter().flatten();
        Some(total(beside.chain([self.anonymous_bytes?])))
    }

    /// Charge of the control group beside its processes that the kernel can't drop: files in a tmpfs
    /// and memfds that are not mapped, buffers of sockets, memory of the kernel.
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
/// Rows are of two kinds: frequent ones have only cheap figures (such as `rss_bytes`, from `statm`),
/// the others all that is sampled once a second. A cell that was not sampled is empty.
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
