//! RSS after each cycle as bars from zero, with a bar for RSS before the first one.

use super::super::escape;
use super::super::figure;
use super::super::metric;
use super::super::plot::{Axis, Frame, Plot};
use super::super::scale::{Domain, Quantity};
use super::super::tracks::{VariantTracks, is_start, x_of};
use super::{Chart, ChartInput, Group, KeyEntry, median};

/// The kind of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BarKind {
    Start,
    Warmup,
    Counted,
}

/// The median of the runs after a cycle, 0 being the start.
#[derive(Debug, Clone, PartialEq)]
struct Bar {
    cycle: f64,
    kind: BarKind,
    bytes: f64,
    each: Vec<f64>,
}

/// More bars than this have no room for their figures.
const FIGURES_MAX: usize = 5;

pub(super) fn group(input: &ChartInput<'_>) -> Option<Group> {
    let bars: Vec<_> = input
        .tracks
        .iter()
        .map(|variant| (variant, bars(input, variant)))
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let all = || bars.iter().flat_map(|(_, bars)| bars);
    let highest = Domain::of(all().flat_map(|bar| bar.each.iter().copied()))?;
    let last = Domain::of(all().map(|bar| bar.cycle))?;
    let has_start = all().any(|bar| bar.kind == BarKind::Start);
    let x = Domain {
        low: if has_start { -0.6 } else { 0.4 },
        high: last.high + 0.6,
    };
    let y = Axis::linear(highest.with_zero(), Quantity::Bytes, "");
    let charts = bars
        .iter()
        .map(|(variant, bars)| chart(variant, bars, x, &y));
    Some(Group {
        title: "RSS after each cycle".to_owned(),
        note: "",
        charts: charts.collect(),
        is_small: false,
    })
}

fn bars(input: &ChartInput<'_>, variant: &VariantTracks<'_>) -> Vec<Bar> {
    let mut cycles: Vec<u32> = variant.epochs().map(|epoch| epoch.epoch).collect();
    cycles.sort_unstable();
    cycles.dedup();
    let of_cycle = cycles.into_iter().filter_map(|cycle| {
        let epochs = || variant.epochs().filter(move |epoch| epoch.epoch == cycle);
        let first = epochs().next()?;
        let kind = match first.warmup {
            true if is_start(input.along, first) => BarKind::Start,
            true => BarKind::Warmup,
            false => BarKind::Counted,
        };
        let each: Vec<f64> = epochs().filter_map(metric::rss_bytes).collect();
        Some(Bar {
            cycle: x_of(input.along, first),
            kind,
            bytes: median(each.clone())?,
            each,
        })
    });
    of_cycle.collect()
}

fn chart(variant: &VariantTracks<'_>, bars: &[Bar], x: Domain, y: &Axis) -> Chart {
    let mut plot = Plot::without_x_axis(Frame::PLAIN, x, y);
    let has_figures = bars.len() <= FIGURES_MAX;
    let every = bars.len().div_ceil(11).max(1);
    for (index, bar) in bars.iter().enumerate() {
        draw(&mut plot, bar);
        let middle = plot.x().place(bar.cycle);
        if has_figures {
            let above = plot.y().place(bar.bytes) - 5.0;
            plot.text("label middle", (middle, above), &figure::bytes(bar.bytes));
        }
        if index % every == 0 {
            let below = plot.frame().bottom_edge() + 18.0;
            plot.text("tick middle", (middle, below), &name(bar));
        }
    }
    if variant.runs.len() > 1 {
        let each = bars
            .iter()
            .flat_map(|bar| bar.each.iter().map(|bytes| (bar.cycle, *bytes)));
        plot.dots("ink", 1.6, each);
    }
    let frame = plot.frame();
    let middle = (frame.left + frame.right_edge()) / 2.0;
    plot.text("tick middle", (middle, frame.height - 5.0), "cycle");
    let told: Vec<String> = bars.iter().map(tell).collect();
    Chart {
        title: variant.name.to_owned(),
        key: key(variant, bars),
        note: String::new(),
        svg: plot.finish(
            &format!("RSS after each cycle of {}", variant.name),
            &told.join(", "),
        ),
    }
}

fn draw(plot: &mut Plot, bar: &Bar) {
    let left = plot.x().place(bar.cycle - 0.36);
    let width = plot.x().place(bar.cycle + 0.36) - left;
    let top = plot.y().place(bar.bytes);
    let height = (plot.y().place(0.0) - top).max(0.5);
    let class = match bar.kind {
        BarKind::Start => "start",
        BarKind::Warmup => "warmup",
        BarKind::Counted => "counted",
    };
    let told = escape::markup(&tell(bar));
    plot.push(&format!(
        "<rect class=\"mark bar {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"><title>{told}</title></rect>"
    ));
}

fn name(bar: &Bar) -> String {
    match bar.kind {
        BarKind::Start => "start".to_owned(),
        _ => figure::number(bar.cycle),
    }
}

fn tell(bar: &Bar) -> String {
    let figure = figure::bytes(bar.bytes);
    match bar.kind {
        BarKind::Start => format!("start: {figure}"),
        BarKind::Warmup => format!("cycle {}, warm-up: {figure}", bar.cycle),
        BarKind::Counted => format!("cycle {}: {figure}", bar.cycle),
    }
}

fn key(variant: &VariantTracks<'_>, bars: &[Bar]) -> Vec<KeyEntry> {
    let mut key = Vec::new();
    let mut add = |class, text: &str| {
        key.push(KeyEntry {
            class,
            text: text.to_owned(),
        });
    };
    if bars.iter().any(|bar| bar.kind == BarKind::Warmup) {
        add("warmup", "warm-up");
        add("counted", "counted");
    }
    if variant.runs.len() > 1 {
        add("ink", "each run (bars: their median)");
    }
    key
}
