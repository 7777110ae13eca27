//! Limits on single figures: kept, broken, or not measured.

use hdrhistogram::Histogram;

use super::{Measured, figure, float};
use crate::limits::{P999_OPERATIONS_MIN, RATE_KEPT_MIN};
use crate::record::{Epoch, Finding, Outcome};
use crate::scenario::Budget;

/// Findings on every figure that was measured, and on every figure with a limit.
pub(super) fn findings(
    measured: &Measured<'_>,
    budget: &Budget,
    latency: Option<&Histogram<u64>>,
) -> Vec<Finding> {
    let operations = measured.operations().filter(|operations| *operations > 0);
    let per_operation = |total: Option<u64>| Some(float(total?) / float(operations?));
    let max = |of: fn(&Epoch) -> Option<u64>| measured.max(of).map(float);
    let mib = |of: fn(&Epoch) -> Option<u64>| max(of).map(|bytes| bytes / MIB);
    let quantile = |quantile| latency_ms(latency, quantile);
    let limit = |limit: Option<u64>| limit.map(float);
    let cpu = per_operation(measured.sum(|epoch| epoch.cpu_us));
    let syscalls = per_operation(measured.sum(|epoch| epoch.syscalls));
    let errors = measured.sum(|epoch| epoch.errors).map(float);
    let refused = refused_percent(measured);
    let close_wait = max(|epoch| epoch.close_wait_max);
    let files = max(|epoch| epoch.open_files);
    let mut findings = vec![
        most(
            "rss",
            "RSS",
            "MiB",
            mib(|epoch| epoch.rss_bytes),
            budget.rss_mib,
        ),
        most(
            "hwm",
            "the high-water mark",
            "MiB",
            mib(|epoch| epoch.hwm_bytes),
            budget.hwm_mib,
        ),
        most(
            "load_hwm",
            "the high-water mark of the load's programs",
            "MiB",
            mib(|epoch| epoch.load_hwm_bytes),
            budget.load_hwm_mib,
        ),
        most(
            "cpu_us_per_op",
            "CPU time",
            "µs/op",
            cpu,
            budget.cpu_us_per_op,
        ),
        most(
            "syscalls_per_op",
            "the number of system calls",
            "calls/op",
            syscalls,
            budget.syscalls_per_op,
        ),
        most(
            "p50",
            "the median latency",
            "ms",
            quantile(0.5),
            budget.p50_ms,
        ),
        most(
            "p99",
            "the 99th percentile of latency",
            "ms",
            quantile(0.99),
            budget.p99_ms,
        ),
        most(
            "p999",
            "the 99.9th percentile of latency",
            "ms",
            p999(latency),
            budget.p999_ms,
        ),
        most(
            "errors",
            "the number of failed operations",
            "count",
            errors,
            limit(budget.errors),
        ),
        most(
            "refused",
            "the refused share",
            "% of operations",
            refused,
            budget.refused_share.map(|share| share * 100.0),
        ),
        most(
            "close_wait",
            "the peak in CLOSE_WAIT",
            "sockets",
            close_wait,
            limit(budget.close_wait_max),
        ),
        most(
            "open_files",
            "the peak of open files",
            "files",
            files,
            limit(budget.open_files_max),
        ),
        least(
            "throughput",
            "throughput",
            "ops/s",
            throughput(measured),
            budget.operations_per_s_min,
        ),
    ];
    if let Some(share) = kept_share(measured) {
        let unit = "% of the rate";
        let least_share = Some(RATE_KEPT_MIN);
        findings.push(least(
            "rate_kept",
            "the achieved load",
            unit,
            Some(share),
            least_share,
        ));
    }
    let is_told = |finding: &Finding| {
        let is_refused = finding.metric == "refused";
        let is_seen = |value: f64| !is_refused || value > 0.0;
        let value = finding.value.map(|value| value.estimate);
        value.is_some_and(is_seen) || finding.limit.is_some()
    };
    findings.retain(is_told);
    findings
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn most(metric: &str, called: &str, unit: &str, value: Option<f64>, limit: Option<f64>) -> Finding {
    let is_kept = |value, limit| value <= limit;
    judged(
        figure(metric, unit, value, limit),
        called,
        "at most",
        is_kept,
    )
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn least(
    metric: &str,
    called: &str,
    unit: &str,
    value: Option<f64>,
    limit: Option<f64>,
) -> Finding {
    let is_kept = |value, limit| value >= limit;
    judged(
        figure(metric, unit, value, limit),
        called,
        "at least",
        is_kept,
    )
}

fn judged(
    mut finding: Finding,
    called: &str,
    bound: &str,
    is_kept: fn(f64, f64) -> bool,
) -> Finding {
    let unit = if finding.unit == "count" {
        ""
    } else {
        finding.unit.as_str()
    };
    let allowed = finding
        .limit
        .map(|limit| format!("allowed is {bound} {}", number(limit)));
    (finding.outcome, finding.text) = match (finding.value, finding.limit) {
        (Some(value), limit) => {
            let value = value.estimate;
            let is_kept = limit.is_none_or(|limit| is_kept(value, limit));
            let figure = format!("{called} is {} {unit}", number(value));
            let allowed = allowed.map_or_else(String::new, |allowed| format!("; {allowed}"));
            let word = if is_kept { Outcome::Go } else { Outcome::NoGo };
            (word, format!("{}{allowed}", figure.trim_end()))
        }
        (None, _) => {
            let allowed = allowed.unwrap_or_default();
            let text = format!("{called} could not be seen here, so it is not judged ({allowed})");
            (Outcome::Inconclusive, text)
        }
    };
    finding
}

fn latency_ms(latency: Option<&Histogram<u64>>, quantile: f64) -> Option<f64> {
    let latency = latency.filter(|latency| !latency.is_empty())?;
    Some(float(latency.value_at_quantile(quantile)) / 1_000.0)
}

/// The 99.9th percentile in ms; `None` with few operations, where it is the noise of a single one.
fn p999(latency: Option<&Histogram<u64>>) -> Option<f64> {
    latency_ms(
        latency.filter(|latency| latency.len() >= P999_OPERATIONS_MIN),
        0.999,
    )
}

/// Findings of a leak check: `lost` is the lost bytes and their limit, `errors` the failed operations and theirs.
pub fn lost(lost: (u64, u64), errors: (u64, Option<u64>), operations: u64) -> Vec<Finding> {
    let (bytes, allowed) = (float(lost.0), float(lost.1));
    let called = format!("memory lost after {operations} operations");
    let mut lost = most("lost_bytes", &called, "bytes", Some(bytes), Some(allowed));
    if lost.outcome == Outcome::NoGo {
        lost.outcome = Outcome::Leak;
    }
    let called = "the number of failed operations";
    let errors = most(
        "errors",
        called,
        "count",
        Some(float(errors.0)),
        errors.1.map(float),
    );
    vec![lost, errors]
}

/// Makes a passed leak check INCONCLUSIVE for a program whose `runtime` manages memory itself: a leak checker
/// can't see its leaks.
pub fn doubt_lost(findings: &mut [Finding], runtime: &str) {
    let is_kept = |it: &&mut Finding| it.metric == "lost_bytes" && it.outcome == Outcome::Go;
    for finding in findings.iter_mut().filter(is_kept) {
        finding.outcome = Outcome::Inconclusive;
        finding.text = format!(
            "{}; but {runtime} manages memory itself, and a leak checker can't see its leaks",
            finding.text
        );
    }
}

/// Per cent of the due operations that were done, in open loops. Memory under a lower load than intended says
/// nothing of the intended load.
fn kept_share(measured: &Measured<'_>) -> Option<f64> {
    let due = measured
        .sum(|epoch| epoch.intended)
        .filter(|due| *due > 0)?;
    let done = measured.sum(|epoch| epoch.kept)?;
    Some(float(done) * 100.0 / float(due))
}

/// Refused operations in per cent of all, failed ones included.
fn refused_percent(measured: &Measured<'_>) -> Option<f64> {
    let refused = measured.sum(|epoch| epoch.refused)?;
    let others = [measured.operations(), measured.sum(|epoch| epoch.errors)];
    let all = others
        .into_iter()
        .flatten()
        .fold(refused, u64::saturating_add);
    (all > 0).then(|| float(refused) * 100.0 / float(all))
}

fn throughput(measured: &Measured<'_>) -> Option<f64> {
    let ms = measured
        .sum(|epoch| Some(epoch.load_ms))
        .filter(|ms| *ms > 0)?;
    Some(float(measured.operations()?) * 1_000.0 / float(ms))
}

/// A number with about three significant digits: `0.012`, `4.06`, `1234`.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        small if small == 0.0 || small >= 100.0 => 0,
        small if small >= 10.0 => 1,
        small if small >= 1.0 => 2,
        small if small >= 0.01 => 3,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text.as_str(),
    };
    match text {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

const MIB: f64 = 1_048_576.0;
