//! Drift of the series of a target's own metrics.
//!
//! A target has hundreds of series, and the lab knows the meaning of few. So they are a family of their own:
//! Holm's correction is over all of them, and takes nothing from the lab's own measurements. A gauge can only
//! alarm; it has to be STABLE only if the scenario names it. A counter is judged by its rate, and only if it is
//! named; a series that is named and not seen is INCONCLUSIVE. Gauges that are clocks by name and by rate, and
//! those of the machine (`node_…`), are not judged.

use super::growth::{level, span};
use super::kept::number;
use super::{Measured, figure, float};
use crate::limits::{COUNT_DRIFT_FLOOR, METRIC_BYTES_FLOOR, MISSING_SHARE_MAX};
use crate::record::{Epoch, Finding, Interval, MetricKind, MetricTable, Outcome, SeriesColumn};
use crate::scenario::{Budget, METRIC_DRIFT};
use crate::stats::{ALPHA, Alarm, holm, judge_drift, judge_memory};

/// Findings on the metrics of one variant.
#[derive(Debug, Default)]
pub struct MetricFindings {
    /// Alarms, findings on series that the scenario names, and those on well-known series.
    pub findings: Vec<Finding>,
    /// Number of series that were compared with their allowed change.
    pub judged: usize,
    /// Number of series that were seen and not judged.
    pub measured: usize,
    /// Names of the series that were taken for clocks; the scenario names none of them.
    pub clocks: Vec<String>,
}

/// Judges a variant's series.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
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
        let share = asked.flatten();
        let points = points(&measured, column, variant);
        let can_be_judged = asked.is_none() && is_resource(series, column);
        let is_clock = can_be_judged && is_clock(series, column, &measured, variant);
        if is_clock {
            all.clocks.push(series.to_owned());
        }
        let is_judged = share.is_some() || (can_be_judged && !is_clock);
        let Some(scale) = Scale::of(series, column, &points, &measured).filter(|_| is_judged)
        else {
            all.measured += 1;
            all.findings.extend(share.map(|_| unseen(series, &points)));
            continue;
        };
        all.judged += 1;
        let share_allowed = share.unwrap_or(METRIC_DRIFT);
        let allowed = scale.allowed(share_allowed, &points);
        let is_known = KNOWN.iter().any(|(name, _)| *name == series);
        // A series that moves by less than half of its allowed change can't exceed it: most gauges stand still.
        let is_still = spread(&points) * 2.0 < allowed * span(&points);
        if is_still && share.is_none() && !is_known {
            continue;
        }
        let Some(finding) = finding(series, &scale, &points, allowed, seed) else {
            all.findings.extend(share.map(|_| unseen(series, &points)));
            continue;
        };
        match (finding.outcome, share.is_some()) {
            (Outcome::Unbounded, _) => alarms.push(finding),
            (_, true) => all.findings.push(finding),
            (Outcome::Stable, _) if is_known => all.findings.push(finding),
            (_, false) => {}
        }
    }
    let named = budget.metrics.iter().filter(|(_, share)| share.is_some());
    for (name, _) in named {
        let is_it = |series: &str| series == name || family(series) == name;
        if !table.series().any(|(series, _)| is_it(series)) {
            let none: Vec<Vec<f64>> = measured
                .runs
                .values()
                .map(|run| vec![f64::NAN; run.len()])
                .collect();
            all.findings.push(unseen(name, &none));
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
                "on its own it would be UNBOUNDED; among {judged} gauges, one this far over its \
                 budget may be chance"
            ));
        }
        let series = alarm.metric.trim_end_matches("_growth");
        if counts || asked(budget, series).is_some() {
            all.findings.push(alarm);
        }
    }
    all
}

/// The scenario's budget for a series, by its whole name or by the one without labels; `Some(None)` is `"off"`.
fn asked(budget: &Budget, series: &str) -> Option<Option<f64>> {
    let by = |name: &str| budget.metrics.get(name).copied();
    by(series).or_else(|| by(family(series)))
}

pub(super) fn family(series: &str) -> &str {
    series.split('{').next().unwrap_or(series)
}

/// True for a gauge, unless it is one of the machine (`node_…`).
fn is_resource(series: &str, column: &SeriesColumn) -> bool {
    column.kind == MetricKind::Gauge && !series.starts_with("node_")
}

/// True if a series has the name of a time and the rate of a clock, as uptimes and timestamps do, in any unit from
/// seconds to nanoseconds. The rate alone is no sign: a leak of one object a request has it too, at 1,000 requests
/// a second.
fn is_clock(series: &str, column: &SeriesColumn, measured: &Measured<'_>, variant: &str) -> bool {
    if !is_called_like_a_time(family(series)) {
        return false;
    }
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

fn is_called_like_a_time(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has_word = |word: &str| name.split(['_', ':']).any(|it| it == word);
    ["timestamp", "uptime"].iter().any(|it| name.contains(it))
        || name.ends_with("seconds")
        || has_word("time")
}

/// The points of each run, with NaN where the target did not expose the series.
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

/// Unit of a series, and its least allowed change.
struct Scale {
    unit: String,
    /// A slope of one `unit`, as the change of the series in a step.
    per_step: f64,
    /// Change over a run that is always allowed.
    floor: f64,
    is_bytes: bool,
}

impl Scale {
    /// The scale of a series; `None`: the series was seen in too few epochs.
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
                    (MetricKind::Counter, _) => "per second per hour".to_owned(),
                    (_, Some((_, unit))) => format!("{unit}/hour"),
                    _ => "per hour".to_owned(),
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

    /// Allowed change in a step.
    fn allowed(&self, share: f64, points: &[Vec<f64>]) -> f64 {
        (share * level(points)).max(self.floor) / span(points)
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
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

/// The finding on a series that the scenario names and that has too few points.
fn unseen(series: &str, points: &[Vec<f64>]) -> Finding {
    let epochs: usize = points.iter().map(Vec::len).sum();
    let seen = points.iter().flatten().filter(|it| it.is_finite()).count();
    let mut finding = figure(&format!("{series}_growth"), "per hour", None, None);
    finding.outcome = Outcome::Inconclusive;
    finding.text = format!(
        "growth of the target's {series} could not be judged: it was seen in {seen} of {epochs} epochs"
    );
    let help = "check its spelling against metrics.csv, and that the target exposes it from its \
                start";
    finding.notes.push(help.to_owned());
    finding
}

/// Difference between the highest and the lowest of all points.
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

/// Series of Prometheus's client libraries that are a resource, with their units.
const KNOWN: [(&str, &str); 7] = [
    ("process_resident_memory_bytes", "bytes"),
    ("process_open_fds", "descriptors"),
    ("process_threads", "threads"),
    ("go_goroutines", "goroutines"),
    ("go_threads", "threads"),
    ("go_memstats_heap_inuse_bytes", "bytes"),
    ("go_memstats_stack_inuse_bytes", "bytes"),
];
/// Largest relative deviation of a clock from one second a second.
const CLOCK_SHARE: f64 = 0.02;
const MIB: f64 = 1_048_576.0;
const HOURS_A_DAY: f64 = 24.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reading;

    const EPOCHS: u32 = 40;

    /// Findings on gauges, given by name and rise in an epoch of one second; each begins at 1,000,000. The budget has
    /// those that are `named`.
    fn judged(gauges: &[(&str, f64)], named: &[&str]) -> MetricFindings {
        let epoch = |number: u32| Epoch {
            variant: "it".to_owned(),
            epoch: number,
            start_ms: u64::from(number) * 1_000,
            ..Epoch::default()
        };
        let epochs: Vec<Epoch> = (0..EPOCHS).map(epoch).collect();
        let mut table = MetricTable::default();
        for epoch in &epochs {
            let reading = |(series, rate): &(&str, f64)| Reading {
                series: (*series).to_owned(),
                kind: MetricKind::Gauge,
                value: 1e6 + rate * f64::from(epoch.epoch),
            };
            let read: Vec<Reading> = gauges.iter().map(reading).collect();
            let key = (epoch.variant.as_str(), epoch.run, epoch.epoch);
            table.take(key, epoch.start_ms, &read, 100);
        }
        let share = |name: &&str| ((*name).to_owned(), Some(METRIC_DRIFT));
        let budget = Budget {
            metrics: named.iter().map(share).collect(),
            ..Budget::default()
        };
        metrics(&table, &epochs, "it", &budget, 1)
    }

    fn words(found: &MetricFindings) -> Vec<(&str, Outcome)> {
        let findings = found.findings.iter();
        findings
            .map(|it| (it.metric.as_str(), it.outcome))
            .collect()
    }

    #[test]
    fn a_leak_as_fast_as_a_clock_is_judged() {
        // At these rates a million doubles within the run.
        let found = judged(&[("sessions", 1e6), ("go_goroutines", 1e6)], &[]);
        let expected = [
            ("go_goroutines_growth", Outcome::Unbounded),
            ("sessions_growth", Outcome::Unbounded),
        ];
        assert_eq!(words(&found), expected);
        assert!(found.clocks.is_empty(), "{:?}", found.clocks);
    }

    #[test]
    fn a_clock_is_told_by_its_name_and_its_rate() {
        let clocks = [
            ("app_uptime_us{of=\"x\"}", 1e6),
            ("last_seen_timestamp_ms", 1e3),
            ("time_now", 1e9),
        ];
        let found = judged(&clocks, &[]);
        assert_eq!(found.clocks, clocks.map(|it| it.0));
        assert_eq!((found.judged, found.findings.len()), (0, 0));
        // One has the name of a time and no clock's rate; the other is named by the scenario.
        let found = judged(
            &[("oldest_wait_seconds", 3e5), ("time_now", 1e6)],
            &["time_now"],
        );
        assert_eq!((found.judged, found.clocks.len()), (2, 0));
        assert_eq!(found.findings.len(), 2, "{:?}", words(&found));
        let known = KNOWN.iter().filter(|it| is_called_like_a_time(it.0));
        assert_eq!(known.count(), 0);
    }

    #[test]
    fn a_series_that_is_named_and_not_seen_is_inconclusive() {
        let found = judged(&[("pool{of=\"a\"}", 0.0)], &["pool", "sesions"]);
        let expected = [
            ("pool{of=\"a\"}_growth", Outcome::Stable),
            ("sesions_growth", Outcome::Inconclusive),
        ];
        assert_eq!(words(&found), expected);
        let text = &found.findings[1].text;
        assert!(text.ends_with("it was seen in 0 of 40 epochs"), "{text}");
        // The target has no metrics at all.
        let found = judged(&[], &["pool"]);
        assert_eq!(words(&found), [("pool_growth", Outcome::Inconclusive)]);
    }
}
