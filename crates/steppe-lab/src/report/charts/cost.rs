//! Small charts of the costs of an operation and of the handles that the target holds.

use super::super::metric::Metric;
use super::super::plot::{Axis, Frame, Plot};
use super::super::scale::{Domain, Quantity};
use super::super::tracks::Along;
use super::{Chart, ChartInput, Group, describe};

/// In the order of their charts.
const MEASURES: [&str; 6] = [
    "cpu_us_per_op",
    "syscalls_per_op",
    "instructions_per_op",
    "close_wait",
    "threads",
    "open_files",
];

pub(super) fn groups(input: &ChartInput<'_>) -> Vec<Group> {
    let metrics = MEASURES.iter().filter_map(|name| Metric::find(name));
    metrics.filter_map(|metric| group(input, metric)).collect()
}

fn group(input: &ChartInput<'_>, metric: &Metric) -> Option<Group> {
    let measured = input.domain(metric.of)?;
    let limits = input
        .tracks
        .iter()
        .filter_map(|variant| limit(input, variant.name, metric));
    let near = limits.filter(|limit| *limit <= measured.high * 3.0 || *limit <= 10.0);
    let domain = near.fold(measured, Domain::with).with_zero();
    let y = Axis::linear(domain, metric.quantity, "");
    let measured = input.tracks.iter().filter(|variant| variant.has(metric.of));
    let charts = measured.map(|variant| {
        let mut plot = Plot::new(Frame::SMALL, &input.x_axis(), &y);
        let lines = variant.lines(input.along, metric.of);
        match input.along {
            Along::Runs => plot.dots("rest", 2.5, lines.into_iter().flatten().flatten()),
            _ => lines.iter().for_each(|line| plot.line("rest", line)),
        }
        if let Some(limit) =
            limit(input, variant.name, metric).filter(|limit| *limit <= domain.high)
        {
            plot.level("limit", limit);
        }
        let told = describe(&variant.points(input.along, metric.of), |value| {
            metric.show(value)
        });
        Chart {
            title: variant.name.to_owned(),
            key: Vec::new(),
            note: String::new(),
            svg: plot.finish(&format!("{} of {}", metric.label, variant.name), &told),
        }
    });
    Some(Group {
        title: metric.label.to_owned(),
        note: "",
        charts: charts.collect(),
        is_small: true,
    })
}

/// The scenario's limit, in the unit of the chart; those of other units are left out.
fn limit(input: &ChartInput<'_>, variant: &str, metric: &Metric) -> Option<f64> {
    let finding = input.finding(variant, metric.name())?;
    let is_same_unit = match metric.quantity {
        Quantity::Micros => finding.unit.starts_with("µs") || finding.unit.starts_with("us"),
        _ => true,
    };
    finding.limit.filter(|_| is_same_unit)
}
