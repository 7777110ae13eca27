//! Ratios of a comparison: an interval a metric, beside its limit, on a logarithmic axis.
//!
//! Half and double are equally far from 1. Everything right of 1 is worse for the second variant.

use crate::record::{Finding, Interval, Verdict};

use super::super::escape;
use super::super::figure;
use super::super::metric;
use super::super::plot::{Axis, Frame, Plot, WIDTH};
use super::super::scale::{Domain, Quantity, Spread};
use super::super::view::Answer;
use super::{Chart, KeyEntry};

/// A row: a line of text and the interval under it.
const ROW: f64 = 46.0;

pub(super) fn chart(verdict: &Verdict) -> Option<Chart> {
    let rows: Vec<(&Finding, Interval)> = verdict
        .comparisons
        .iter()
        .filter_map(|finding| Some((finding, finding.value.filter(is_ratio)?)))
        .collect();
    let limits = rows.iter().filter_map(|(finding, _)| finding.limit);
    let ends = rows
        .iter()
        .flat_map(|(_, ratio)| [ratio.lower, ratio.upper]);
    let positive = ends.chain(limits).chain([1.0]).filter(|value| *value > 0.0);
    let domain = Domain::of(positive).filter(|_| !rows.is_empty())?;
    let x = Axis {
        domain: domain.padded_by_factor(1.1),
        quantity: Quantity::Plain,
        spread: Spread::Logarithmic,
        title: "ratio, logarithmic",
    };
    let count = f64::from(u32::try_from(rows.len()).ok()?);
    let frame = Frame {
        width: WIDTH,
        height: ROW * count + 56.0,
        left: 14.0,
        right: 14.0,
        top: 8.0,
        bottom: 40.0,
    };
    let rows_domain = Domain {
        low: 0.0,
        high: count,
    };
    let mut plot = Plot::without_y_axis(frame, &x, rows_domain);
    plot.straight("unity", (1.0, 0.0), (1.0, count));
    let mut top = 0.0;
    for (finding, ratio) in &rows {
        draw(&mut plot, finding, ratio, top);
        top += 1.0;
    }
    let told: Vec<&str> = rows
        .iter()
        .map(|(finding, _)| finding.text.as_str())
        .collect();
    Some(Chart {
        title: "Ratio of the second variant to the first".to_owned(),
        key: key(&rows),
        note: "More than 1 is worse for the second.".to_owned(),
        svg: plot.finish("Ratios and their limits", &told.join(" ")),
    })
}

fn is_ratio(interval: &Interval) -> bool {
    let ends = [interval.lower, interval.estimate, interval.upper];
    ends.iter().all(|end| end.is_finite() && *end > 0.0)
}

fn draw(plot: &mut Plot, finding: &Finding, ratio: &Interval, top: f64) {
    let frame = plot.frame();
    let text_y = plot.y().place(top) + 17.0;
    let line_y = plot.y().place(top) + 32.0;
    let name = metric::label(&finding.metric);
    plot.text("label ink", (frame.left, text_y), name);
    let answer = Answer::of_finding(finding);
    let figures = format!("{} {}", figure::number(ratio.estimate), answer.word);
    let class = format!("label end {}", answer.tone);
    plot.text(&class, (frame.right_edge(), text_y), &figures);
    let place = |value: f64| plot.x().place(value);
    let (lower, middle, upper) = (
        place(ratio.lower),
        place(ratio.estimate),
        place(ratio.upper),
    );
    let told = escape::markup(&finding.text);
    let mut row = format!(
        "<g class=\"{}\"><title>{told}</title>\
         <path class=\"mark interval\" d=\"M{lower:.1} {line_y:.1}H{upper:.1}\"/>\
         <circle class=\"mark point\" cx=\"{middle:.1}\" cy=\"{line_y:.1}\" r=\"4.5\"/></g>",
        answer.tone
    );
    if let Some(limit) = finding.limit.filter(|limit| *limit > 0.0) {
        let at = place(limit);
        let (from, to) = (line_y - 9.0, line_y + 9.0);
        row.push_str(&format!(
            "<path class=\"mark limit solid\" d=\"M{at:.1} {from:.1}V{to:.1}\"/>"
        ));
    }
    plot.push(&row);
}

fn key(rows: &[(&Finding, Interval)]) -> Vec<KeyEntry> {
    let confidence = rows.iter().find_map(|(finding, _)| finding.confidence);
    let interval = confidence.map_or_else(
        || "interval".to_owned(),
        |share| format!("{} % interval", figure::number(share * 100.0)),
    );
    let mut key = vec![KeyEntry {
        class: "ink",
        text: interval,
    }];
    if rows.iter().any(|(finding, _)| finding.limit.is_some()) {
        key.push(KeyEntry {
            class: "tick",
            text: "limit".to_owned(),
        });
    }
    key
}
