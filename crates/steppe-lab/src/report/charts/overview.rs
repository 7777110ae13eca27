//! All kinds of memory on one axis from zero, by epoch, and RSS as it was sampled over time.
//!
//! Live heap beside RSS tells a leak from retention.

use super::super::figure;
use super::super::metric::{self, Column};
use super::super::plot::{Axis, Frame, Plot};
use super::super::scale::{Domain, Quantity};
use super::super::tracks::{Along, VariantTracks};
use super::drift::shade_warmup;
use super::{Chart, ChartInput, Group, bytes_of_limit, describe, last_value};

struct Kind {
    class: &'static str,
    label: &'static str,
    of: Column,
}

/// Kinds of memory, in drawing order: later ones cover earlier ones.
const KINDS: [Kind; 4] = [
    Kind {
        class: "peak",
        label: "high-water",
        of: metric::hwm_bytes,
    },
    Kind {
        class: "rss",
        label: "RSS",
        of: metric::rss_bytes,
    },
    Kind {
        class: "rest",
        label: "anonymous",
        of: metric::anonymous_bytes,
    },
    Kind {
        class: "live",
        label: "live heap",
        of: metric::live_bytes,
    },
];

/// Limits of size that are drawn where the axis reaches them.
const LIMITS: [&str; 2] = ["rss", "hwm"];

pub(super) fn group(input: &ChartInput<'_>) -> Option<Group> {
    let domains = KINDS.iter().map(|kind| input.domain(kind.of));
    let domain = domains.fold(None, Domain::union)?;
    let limits = input
        .tracks
        .iter()
        .flat_map(|variant| limits(input, variant));
    // A limit far above the measured values would press them to the ground.
    let near = limits.filter(|limit| *limit <= domain.high * 2.0);
    let domain = near.fold(domain, Domain::with).with_zero();
    let charts = input
        .tracks
        .iter()
        .map(|variant| chart(input, variant, domain));
    Some(Group {
        title: "All memory, from zero".to_owned(),
        note: "",
        charts: charts.collect(),
        is_small: false,
    })
}

fn limits(input: &ChartInput<'_>, variant: &VariantTracks<'_>) -> Vec<f64> {
    let findings = LIMITS
        .iter()
        .filter_map(|name| input.finding(variant.name, name));
    findings.filter_map(bytes_of_limit).collect()
}

fn chart(input: &ChartInput<'_>, variant: &VariantTracks<'_>, domain: Domain) -> Chart {
    let y = Axis::linear(domain, Quantity::Bytes, "");
    let mut plot = Plot::new(Frame::LABELED, &input.x_axis(), &y);
    shade_warmup(&mut plot, input, variant);
    let mut told = Vec::new();
    for kind in &KINDS {
        let points = variant.points(input.along, kind.of);
        let Some(last) = last_value(&points) else {
            continue;
        };
        let lines = variant.lines(input.along, kind.of);
        match input.along {
            Along::Runs => plot.dots(kind.class, 2.5, lines.into_iter().flatten().flatten()),
            _ => lines.iter().for_each(|line| plot.line(kind.class, line)),
        }
        plot.end_label(kind.class, last, kind.label);
        told.push(format!(
            "{}: {}",
            kind.label,
            describe(&points, figure::bytes)
        ));
    }
    for limit in limits(input, variant) {
        if limit <= domain.high {
            plot.level("limit", limit);
            plot.end_label("limit", limit, "limit");
        }
    }
    let title = format!("Memory by {} of {}", input.along.title(), variant.name);
    Chart {
        title: variant.name.to_owned(),
        key: Vec::new(),
        note: String::new(),
        svg: plot.finish(&title, &told.join(" ")),
    }
}

pub(super) fn timelines(input: &ChartInput<'_>) -> Option<Group> {
    let lines: Vec<_> = input
        .tracks
        .iter()
        .map(|variant| (variant.name, input.timelines.lines(variant.name)))
        .filter(|(_, lines)| lines.iter().flatten().any(|segment| segment.len() > 1))
        .collect();
    let points = || {
        lines
            .iter()
            .flat_map(|(_, lines)| lines.iter().flatten().flatten())
    };
    let x = Domain::of(points().map(|point| point.0))?;
    let y = Domain::of(points().map(|point| point.1))?.with_zero();
    let charts = lines.iter().map(|(name, lines)| {
        let x = Axis::linear(x, Quantity::Seconds, "time");
        let y = Axis::linear(y, Quantity::Bytes, "");
        let mut plot = Plot::new(Frame::PLAIN, &x, &y);
        let class = if lines.len() > 1 {
            "rss thin"
        } else {
            "rss fine"
        };
        for line in lines {
            plot.line(class, line);
        }
        let all: Vec<_> = lines.iter().flatten().flatten().copied().collect();
        let told = describe(&all, figure::bytes);
        Chart {
            title: (*name).to_owned(),
            key: Vec::new(),
            note: String::new(),
            svg: plot.finish(&format!("RSS over time of {name}"), &told),
        }
    });
    Some(Group {
        title: "RSS over time".to_owned(),
        note: "As sampled, each run from its own start; thinned to the lowest and the highest.",
        charts: charts.collect(),
        is_small: false,
    })
}
