//! The verdict of a run: its rows, compared with budgets and limits, and pair by pair.
//!
//! Invariant: an outcome is never better than the measurements allow. A limit on a figure that was not measured
//! is INCONCLUSIVE, not kept; the outcome of a whole is the worst of its parts. Left out: the statistics
//! themselves (`stats`), and reports (`report`).

mod attribution;
mod growth;
mod kept;
mod looks;
mod machine;
mod metrics;
mod pairs;
mod rises;
mod series;
mod undecided;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::record::{
    Epoch, Finding, Interval, Method, Outcome, Problem, ProblemKind, RunKind, VariantVerdict,
    Verdict, total,
};
use crate::scenario::{Budget, Variant};
use crate::stats::Look;

pub use attribution::Attribution;
pub use kept::{doubt_lost, lost};
pub use looks::{Decision, Looked};
pub use metrics::{MetricFindings, metrics};
pub use pairs::{RunLatency, findings as comparisons};
pub use rises::rises;

/// Measurements of a run, as the judge needs them.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Every row, warm-up included.
    pub epochs: &'a [Epoch],
    /// Response times after warm-up, by variant.
    pub latency: &'a BTreeMap<String, Histogram<u64>>,
    /// Memory in bytes at which the target would be killed, if known.
    pub limit_bytes: Option<u64>,
    /// True if the live bytes cover all measured processes: no service is measured beside the target.
    pub live_is_whole: bool,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Number of this look at the run, and of all looks.
    pub look: Look,
}

/// Allowed growth of memory at rest, in MiB a day; `None`: the length of a step is not known yet.
pub fn allowed_at_rest(budget: &Budget, kind: RunKind, epochs: &[Epoch]) -> Option<f64> {
    series::Memory::AtRest
        .allowed(budget, kind)
        .mib_per_day(mean_step_ms(epochs)?)
}

/// Milliseconds from the start of one epoch of a process to that of the next, on average.
pub fn mean_step_ms(epochs: &[Epoch]) -> Option<f64> {
    let (first, last) = (epochs.first()?, epochs.last()?);
    let elapsed = last.start_ms.checked_sub(first.start_ms)?;
    let steps = u64::try_from(epochs.len() - 1).ok()?;
    (elapsed > 0).then(|| float(elapsed) / float(steps))
}

/// Judges each variant against the budget.
pub fn variants(
    evidence: Evidence<'_>,
    variants: &[Variant],
    budget: &Budget,
    kind: RunKind,
) -> Vec<VariantVerdict> {
    let judge = |variant: &Variant| {
        let measured = Measured::of(evidence.epochs, &variant.name);
        let mut findings = growth::findings(&measured, budget, evidence, kind);
        findings.extend(kept::findings(
            &measured,
            budget,
            evidence.latency.get(&variant.name),
        ));
        let word = findings.iter().map(|finding| finding.outcome).max();
        VariantVerdict {
            name: variant.name.clone(),
            outcome: word.unwrap_or(Outcome::Inconclusive),
            expect: variant.expect,
            runs: measured.runs(),
            findings,
            leaks: Vec::new(),
            growing: Vec::new(),
            looks: Vec::new(),
        }
    };
    variants.iter().map(judge).collect()
}

/// Judges each variant of an A/B by the limits of the budget; growth is not judged there.
pub fn limits(evidence: Evidence<'_>, names: [&str; 2], budget: &Budget) -> Vec<VariantVerdict> {
    let judge = |name: &str| {
        let measured = Measured::of(evidence.epochs, name);
        let mut findings = kept::findings(&measured, budget, evidence.latency.get(name));
        findings.retain(|finding| finding.limit.is_some());
        VariantVerdict {
            name: name.to_owned(),
            outcome: worst(&findings),
            expect: None,
            runs: measured.runs(),
            findings,
            leaks: Vec::new(),
            growing: Vec::new(),
            looks: Vec::new(),
        }
    };
    names
        .map(judge)
        .into_iter()
        .filter(|variant| !variant.findings.is_empty())
        .collect()
}

/// The worst outcome of some findings; INCONCLUSIVE without any.
pub fn worst(findings: &[Finding]) -> Outcome {
    let words = findings.iter().map(|finding| finding.outcome);
    words.max().unwrap_or(Outcome::Inconclusive)
}

/// The verdict of the whole run: the worst outcome of its parts, and a headline.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub fn whole(
    kind: RunKind,
    complete: bool,
    variants: Vec<VariantVerdict>,
    comparisons: Vec<Finding>,
    problems: Vec<Problem>,
) -> Verdict {
    let parts = variants
        .iter()
        .map(VariantVerdict::counts_as)
        .chain(comparisons.iter().map(|finding| finding.outcome));
    let broken = problems.iter().filter_map(|problem| word_of(problem.kind));
    let worst = parts.chain(broken).max().unwrap_or(Outcome::Inconclusive);
    let headline = headline(worst, complete, &variants, &comparisons, &problems);
    // An incomplete run does not pass.
    let is_half_a_pass = !complete && worst.exit_code() == 0;
    let word = if is_half_a_pass {
        Outcome::Inconclusive
    } else {
        worst
    };
    let exit_code = if complete {
        word.exit_code()
    } else {
        incomplete_exit(word, &problems)
    };
    Verdict {
        kind,
        outcome: word,
        exit_code,
        complete,
        headline,
        variants,
        comparisons,
        problems,
    }
}

fn word_of(kind: ProblemKind) -> Option<Outcome> {
    match kind {
        ProblemKind::GeneratorSaturated
        | ProblemKind::MissingCapability
        | ProblemKind::HelperFailed => Some(Outcome::Invalid),
        ProblemKind::TargetFailed => Some(Outcome::TargetFailed),
        ProblemKind::Interrupted | ProblemKind::Note => None,
    }
}

/// Exit code of a run that ended early: that of Ctrl-C if it was interrupted, whatever the outcome so far.
fn incomplete_exit(word: Outcome, problems: &[Problem]) -> u8 {
    let is_interrupted = problems
        .iter()
        .any(|problem| problem.kind == ProblemKind::Interrupted);
    if is_interrupted {
        INTERRUPTED_EXIT
    } else {
        word.exit_code()
    }
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn headline(
    word: Outcome,
    complete: bool,
    variants: &[VariantVerdict],
    comparisons: &[Finding],
    problems: &[Problem],
) -> String {
    let decisive = problems
        .iter()
        .find(|problem| word_of(problem.kind) == Some(word));
    let mut text = match decisive {
        Some(problem) => problem.text.clone(),
        None => decided_by(word, variants, comparisons),
    };
    text.extend(soonest_limit(variants));
    text.extend(last_look(variants));
    if !complete {
        text.push_str(" (incomplete: the run ended before its planned end)");
    }
    text
}

/// The last look of a run with `until = "decided"`, for the headline.
fn last_look(variants: &[VariantVerdict]) -> Option<String> {
    let last = variants.iter().filter_map(|variant| variant.looks.last());
    let last = last.max_by_key(|look| look.number)?;
    let (number, of) = (last.number, last.of);
    Some(match last.open.is_empty() {
        true => format!("; decided at look {number} of {of}"),
        false => format!("; ended at look {number} of {of}"),
    })
}

/// The hard limit that will be reached first, if any series grows towards one; for the headline.
fn soonest_limit(variants: &[VariantVerdict]) -> Option<String> {
    let findings = variants
        .iter()
        .filter(|variant| !variant.is_as_expected())
        .flat_map(|variant| &variant.findings);
    let nearing = findings.filter_map(|finding| Some((finding.hours_left?, finding)));
    let (hours, finding) = nearing.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let metric = match finding.unit.starts_with("MiB") {
        true => "memory",
        false => finding.metric.trim_end_matches("_growth"),
    };
    Some(format!(
        "; {metric} reaches its limit first, in {}",
        growth::time(hours)
    ))
}

/// The gate that decided the outcome: the one that is the furthest over its limit with confidence, else the
/// one that comes closest to its limit.
fn worst_gate(word: Outcome, comparisons: &[Finding]) -> Option<&Finding> {
    let gates = comparisons.iter().filter(|it| it.outcome == word);
    let reach = |finding: &&Finding| {
        let (limit, value) = (finding.limit?, finding.value);
        let end = |value: Interval| match word {
            Outcome::Go => value.upper,
            _ => value.lower,
        };
        // A gate that was not measured is named only if there is no other.
        Some(value.map_or(f64::NEG_INFINITY, |value| end(value) / limit))
    };
    let reached = gates.filter_map(|gate| Some((reach(&gate)?, gate)));
    let worst = reached.reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
    worst.map(|(_, gate)| gate)
}

/// The text of the finding that decided the outcome. Comparisons come before findings on single variants.
fn decided_by(word: Outcome, variants: &[VariantVerdict], comparisons: &[Finding]) -> String {
    if let Some(gate) = worst_gate(word, comparisons) {
        return gate.text.clone();
    }
    let named = |variant: &VariantVerdict, text: &str| {
        let is_one_of_many = variants.len() > 1;
        if is_one_of_many {
            format!("{}: {text}", variant.name)
        } else {
            text.to_owned()
        }
    };
    for variant in variants
        .iter()
        .filter(|variant| variant.counts_as() == word)
    {
        let is_as_expected = variant.is_as_expected();
        let counts = |finding: &&Finding| !(is_as_expected && finding.is_growth());
        let decisive = variant
            .findings
            .iter()
            .filter(counts)
            .find(|finding| finding.outcome == word);
        if let Some(finding) = decisive {
            return named(variant, &finding.text);
        }
    }
    if let Some(finding) = comparisons.iter().find(|finding| finding.outcome == word) {
        return finding.text.clone();
    }
    // No finding has this outcome itself: an expectation was met, or missed.
    let expecting = variants
        .iter()
        .find(|variant| variant.expect.is_some() && variant.counts_as() == word);
    let Some(variant) = expecting else {
        return "there was nothing to judge".to_owned();
    };
    let growth = variant.findings.iter().find(|finding| finding.is_growth());
    let growth = growth.map_or("", |finding| finding.text.as_str());
    let met = if variant.is_as_expected() {
        "as expected"
    } else {
        "against expectation"
    };
    named(variant, &format!("{} {met}: {growth}", variant.outcome))
}

/// The rows of a variant after warm-up.
struct Measured<'a> {
    /// Rows by run, in order.
    runs: BTreeMap<u32, Vec<&'a Epoch>>,
}

impl<'a> Measured<'a> {
    fn of(epochs: &'a [Epoch], variant: &str) -> Self {
        let mut runs: BTreeMap<u32, Vec<&Epoch>> = BTreeMap::new();
        for epoch in epochs
            .iter()
            .filter(|epoch| epoch.variant == variant && !epoch.warmup)
        {
            runs.entry(epoch.run).or_default().push(epoch);
        }
        Self { runs }
    }

    fn runs(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }

    fn epochs(&self) -> impl Iterator<Item = &'a Epoch> + '_ {
        self.runs.values().flatten().copied()
    }

    /// Hours from the start of an epoch to that of the next; `None` with a single epoch.
    fn hours_a_step(&self) -> Option<f64> {
        let run = self.runs.values().find(|epochs| epochs.len() > 1)?;
        let (first, last) = (run.first()?, run.last()?);
        let steps = u64::try_from(run.len() - 1).ok()?;
        let ms = float(last.start_ms.saturating_sub(first.start_ms)) / float(steps);
        Some(ms / MS_AN_HOUR).filter(|hours| *hours > 0.0)
    }

    /// Garbage collections that were forced in the run that has the fewest; `None`: the scenario asks for none.
    fn collections(&self) -> Option<u32> {
        let is_asked = self.epochs().any(|epoch| epoch.collections.is_some());
        let of = |epochs: &Vec<&Epoch>| total(epochs.iter().filter_map(|epoch| epoch.collections));
        let fewest = self.runs.values().map(of).min().filter(|_| is_asked)?;
        Some(u32::try_from(fewest).unwrap_or(u32::MAX))
    }

    /// Sum of the operations; `None` without load.
    fn operations(&self) -> Option<u64> {
        self.sum(|epoch| epoch.operations)
    }

    /// Sum of a column, if every row has a value.
    fn sum(&self, of: impl Fn(&Epoch) -> Option<u64>) -> Option<u64> {
        let mut values = self.epochs().map(of).peekable();
        values.peek()?;
        values.try_fold(0, |sum: u64, value| Some(sum.saturating_add(value?)))
    }

    /// Largest value of a column, if any row has one.
    fn max(&self, of: impl Fn(&Epoch) -> Option<u64>) -> Option<u64> {
        self.epochs().filter_map(of).max()
    }
}

/// An interval without width, for a figure that was counted.
fn exactly(value: f64) -> Interval {
    Interval {
        lower: value,
        estimate: value,
        upper: value,
    }
}

/// A finding on a figure, with a limit or without, and still without text.
fn figure(metric: &str, unit: &str, value: Option<f64>, limit: Option<f64>) -> Finding {
    Finding {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        outcome: Outcome::Go,
        text: String::new(),
        method: Method::Limit,
        limit,
        value: value.map(exactly),
        last_half: None,
        confidence: None,
        points: 0,
        series: 0,
        p_value: None,
        detectable: None,
        per_step: None,
        hours_left: None,
        notes: Vec::new(),
    }
}

/// A count as a float; exact below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people: 53 bits are enough"
)]
fn float(number: u64) -> f64 {
    number as f64
}

const MS_AN_HOUR: f64 = 3_600_000.0;
/// Exit code of a run that Ctrl-C ended, as a shell reports it of a program that SIGINT ended.
pub const INTERRUPTED_EXIT: u8 = 130;

#[cfg(test)]
mod tests;
