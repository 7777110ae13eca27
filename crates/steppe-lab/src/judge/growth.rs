//! Growth of memory an epoch, against its budget; and whether it is a leak or retention.

use std::fmt::Write as _;

use super::kept::number;
use super::{Evidence, Measured, figure, float};
use crate::limits::MISSING_SHARE_MAX;
use crate::record::{Epoch, Finding, Interval, Method, RunKind, Word};
use crate::scenario::Budget;
use crate::stats::{Drift, judge_drift};

/// What growth of resident memory is put down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribution {
    /// Live bytes grow with it: something is never freed.
    Leak,
    /// Live bytes are flat: it was freed, and did not go back to the system.
    Retention,
    /// The target does not tell its live bytes, or they are not conclusive.
    Unknown,
}

/// A series of memory to judge.
struct Series<'a> {
    metric: &'static str,
    /// As sentences call it.
    called: &'static str,
    budget_kib: Option<f64>,
    bytes: fn(&Epoch) -> Option<u64>,
    measured: &'a Measured<'a>,
}

/// Findings on the points of quiet moments, on high-water marks, and on live bytes.
pub(super) fn findings(
    measured: &Measured<'_>,
    budget: &Budget,
    evidence: Evidence<'_>,
    kind: RunKind,
) -> Vec<Finding> {
    let is_cycle = kind == RunKind::Cycle;
    let budget = if is_cycle {
        &budget.per_cycle
    } else {
        &budget.per_epoch
    };
    let step = if is_cycle { "cycle" } else { "epoch" };
    let all = [
        (
            "rss_growth",
            "memory",
            budget.rss_kib,
            quiet_bytes(measured),
        ),
        (
            "hwm_growth",
            "the high-water mark",
            budget.hwm_kib,
            |epoch| epoch.hwm_bytes,
        ),
        (
            "live_growth",
            "live heap",
            budget.live_kib.or(budget.rss_kib),
            |epoch| epoch.live_bytes,
        ),
    ];
    let mut findings: Vec<Finding> = Vec::new();
    for (metric, called, budget_kib, bytes) in all {
        let series = Series {
            metric,
            called,
            budget_kib,
            bytes,
            measured,
        };
        // Nobody asks for live bytes of a target that does not offer them.
        let is_offered = measured
            .epochs()
            .any(|epoch| (series.bytes)(epoch).is_some());
        let is_asked = is_offered || (budget_kib.is_some() && metric != "live_growth");
        if is_asked || (metric == "live_growth" && budget.live_kib.is_some()) {
            findings.push(series.finding(evidence, step));
        }
    }
    attribute(&mut findings, evidence.live_is_whole);
    findings
}

/// What the target holds. RSS stands in for the whole run where the kernel never told its parts apart:
/// changing over would be a step.
fn quiet_bytes(measured: &Measured<'_>) -> fn(&Epoch) -> Option<u64> {
    if measured.max(Epoch::held_bytes).is_some() {
        Epoch::held_bytes
    } else {
        |epoch| epoch.rss_bytes
    }
}

impl Series<'_> {
    fn finding(&self, evidence: Evidence<'_>, step: &str) -> Finding {
        let unit = format!("KiB/{step}");
        let mut finding = figure(self.metric, &unit, None, self.budget_kib);
        let points = self.points();
        let judged = points.as_ref().and_then(|points| {
            judge_drift(
                points,
                self.budget_kib.unwrap_or(f64::INFINITY),
                evidence.seed,
            )
        });
        let Some(drift) = judged else {
            finding.word = if self.budget_kib.is_some() {
                Word::Inconclusive
            } else {
                Word::Stable
            };
            finding.text = format!(
                "growth of {} could not be judged: {}",
                self.called,
                self.lack()
            );
            return finding;
        };
        finding.word = drift.word;
        finding.method = drift.method;
        finding.value = Some(drift.whole);
        finding.last_half = Some(drift.last_half);
        finding.confidence = Some(drift.confidence);
        finding.points = drift.points;
        finding.series = drift.series;
        finding.text = self.sentence(&drift, &unit);
        finding.notes = self.notes(&drift, evidence, step);
        finding
    }

    /// One series a run, in KiB, with a gap where a row has no value; `None` if there are many.
    fn points(&self) -> Option<Vec<Vec<f64>>> {
        let (rows, seen) = self.seen();
        if (rows - seen) * 100 > rows * MISSING_SHARE_MAX {
            return None;
        }
        let kib = |epoch: &&Epoch| (self.bytes)(epoch).map_or(f64::NAN, |bytes| float(bytes) / KIB);
        let run = |epochs: &Vec<&Epoch>| epochs.iter().map(kib).collect();
        Some(self.measured.runs.values().map(run).collect())
    }

    /// How many rows there are, and in how many it was seen.
    fn seen(&self) -> (usize, usize) {
        let rows = self.measured.epochs().count();
        let seen = self
            .measured
            .epochs()
            .filter(|epoch| (self.bytes)(epoch).is_some())
            .count();
        (rows, seen)
    }

    fn lack(&self) -> String {
        let (rows, seen) = self.seen();
        if seen < rows {
            format!("it was seen in {seen} of {rows} epochs")
        } else {
            format!("{rows} points in {} runs are too few", self.measured.runs())
        }
    }

    fn sentence(&self, drift: &Drift, unit: &str) -> String {
        let Interval {
            lower,
            estimate,
            upper,
        } = drift.whole;
        let mut text = format!(
            "{} grows by {} {unit} ({} to {})",
            self.called,
            number(estimate),
            number(lower),
            number(upper)
        );
        match self.budget_kib {
            Some(budget) => _ = write!(text, "; allowed is {}", number(budget)),
            None => text.push_str("; no budget is set"),
        }
        if drift.method == Method::BlockBootstrap {
            text.push_str(" [single run]");
        }
        text
    }

    fn notes(&self, drift: &Drift, evidence: Evidence<'_>, step: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let grows = matches!(drift.word, Word::Unbounded | Word::Growing);
        if drift.word == Word::Inconclusive && Some(drift.rise) > self.budget_kib {
            notes.push(format!(
                "it rose by {} KiB/{step} from the first quarter to the last, in steps: watch it for \
                 longer",
                number(drift.rise)
            ));
        }
        if grows || drift.significant {
            notes.extend(self.per_operation(drift));
            notes.extend(self.until_limit(drift, evidence.limit_bytes, step));
        }
        notes
    }

    fn per_operation(&self, drift: &Drift) -> Option<String> {
        let epochs = u64::try_from(self.measured.epochs().count()).ok()?;
        let operations = float(self.measured.operations()) / float(epochs.max(1));
        (operations >= 1.0).then(|| {
            let bytes = drift.whole.estimate * KIB / operations;
            format!("{} bytes an operation", number(bytes))
        })
    }

    /// How long until the process would be killed, going on like this.
    fn until_limit(&self, drift: &Drift, limit: Option<u64>, step: &str) -> Option<String> {
        let limit = float(limit?);
        let last = self.measured.epochs().last()?;
        let held = float((self.bytes)(last)?);
        let slope = drift.whole.estimate * KIB;
        if slope <= 0.0 || held >= limit {
            return None;
        }
        let hours = (limit - held) / slope * self.hours_a_step()?;
        let half = (drift.whole.upper - drift.whole.lower) / 2.0;
        Some(format!(
            "still growing at {} ± {} KiB/{step}; the limit of {} MiB is reached in {} hours",
            number(drift.whole.estimate),
            number(half),
            number(limit / KIB / KIB),
            number(hours)
        ))
    }

    fn hours_a_step(&self) -> Option<f64> {
        let run = self
            .measured
            .runs
            .values()
            .find(|epochs| epochs.len() > 1)?;
        let (first, last) = (run.first()?, run.last()?);
        let steps = u64::try_from(run.len() - 1).ok()?;
        Some(float(last.start_ms.saturating_sub(first.start_ms)) / float(steps) / MS_AN_HOUR)
    }
}

/// Leak or retention: live bytes decide, where they are those of all that is measured.
fn attribute(findings: &mut [Finding], live_is_whole: bool) {
    let slope = |metric: &str| {
        let finding = findings.iter().find(|finding| finding.metric == metric)?;
        Some((finding.word, finding.value?))
    };
    let attribution = match (slope("live_growth"), slope("rss_growth")) {
        (Some((Word::Unbounded, _)), _) => Attribution::Leak,
        // Flat beside what is resident, not only beside the budget.
        (Some((Word::Stable, live)), Some((_, resident)))
            if live_is_whole && live.upper * 2.0 < resident.lower =>
        {
            Attribution::Retention
        }
        _ => Attribution::Unknown,
    };
    for finding in findings {
        let grows = matches!(finding.word, Word::Unbounded | Word::Growing);
        if finding.metric == "live_growth" && attribution == Attribution::Leak {
            finding.word = Word::Leak;
            finding
                .notes
                .push("leak: what is live grows, so it is never freed".to_owned());
        } else if finding.metric == "rss_growth" && grows {
            finding.notes.push(explanation(attribution).to_owned());
        }
    }
}

fn explanation(attribution: Attribution) -> &'static str {
    match attribution {
        Attribution::Leak => "leak: live bytes grow as well",
        Attribution::Retention => {
            "retention, not a leak: live bytes are flat, so it was freed and did not go back to the \
             system; compare allocators (a [[variant]] with `preload`)"
        }
        Attribution::Unknown => {
            "leak or retention? live bytes of all that grows would tell (`target.live_bytes`), or \
             `steppe-lab leaks`"
        }
    }
}

const KIB: f64 = 1_024.0;
const MS_AN_HOUR: f64 = 3_600_000.0;
