//! Scenario files as valid types.
//!
//! [`Scenario::parse`] reports every mistake at once, with its place and a help line; nothing is validated
//! afterwards, and no key is ignored. `docs/lab/scenarios.md` lists the keys.

#![expect(
    missing_docs,
    reason = "a field is named after the column or the key that it holds"
)]

mod read;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::limits::{EPOCHS_MAX, LOOKS_MAX, RUNS_MAX};
use crate::record::Outcome;

pub use read::CAPABILITIES;
pub use steppe_config::report::{Drawing, Report};

/// A whole scenario file. A command takes the file if its plan is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// `name`, else the file's stem.
    pub name: String,
    pub target: Target,
    pub services: Vec<Service>,
    pub loads: Vec<Load>,
    pub soak: Option<SoakPlan>,
    pub cycle: Option<CyclePlan>,
    pub ab: Option<AbPlan>,
    pub leaks: Option<LeaksPlan>,
    /// At least one variant; `default` where the file has none.
    pub variants: Vec<Variant>,
    pub budget: Budget,
    pub sampling: Sampling,
    /// Seed of the order of runs, and of loads without one of their own.
    pub seed: u64,
}

/// The server that is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub process: TargetProcess,
    /// Sign of readiness; at once for a target that runs already.
    pub ready: Ready,
    pub ready_timeout: Duration,
    /// Time after SIGTERM, before SIGKILL.
    pub stop_timeout: Duration,
    pub live_bytes: Option<LiveBytes>,
    /// URL of the target's metrics in Prometheus's text format.
    pub metrics: Option<String>,
    /// Way to force a garbage collection in each quiet moment, before memory is looked at.
    pub collect: Option<Collect>,
    /// Source of heap profiles, fetched after warm-up and at the end of a soak or a cycle.
    pub profile: Option<ProfileSource>,
}

/// The runtime that profiles its heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileSource {
    /// `net/http/pprof` at this URL: `http://ADDRESS:PORT/debug/pprof`.
    Go { url: String },
    /// The inspector of Node.js, which the lab opens.
    Node,
    /// Python's `tracemalloc`, which the lab starts.
    Python,
    /// Java's `jcmd`.
    Java,
}

/// The process of a target, started by the lab or not.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetProcess {
    /// The lab starts the target for each run, and ends it.
    Command(Program),
    /// The target runs already, and goes on when the lab has ended.
    Running(Running),
}

/// A target that the lab does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Running {
    /// A process, with everything that descends from it.
    Pid(u32),
    /// All processes in a control group and below it. Its folder, or the group as `/proc/PID/cgroup` names
    /// it.
    Cgroup(PathBuf),
}

/// Ways to make the target collect its garbage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collect {
    /// A GET that is answered with 2xx once it is done.
    Url(String),
    Signal(Signal),
}

/// A command line with its surroundings. Paths are relative to the folder the lab was started in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// The program, then its arguments; never empty.
    pub cmd: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<PathBuf>,
}

/// The sign that a process is ready.
#[derive(Debug, Clone, PartialEq)]
pub enum Ready {
    /// A GET is answered with 2xx.
    Http(String),
    /// A connection is accepted.
    Tcp(SocketAddr),
    /// A line of the process's output matches. `log:PATTERN`
    Log(String),
    /// The process has run for this time. `after:2s`
    After(Duration),
}

/// The target's endpoint for its live bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveBytes {
    pub url: String,
    /// JSON pointer to the number (RFC 6901).
    pub pointer: String,
}

/// A process beside the target.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    pub name: String,
    pub command: Program,
    pub ready: Option<Ready>,
    pub ready_timeout: Duration,
    pub stop_timeout: Duration,
    /// `after = "target"`: started once the target is ready.
    pub after_target: bool,
    /// True if the memory of the service counts like the target's.
    pub measure: bool,
}

/// One source of operations. Several run at once; each has a rate or a number of connections of
/// its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// `name`, else its kind and number.
    pub name: String,
    pub pace: Pace,
    /// Time in which the rate (or the number of connections at work) rises from nothing at the start.
    pub ramp: Duration,
    /// Seed of the load's random choices.
    pub seed: u64,
    /// Number of generator threads, from 1.
    pub threads: u32,
    /// A response that takes longer is an error.
    pub timeout: Duration,
    pub kind: LoadKind,
}

/// The pace of operations: set by a rate, or by the responses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// A rate in operations a second, whatever the target does. Times count from the intended start.
    Open { rate_per_s: f64 },
    /// Each connection starts the next operation when the last one is over.
    Closed,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LoadKind {
    /// HTTP/1.1, kept alive.
    Http1(HttpLoad),
    /// HTTP/2; `https` by ALPN, `http` with prior knowledge.
    Http2(HttpLoad),
    Dns(DnsLoad),
    Command(CommandLoad),
}

#[derive(Debug, Clone, PartialEq)]
pub struct HttpLoad {
    /// `http://` or `https://`.
    pub url: String,
    pub method: String,
    pub headers: Vec<(String, String)>,
    pub body_bytes: u64,
    /// Ranges of statuses that count as success.
    pub expect: Vec<Expect>,
    pub connections: u32,
    /// Requests at a time on a connection: 1 for HTTP/1.1.
    pub streams: u32,
    /// PEM file of authorities, beside the system's.
    pub ca: Option<PathBuf>,
    /// True if the certificate is verified; `verify = false` takes any.
    pub verify: bool,
}

/// A range of statuses that count as success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// First status, inclusive; `to` is inclusive as well.
    pub from: u16,
    pub to: u16,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DnsLoad {
    pub server: SocketAddr,
    pub tcp: bool,
    /// Names to ask for, at random with equal chances. `{n}` in one is replaced by a random number below
    /// `spread`.
    pub names: Vec<String>,
    pub spread: u64,
    /// `A`, `AAAA`, …
    pub record_type: String,
    /// `NOERROR`, `NXDOMAIN`, …
    pub expect_rcode: String,
    pub connections: u32,
}

/// Any program that speaks the line protocol of `docs/lab/protocol.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLoad {
    /// `{seconds}`, `{epoch}`, `{seed}` and `{rate}` in arguments are replaced.
    pub command: Program,
}

/// `[epochs]`.
#[derive(Debug, Clone, PartialEq)]
pub struct SoakPlan {
    /// Length of an epoch, the quiet moment included.
    pub length: Duration,
    /// Number of epochs, warm-up included.
    pub count: u32,
    pub warmup: u32,
    pub quiesce: Duration,
    /// Fresh processes a variant.
    pub runs: u32,
    pub until: Until,
}

/// The end of a soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// After the planned epochs.
    #[default]
    Planned,
    /// At the look that decides every series, the fifth at most; the first is after the planned epochs.
    Decided,
}

impl Until {
    /// Names in scenarios and on the command line.
    pub const NAMES: [(&str, Self); 2] = [("planned", Self::Planned), ("decided", Self::Decided)];
}

impl SoakPlan {
    /// Checks the number of runs and epochs, up to the last look, against the limits.
    ///
    /// # Errors
    /// With the number that is too high, and the limit.
    pub fn check_length(&self) -> Result<(), String> {
        let most = if self.until == Until::Decided {
            LOOKS_MAX
        } else {
            1
        };
        let check = |what: &str, count: u32, limit: u32| {
            if count <= limit / most {
                return Ok(());
            }
            Err(format!(
                "until = \"decided\" may take {most} times as many {what}: {} at most, not {count}",
                limit / most
            ))
        };
        if self.runs > 1 {
            check("runs", self.runs, RUNS_MAX)
        } else {
            check("epochs", self.count, EPOCHS_MAX)
        }
    }
}

/// `[cycles]`: the loads run to their end once a cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct CyclePlan {
    pub count: u32,
    pub warmup: u32,
    pub quiesce: Duration,
    /// Length of loads that have no end of their own (all but `command`).
    pub length: Duration,
    /// A command load that takes longer has failed.
    pub timeout: Duration,
    pub runs: u32,
}

/// `[ab]`: the first two variants against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct AbPlan {
    pub pairs: u32,
    /// Length of load before the measurement; `length` is that of the measurement.
    pub warmup: Duration,
    pub length: Duration,
    /// At least one gate.
    pub gates: Vec<AbGate>,
}

/// A limit on the ratio of the second variant to the first in a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct AbGate {
    pub metric: AbMetric,
    pub limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AbMetric {
    CpuPerOp,
    SyscallsPerOp,
    InstructionsPerOp,
    P50,
    P99,
    P999,
    Rss,
    Hwm,
    /// Ratio of the first variant to the second, so that more is worse like everywhere else.
    Throughput,
}

/// `[leaks]`: a leak checker's verdict after a clean shutdown.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaksPlan {
    pub checker: LeakChecker,
    /// Length of the load.
    pub length: Duration,
    /// Further arguments for valgrind.
    pub arguments: Vec<String>,
    /// Command that runs instead of the target's: the sanitizer build.
    pub command: Option<Vec<String>>,
    /// Most bytes that may be definitely (or indirectly) lost.
    pub lost_bytes_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeakChecker {
    Memcheck,
    /// LeakSanitizer, alone or within AddressSanitizer.
    Sanitizer,
}

/// The target with another environment, command line or preloaded library.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Variant {
    pub name: String,
    /// Variables that are added to the target's, and override them.
    pub env: BTreeMap<String, String>,
    /// Command line instead of the target's.
    pub cmd: Option<Vec<String>>,
    /// A library for `LD_PRELOAD`.
    pub preload: Option<PathBuf>,
    pub expect: Option<Outcome>,
}

/// Limits of a scenario. `None`: measured, not judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Growth in an epoch of a soak.
    pub per_epoch: GrowthBudget,
    /// Growth in a cycle.
    pub per_cycle: GrowthBudget,
    /// Growth in a day of a soak; where there is no limit for an epoch.
    pub per_day: DayBudget,
    /// Least time until any hard limit, if growth goes on like in the run.
    pub limit_within: Duration,
    pub drift: DriftBudget,
    /// Share of its level by which a series of the target's metrics may change, by its name with or
    /// without labels; `None` is `"off"`.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Least rise of a counter of the target's metrics, by its name with or without labels.
    pub rises: BTreeMap<String, f64>,
    pub rss_mib: Option<f64>,
    pub hwm_mib: Option<f64>,
    /// High-water mark of the programs of command loads.
    pub load_hwm_mib: Option<f64>,
    pub syscalls_per_op: Option<f64>,
    pub cpu_us_per_op: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub p999_ms: Option<f64>,
    pub errors: Option<u64>,
    /// Share of all operations that may be refused, 0 to 1.
    pub refused_share: Option<f64>,
    pub close_wait_max: Option<u64>,
    pub open_files_max: Option<u64>,
    pub operations_per_s_min: Option<f64>,
    /// Memory at which the process would be killed: growth is told as time until then.
    pub limit_mib: Option<f64>,
    /// Names of capabilities without which a verdict is invalid.
    pub require: Vec<String>,
}

/// Growth of memory allowed from point to point, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GrowthBudget {
    /// Growth of memory in quiet moments.
    pub rss_kib: Option<f64>,
    /// Growth of high-water marks.
    pub hwm_kib: Option<f64>,
    /// Growth of the live heap; `rss_kib` where it is not given.
    pub live_kib: Option<f64>,
}

/// Growth of memory allowed in a day, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DayBudget {
    /// Growth of memory in quiet moments; [`DAY_GROWTH_MIB`] where nothing is given.
    pub rss_mib: Option<f64>,
    /// Growth of high-water marks.
    pub hwm_mib: Option<f64>,
    /// Growth of the live heap; the limit in quiet moments where it is not given.
    pub live_mib: Option<f64>,
    /// Growth of the control group's charge beside its processes; likewise.
    pub cgroup_mib: Option<f64>,
}

/// Shares of its level by which a series may change over a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DriftBudget {
    /// `drift = "off"`.
    pub is_off: bool,
    /// Shares by the name of the series, where the scenario gives one; `None` is `"off"`.
    pub shares: BTreeMap<String, Option<f64>>,
}

impl DriftBudget {
    /// The share of a series; `None`: it is not judged.
    pub fn share(&self, name: &str) -> Option<f64> {
        if self.is_off {
            return None;
        }
        if let Some(said) = self.shares.get(name) {
            return *said;
        }
        let default = DRIFTS.iter().find(|(drift, _)| *drift == name);
        default.map(|(_, share)| *share)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            per_epoch: GrowthBudget::default(),
            per_cycle: GrowthBudget::default(),
            per_day: DayBudget::default(),
            limit_within: LIMIT_WITHIN,
            drift: DriftBudget::default(),
            metrics: BTreeMap::new(),
            rises: BTreeMap::new(),
            rss_mib: None,
            hwm_mib: None,
            load_hwm_mib: None,
            syscalls_per_op: None,
            cpu_us_per_op: None,
            p50_ms: None,
            p99_ms: None,
            p999_ms: None,
            errors: None,
            refused_share: None,
            close_wait_max: None,
            open_files_max: None,
            operations_per_s_min: None,
            limit_mib: None,
            require: Vec::new(),
        }
    }
}

/// Series that are judged for drift beside bytes, and the default share of its level by which each may
/// change over a run.
pub const DRIFTS: [(&str, f64); 15] = [
    ("hwm", 1.0),
    ("open_files", 1.0),
    ("processes", 1.0),
    ("threads", 1.0),
    ("zombies", 1.0),
    ("mappings", 1.0),
    ("established", 1.0),
    ("close_wait", 1.0),
    ("time_wait", 1.0),
    ("other_tcp", 1.0),
    ("cpu_us_per_op", 0.5),
    ("syscalls_per_op", 0.25),
    ("p50", 1.0),
    ("p99", 2.0),
    ("throughput", 0.5),
];

/// Default share of its level by which a gauge of the target's metrics may change.
pub const METRIC_DRIFT: f64 = 1.0;
/// Default growth of memory, in MiB a day.
pub const DAY_GROWTH_MIB: f64 = 512.0;
/// Default growth of memory, in KiB a cycle.
pub const CYCLE_GROWTH_KIB: f64 = 64.0;
/// Default of the least time until a hard limit.
pub const LIMIT_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// Intervals between samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Interval of `statm`.
    pub fast: Duration,
    /// Interval of everything else.
    pub slow: Duration,
}

impl Target {
    /// The program that the lab starts; `None` of a target that runs already.
    pub fn command(&self) -> Option<&Program> {
        match &self.process {
            TargetProcess::Command(program) => Some(program),
            TargetProcess::Running(_) => None,
        }
    }

    /// The process or group to find; `None` of a target that the lab starts.
    pub fn running(&self) -> Option<&Running> {
        match &self.process {
            TargetProcess::Command(_) => None,
            TargetProcess::Running(running) => Some(running),
        }
    }
}

impl Load {
    /// True if the load is generated by a program.
    pub fn is_command(&self) -> bool {
        matches!(self.kind, LoadKind::Command(_))
    }
}

impl AbMetric {
    /// Every metric, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::CpuPerOp,
        Self::SyscallsPerOp,
        Self::InstructionsPerOp,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Rss,
        Self::Hwm,
        Self::Throughput,
    ];

    /// Metrics by the name that scenarios and reports give them.
    pub const NAMES: [(&str, Self); 9] = {
        let mut names = [("", Self::CpuPerOp); 9];
        let mut at = 0;
        while at < names.len() {
            names[at] = (Self::ALL[at].name(), Self::ALL[at]);
            at += 1;
        }
        names
    };

    /// Name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CpuPerOp => "cpu_us_per_op",
            Self::SyscallsPerOp => "syscalls_per_op",
            Self::InstructionsPerOp => "instructions_per_op",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Rss => "rss",
            Self::Hwm => "hwm",
            Self::Throughput => "throughput",
        }
    }
}

impl Default for AbPlan {
    /// Ten pairs of ten seconds, judged by CPU per operation.
    fn default() -> Self {
        Self {
            pairs: 10,
            warmup: Duration::from_secs(2),
            length: Duration::from_secs(10),
            gates: vec![AbGate {
                metric: AbMetric::CpuPerOp,
                limit: 1.05,
            }],
        }
    }
}

impl Default for LeaksPlan {
    fn default() -> Self {
        Self {
            checker: LeakChecker::Memcheck,
            length: Duration::from_secs(10),
            arguments: Vec::new(),
            command: None,
            lost_bytes_max: 0,
        }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            fast: Duration::from_millis(100),
            slow: Duration::from_secs(1),
        }
    }
}
