//! `manifest.json`: the run, its machine, and the figures that could be seen there.

use serde::{Deserialize, Serialize};

use super::RunKind;

/// Everything needed to repeat a run, or to doubt it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this layout of files; raised when a reader of the old one would go wrong.
    pub format: u32,
    pub lab_version: String,
    /// Command line of the lab.
    pub command: Vec<String>,
    pub kind: RunKind,
    /// `name` of the scenario, else its file's name.
    pub scenario_name: String,
    pub scenario_path: String,
    pub scenario_sha256: String,
    /// The file itself, so that the folder stands alone; secrets are hidden, the hash is that of the
    /// whole file.
    pub scenario_text: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub finished: Option<String>,
    /// False until the planned end was reached.
    pub complete: bool,
    /// Seed of the order of runs, of the loads, and of the bootstrap.
    pub seed: u64,
    pub machine: Machine,
    pub capabilities: Vec<Capability>,
    pub variants: Vec<VariantEntry>,
    /// All runs, in the order in which they ran.
    pub runs: Vec<RunEntry>,
    /// CPU time of the lab's own sampling thread, and of the whole lab, in microseconds.
    pub sampler_cpu_us: Option<u64>,
    pub lab_cpu_us: Option<u64>,
    /// Highest RSS of the lab itself.
    pub lab_hwm_bytes: Option<u64>,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    pub kernel: String,
    pub architecture: String,
    pub cpu_model: Option<String>,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// `None`: the machine does not say (often a virtual one).
    pub governor: Option<String>,
    pub transparent_huge_pages: Option<String>,
    /// `v1`, `v2`, or `None`.
    pub cgroup: Option<String>,
    /// Load average of a minute when the run began: other processes that compete for the CPUs.
    pub load_average: Option<f64>,
}

/// A figure that the lab can look at on this machine, or can't.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Name, as in `budget.require`: `rss`, `smaps`, `hwm`, `syscalls`, `instructions`, `cgroup`,
    /// `cgroup_sock`, `sockets`, `live_bytes`, …
    pub name: String,
    pub available: bool,
    /// The source of the figure, or the reason why it is missing and the remedy.
    pub detail: String,
    /// The part of a verdict that is lost without it.
    pub lost: String,
}

/// A variant as it was run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VariantEntry {
    pub name: String,
    pub cmd: Vec<String>,
    /// Only what the scenario sets; values of variables with a name like that of a secret are hidden.
    pub env: Vec<(String, String)>,
    pub preload: Option<String>,
    pub executable: Option<String>,
    pub executable_sha256: Option<String>,
}

/// One run: a fresh process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunEntry {
    pub variant: String,
    pub run: u32,
    /// Start of this run, since the start of the first one.
    pub start_ms: u64,
    /// Time until the target was ready.
    pub ready_ms: u64,
    /// `exit status: 0`, `signal: 15`; `None` while it runs.
    pub ended: Option<String>,
}
