//! Drift of the series that a target tells of itself.
//!
//! A target has hundreds of them, and the lab knows what few of them mean. So they are a family of their
//! own (Holm's correction is over all of them, and takes nothing from what the lab measures itself); a
//! gauge can alarm, and nothing else: only where the scenario names it does it have to be STABLE. A
//! counter is judged by its rate, and only where it is named. Gauges that are clocks, and those of the
//! machine (`node_…`), are not judged.

use super::growth::{level, span};
use super::kept::number;
use super::{Measured, figure, float};
use crate::limits::{COUNT_DRIFT_FLOOR, METRIC_BYTES_FLOOR, MISSING_SHARE_MAX};
use crate::record::{Epoch, Finding, Interval, MetricKind, MetricTable, Outcome, SeriesColumn};
use crate::scenario::{Budget, METRIC_DRIFT};
use crate::stats::{ALPHA, Alarm, holm, judge_drift, judge_memory};

/// What came of them, of one variant.
#[derive(Debug, Default)]
pub struct MetricFindings {
    /// Alarms, what the scenario names, and what is known by name.
    pub findings: Vec<Finding>,
    /// Gauges that were held against what they may change by.
    pub judged: usize,
    /// Series that were seen and not judged.
    pub measured: usize,
}

/// Judges a variant's series.
pub fn metrics(
    table: &MetricTable,
    epochs: &[Epoch],
    variant: &str,
    budget: &Budget,
    seed: u64,
) -> MetricFindings {
    let measured = Measured::of(epochs, variant);
    let mut all = MetricFindings::default();
    let mut alarms: Vec<Finding> = Vec::new();
    for (series, column) in table.series() {
        let asked = asked(budget, series);
        let is_off = asked == Some(None);
        let share = asked.flatten();
        let points = points(&measured, column, variant);
        let is_judged =
            share.is_some() || (!is_off && is_resource(series, column, &measured, variant));
        let Some(scale) = Scale::of(series, column, &points, &measured).filter(|_| is_judged)
        else {
            all.measured += 1;
            continue;
        };
        all.judged += 1;
        let share_allowed = share.unwrap_or(METRIC_DRIFT);
        let allowed = scale.allowed(share_allowed, &points);
        let is_known = KNOWN.iter().any(|(name, _)| *name == series);
        // Nothing that moves less than half of it can be over it: most gauges stand still.
        let is_still = spread(&points) * 2.0 < allowed * span(&points);
        if is_still && share.is_none() && !is_known {
            continue;
        }
        let Some(finding) = finding(series, &scale, &points, allowed, seed) else {
            continue;
        };
        match (finding.outcome, share.is_some()) {
            (Outcome::Unbounded, _) => alarms.push(finding),
            (_, true) => all.findings.push(finding),
            (Outcome::Stable, _) if is_known => all.findings.push(finding),
            (_, false) => {}
        }
    }
    let p_values = alarms.iter().filter_map(|alarm| alarm.p_value);
    let equals: Vec<Alarm> = p_values.map(Alarm::of_equals).collect();
    let counts = holm(&equals, float(all.judged as u64), ALPHA);
    for (mut alarm, counts) in alarms.into_iter().zip(counts) {
        if !counts {
            alarm.outcome = Outcome::Inconclusive;
            let judged = all.judged;
            alarm.notes.push(format!(
                "by itself it would be UNBOUNDED; of {judged} gauges one this far over may be chance"
            ));
        }
        let series = alarm.metric.trim_end_matches("_growth");
        if counts || asked(budget, series).is_some() {
            all.findings.push(alarm);
        }
    }
    all
}

/// What the scenario says of a series, by its whole name or by the one without labels.
fn asked(budget: &Budget, series: &str) -> Option<Option<f64>> {
    let by = |name: &str| budget.metrics.get(name).copied();
    by(series).or_else(|| by(family(series)))
}

fn family(series: &str) -> &str {
    series.split('{').next().unwrap_or(series)
}

/// A gauge of the target's own that can be a resource.
fn is_resource(
    series: &str,
    column: &SeriesColumn,
    measured: &Measured<'_>,
    variant: &str,
) -> bool {
    let is_machine = series.starts_with("node_");
    column.kind == MetricKind::Gauge && !is_machine && !is_clock(column, measured, variant)
}

/// It goes with time, as uptimes and timestamps do, in any unit from seconds to nanoseconds.
fn is_clock(column: &SeriesColumn, measured: &Measured<'_>, variant: &str) -> bool {
    let rate = measured.runs.iter().find_map(|(run, epochs)| {
        let (first, last) = (epochs.first()?, epochs.last()?);
        let (from_ms, from) = column.at(variant, *run, first.epoch)?;
        let (to_ms, to) = column.at(variant, *run, last.epoch)?;
        let seconds = float(to_ms.saturating_sub(from_ms)) / 1_000.0;
        Some((to - from) / seconds).filter(|_| seconds > 0.0)
    });
    let near = |unit: f64| rate.is_some_and(|rate| (rate / unit - 1.0).abs() < CLOCK_SHARE);
    [1.0, 1e3, 1e6, 1e9].into_iter().any(near)
}

/// One series a run, with a gap where it was not told.
fn points(measured: &Measured<'_>, column: &SeriesColumn, variant: &str) -> Vec<Vec<f64>> {
    let value = |run: u32, epoch: u32| match column.kind {
        MetricKind::Gauge => column.at(variant, run, epoch).map(|(_, value)| value),
        MetricKind::Counter => column.per_second(variant, run, epoch),
    };
    let of_run = |(run, epochs): (&u32, &Vec<&Epoch>)| {
        let values = epochs
            .iter()
            .map(|epoch| value(*run, epoch.epoch).unwrap_or(f64::NAN));
        values.collect()
    };
    measured.runs.iter().map(of_run).collect()
}

/// In which unit it is told.
struct Scale {
    unit: String,
    /// A unit's worth, in what the series has a step.
    per_step: f64,
    /// It may always change by so much.
    floor: f64,
    is_bytes: bool,
}

impl Scale {
    /// `None`: it was seen in too few epochs.
    fn of(
        series: &str,
        column: &SeriesColumn,
        points: &[Vec<f64>],
        measured: &Measured<'_>,
    ) -> Option<Self> {
        let rows: usize = points.iter().map(Vec::len).sum();
        let seen = points
            .iter()
            .flatten()
            .filter(|point| point.is_finite())
            .count();
        let hours = measured.hours_a_step()?;
        if seen == 0 || (rows - seen) * 100 > rows * MISSING_SHARE_MAX {
            return None;
        }
        let known = KNOWN.iter().find(|(name, _)| *name == series);
        let name = family(series);
        let is_bytes = name.ends_with("_bytes");
        let is_share = ["_seconds", "_ratio", "_percent", "_celsius"];
        let is_share = is_share.iter().any(|end| name.ends_with(end));
        Some(match column.kind {
            MetricKind::Gauge if is_bytes => Self {
                unit: "MiB/day".to_owned(),
                per_step: MIB * hours / HOURS_A_DAY,
                floor: METRIC_BYTES_FLOOR,
                is_bytes,
            },
            kind => Self {
                unit: match (kind, known) {
                    (MetricKind::Counter, _) => "a second, an hour".to_owned(),
                    (_, Some((_, unit))) => format!("{unit}/hour"),
                    _ => "an hour".to_owned(),
                },
                per_step: hours,
                floor: match is_share || kind == MetricKind::Counter {
                    true => 0.0,
                    false => COUNT_DRIFT_FLOOR,
                },
                is_bytes: false,
            },
        })
    }

    /// A step.
    fn allowed(&self, share: f64, points: &[Vec<f64>]) -> f64 {
        (share * level(points)).max(self.floor) / span(points)
    }
}

fn finding(
    series: &str,
    scale: &Scale,
    points: &[Vec<f64>],
    allowed: f64,
    seed: u64,
) -> Option<Finding> {
    // A gauge of bytes may be a heap that a collector empties.
    let drift = match scale.is_bytes {
        true => judge_memory(points, None, allowed, seed),
        false => judge_drift(points, allowed, seed),
    }?;
    let told = |slope: Interval| Interval {
        lower: slope.lower / scale.per_step,
        estimate: slope.estimate / scale.per_step,
        upper: slope.upper / scale.per_step,
    };
    let limit = allowed / scale.per_step;
    let value = told(drift.whole);
    let mut finding = figure(&format!("{series}_growth"), &scale.unit, None, Some(limit));
    finding.outcome = drift.outcome;
    finding.method = drift.method;
    finding.value = Some(value);
    finding.last_half = Some(told(drift.last_half));
    finding.confidence = Some(drift.confidence);
    finding.points = drift.points;
    finding.series = drift.series;
    finding.p_value = Some(drift.over_budget_p);
    finding.detectable = Some(drift.detectable / scale.per_step);
    finding.per_step = Some(scale.per_step);
    finding.text = format!(
        "the target's {series} grows by {} {} ({} to {}); allowed is {}",
        number(value.estimate),
        scale.unit,
        number(value.lower),
        number(value.upper),
        number(limit)
    );
    Some(finding)
}

/// From the least to the most of all points.
fn spread(points: &[Vec<f64>]) -> f64 {
    let seen = || {
        points
            .iter()
            .flatten()
            .copied()
            .filter(|point| point.is_finite())
    };
    seen().fold(f64::MIN, f64::max) - seen().fold(f64::MAX, f64::min)
}

/// Series of Prometheus's clients that are a resource, and what they count.
const KNOWN: [(&str, &str); 7] = [
    ("process_resident_memory_bytes", "bytes"),
    ("process_open_fds", "descriptors"),
    ("process_threads", "threads"),
    ("go_goroutines", "goroutines"),
    ("go_threads", "threads"),
    ("go_memstats_heap_inuse_bytes", "bytes"),
    ("go_memstats_stack_inuse_bytes", "bytes"),
];
/// How close to a second a second a clock runs.
const CLOCK_SHARE: f64 = 0.02;
const MIB: f64 = 1_048_576.0;
const HOURS_A_DAY: f64 = 24.0;
