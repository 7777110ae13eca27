//! Series of a run that ended before it could be judged, each from its first epoch to its last.
//! Makes no claim about them, which is the verdict's job.

use serde::Serialize;

use crate::record::LoadedRun;

use super::metric::Metric;
use super::tracks::{self, Along, VariantTracks};

/// A series of a variant.
#[derive(Debug, Serialize)]
pub(super) struct SeriesView {
    variant: String,
    label: &'static str,
    first: String,
    last: String,
    highest: String,
}

/// Every series that was seen; none where the run has a verdict.
pub(super) fn series(run: &LoadedRun) -> Vec<SeriesView> {
    if run.verdict.is_some() {
        return Vec::new();
    }
    let (tracks, along) = tracks::tracks(run);
    let metrics: Vec<&Metric> = SHOWN.iter().filter_map(|name| Metric::find(name)).collect();
    let of_variant = |track: &VariantTracks<'_>| {
        let each = metrics.iter();
        let each = each.filter_map(|metric| view(track, along, metric));
        each.collect::<Vec<_>>()
    };
    tracks.iter().flat_map(of_variant).collect()
}

fn view(track: &VariantTracks<'_>, along: Along, metric: &Metric) -> Option<SeriesView> {
    let points = track.points(along, metric.column(track.epochs()));
    let values = points.iter().map(|point| point.1);
    Some(SeriesView {
        variant: track.name.to_owned(),
        label: metric.label,
        first: metric.show(points.first()?.1),
        last: metric.show(points.last()?.1),
        highest: metric.show(values.fold(f64::MIN, f64::max)),
    })
}

const SHOWN: [&str; 11] = [
    "rss_growth",
    "hwm_growth",
    "live_growth",
    "cpu_us_per_op",
    "syscalls_per_op",
    "p50",
    "p99",
    "throughput",
    "open_files",
    "threads",
    "close_wait",
];
