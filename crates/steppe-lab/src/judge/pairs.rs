//! Comparison of two variants, pair by pair: ratios of the second to the first; for throughput, of the first to the
//! second.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::kept::number;
use super::{Evidence, Measured, figure, float};
use crate::limits::P999_OPERATIONS_MIN;
use crate::record::{Finding, Method, Outcome, RunKind};
use crate::scenario::{AbGate, AbMetric, AbPlan};
use crate::stats::{Comparison, GateInput, detectable_ratio, judge_pairs, noise};

/// Response times by variant and run.
pub type RunLatency = BTreeMap<(String, u32), Histogram<u64>>;

/// Values of a metric in each variant, with a pair at each index.
struct Values {
    first: Vec<f64>,
    second: Vec<f64>,
}

/// Judges pairs of runs, the second variant against the first: a finding for each metric that is gated or was
/// measured.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub fn findings(
    evidence: Evidence<'_>,
    names: (&str, &str),
    latency: &RunLatency,
    plan: &AbPlan,
    kind: RunKind,
) -> Vec<Finding> {
    let values = |metric| values(evidence, names, latency, metric);
    let gated: Vec<(AbGate, Values)> = plan
        .gates
        .iter()
        .map(|gate| (gate.clone(), values(gate.metric)))
        .collect();
    let inputs: Vec<GateInput<'_>> = gated
        .iter()
        .map(|(gate, values)| GateInput {
            first: &values.first,
            second: &values.second,
            limit: gate.limit,
        })
        .collect();
    let judged = judge_pairs(&inputs, evidence.seed);
    let mut findings: Vec<Finding> = gated
        .iter()
        .zip(judged)
        .map(|((gate, values), comparison)| {
            finding(
                gate.metric,
                Some(gate.limit),
                values,
                comparison,
                plan,
                kind,
            )
        })
        .collect();
    let others = AbMetric::ALL.into_iter();
    let others = others.filter(|metric| plan.gates.iter().all(|gate| gate.metric != *metric));
    for metric in others {
        let values = values(metric);
        let open = GateInput {
            first: &values.first,
            second: &values.second,
            limit: f64::INFINITY,
        };
        let comparison = judge_pairs(&[open], evidence.seed)
            .into_iter()
            .next()
            .flatten();
        if comparison.is_some() {
            findings.push(finding(metric, None, &values, comparison, plan, kind));
        }
    }
    findings
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn finding(
    metric: AbMetric,
    limit: Option<f64>,
    values: &Values,
    comparison: Option<Comparison>,
    plan: &AbPlan,
    kind: RunKind,
) -> Finding {
    let mut finding = figure(metric.name(), "ratio", None, limit);
    finding.method = Method::PairedBootstrap;
    let Some(comparison) = comparison else {
        finding.outcome = Outcome::Inconclusive;
        finding.text = format!(
            "{} could not be seen in every run, so it is not judged",
            metric.name()
        );
        return finding;
    };
    let ratio = comparison.ratio;
    finding.outcome = if limit.is_some() {
        comparison.outcome
    } else {
        Outcome::Go
    };
    finding.value = Some(ratio);
    finding.confidence = Some(comparison.confidence);
    finding.points = comparison.pairs;
    finding.series = 2;
    let amount = format!("{} times the", number(ratio.estimate));
    // More of it is better: the ratio is the other way round, so that above 1 the second variant is the worse.
    let sentence = match metric {
        AbMetric::Throughput => format!("the first variant's throughput is {amount} second's"),
        _ => format!("{} is {amount} first variant's", metric.name()),
    };
    finding.text = format!(
        "{sentence} ({} to {}, {} pairs)",
        number(ratio.lower),
        number(ratio.upper),
        comparison.pairs
    );
    if let Some(limit) = limit {
        finding.text.push_str("; allowed is ");
        finding.text.push_str(&number(limit));
    }
    if kind == RunKind::Calibrate {
        finding.notes.extend(calibration(values, plan));
    }
    finding
}

/// The note on the noise of this machine, from an A/A.
fn calibration(values: &Values, plan: &AbPlan) -> Option<String> {
    let noise = noise(&values.first, &values.second)?;
    let detectable = detectable_ratio(&values.first, &values.second, plan.pairs)?;
    Some(format!(
        "noise of a pair {} %; {} pairs detect a difference of {} % in four of five comparisons",
        number(noise * 100.0),
        plan.pairs,
        number((detectable - 1.0) * 100.0)
    ))
}

fn values(
    evidence: Evidence<'_>,
    names: (&str, &str),
    latency: &RunLatency,
    metric: AbMetric,
) -> Values {
    let of = |name: &str| {
        let measured = Measured::of(evidence.epochs, name);
        let runs = measured.runs.keys().copied().collect::<Vec<_>>();
        let value = |run: u32| {
            let only = Measured {
                runs: BTreeMap::from([(run, measured.runs.get(&run)?.clone())]),
            };
            value(&only, latency.get(&(name.to_owned(), run)), metric)
        };
        runs.into_iter()
            .map(|run| (run, value(run)))
            .collect::<BTreeMap<_, _>>()
    };
    let (first, second) = (of(names.0), of(names.1));
    let mut values = Values {
        first: Vec::new(),
        second: Vec::new(),
    };
    for (run, first) in first {
        let Some(second) = second.get(&run) else {
            continue;
        };
        // A missing value becomes NaN, which no statistic takes, so that the metric is not judged.
        let mut pair = [first, *second].map(|value| value.unwrap_or(f64::NAN));
        if metric == AbMetric::Throughput {
            pair.reverse();
        }
        values.first.push(pair[0]);
        values.second.push(pair[1]);
    }
    values
}

fn value(run: &Measured<'_>, latency: Option<&Histogram<u64>>, metric: AbMetric) -> Option<f64> {
    let operations = run.operations().filter(|operations| *operations > 0);
    let per_operation = |total: Option<u64>| Some(float(total?) / float(operations?));
    let quantile = |quantile, least| {
        let latency = latency.filter(|latency| latency.len() >= least)?;
        Some(float(latency.value_at_quantile(quantile)))
    };
    match metric {
        AbMetric::CpuPerOp => per_operation(run.sum(|epoch| epoch.cpu_us)),
        AbMetric::SyscallsPerOp => per_operation(run.sum(|epoch| epoch.syscalls)),
        AbMetric::InstructionsPerOp => per_operation(run.sum(|epoch| epoch.instructions)),
        AbMetric::P50 => quantile(0.5, 1),
        AbMetric::P99 => quantile(0.99, 100),
        AbMetric::P999 => quantile(0.999, P999_OPERATIONS_MIN),
        AbMetric::Rss => run.max(|epoch| epoch.rss_bytes).map(float),
        AbMetric::Hwm => run.max(|epoch| epoch.hwm_bytes).map(float),
        AbMetric::Throughput => {
            let ms = run.sum(|epoch| Some(epoch.load_ms)).filter(|ms| *ms > 0)?;
            Some(float(run.operations()?) / float(ms))
        }
    }
}
