//! Explains a finding: the rule, the points that went in, the interval, and what to do next.

use crate::record::{Finding, Interval, LoadedRun, Method, Outcome, RunKind};

use super::escape;
use super::metric::{self, Column, Metric};
use super::plot::Place;
use super::scale::{Domain, Scale};
use super::text_plot::text_plot;
use super::tracks::{self, Along, VariantTracks, x_of};
use super::view;

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExplainError {
    /// The run was killed before it was judged.
    #[error("the run has no verdict: it ended before it could be judged")]
    NoVerdict,
    /// The verdict has no such metric.
    #[error("no finding for \"{metric}\"; there are: {}", .known.join(", "))]
    UnknownMetric {
        /// The requested metric, escaped.
        metric: String,
        /// The metrics of the verdict.
        known: Vec<String>,
    },
}

/// Explains the findings for a metric, in every variant that has one.
///
/// # Errors
/// When there is no verdict, or it has no such metric.
pub fn explain(run: &LoadedRun, metric: &str) -> Result<String, ExplainError> {
    let verdict = run.verdict.as_ref().ok_or(ExplainError::NoVerdict)?;
    let (tracks, along) = tracks::tracks(run);
    let mut parts = Vec::new();
    for finding in verdict
        .comparisons
        .iter()
        .filter(|each| each.metric == metric)
    {
        parts.push(comparison(finding, &tracks, along));
    }
    for variant in &verdict.variants {
        let track = tracks.iter().find(|track| track.name == variant.name);
        for finding in variant.findings.iter().filter(|each| each.metric == metric) {
            parts.push(of_variant(
                run.manifest.kind,
                &variant.name,
                finding,
                track,
                along,
            ));
        }
    }
    if parts.is_empty() {
        let of_variants = verdict
            .variants
            .iter()
            .flat_map(|variant| &variant.findings);
        let all = verdict.comparisons.iter().chain(of_variants);
        let mut known: Vec<String> = all
            .map(|finding| escape::terminal(&finding.metric))
            .collect();
        known.sort();
        known.dedup();
        return Err(ExplainError::UnknownMetric {
            metric: escape::terminal(metric),
            known,
        });
    }
    Ok(parts.join("\n"))
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn of_variant(
    kind: RunKind,
    variant: &str,
    finding: &Finding,
    track: Option<&VariantTracks<'_>>,
    along: Along,
) -> String {
    let mut text = head(variant, finding);
    text.push_str(&format!("\nRule\n  {}\n", rule(finding, along)));
    if let (Some(track), Some(metric)) = (track, Metric::find(&finding.metric)) {
        text.push_str(&points_that_went_in(finding, track, metric, along));
    }
    text.push_str(&intervals(finding));
    text.push_str(&format!("\nNext\n  {}\n", next(kind, finding)));
    text
}

fn comparison(finding: &Finding, tracks: &[VariantTracks<'_>], along: Along) -> String {
    let mut text = head("comparison", finding);
    text.push_str(&format!("\nRule\n  {}\n", rule(finding, along)));
    if let Some(metric) = Metric::find(&finding.metric) {
        for track in tracks {
            let points = counted(track, metric.column(track.epochs()), along);
            text.push_str(&format!("\nEach run of {}\n", escape::terminal(track.name)));
            text.push_str(&text_plot(&points, None, |value| metric.show(value)));
        }
    }
    text.push_str(&intervals(finding));
    text.push_str(&format!("\nNext\n  {}\n", next(RunKind::Ab, finding)));
    text
}

fn head(name: &str, finding: &Finding) -> String {
    let mut text = format!(
        "{} {}: {}\n  {}\n",
        escape::terminal(name),
        escape::terminal(&finding.metric),
        finding.word(),
        escape::terminal(&finding.text)
    );
    for note in &finding.notes {
        text.push_str(&format!("  {}\n", escape::terminal(note)));
    }
    text
}

fn is_growth(finding: &Finding) -> bool {
    finding.is_drift() && finding.method != Method::PairedBootstrap
}

fn rule(finding: &Finding, along: Along) -> String {
    let one = along.title();
    let basis = escape::terminal(&view::basis(finding));
    if is_growth(finding) {
        return format!(
            "one point per {one}, its Theil-Sen slope, against the budget ({basis})\n  \
             STABLE: the whole window's upper bound is under the budget\n  \
             UNBOUNDED: the lower bound is over it, for the whole window and for its last half\n  \
             GROWING: for the whole window only; else INCONCLUSIVE\n  \
             other shapes: growth that slows down is judged by the rest without its curve, steps by \
             their corners, a saw-tooth by its troughs"
        );
    }
    if finding.method == Method::PairedBootstrap && finding.limit.is_some() {
        return format!(
            "the ratio of the second variant to the first, in pairs of fresh processes ({basis})\n  \
             GO: the upper bound is under the limit; NO-GO: the lower is over it; else INCONCLUSIVE"
        );
    }
    match finding.limit {
        Some(_) => "GO: the figure is within its limit; NO-GO: it is beyond its limit".to_owned(),
        None => "measured; the scenario sets no limit, so it can't fail".to_owned(),
    }
}

fn counted(track: &VariantTracks<'_>, of: Column, along: Along) -> Vec<Place> {
    let epochs = track.epochs().filter(|epoch| !epoch.warmup);
    epochs
        .filter_map(|epoch| Some((x_of(along, epoch), of(epoch)?)))
        .collect()
}

fn points_that_went_in(
    finding: &Finding,
    track: &VariantTracks<'_>,
    metric: &Metric,
    along: Along,
) -> String {
    let points = counted(track, metric.column(track.epochs()), along);
    let dropped = track.epochs().filter(|epoch| epoch.warmup).count();
    let judged = track.epochs().filter(|epoch| !epoch.warmup).count();
    let missing = judged - points.len();
    let runs = track.runs.len();
    let laid = match runs {
        1 => "1 run".to_owned(),
        _ => format!("{runs} runs laid over each other"),
    };
    let mut text = format!(
        "\nPoints ({}, {laid}, by {})\n",
        metric.label,
        along.title()
    );
    let line = is_growth(finding)
        .then(|| fitted(finding, &points))
        .flatten();
    text.push_str(&text_plot(&points, line, |value| metric.show(value)));
    if line.is_some() {
        text.push_str("  dashes: the slope\n");
    }
    let start = if along == Along::Cycles {
        " or start"
    } else {
        ""
    };
    text.push_str(&format!(
        "  {} counted, {dropped} dropped as warm-up{start}",
        points.len()
    ));
    if missing > 0 {
        text.push_str(&format!(", {missing} could not be seen"));
    }
    text.push('\n');
    text
}

/// The line of the slope through the median of the points.
fn fitted(finding: &Finding, points: &[Place]) -> Option<[Place; 2]> {
    let slope = metric::slope_per_step(finding, finding.value?.estimate)?;
    let x = Domain::of(points.iter().map(|point| point.0))?;
    let mut levels: Vec<f64> = points
        .iter()
        .map(|point| point.1 - slope * point.0)
        .collect();
    levels.sort_by(f64::total_cmp);
    let level = levels.get(levels.len() / 2)?;
    Some([x.low, x.high].map(|at| (at, level + slope * at)))
}

fn intervals(finding: &Finding) -> String {
    let unit = view::unit(finding);
    let Some(whole) = finding.value else {
        return "\nInterval\n  nothing was measured\n".to_owned();
    };
    let mut rows = vec![("whole window", whole)];
    rows.extend(finding.last_half.map(|half| ("last half", half)));
    if !is_growth(finding) {
        rows[0].0 = "value";
    }
    let mut text = "\nInterval\n".to_owned();
    let ends = rows
        .iter()
        .flat_map(|(_, interval)| [interval.lower, interval.upper]);
    let domain = Domain::of(ends.chain(finding.limit));
    for (name, interval) in &rows {
        let range = unit.range(interval);
        let range = range.map_or_else(String::new, |range| format!(" ({range})"));
        let estimate = escape::terminal(&unit.show(interval.estimate));
        text.push_str(&format!("  {name:<13}{estimate}{range}\n"));
        if let Some(domain) = domain.filter(|_| range_is_drawn(interval)) {
            text.push_str(&format!(
                "  {:<13}{}\n",
                "",
                bar(interval, finding.limit, domain)
            ));
        }
    }
    if let Some(limit) = finding.limit {
        let what = if is_growth(finding) {
            "budget"
        } else {
            "limit"
        };
        text.push_str(&format!(
            "  {what:<13}{}\n",
            escape::terminal(&unit.show(limit))
        ));
    }
    text
}

fn range_is_drawn(interval: &Interval) -> bool {
    interval.lower < interval.upper
}

/// `├──●──┤   ┊`: the interval, and the limit.
fn bar(interval: &Interval, limit: Option<f64>, domain: Domain) -> String {
    const COLUMNS: u32 = 50;
    let scale = Scale::linear(domain.padded(0.0), 0.0, f64::from(COLUMNS - 1));
    let place = |value: f64| scale.place(value).round();
    let (lower, upper) = (place(interval.lower), place(interval.upper));
    let sign = |column: u32| {
        let at = f64::from(column);
        let is = |value: f64| (place(value) - at).abs() < 0.5;
        match () {
            () if is(interval.estimate) => '●',
            () if limit.is_some_and(is) => '┊',
            () if is(interval.lower) => '├',
            () if is(interval.upper) => '┤',
            () if at > lower && at < upper => '─',
            () => ' ',
        }
    };
    let bar: String = (0..COLUMNS).map(sign).collect();
    bar.trim_end().to_owned()
}

fn next(kind: RunKind, finding: &Finding) -> &'static str {
    let is_live = metric::is_named(&finding.metric, "live_growth");
    let is_memory = is_live
        || ["rss_growth", "hwm_growth"]
            .iter()
            .any(|name| metric::is_named(&finding.metric, name));
    match finding.outcome {
        Outcome::Stable | Outcome::Go if !finding.is_judged() => {
            "no action: it is measured, and no limit is set"
        }
        Outcome::Stable | Outcome::Go => "no action: it is within its limit",
        Outcome::Inconclusive if finding.value.is_none() => {
            "too few points to judge: run to the planned end, with more epochs or pairs; the \
             report lists missing measurements"
        }
        Outcome::Inconclusive if kind == RunKind::Ab => {
            "the limit lies within the interval: use more pairs, a longer measurement, or a \
             quieter machine (`calibrate` shows the smallest effect detected here)"
        }
        Outcome::Inconclusive if is_memory => {
            "this run is too short or too noisy for the budget: use more epochs, at least 5 runs, or \
             a quieter machine; in a runtime with a garbage collector set `target.collect`"
        }
        Outcome::Inconclusive => {
            "this run is too short or too noisy for the budget: use more epochs, at least 5 runs, or \
             a quieter machine"
        }
        Outcome::Growing => {
            "the last half does not show growth: often warm-up is longer than the dropped epochs; \
             raise warmup or count, and run again"
        }
        Outcome::Unbounded | Outcome::Leak if is_live => {
            "live bytes grow, so it is a leak: `target.profile` names the code in Go, Node.js, Python \
             and Java, `steppe-lab leaks` in native programs"
        }
        Outcome::Unbounded | Outcome::Leak => {
            "compare with live_growth: live bytes that stay flat mean retention (try another \
             allocator as a variant), else find the code: in a managed runtime with \
             `target.collect` and `target.profile`, in a native program with `steppe-lab leaks`"
        }
        Outcome::NoGo => {
            "check in the chart of report.html if a few epochs or all of them exceed the limit"
        }
        Outcome::Invalid => "fix the listed problems, then run again",
        Outcome::TargetFailed => "read the target's log in the folder's logs/",
    }
}
