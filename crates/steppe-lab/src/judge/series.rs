//! Series that are judged for drift, and the allowed change of each.
//!
//! Every series that was measured is judged, named in the scenario or not. Memory has a budget in MiB a
//! day. A series with a hard limit (descriptors, mappings, tasks) must not reach it within
//! `budget.limit_within`, and no count, time or cost may change by more than a share of its level over
//! the run (`budget.drift`). Leaves out the statistics (`stats`) and the texts of findings (`growth`).

use super::float;
use crate::limits::{
    COUNT_DRIFT_FLOOR, P99_OPERATIONS_MIN, PAGE_BYTES, TIME_WAIT_DRIFT_FLOOR, TIME_WAIT_MS,
};
use crate::record::{Epoch, RunKind};
use crate::scenario::{Budget, CYCLE_GROWTH_KIB, DAY_GROWTH_MIB};

/// A series, with its names and the rule for its change.
pub(super) struct Series {
    /// Name in findings.
    pub(super) metric: &'static str,
    /// Name in sentences.
    pub(super) called: &'static str,
    pub(super) of: fn(&Epoch) -> Option<f64>,
    pub(super) rule: Rule,
    pub(super) headroom: Option<Headroom>,
    /// True for timings, which a slower machine changes as well.
    pub(super) is_timing: bool,
    /// Milliseconds since the first point of a run before which points are left out.
    pub(super) from_ms: u64,
}

/// Headroom below a hard limit.
#[derive(Clone, Copy)]
pub(super) struct Headroom {
    pub(super) of: fn(&Epoch) -> Option<u64>,
    /// Name of the limit.
    pub(super) limit: &'static str,
}

/// Kind of a series, which sets its allowed change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// Bytes of memory; see [`Allowed`].
    Memory(Memory),
    /// A count of something, which may always change by `floor` over a run.
    Count { unit: &'static str, floor: f64 },
    /// A time, cost or rate, which may change by a share of its level.
    Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    AtRest,
    HighWater,
    Live,
    Cgroup,
}

/// Allowed growth of a series of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Allowed {
    MibPerDay(f64),
    /// Growth in an epoch or a cycle.
    KibPerStep(f64),
    /// Neither set by the scenario nor by default; `budget.drift` applies.
    Open,
}

impl Allowed {
    /// Allowed growth in MiB a day, with steps of `step_ms` milliseconds; `None`: [`Allowed::Open`].
    pub(super) fn mib_per_day(self, step_ms: f64) -> Option<f64> {
        match self {
            Self::MibPerDay(mib) => Some(mib),
            Self::KibPerStep(kib) => Some(kib / 1024.0 * DAY_MS / step_ms),
            Self::Open => None,
        }
    }
}

impl Memory {
    /// True if a garbage collector may free some of this memory.
    pub(super) fn is_collected(self) -> bool {
        self != Self::Cgroup
    }

    /// True if the scenario sets this growth.
    pub(super) fn is_said(self, budget: &Budget, kind: RunKind) -> bool {
        let (of_step, of_day) = self.said(budget, kind);
        of_step.is_some() || of_day.is_some()
    }

    fn said(self, budget: &Budget, kind: RunKind) -> (Option<f64>, Option<f64>) {
        let is_cycle = kind == RunKind::Cycle;
        let step = if is_cycle {
            &budget.per_cycle
        } else {
            &budget.per_epoch
        };
        let day = &budget.per_day;
        match self {
            Self::AtRest => (step.rss_kib, day.rss_mib),
            Self::HighWater => (step.hwm_kib, day.hwm_mib),
            Self::Live => (step.live_kib, day.live_mib),
            Self::Cgroup => (None, day.cgroup_mib),
        }
    }

    /// The growth that the scenario allows, else the default.
    pub(super) fn allowed(self, budget: &Budget, kind: RunKind) -> Allowed {
        let is_cycle = kind == RunKind::Cycle;
        let (of_step, of_day) = self.said(budget, kind);
        match (of_step, of_day) {
            (Some(kib), _) => Allowed::KibPerStep(kib),
            (None, Some(mib)) => Allowed::MibPerDay(mib),
            (None, None) => match self {
                Self::AtRest if is_cycle => Allowed::KibPerStep(CYCLE_GROWTH_KIB),
                Self::AtRest => Allowed::MibPerDay(DAY_GROWTH_MIB),
                Self::HighWater => Allowed::Open,
                Self::Live | Self::Cgroup => Self::AtRest.allowed(budget, kind),
            },
        }
    }
}

impl Series {
    /// All series that are judged, in the order of reports. `at_rest` is memory in quiet moments.
    pub(super) fn all(at_rest: fn(&Epoch) -> Option<f64>) -> Vec<Self> {
        let high_water = |epoch: &Epoch| epoch.hwm_bytes.map(float);
        let live = |epoch: &Epoch| epoch.live_bytes.map(float);
        let cgroup = |epoch: &Epoch| epoch.cgroup_rest_bytes().map(float);
        let cpu = |epoch: &Epoch| per_operation(epoch, epoch.cpu_us);
        let syscalls = |epoch: &Epoch| per_operation(epoch, epoch.syscalls);
        let mut all = vec![
            memory("rss_growth", "memory", at_rest, Memory::AtRest),
            memory(
                "hwm_growth",
                "the high-water mark",
                high_water,
                Memory::HighWater,
            ),
            memory("live_growth", "live heap", live, Memory::Live),
            memory("cgroup_growth", CGROUP, cgroup, Memory::Cgroup),
        ];
        all.extend(handles());
        all.extend(sockets());
        all.extend([
            share("cpu_us_per_op_growth", "CPU time per operation", cpu).timed(),
            share(
                "syscalls_per_op_growth",
                "the number of system calls per operation",
                syscalls,
            ),
            share("p50_growth", "the median latency", |epoch| epoch.p50_us).timed(),
            share("p99_growth", "the 99th percentile of latency", p99).timed(),
            share("throughput_loss", "throughput", operations_per_s).timed(),
        ]);
        all
    }

    /// Name in `budget.drift`.
    pub(super) fn drift_name(&self) -> &'static str {
        let name = self.metric.strip_suffix("_growth");
        name.or_else(|| self.metric.strip_suffix("_loss"))
            .unwrap_or(self.metric)
    }

    /// Smallest change that the series can show, even without noise.
    pub(super) fn resolution(&self) -> f64 {
        match self.rule {
            Rule::Memory(_) => PAGE_BYTES,
            Rule::Count { .. } => 1.0,
            Rule::Share => 0.0,
        }
    }

    /// True if the series gets worse by falling.
    pub(super) fn falls(&self) -> bool {
        self.metric.ends_with("_loss")
    }

    fn until(mut self, of: fn(&Epoch) -> Option<u64>, limit: &'static str) -> Self {
        self.headroom = Some(Headroom { of, limit });
        self
    }

    fn timed(mut self) -> Self {
        self.is_timing = true;
        self
    }

    fn from(mut self, ms: u64) -> Self {
        self.from_ms = ms;
        self
    }
}

fn handles() -> [Series; 5] {
    let tasks_left = |epoch: &Epoch| epoch.tasks_left;
    let counted = |metric, called, unit, of| {
        let floor = COUNT_DRIFT_FLOOR;
        series(metric, called, of, Rule::Count { unit, floor })
    };
    [
        counted(
            "open_files_growth",
            "the number of open files",
            "files",
            |epoch| epoch.open_files.map(float),
        )
        .until(|epoch| epoch.files_left, "RLIMIT_NOFILE"),
        counted(
            "processes_growth",
            "the number of processes",
            "processes",
            |epoch| epoch.processes.map(float),
        )
        .until(tasks_left, TASKS),
        counted(
            "threads_growth",
            "the number of threads",
            "threads",
            |epoch| epoch.threads.map(float),
        )
        .until(tasks_left, TASKS),
        counted(
            "zombies_growth",
            "the number of zombies",
            "zombies",
            |epoch| epoch.zombies.map(float),
        )
        .until(tasks_left, TASKS),
        counted(
            "mappings_growth",
            "the number of memory mappings",
            "mappings",
            |epoch| epoch.mappings.map(float),
        )
        .until(|epoch| epoch.mappings_left, "vm.max_map_count"),
    ]
}

fn sockets() -> [Series; 4] {
    let counted_from = |floor, metric, called, of| {
        let unit = "sockets";
        series(metric, called, of, Rule::Count { unit, floor })
    };
    let counted = |metric, called, of| counted_from(COUNT_DRIFT_FLOOR, metric, called, of);
    [
        counted(
            "established_growth",
            "the number of ESTABLISHED sockets",
            |epoch| epoch.established_max.map(float),
        ),
        counted(
            "close_wait_growth",
            "the number of CLOSE_WAIT sockets",
            |epoch| epoch.close_wait_max.map(float),
        ),
        // The kernel keeps each socket for this time: until then, their number can only grow.
        counted_from(
            TIME_WAIT_DRIFT_FLOOR,
            "time_wait_growth",
            "the number of TIME_WAIT sockets",
            |epoch| epoch.time_wait_max.map(float),
        )
        .from(TIME_WAIT_MS),
        counted(
            "other_tcp_growth",
            "the number of sockets in other TCP states",
            |epoch| epoch.other_tcp_max.map(float),
        ),
    ]
}

fn memory(
    metric: &'static str,
    called: &'static str,
    of: fn(&Epoch) -> Option<f64>,
    memory: Memory,
) -> Series {
    series(metric, called, of, Rule::Memory(memory))
}

fn share(metric: &'static str, called: &'static str, of: fn(&Epoch) -> Option<f64>) -> Series {
    series(metric, called, of, Rule::Share)
}

fn series(
    metric: &'static str,
    called: &'static str,
    of: fn(&Epoch) -> Option<f64>,
    rule: Rule,
) -> Series {
    Series {
        metric,
        called,
        of,
        rule,
        headroom: None,
        is_timing: false,
        from_ms: 0,
    }
}

fn per_operation(epoch: &Epoch, total: Option<u64>) -> Option<f64> {
    let operations = epoch.operations.filter(|operations| *operations > 0)?;
    Some(float(total?) / float(operations))
}

/// The 99th percentile in µs; `None` with few operations, where it is the slowest of them.
fn p99(epoch: &Epoch) -> Option<f64> {
    epoch
        .p99_us
        .filter(|_| epoch.operations >= Some(P99_OPERATIONS_MIN))
}

fn operations_per_s(epoch: &Epoch) -> Option<f64> {
    let load_ms = Some(epoch.load_ms).filter(|ms| *ms > 0)?;
    Some(float(epoch.operations?) * 1_000.0 / float(load_ms))
}

const CGROUP: &str = "control group memory outside its processes (files in tmpfs, memfds, socket \
                      buffers, kernel memory)";
const TASKS: &str = "the system's limit on tasks";

const DAY_MS: f64 = 86_400_000.0;
