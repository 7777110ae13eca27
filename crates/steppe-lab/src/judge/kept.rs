//! Limits on single figures: kept, broken, or not seen.

use hdrhistogram::Histogram;

use super::{Measured, figure, float};
use crate::limits::P999_OPERATIONS_MIN;
use crate::record::{Epoch, Finding, Word};
use crate::scenario::Budget;

/// Every figure that was seen, and every limit whether it was seen or not.
pub(super) fn findings(
    measured: &Measured<'_>,
    budget: &Budget,
    latency: Option<&Histogram<u64>>,
) -> Vec<Finding> {
    let operations = measured.operations();
    let per_operation = |total: Option<u64>| Some(float(total?) / float(operations).max(1.0));
    let per_operation = |total| per_operation(total).filter(|_| operations > 0);
    let max = |of: fn(&Epoch) -> Option<u64>| measured.max(of).map(float);
    let mib = |of: fn(&Epoch) -> Option<u64>| max(of).map(|bytes| bytes / MIB);
    let quantile = |quantile| latency_ms(latency, quantile);
    let limit = |limit: Option<u64>| limit.map(float);
    let cpu = per_operation(measured.sum(|epoch| epoch.cpu_us));
    let syscalls = per_operation(measured.sum(|epoch| epoch.syscalls));
    let errors = measured.sum(|epoch| Some(epoch.errors)).map(float);
    let close_wait = max(|epoch| epoch.close_wait_max);
    let files = max(|epoch| epoch.open_files);
    let mut findings = vec![
        most("rss", "MiB", mib(|epoch| epoch.rss_bytes), budget.rss_mib),
        most("hwm", "MiB", mib(|epoch| epoch.hwm_bytes), budget.hwm_mib),
        most("cpu_us_per_op", "µs/op", cpu, budget.cpu_us_per_op),
        most(
            "syscalls_per_op",
            "calls/op",
            syscalls,
            budget.syscalls_per_op,
        ),
        most("p50", "ms", quantile(0.5), budget.p50_ms),
        most("p99", "ms", quantile(0.99), budget.p99_ms),
        most("p999", "ms", p999(latency), budget.p999_ms),
        most("errors", "count", errors, limit(budget.errors)),
        most(
            "close_wait",
            "sockets",
            close_wait,
            limit(budget.close_wait_max),
        ),
        most("open_files", "files", files, limit(budget.open_files_max)),
        least(
            "throughput",
            "ops/s",
            throughput(measured),
            budget.operations_per_s_min,
        ),
    ];
    findings.retain(|finding| finding.value.is_some() || finding.limit.is_some());
    findings
}

fn most(metric: &str, unit: &str, value: Option<f64>, limit: Option<f64>) -> Finding {
    judged(metric, unit, value, limit, "at most", |value, limit| {
        value <= limit
    })
}

fn least(metric: &str, unit: &str, value: Option<f64>, limit: Option<f64>) -> Finding {
    judged(metric, unit, value, limit, "at least", |value, limit| {
        value >= limit
    })
}

fn judged(
    metric: &str,
    unit: &str,
    value: Option<f64>,
    limit: Option<f64>,
    bound: &str,
    is_kept: fn(f64, f64) -> bool,
) -> Finding {
    let mut finding = figure(metric, unit, value, limit);
    let show = |value: f64| number(value);
    (finding.word, finding.text) = match (value, limit) {
        (Some(value), None) => (Word::Go, format!("{metric} is {} {unit}", show(value))),
        (Some(value), Some(limit)) => {
            let word = if is_kept(value, limit) {
                Word::Go
            } else {
                Word::NoGo
            };
            let text = format!(
                "{metric} is {} {unit}; allowed is {bound} {}",
                show(value),
                show(limit)
            );
            (word, text)
        }
        (None, limit) => {
            let limit =
                limit.map_or_else(String::new, |limit| format!(" ({bound} {})", show(limit)));
            (
                Word::Inconclusive,
                format!("{metric} could not be seen here, so its limit{limit} is not judged"),
            )
        }
    };
    finding
}

fn latency_ms(latency: Option<&Histogram<u64>>, quantile: f64) -> Option<f64> {
    let latency = latency.filter(|latency| !latency.is_empty())?;
    Some(float(latency.value_at_quantile(quantile)) / 1_000.0)
}

/// The tenth of a percent of few operations is one operation: noise.
fn p999(latency: Option<&Histogram<u64>>) -> Option<f64> {
    latency_ms(
        latency.filter(|latency| latency.len() >= P999_OPERATIONS_MIN),
        0.999,
    )
}

fn throughput(measured: &Measured<'_>) -> Option<f64> {
    let ms = measured
        .sum(|epoch| Some(epoch.load_ms))
        .filter(|ms| *ms > 0)?;
    Some(float(measured.operations()) * 1_000.0 / float(ms))
}

/// Three figures or so, and no more: `0.0123`, `4.06`, `1234`.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        small if small == 0.0 || small >= 100.0 => 0,
        small if small >= 10.0 => 1,
        small if small >= 1.0 => 2,
        small if small >= 0.01 => 3,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

const MIB: f64 = 1_048_576.0;
