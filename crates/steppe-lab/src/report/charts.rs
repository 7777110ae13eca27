//! The charts of a report, in sections: memory, load, cost.
//!
//! Charts of one measure share their scale over all variants, so that they can be compared side by
//! side. A measure without values has no chart.

mod bars;
mod cost;
mod drift;
mod lead;
mod overview;
mod ratios;
mod traffic;

use serde::Serialize;

use crate::record::{Finding, LoadedRun, Verdict};

use super::figure;
use super::metric::{self, Column};
use super::plot::{Axis, Place};
use super::scale::{Domain, Quantity};
use super::tracks::{self, Along, Timelines, VariantTracks};

/// Charts that belong together.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    title: &'static str,
    groups: Vec<Group>,
}

/// One measure: a chart a variant.
#[derive(Debug, Default, Serialize)]
struct Group {
    /// Title of the group; empty where each chart has its own.
    title: String,
    note: &'static str,
    charts: Vec<Chart>,
    is_small: bool,
}

/// A drawing with its title, key and note.
#[derive(Debug, Serialize)]
struct Chart {
    title: String,
    key: Vec<KeyEntry>,
    note: String,
    /// The drawing; its texts are escaped.
    svg: String,
}

/// The meaning of a color or a dash.
#[derive(Debug, Serialize)]
struct KeyEntry {
    class: &'static str,
    text: String,
}

/// The data that charts are drawn from.
struct ChartInput<'a> {
    tracks: Vec<VariantTracks<'a>>,
    timelines: &'a Timelines,
    verdict: Option<&'a Verdict>,
    along: Along,
    x: Domain,
    /// Time from epoch to epoch, in milliseconds.
    step_ms: u32,
}

/// All charts of a page.
#[derive(Debug, Default, Serialize)]
pub(super) struct Charts {
    /// The chart that shows what the verdict is about.
    lead: Option<Chart>,
    sections: Vec<Section>,
}

/// All charts; none where nothing was measured.
pub(super) fn charts(run: &LoadedRun, timelines: &Timelines) -> Charts {
    let ratios = run.verdict.as_ref().and_then(ratios::chart);
    let (tracks, along) = tracks::tracks(run);
    let Some(x) = tracks::x_domain(&tracks, along) else {
        return Charts {
            lead: ratios,
            sections: Vec::new(),
        };
    };
    let input = ChartInput {
        step_ms: tracks::step_ms(&tracks),
        tracks,
        timelines,
        verdict: run.verdict.as_ref(),
        along,
        x,
    };
    let mut sections = vec![
        input.section("Memory", memory(&input)),
        input.section("Load", traffic::groups(&input)),
        input.section("Cost and handles", cost::groups(&input)),
    ];
    sections.retain(|section| !section.groups.is_empty());
    Charts {
        lead: ratios.or_else(|| lead::chart(&input)),
        sections,
    }
}

fn memory(input: &ChartInput<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    if input.along == Along::Cycles {
        groups.extend(bars::group(input));
    }
    if input.along != Along::Runs {
        groups.extend(drift::groups(input));
    }
    groups.extend(overview::group(input));
    groups.extend(overview::timelines(input));
    groups
}

impl ChartInput<'_> {
    /// With one variant, all charts of a section stand in one grid, each under its measure's name.
    fn section(&self, title: &'static str, mut groups: Vec<Group>) -> Section {
        groups.retain(|group| !group.charts.is_empty());
        if self.tracks.len() > 1 {
            return Section { title, groups };
        }
        let mut merged: Vec<Group> = Vec::new();
        for mut group in groups {
            for chart in &mut group.charts {
                chart.title.clone_from(&group.title);
                if chart.note.is_empty() {
                    group.note.clone_into(&mut chart.note);
                }
            }
            match merged.last_mut() {
                Some(last) if last.is_small == group.is_small => last.charts.extend(group.charts),
                _ => merged.push(Group {
                    charts: group.charts,
                    is_small: group.is_small,
                    ..Group::default()
                }),
            }
        }
        Section {
            title,
            groups: merged,
        }
    }

    fn x_axis(&self) -> Axis {
        match self.along {
            Along::Epochs => {
                let ms = self.step_ms;
                Axis::linear(self.x, Quantity::Steps { ms }, "time")
            }
            along => Axis::linear(self.x, Quantity::Count, along.title()),
        }
    }

    fn finding(&self, variant: &str, name: &str) -> Option<&Finding> {
        let variants = &self.verdict?.variants;
        let variant = variants.iter().find(|each| each.name == variant)?;
        let mut findings = variant.findings.iter();
        findings.find(|finding| metric::is_named(&finding.metric, name))
    }

    /// The lowest and highest value over all variants.
    fn domain(&self, of: Column) -> Option<Domain> {
        let epochs = self.tracks.iter().flat_map(VariantTracks::epochs);
        Domain::of(epochs.filter_map(of))
    }
}

/// The median of the values at the last place, beside which a line's label stands.
fn last_value(points: &[Place]) -> Option<f64> {
    let last = Domain::of(points.iter().map(|point| point.0))?.high;
    let at_last = points.iter().filter(|point| point.0 >= last);
    median(at_last.map(|point| point.1).collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    match values.len() % 2 {
        0 => Some((values[middle - 1] + upper) / 2.0),
        _ => Some(*upper),
    }
}

/// A chart in words, for screen readers.
fn describe(points: &[Place], show: impl Fn(f64) -> String) -> String {
    let Some(domain) = Domain::of(points.iter().map(|point| point.1)) else {
        return "Nothing was measured.".to_owned();
    };
    let last =
        last_value(points).map_or_else(String::new, |last| format!(", {} at the end", show(last)));
    let (low, high) = (show(domain.low), show(domain.high));
    format!("{} points from {low} to {high}{last}.", points.len())
}

fn bytes_of_limit(finding: &Finding) -> Option<f64> {
    Some(finding.limit? * figure::bytes_of_unit(&finding.unit)?)
}
