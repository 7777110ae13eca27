//! Charts of the series that are judged for growth: points, slope with its interval, and budget.
//!
//! The line of the slope, its interval and the budget start at the same place, the level of the
//! first epoch that counts: the verdict is STABLE when the band stays under the budget's line.
//! Comparisons, whose runs are a point each, have nothing to draw here.

use crate::record::{Epoch, Finding};

use super::super::figure::{self, Unit};
use super::super::metric::{self, Column, Metric};
use super::super::plot::{Axis, Frame, Place, Plot};
use super::super::scale::{Domain, Quantity};
use super::super::tracks::{VariantTracks, is_start, x_of};
use super::{Chart, ChartInput, Group, KeyEntry, describe, median};

/// A series with a growth budget.
struct Judged<'a> {
    metric: &'a str,
    title: &'a str,
    what: &'static str,
    of: Column,
    quantity: Quantity,
}

fn judged(input: &ChartInput<'_>) -> [Judged<'static>; 3] {
    let epochs = input.tracks.iter().flat_map(VariantTracks::epochs);
    [
        Judged {
            metric: "rss_growth",
            title: "Memory at rest",
            what: "in quiet moments",
            of: metric::rest_of(epochs),
            quantity: Quantity::Bytes,
        },
        Judged {
            metric: "hwm_growth",
            title: "High-water mark",
            what: "highest RSS under load",
            of: metric::hwm_bytes,
            quantity: Quantity::Bytes,
        },
        Judged {
            metric: "live_growth",
            title: "Live heap",
            what: "allocated and not freed, as the target reports",
            of: metric::live_bytes,
            quantity: Quantity::Bytes,
        },
    ]
}

/// Most dots of a run that are drawn one by one; above, only their line is drawn.
const DOTS_MAX: usize = 120;

pub(super) fn groups(input: &ChartInput<'_>) -> Vec<Group> {
    let judged = judged(input).into_iter();
    let with_values = judged.filter(|judged| input.domain(judged.of).is_some());
    with_values.map(|judged| group(input, &judged)).collect()
}

/// The chart of one finding's series; `None`: the finding is not about a series of epochs.
pub(super) fn of_finding(
    input: &ChartInput<'_>,
    variant: &VariantTracks<'_>,
    finding: &Finding,
) -> Option<Chart> {
    let metric = Metric::find(&finding.metric)?;
    let judged = Judged {
        metric: &finding.metric,
        title: metric.label,
        what: if finding.metric == "rss_growth" {
            "in quiet moments"
        } else {
            ""
        },
        of: metric.column(variant.epochs()),
        quantity: metric.quantity,
    };
    let chart = chart(input, &judged, variant, 0.0)?;
    Some(Chart {
        title: judged.title.to_owned(),
        ..chart
    })
}

fn group(input: &ChartInput<'_>, judged: &Judged<'_>) -> Group {
    let with_values = || input.tracks.iter().filter(|variant| variant.has(judged.of));
    let needed = with_values().filter_map(|variant| domain(input, judged, variant));
    // The same number of bytes from bottom to top in every chart: then slopes compare, whatever the
    // level.
    let span = needed
        .map(|domain| domain.high - domain.low)
        .fold(0.0, f64::max);
    let charts = with_values().filter_map(|variant| chart(input, judged, variant, span));
    Group {
        title: judged.title.to_owned(),
        note: if input.tracks.len() > 1 {
            "Each axis spans the same number of bytes, so slopes compare. It does not start at zero."
        } else {
            "The axis does not start at zero."
        },
        charts: charts.collect(),
        is_small: false,
    }
}

/// The range of the y axis: the points that count, and the budget's line. Warm-up is included while
/// it takes less room than they do; else it would press them flat, and is cut.
fn domain(
    input: &ChartInput<'_>,
    judged: &Judged<'_>,
    variant: &VariantTracks<'_>,
) -> Option<Domain> {
    let values = |is_wanted: fn(&Epoch) -> bool| {
        let epochs = variant.epochs().filter(move |epoch| is_wanted(epoch));
        Domain::of(epochs.filter_map(judged.of))
    };
    let all = values(|_| true)?;
    let counted = values(|epoch| !epoch.warmup).unwrap_or(all);
    let trend = Trend::of(input, judged, variant);
    let budget_end = trend.as_ref().and_then(Trend::budget_end);
    let counted = budget_end.map_or(counted, |end| counted.with(end));
    // An interval that is much wider than the points is cut as well.
    let span = counted.high - counted.low;
    let ends = trend.as_ref().map(Trend::band_ends).unwrap_or_default();
    let near = |end: &f64| (counted.low - span..counted.high + span).contains(end);
    let counted = ends.into_iter().filter(near).fold(counted, Domain::with);
    let counted = counted.padded(0.02);
    let both = counted.with(all.low).with(all.high);
    let is_small = both.high - both.low < 1.6 * (counted.high - counted.low);
    Some(if is_small { both } else { counted })
}

fn chart(
    input: &ChartInput<'_>,
    judged: &Judged<'_>,
    variant: &VariantTracks<'_>,
    span: f64,
) -> Option<Chart> {
    let own = domain(input, judged, variant)?;
    let missing = (span - (own.high - own.low)).max(0.0) / 2.0;
    let low = (own.low - missing).max(0.0);
    let y = Domain {
        low,
        high: low + span.max(own.high - own.low),
    };
    let y = Axis::linear(y, judged.quantity, "");
    let mut plot = Plot::new(Frame::LABELED, &input.x_axis(), &y);
    shade_warmup(&mut plot, input, variant);
    let trend = Trend::of(input, judged, variant);
    if let Some(trend) = &trend {
        trend.draw_below(&mut plot);
    }
    draw_points(&mut plot, input, judged, variant);
    if let Some(trend) = &trend {
        trend.draw_above(&mut plot);
    }
    let points = variant.points(input.along, judged.of);
    let told = trend.as_ref().map_or_else(String::new, Trend::tell);
    let description = format!(
        "{} {told}",
        describe(&points, |value| judged.quantity.show(value))
    );
    let title = format!("{} of {}", judged.title, variant.name);
    Some(Chart {
        title: variant.name.to_owned(),
        key: key(judged, variant, trend.as_ref()),
        note: String::new(),
        svg: plot.finish(&title, description.trim_end()),
    })
}

pub(super) fn shade_warmup(plot: &mut Plot, input: &ChartInput<'_>, variant: &VariantTracks<'_>) {
    let mut dropped = variant.epochs().filter(|epoch| epoch.warmup).peekable();
    if dropped.peek().is_none() {
        return;
    }
    let name = if dropped.all(|epoch| is_start(input.along, epoch)) {
        "start"
    } else {
        "warm-up"
    };
    // `None`: every epoch was warm-up.
    let first = variant.first_counted();
    let end = first.map_or(input.x.high, |first| f64::from(first) - 0.5);
    plot.shade_until(end, name);
}

fn draw_points(
    plot: &mut Plot,
    input: &ChartInput<'_>,
    judged: &Judged<'_>,
    variant: &VariantTracks<'_>,
) {
    let lines = variant.lines(input.along, judged.of);
    let are_few = lines.iter().flatten().map(Vec::len).max() <= Some(DOTS_MAX);
    let class = if are_few { "rest thin" } else { "rest fine" };
    for line in &lines {
        plot.line(class, line);
    }
    if are_few {
        let radius = if lines.len() > 2 { 1.7 } else { 2.2 };
        plot.dots("rest", radius, lines.into_iter().flatten().flatten());
    }
}

fn key(
    judged: &Judged<'_>,
    variant: &VariantTracks<'_>,
    trend: Option<&Trend<'_>>,
) -> Vec<KeyEntry> {
    let is_anonymous = judged.metric == "rss_growth" && variant.has(metric::anonymous_bytes);
    let what = match judged.metric {
        "rss_growth" if is_anonymous => {
            format!(
                "anonymous and shared memory, swapped or not, {}",
                judged.what
            )
        }
        "rss_growth" => format!("RSS {}", judged.what),
        _ if judged.what.is_empty() => judged.title.to_lowercase(),
        _ => judged.what.to_owned(),
    };
    let runs = variant.runs.len();
    let each = if runs > 1 {
        format!("{what}, {runs} runs")
    } else {
        what
    };
    let mut key = vec![KeyEntry {
        class: "rest",
        text: each,
    }];
    let Some(trend) = trend else { return key };
    if let Some(finding) = trend.finding.filter(|finding| finding.value.is_some()) {
        let unit = finding.value.as_ref().map(|value| {
            let unit = Unit::of(&finding.unit, std::iter::once(value.estimate));
            unit.show(value.estimate)
        });
        let confidence = finding.confidence.map_or_else(String::new, |share| {
            format!(", {} % interval", figure::number(share * 100.0))
        });
        key.push(KeyEntry {
            class: "fit",
            text: format!("slope, {}{confidence}", unit.unwrap_or_default()),
        });
    }
    if trend.budget.is_some() {
        key.push(KeyEntry {
            class: "limit",
            text: "budget".to_owned(),
        });
    }
    key
}

/// The lines of a verdict on growth, in bytes an epoch.
struct Trend<'a> {
    finding: Option<&'a Finding>,
    /// The x at which the lines start.
    first_x: f64,
    last_x: f64,
    level: f64,
    budget: Option<f64>,
    slope: Option<[f64; 3]>,
}

impl<'a> Trend<'a> {
    fn of(
        input: &'a ChartInput<'_>,
        judged: &Judged<'_>,
        variant: &VariantTracks<'_>,
    ) -> Option<Self> {
        let finding = input.finding(variant.name, judged.metric);
        let per_step = |slope| metric::slope_per_step(finding?, slope);
        let counted: Vec<Place> = variant
            .epochs()
            .filter(|epoch| !epoch.warmup)
            .filter_map(|epoch| Some((x_of(input.along, epoch), (judged.of)(epoch)?)))
            .collect();
        let x = Domain::of(counted.iter().map(|point| point.0))?;
        let interval = finding.and_then(|finding| finding.value.as_ref());
        let slope = interval.and_then(|interval| {
            let [lower, estimate, upper] =
                [interval.lower, interval.estimate, interval.upper].map(per_step);
            Some([lower?, estimate?, upper?])
        });
        let estimate = slope.map_or(0.0, |slope| slope[1]);
        let levels = counted
            .iter()
            .map(|point| point.1 - estimate * (point.0 - x.low));
        Some(Self {
            finding,
            first_x: x.low,
            last_x: x.high,
            level: median(levels.collect())?,
            budget: finding.and_then(|finding| finding.limit).and_then(per_step),
            slope,
        })
    }

    fn length(&self) -> f64 {
        self.last_x - self.first_x
    }

    fn at_end(&self, slope: f64) -> Place {
        (self.last_x, self.level + slope * self.length())
    }

    fn budget_end(&self) -> Option<f64> {
        Some(self.at_end(self.budget?).1)
    }

    fn band_ends(&self) -> Vec<f64> {
        let slopes = self.slope.into_iter().flatten();
        slopes.map(|slope| self.at_end(slope).1).collect()
    }

    fn start(&self) -> Place {
        (self.first_x, self.level)
    }

    fn draw_below(&self, plot: &mut Plot) {
        if let Some([lower, _, upper]) = self.slope.filter(|_| self.length() > 0.0) {
            let corners = [self.start(), self.at_end(upper), self.at_end(lower)];
            plot.area("band", &corners);
        }
    }

    fn draw_above(&self, plot: &mut Plot) {
        if self.length() <= 0.0 {
            return;
        }
        if let Some(budget) = self.budget {
            let end = self.at_end(budget);
            plot.straight("limit", self.start(), end);
            plot.end_label("limit", end.1, "budget");
        }
        if let Some([_, estimate, _]) = self.slope {
            let end = self.at_end(estimate);
            plot.straight("fit", self.start(), end);
            plot.end_label("fit", end.1, "slope");
        }
    }

    fn tell(&self) -> String {
        self.finding
            .map_or_else(String::new, |finding| finding.text.clone())
    }
}
