//! Metrics of an epoch: the column of each, and how it is shown.
//!
//! A metric that is not known here is still reported, by its name; it just has no chart.

use crate::record::{Epoch, Finding};

use super::figure;
use super::scale::Quantity;

/// The value of a metric in an epoch; `None`: it could not be seen.
pub(super) type Column = fn(&Epoch) -> Option<f64>;

/// A metric that has a value in every epoch.
pub(super) struct Metric {
    /// Name in findings, without `_max`, `_min` or a unit at its end.
    name: &'static str,
    pub(super) label: &'static str,
    pub(super) quantity: Quantity,
    pub(super) of: Column,
}

const METRICS: &[Metric] = &[
    metric("rss_growth", "Memory at rest", Quantity::Bytes, held_bytes),
    metric("hwm_growth", "High-water mark", Quantity::Bytes, hwm_bytes),
    metric("live_growth", "Live heap", Quantity::Bytes, live_bytes),
    metric("rss", "RSS", Quantity::Bytes, rss_bytes),
    metric("hwm", "High-water mark", Quantity::Bytes, hwm_bytes),
    metric(
        "load_hwm",
        "High-water mark of the load",
        Quantity::Bytes,
        |e| count(e.load_hwm_bytes),
    ),
    metric("p50", "Median latency", Quantity::Micros, |e| e.p50_us),
    metric("p90", "Latency, p90", Quantity::Micros, |e| e.p90_us),
    metric("p99", "Latency, p99", Quantity::Micros, |e| e.p99_us),
    metric("p999", "Latency, p99.9", Quantity::Micros, |e| e.p999_us),
    metric(
        "cpu_us_per_op",
        "CPU per operation",
        Quantity::Micros,
        cpu_us_per_op,
    ),
    metric(
        "cpu_per_op",
        "CPU per operation",
        Quantity::Micros,
        cpu_us_per_op,
    ),
    metric(
        "syscalls_per_op",
        "System calls per operation",
        Quantity::Plain,
        syscalls_per_op,
    ),
    metric(
        "instructions_per_op",
        "Instructions per operation",
        Quantity::Plain,
        |e| per_operation(e, e.instructions),
    ),
    metric("errors", "Errors", Quantity::Count, |e| count(e.errors)),
    metric("refused", "Refused", Quantity::Count, |e| count(e.refused)),
    metric(
        "close_wait",
        "Sockets in CLOSE_WAIT",
        Quantity::Count,
        |e| count(e.close_wait_max),
    ),
    metric("open_files", "Open files", Quantity::Count, |e| {
        count(e.open_files)
    }),
    metric("threads", "Threads", Quantity::Count, |e| count(e.threads)),
    metric("processes", "Processes", Quantity::Count, |e| {
        count(e.processes)
    }),
    metric("zombies", "Zombies", Quantity::Count, |e| count(e.zombies)),
    metric("mappings", "Memory mappings", Quantity::Count, |e| {
        count(e.mappings)
    }),
    metric(
        "established",
        "Sockets in ESTABLISHED",
        Quantity::Count,
        |e| count(e.established_max),
    ),
    metric("time_wait", "Sockets in TIME_WAIT", Quantity::Count, |e| {
        count(e.time_wait_max)
    }),
    metric(
        "other_tcp",
        "Sockets in other TCP states",
        Quantity::Count,
        |e| count(e.other_tcp_max),
    ),
    metric(
        "cgroup_growth",
        "Memory of the group beside its processes",
        Quantity::Bytes,
        cgroup_rest_bytes,
    ),
    metric(
        "operations_per_s",
        "Operations a second",
        Quantity::Plain,
        operations_per_s,
    ),
    metric(
        "throughput",
        "Operations a second",
        Quantity::Plain,
        operations_per_s,
    ),
];

const fn metric(name: &'static str, label: &'static str, quantity: Quantity, of: Column) -> Metric {
    Metric {
        name,
        label,
        quantity,
        of,
    }
}

impl Metric {
    /// The metric of a finding.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        let short = plain_name(name);
        let is_named = |wanted: &str| METRICS.iter().find(|metric| metric.name == wanted);
        let drifts = || {
            short
                .strip_suffix("_growth")
                .or(short.strip_suffix("_loss"))
        };
        is_named(name)
            .or_else(|| is_named(short))
            .or_else(|| is_named(drifts()?))
    }

    /// The column of the metric in these epochs.
    pub(super) fn column<'a>(&self, epochs: impl Iterator<Item = &'a Epoch>) -> Column {
        match self.name {
            "rss_growth" => rest_of(epochs),
            _ => self.of,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// A value of the metric, with its unit.
    pub(super) fn show(&self, value: f64) -> String {
        self.quantity.show(value)
    }
}

/// The slope of a finding on drift, in the unit of its column a step.
pub(super) fn slope_per_step(finding: &Finding, slope: f64) -> Option<f64> {
    // Runs of an older lab have no `per_step`: the name of the unit has the bytes.
    let unit = finding.per_step.or(figure::bytes_of_unit(&finding.unit))?;
    let falls = finding.metric.ends_with("_loss");
    Some(if falls { -slope * unit } else { slope * unit })
}

/// True if a finding's name is that of the metric, in whatever unit.
pub(super) fn is_named(name: &str, metric: &str) -> bool {
    name == metric || plain_name(name) == metric
}

/// The label for people of a finding's name; the name itself where it is not known.
pub(super) fn label(name: &str) -> &str {
    match plain_name(name) {
        "rss_growth" => "Growth at rest",
        "hwm_growth" => "Growth of the high-water mark",
        "live_growth" => "Growth of the live heap",
        "cgroup_growth" => "Growth beside the processes",
        "open_files_growth" => "Growth of open files",
        "processes_growth" => "Growth of processes",
        "threads_growth" => "Growth of threads",
        "zombies_growth" => "Growth of zombies",
        "mappings_growth" => "Growth of memory mappings",
        "established_growth" => "Growth of ESTABLISHED sockets",
        "close_wait_growth" => "Growth of CLOSE_WAIT sockets",
        "time_wait_growth" => "Growth of TIME_WAIT sockets",
        "other_tcp_growth" => "Growth of sockets in other states",
        "cpu_us_per_op_growth" => "Rise of CPU time per operation",
        "syscalls_per_op_growth" => "Rise of system calls per operation",
        "p50_growth" => "Rise of the median latency",
        "p99_growth" => "Rise of latency, p99",
        "throughput_loss" => "Loss of throughput",
        "lost_bytes" => "Lost memory",
        _ => Metric::find(name).map_or(name, |metric| metric.label),
    }
}

fn plain_name(name: &str) -> &str {
    const ENDS: [&str; 7] = [
        "_max",
        "_min",
        "_ms",
        "_mib",
        "_kib",
        "_kib_per_epoch",
        "_kib_per_cycle",
    ];
    ENDS.iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes and counts of an epoch are far below 2^53"
)]
fn count(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn per_operation(epoch: &Epoch, value: Option<u64>) -> Option<f64> {
    let operations = count(epoch.operations).filter(|operations| *operations > 0.0)?;
    Some(count(value)? / operations)
}

/// Anonymous memory in RAM, in the quiet moment.
pub(super) fn anonymous_bytes(epoch: &Epoch) -> Option<f64> {
    count(epoch.anonymous_bytes)
}

pub(super) fn rss_bytes(epoch: &Epoch) -> Option<f64> {
    count(epoch.rss_bytes)
}

/// Memory by which growth at rest is judged: anonymous and shared memory, in RAM or swapped out.
fn held_bytes(epoch: &Epoch) -> Option<f64> {
    count(epoch.held_bytes())
}

/// [`held_bytes`], or RSS where no epoch has it. The same column for all epochs: one of the other
/// kind among them would look like a jump.
pub(super) fn rest_of<'a>(mut epochs: impl Iterator<Item = &'a Epoch>) -> Column {
    if epochs.any(|epoch| epoch.anonymous_bytes.is_some()) {
        held_bytes
    } else {
        rss_bytes
    }
}

pub(super) fn hwm_bytes(epoch: &Epoch) -> Option<f64> {
    count(epoch.hwm_bytes)
}

/// Charge of the control group beside its processes that the kernel can't drop.
pub(super) fn cgroup_rest_bytes(epoch: &Epoch) -> Option<f64> {
    count(epoch.cgroup_rest_bytes())
}

pub(super) fn live_bytes(epoch: &Epoch) -> Option<f64> {
    count(epoch.live_bytes)
}

fn cpu_us_per_op(epoch: &Epoch) -> Option<f64> {
    per_operation(epoch, epoch.cpu_us)
}

fn syscalls_per_op(epoch: &Epoch) -> Option<f64> {
    per_operation(epoch, epoch.syscalls)
}

pub(super) fn operations_per_s(epoch: &Epoch) -> Option<f64> {
    rate(epoch, epoch.operations)
}

/// Operations a second that the open loops owed.
pub(super) fn intended_per_s(epoch: &Epoch) -> Option<f64> {
    rate(epoch, epoch.intended)
}

fn rate(epoch: &Epoch, operations: Option<u64>) -> Option<f64> {
    // A shorter load is none at all, as before the first cycle.
    let load_ms = count(Some(epoch.load_ms)).filter(|load_ms| *load_ms >= 10.0)?;
    Some(count(operations)? / load_ms * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(metric: &str, unit: &str, per_step: Option<f64>) -> Finding {
        serde_json::from_value(serde_json::json!({
            "metric": metric, "unit": unit, "word": "STABLE", "text": "", "method": "limit",
            "limit": null, "value": null, "last_half": null, "confidence": null, "points": 0,
            "series": 0, "per_step": per_step, "notes": [],
        }))
        .expect("a finding")
    }

    #[test]
    fn a_slope_is_drawn_in_what_its_column_has() {
        let slope = |metric, unit, per_step| slope_per_step(&drift(metric, unit, per_step), 2.0);
        assert_eq!(slope("rss_growth", "MiB/day", Some(12.0)), Some(24.0));
        assert_eq!(
            slope("throughput_loss", "% of the start", Some(3.0)),
            Some(-6.0)
        );
        // Findings of older runs have no `per_step`.
        assert_eq!(slope("rss_growth", "KiB/epoch", None), Some(2_048.0));
        assert_eq!(slope("p50_growth", "% of the start", None), None);
    }

    #[test]
    fn drift_is_shown_with_what_it_is_of() {
        let name = |drift| Metric::find(drift).map(Metric::name);
        assert_eq!(name("open_files_growth"), Some("open_files"));
        assert_eq!(name("throughput_loss"), Some("throughput"));
        assert_eq!(name("rss_growth"), Some("rss_growth"));
        assert_eq!(name("nothing_growth"), None);
    }
}
