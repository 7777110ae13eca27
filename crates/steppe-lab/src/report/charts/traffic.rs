//! Charts of the load and the target's responses: throughput, errors, latency.
//!
//! Percentiles of each run are drawn as they are, never averaged.

use crate::record::{Epoch, total};

use super::super::figure;
use super::super::metric::{self, Column, Metric};
use super::super::plot::{Axis, Frame, Place, Plot};
use super::super::scale::{Domain, Quantity, Spread};
use super::super::tracks::{Along, VariantTracks};
use super::drift::shade_warmup;
use super::{Chart, ChartInput, Group, describe, last_value};

struct Percentile {
    class: &'static str,
    label: &'static str,
    metric: &'static str,
    of: Column,
}

const PERCENTILES: [Percentile; 4] = [
    Percentile {
        class: "p50",
        label: "p50",
        metric: "p50",
        of: |epoch| epoch.p50_us,
    },
    Percentile {
        class: "p90",
        label: "p90",
        metric: "p90",
        of: |epoch| epoch.p90_us,
    },
    Percentile {
        class: "p99",
        label: "p99",
        metric: "p99",
        of: |epoch| epoch.p99_us,
    },
    Percentile {
        class: "p999",
        label: "p99.9",
        metric: "p999",
        of: |epoch| epoch.p999_us,
    },
];

pub(super) fn groups(input: &ChartInput<'_>) -> Vec<Group> {
    let groups = [throughput(input), latency(input), errors(input)];
    groups.into_iter().flatten().collect()
}

fn throughput(input: &ChartInput<'_>) -> Option<Group> {
    let achieved = input.domain(metric::operations_per_s)?;
    let domain = Domain::union(Some(achieved), input.domain(metric::intended_per_s))?;
    let limit = |variant: &VariantTracks<'_>| input.finding(variant.name, "throughput")?.limit;
    let limits = input.tracks.iter().filter_map(limit);
    let domain = limits.fold(domain, Domain::with);
    let y = Axis::linear(domain.with_zero(), Quantity::Plain, "operations/s");
    let charts = input.tracks.iter().map(|variant| {
        let mut plot = Plot::new(Frame::LABELED, &input.x_axis(), &y);
        shade_warmup(&mut plot, input, variant);
        draw(&mut plot, input, variant, "owed", metric::intended_per_s);
        let owed = last_value(&variant.points(input.along, metric::intended_per_s));
        if let Some(owed) = owed {
            plot.end_label("owed", owed, "intended");
        }
        draw(&mut plot, input, variant, "rest", metric::operations_per_s);
        let points = variant.points(input.along, metric::operations_per_s);
        if let Some(last) = last_value(&points) {
            plot.end_label("rest", last, "achieved");
        }
        if let Some(limit) = limit(variant) {
            plot.level("limit", limit);
            plot.end_label("limit", limit, "at least");
        }
        let told = describe(&points, |value| format!("{}/s", figure::number(value)));
        chart(plot, variant, "Throughput", &told, errors_in_words(variant))
    });
    Some(group("Throughput", charts.collect()))
}

fn errors_in_words(variant: &VariantTracks<'_>) -> String {
    let with_errors = variant
        .epochs()
        .filter(|epoch| epoch.errors > Some(0))
        .count();
    let total = total(variant.epochs().filter_map(|epoch| epoch.errors));
    let errors = match with_errors {
        0 => "No errors.".to_owned(),
        1 => format!("{} errors, all in one epoch.", figure::count(total)),
        _ => format!("{} errors in {with_errors} epochs.", figure::count(total)),
    };
    match refused(variant) {
        0 => errors,
        count => format!("{errors} {} refused.", figure::count(count)),
    }
}

fn refused(variant: &VariantTracks<'_>) -> u64 {
    total(variant.epochs().filter_map(|epoch| epoch.refused))
}

/// The chart of errors, if there were any: else the throughput's note says that there were none.
fn errors(input: &ChartInput<'_>) -> Option<Group> {
    let metric = Metric::find("errors")?;
    let domain = input.domain(metric.of).filter(|domain| domain.high > 0.0)?;
    let y = Axis::linear(domain.with_zero(), Quantity::Count, "errors");
    let charts = input.tracks.iter().map(|variant| {
        let mut plot = Plot::new(Frame::PLAIN, &input.x_axis(), &y);
        shade_warmup(&mut plot, input, variant);
        let points = variant.points(input.along, metric.of);
        plot.stems("bad", points.iter().copied());
        let told = describe(&points, figure::number);
        chart(plot, variant, "Errors", &told, errors_in_words(variant))
    });
    Some(group("Errors", charts.collect()))
}

fn latency(input: &ChartInput<'_>) -> Option<Group> {
    let domains = PERCENTILES.iter().map(|percentile| {
        let epochs = input.tracks.iter().flat_map(VariantTracks::epochs);
        Domain::of(epochs.filter_map(|epoch| positive(percentile.of, epoch)))
    });
    let measured = domains.fold(None, Domain::union)?;
    let limits = input
        .tracks
        .iter()
        .flat_map(|variant| limits_us(input, variant));
    let domain = limits.fold(measured, |domain, (_, limit_us)| domain.with(limit_us));
    let y = Axis {
        domain: domain.padded_by_factor(4.0),
        quantity: Quantity::Micros,
        spread: Spread::Logarithmic,
        title: "",
    };
    let charts = input
        .tracks
        .iter()
        .map(|variant| latency_chart(input, variant, &y));
    Some(Group {
        note: "Response time from the intended start; logarithmic axis.",
        ..group("Latency", charts.collect())
    })
}

fn latency_chart(input: &ChartInput<'_>, variant: &VariantTracks<'_>, y: &Axis) -> Chart {
    let mut plot = Plot::new(Frame::LABELED, &input.x_axis(), y);
    shade_warmup(&mut plot, input, variant);
    let mut told = Vec::new();
    for percentile in &PERCENTILES {
        let points: Vec<Place> = variant
            .points(input.along, percentile.of)
            .into_iter()
            .filter(|point| point.1 > 0.0)
            .collect();
        let Some(last) = last_value(&points) else {
            continue;
        };
        draw(&mut plot, input, variant, percentile.class, percentile.of);
        plot.end_label(percentile.class, last, percentile.label);
        told.push(format!(
            "{}: {}",
            percentile.label,
            describe(&points, figure::micros)
        ));
    }
    for (label, limit_us) in limits_us(input, variant) {
        plot.level("limit", limit_us);
        plot.end_label("limit", limit_us, format!("{label} limit"));
    }
    chart(plot, variant, "Latency", &told.join(" "), String::new())
}

/// Limits that the scenario sets, in microseconds.
fn limits_us(input: &ChartInput<'_>, variant: &VariantTracks<'_>) -> Vec<(&'static str, f64)> {
    let limits = PERCENTILES.iter().filter_map(|percentile| {
        let finding = input.finding(variant.name, percentile.metric)?;
        let factor = match finding.unit.as_str() {
            "ms" => 1e3,
            "s" => 1e6,
            "µs" | "us" => 1.0,
            _ => return None,
        };
        let limit_us = finding.limit? * factor;
        (limit_us > 0.0).then_some((percentile.label, limit_us))
    });
    limits.collect()
}

fn positive(of: Column, epoch: &Epoch) -> Option<f64> {
    of(epoch).filter(|value| *value > 0.0)
}

/// Lines along epochs, dots along runs; a logarithmic axis has no place for zero.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn draw(
    plot: &mut Plot,
    input: &ChartInput<'_>,
    variant: &VariantTracks<'_>,
    class: &str,
    of: Column,
) {
    let lowest = plot.y().domain().low;
    for line in variant.lines(input.along, of) {
        let segments = line.into_iter().map(|mut segment| {
            segment.retain(|point| point.1 >= lowest);
            segment
        });
        let segments: Vec<Vec<Place>> = segments.collect();
        match input.along {
            Along::Runs => plot.dots(class, 2.5, segments.into_iter().flatten()),
            _ => plot.line(class, &segments),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn chart(
    plot: Plot,
    variant: &VariantTracks<'_>,
    measure: &str,
    told: &str,
    note: String,
) -> Chart {
    Chart {
        title: variant.name.to_owned(),
        key: Vec::new(),
        note,
        svg: plot.finish(&format!("{measure} of {}", variant.name), told),
    }
}

fn group(title: &str, charts: Vec<Chart>) -> Group {
    Group {
        title: title.to_owned(),
        note: "",
        charts,
        is_small: false,
    }
}
