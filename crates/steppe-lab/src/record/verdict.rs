//! `verdict.json`: the verdict, its findings and their basis.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a run: the command that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    Soak,
    Cycle,
    Ab,
    Calibrate,
    Leaks,
}

/// The answer, in a word. Worst last: the verdict of a whole is the worst of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Outcome {
    /// A limit is kept; of A/B, the ratio is under it with confidence.
    Go,
    /// Growth is under the budget, with the confidence asked for.
    Stable,
    /// The interval has the budget within it: more epochs, more runs, or less noise.
    Inconclusive,
    /// Over the budget in the whole window, and not shown for its last half.
    Growing,
    /// A limit is broken.
    NoGo,
    /// Over the budget in the whole window and in its last half.
    Unbounded,
    /// Live bytes grow over the budget, or a leak checker found unreachable blocks.
    Leak,
    /// The measurement can't be used; see the problems.
    Invalid,
    /// The target did not start, died or would not stop.
    TargetFailed,
}

impl Outcome {
    /// The exit code of the process: documented, and the same for every command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Stable | Self::Go => 0,
            Self::NoGo | Self::Unbounded | Self::Leak => 1,
            Self::Inconclusive | Self::Growing => 3,
            Self::TargetFailed => 4,
            Self::Invalid => 5,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stable => "STABLE",
            Self::Go => "GO",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Growing => "GROWING",
            Self::NoGo => "NO-GO",
            Self::Unbounded => "UNBOUNDED",
            Self::Leak => "LEAK",
            Self::Invalid => "INVALID",
            Self::TargetFailed => "TARGET-FAILED",
        })
    }
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub lower: f64,
    pub estimate: f64,
    pub upper: f64,
}

/// The method behind an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// One slope a fresh process: a gate.
    FreshProcesses,
    /// Blocks of one process drawn again and again: exploration, and labelled so.
    BlockBootstrap,
    /// Log-ratios of pairs, drawn again and again.
    PairedBootstrap,
    /// A figure held against a limit.
    Limit,
}

/// The answer to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub kind: RunKind,
    #[serde(rename = "word")]
    pub outcome: Outcome,
    pub exit_code: u8,
    /// False: ended before the planned end, by Ctrl-C or a failure.
    pub complete: bool,
    /// One sentence that sums up the verdict.
    pub headline: String,
    pub variants: Vec<VariantVerdict>,
    /// One finding a metric, of A/B and calibration.
    pub comparisons: Vec<Finding>,
    pub problems: Vec<Problem>,
}

/// The answer for a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantVerdict {
    pub name: String,
    #[serde(rename = "word")]
    pub outcome: Outcome,
    /// The outcome that the scenario expects; when it comes, it counts as kept.
    pub expect: Option<Outcome>,
    /// Number of runs; a verdict of a single run is labelled so.
    pub runs: u32,
    pub findings: Vec<Finding>,
    /// Stacks that allocated the lost blocks, of `leaks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<LeakSite>,
    /// Sites of the heap that grew most, where growth is not known to stay within its budget: as the
    /// target's runtime tells it, from the end of warm-up to the end of the run. At most ten of each
    /// kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growing: Vec<GrowingSite>,
    /// The outcome of each look, of a run that goes on until it is decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<LookOutcome>,
}

/// The outcome of one look at a run that goes on until it is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookOutcome {
    /// Number of the look from 1, of `of` at most.
    pub number: u32,
    pub of: u32,
    /// Epochs and processes behind the outcome, without warm-up.
    pub epochs: u64,
    pub runs: u32,
    #[serde(rename = "word")]
    pub outcome: Outcome,
    /// Metrics that were not decided.
    pub open: Vec<String>,
}

impl fmt::Display for LookOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, of, .. } = self;
        write!(f, "look {number} of {of}, after {} epochs", self.epochs)?;
        if self.runs > 1 {
            write!(f, " in {} processes", self.runs)?;
        }
        write!(f, ": {}", self.outcome)?;
        if !self.open.is_empty() {
            write!(f, "; open: {}", self.open.join(", "))?;
        }
        Ok(())
    }
}

impl VariantVerdict {
    /// True if the variant grows as the scenario expects.
    pub fn is_as_expected(&self) -> bool {
        let grown = self.findings.iter().filter(|finding| finding.is_growth());
        let grown = grown
            .map(|finding| finding.outcome)
            .max()
            .unwrap_or(self.outcome);
        // A leak is unbounded growth whose cause was found.
        self.expect.is_some_and(|expected| {
            grown == expected || (expected, grown) == (Outcome::Unbounded, Outcome::Leak)
        })
    }

    /// The outcome in the whole verdict: a variant that grows as expected is judged by its other
    /// findings.
    pub fn counts_as(&self) -> Outcome {
        if self.expect.is_none() {
            return self.outcome;
        }
        if self.is_as_expected() {
            let rest = self.findings.iter().filter(|finding| !finding.is_growth());
            let worst = rest.map(|finding| finding.outcome).max();
            return worst.unwrap_or(Outcome::Stable).max(Outcome::Stable);
        }
        // Growth was expected, and was not shown.
        if self.outcome.exit_code() == 0 {
            Outcome::NoGo
        } else {
            self.outcome
        }
    }
}

impl Finding {
    /// True for drift, of anything but memory, within its budget: reported in one line, since there are
    /// many of them.
    pub fn is_unremarkable(&self) -> bool {
        let is_memory = ["rss_growth", "hwm_growth", "live_growth"].contains(&self.metric.as_str());
        let is_stable = self.is_judged() && self.outcome == Outcome::Stable;
        self.is_growth() && !is_memory && is_stable && self.notes.is_empty()
    }

    /// True if the finding has a limit, or fails. A figure without a limit is no success.
    pub fn is_judged(&self) -> bool {
        self.limit.is_some() || self.outcome.exit_code() != 0
    }

    /// The outcome for people: `measured` where the scenario sets no limit.
    pub fn word(&self) -> String {
        if self.is_judged() {
            self.outcome.to_string()
        } else {
            "measured".to_owned()
        }
    }

    /// True for findings about growth, or about blocks that are never freed.
    pub fn is_growth(&self) -> bool {
        self.is_drift() || self.metric == "lost_bytes"
    }

    /// True for growth that is not known to stay within its budget.
    pub fn is_open_growth(&self) -> bool {
        let is_kept = [Outcome::Stable, Outcome::Go].contains(&self.outcome);
        self.is_growth() && !is_kept
    }

    /// True for findings about the change of a series.
    pub fn is_drift(&self) -> bool {
        let ends = ["_growth", "_loss"];
        ends.iter().any(|end| self.metric.ends_with(end))
    }
}

/// One figure against one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name as `explain` takes it: `rss_growth`, `hwm_growth`, `live_growth`, `p99`, `syscalls_per_op` …
    pub metric: String,
    /// `KiB/epoch`, `KiB/cycle`, `ms`, `calls/op`, `ratio`, `µs/op`, `MiB`, `count` …
    pub unit: String,
    #[serde(rename = "word")]
    pub outcome: Outcome,
    /// One sentence with the figures in it.
    pub text: String,
    pub method: Method,
    /// `None`: measured, and the scenario sets no limit.
    pub limit: Option<f64>,
    pub value: Option<Interval>,
    /// Growth only: the interval of the last half of the window.
    pub last_half: Option<Interval>,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: Option<f64>,
    /// Points a series after warm-up, and the number of series (or pairs).
    pub points: u32,
    pub series: u32,
    /// Growth only: probability of such a slope by chance if growth is exactly what is allowed.
    #[serde(default)]
    pub p_value: Option<f64>,
    /// Growth only: the least growth that four of five such runs would have detected, in `unit`.
    #[serde(default)]
    pub detectable: Option<f64>,
    /// Growth only: one `unit` as a change from epoch to epoch, in the unit of `epochs.csv`.
    #[serde(default)]
    pub per_step: Option<f64>,
    /// Hours until a hard limit at this slope; `None` where the series does not grow towards one.
    #[serde(default)]
    pub hours_left: Option<f64>,
    /// Further sentences: time until the limit, leak or retention, bytes an operation.
    pub notes: Vec<String>,
}

/// A place in the program, or a type, of which the heap held more at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingSite {
    /// `heap` or `goroutines`.
    pub kind: String,
    /// `function (file:line)`, `file:line` or a type, as far as the runtime tells.
    pub site: String,
    /// Growth in bytes; `None`: the runtime does not tell it.
    pub bytes: Option<u64>,
    /// Growth in the number of objects, or of goroutines.
    pub count: Option<u64>,
}

/// A block that was lost, or might have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeakSite {
    /// `definitely lost`, `possibly lost`, …, as the checker says.
    pub kind: String,
    pub bytes: u64,
    pub blocks: u64,
    /// Innermost first: `function (file:line)`.
    pub stack: Vec<String>,
}

/// Why a measurement or a target can't be trusted, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub kind: ProblemKind,
    pub text: String,
    pub help: String,
}

impl Problem {
    pub fn new(kind: ProblemKind, text: impl Into<String>, help: impl Into<String>) -> Self {
        let (text, help) = (text.into(), help.into());
        Self { kind, text, help }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// The generator, not the target, set the pace.
    GeneratorSaturated,
    /// `budget.require` names a capability that is missing here.
    MissingCapability,
    /// The target was never ready, died, or would not stop.
    TargetFailed,
    /// A service or a load ended by itself, or could not start.
    HelperFailed,
    /// Ctrl-C.
    Interrupted,
    /// A remark; it does not change the outcome.
    Note,
}
