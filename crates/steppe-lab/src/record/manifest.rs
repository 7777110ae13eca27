//! `manifest.json`: what was run, on what, and what could be seen there.

use serde::{Deserialize, Serialize};

use super::RunKind;

/// All that somebody needs to run it again, or to doubt it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this layout of files; raised when a reader of the old one would go wrong.
    pub format: u32,
    pub lab_version: String,
    /// As the lab was called.
    pub command: Vec<String>,
    pub kind: RunKind,
    /// `name` of the scenario, else its file's name.
    pub scenario_name: String,
    pub scenario_path: String,
    pub scenario_sha256: String,
    /// The file itself, so that the folder stands alone; secrets are hidden, the hash is of all of it.
    pub scenario_text: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub finished: Option<String>,
    /// False until the planned end was reached.
    pub complete: bool,
    /// Of the order of runs, of the loads, and of the bootstrap.
    pub seed: u64,
    pub machine: Machine,
    pub capabilities: Vec<Capability>,
    pub variants: Vec<VariantEntry>,
    /// In the order in which they ran.
    pub runs: Vec<RunEntry>,
    /// CPU time of the lab's own sampling thread, and of the whole lab, in microseconds.
    pub sampler_cpu_us: Option<u64>,
    pub lab_cpu_us: Option<u64>,
    /// Highest RSS of the lab itself.
    pub lab_hwm_bytes: Option<u64>,
}

/// Where it ran.
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
    /// Load average of a minute when the run began: others that want the CPUs.
    pub load_average: Option<f64>,
}

/// Something that the lab can look at, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// As `budget.require` names it: `rss`, `smaps`, `hwm`, `syscalls`, `instructions`, `cgroup`,
    /// `cgroup_sock`, `sockets`, `live_bytes`, …
    pub name: String,
    pub available: bool,
    /// How it is seen, or why not and what to do about it.
    pub detail: String,
    /// What a verdict loses without it.
    pub lost: String,
}

/// A variant as it was run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VariantEntry {
    pub name: String,
    pub cmd: Vec<String>,
    /// Only what the scenario sets; values of what is called like a secret are hidden.
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
    /// Since the first one started.
    pub start_ms: u64,
    /// How long the target took to be ready.
    pub ready_ms: u64,
    /// `exit status: 0`, `signal: 15`; `None` while it runs.
    pub ended: Option<String>,
}
