//! Rows of a folder as series that can be drawn: by variant, by run, along the epochs.
//!
//! A gap stays a gap: where a value is missing a line ends and another begins. Series are thinned
//! to the lowest and the highest of each bin, so that a page stays small however long the run.

use std::collections::BTreeMap;

use crate::limits;
use crate::record::{Epoch, LoadedRun, RunKind, Sample};

use super::metric::Column;
use super::plot::Place;
use super::scale::Domain;
use super::thin::Thinned;

/// All that was recorded of a variant.
pub(super) struct VariantTracks<'a> {
    pub(super) name: &'a str,
    /// Runs in the order of their numbers.
    pub(super) runs: Vec<RunTrack<'a>>,
}

/// The epochs of one fresh process, in their order.
pub(super) struct RunTrack<'a> {
    pub(super) epochs: Vec<&'a Epoch>,
}

/// The unit of the x axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    Epochs,
    Cycles,
    /// Every run is one point, as in a comparison.
    Runs,
}

/// A line that may have gaps.
pub(super) type Segments = Vec<Vec<Place>>;

impl Along {
    fn of(kind: RunKind, tracks: &[VariantTracks<'_>]) -> Self {
        let runs = || tracks.iter().flat_map(|variant| &variant.runs);
        let is_one_each = runs().all(|run| run.epochs.len() <= 1) && runs().count() > tracks.len();
        match kind {
            RunKind::Ab | RunKind::Calibrate => Self::Runs,
            _ if is_one_each => Self::Runs,
            RunKind::Cycle => Self::Cycles,
            RunKind::Soak | RunKind::Leaks => Self::Epochs,
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Epochs => "epoch",
            Self::Cycles => "cycle",
            Self::Runs => "run",
        }
    }
}

/// The epochs of a run, in the order that the manifest gives the variants. Where a run is a point,
/// its warm-up is left out.
pub(super) fn tracks(run: &LoadedRun) -> (Vec<VariantTracks<'_>>, Along) {
    let declared = run.manifest.variants.iter().map(|variant| &variant.name);
    let measured = run.epochs.iter().map(|epoch| &epoch.variant);
    let mut tracks: Vec<VariantTracks<'_>> = Vec::new();
    for name in declared.chain(measured) {
        if !tracks.iter().any(|variant| variant.name == name) {
            let runs = runs_of(run, name);
            tracks.push(VariantTracks { name, runs });
        }
    }
    let along = Along::of(run.manifest.kind, &tracks);
    if along == Along::Runs {
        for run in tracks.iter_mut().flat_map(|variant| &mut variant.runs) {
            run.epochs.retain(|epoch| !epoch.warmup);
        }
    }
    (tracks, along)
}

fn runs_of<'a>(run: &'a LoadedRun, variant: &str) -> Vec<RunTrack<'a>> {
    let mut runs: BTreeMap<u32, Vec<&Epoch>> = BTreeMap::new();
    for epoch in run.epochs.iter().filter(|epoch| epoch.variant == variant) {
        runs.entry(epoch.run).or_default().push(epoch);
    }
    let in_order = |mut epochs: Vec<&'a Epoch>| {
        epochs.sort_by_key(|epoch| epoch.epoch);
        RunTrack { epochs }
    };
    runs.into_values().map(in_order).collect()
}

impl<'a> VariantTracks<'a> {
    pub(super) fn epochs(&self) -> impl Iterator<Item = &'a Epoch> {
        self.runs.iter().flat_map(|run| run.epochs.iter().copied())
    }

    /// All points of a column, warm-up included.
    pub(super) fn points(&self, along: Along, of: Column) -> Vec<Place> {
        let points = self.epochs().filter_map(|epoch| {
            let value = of(epoch).filter(|value| value.is_finite())?;
            Some((x_of(along, epoch), value))
        });
        points.collect()
    }

    /// One line a run; along the runs, one line in all.
    pub(super) fn lines(&self, along: Along, of: Column) -> Vec<Segments> {
        if along == Along::Runs {
            let epochs: Vec<&Epoch> = self.epochs().collect();
            return vec![segments(&epochs, along, of)];
        }
        let lines = self.runs.iter();
        lines.map(|run| segments(&run.epochs, along, of)).collect()
    }

    /// The first epoch that counts; `None`: no epoch does.
    pub(super) fn first_counted(&self) -> Option<u32> {
        let counted = self.epochs().filter(|epoch| !epoch.warmup);
        counted.map(|epoch| epoch.epoch).min()
    }

    pub(super) fn has(&self, of: Column) -> bool {
        self.epochs().any(|epoch| of(epoch).is_some())
    }
}

/// True for the point before the first cycle: memory without load.
pub(super) fn is_start(along: Along, epoch: &Epoch) -> bool {
    along == Along::Cycles && epoch.epoch == 0 && epoch.warmup && epoch.operations.unwrap_or(0) == 0
}

pub(super) fn x_of(along: Along, epoch: &Epoch) -> f64 {
    match along {
        // Cycles count from 1: 0 is the start.
        Along::Epochs | Along::Cycles => f64::from(epoch.epoch),
        Along::Runs => f64::from(epoch.run) + 1.0,
    }
}

/// Time between the starts of epochs, in milliseconds: the median, 1 at least.
pub(super) fn step_ms(tracks: &[VariantTracks<'_>]) -> u32 {
    let runs = tracks.iter().flat_map(|variant| &variant.runs);
    let mut steps: Vec<u64> = runs
        .flat_map(|run| run.epochs.windows(2))
        .map(|pair| pair[1].start_ms.saturating_sub(pair[0].start_ms))
        .collect();
    steps.sort_unstable();
    let median = steps.get(steps.len() / 2).copied().unwrap_or(1_000);
    u32::try_from(median.max(1)).unwrap_or(u32::MAX)
}

/// The range of the x axis over all variants, so that they can be compared.
pub(super) fn x_domain(tracks: &[VariantTracks<'_>], along: Along) -> Option<Domain> {
    let epochs = tracks.iter().flat_map(VariantTracks::epochs);
    let domain = Domain::of(epochs.map(|epoch| x_of(along, epoch)))?;
    // Room for the first and the last mark, and for the only one.
    let air = ((domain.high - domain.low) * 0.015).max(0.5);
    let air = if domain.high - domain.low > 40.0 {
        air
    } else {
        0.5
    };
    Some(Domain {
        low: domain.low - air,
        high: domain.high + air,
    })
}

fn segments(epochs: &[&Epoch], along: Along, of: Column) -> Segments {
    let points_max = limits::REPORT_LINE_POINTS;
    // Bins of a whole number of epochs, wide enough that thinning never has to start over.
    let width = f64::from(u32::try_from(epochs.len().div_ceil(points_max / 2)).unwrap_or(1));
    let width = if epochs.len() <= points_max {
        1.0
    } else {
        width
    };
    let mut segments = Vec::new();
    let mut open = Thinned::new(points_max, width);
    let mut last_x = f64::NEG_INFINITY;
    for epoch in epochs {
        let x = x_of(along, epoch);
        let value = of(epoch).filter(|value| value.is_finite());
        if value.is_none() || x - last_x > 1.0 {
            close(&mut segments, &mut open, (points_max, width));
        }
        if let Some(value) = value {
            open.push(x, value);
            last_x = x;
        }
    }
    close(&mut segments, &mut open, (points_max, width));
    segments
}

fn close(segments: &mut Segments, open: &mut Thinned, size: (usize, f64)) {
    let points = std::mem::replace(open, Thinned::new(size.0, size.1)).points();
    if !points.is_empty() {
        segments.push(points);
    }
}

/// RSS over time of every run, thinned while `samples.csv` is read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timelines {
    by_run: BTreeMap<(String, u32), Timeline>,
}

/// RSS of one run over time.
#[derive(Debug, Clone, PartialEq)]
struct Timeline {
    start_ms: u64,
    rss: Thinned,
}

impl Timelines {
    /// Reads samples once, in bounded memory a run.
    ///
    /// # Errors
    /// The first error of `samples`.
    pub fn collect<E>(samples: impl IntoIterator<Item = Result<Sample, E>>) -> Result<Self, E> {
        let mut timelines = Self::default();
        for sample in samples {
            timelines.add(&sample?);
        }
        Ok(timelines)
    }

    fn add(&mut self, sample: &Sample) {
        let Some(rss_bytes) = sample.rss_bytes else {
            return;
        };
        let key = (sample.variant.clone(), sample.run);
        let timeline = self.by_run.entry(key).or_insert_with(|| Timeline {
            start_ms: sample.at_ms,
            rss: Thinned::new(limits::REPORT_TIMELINE_POINTS, 0.05),
        });
        let elapsed_ms = sample.at_ms.saturating_sub(timeline.start_ms);
        let (Some(ms), Some(bytes)) = (float(elapsed_ms), float(rss_bytes)) else {
            return;
        };
        timeline.rss.push(ms / 1000.0, bytes);
    }

    /// Lines of a variant's runs: seconds since each run's first sample, bytes.
    pub(super) fn lines(&self, variant: &str) -> Vec<Segments> {
        let runs = self.by_run.iter();
        let of_variant = runs.filter(|((name, _), _)| name == variant);
        of_variant
            .map(|(_, timeline)| without_gaps(timeline.rss.points()))
            .collect()
    }
}

/// Splits a line where nothing was sampled for much longer than usual.
fn without_gaps(points: Vec<Place>) -> Segments {
    let mut steps: Vec<f64> = points
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    steps.sort_by(f64::total_cmp);
    // Lowest and highest of a bin are close together: take a wide step as usual.
    let usual = steps.get(steps.len() * 3 / 4).copied().unwrap_or(0.0);
    let mut segments: Segments = Vec::new();
    for point in points {
        match segments.last_mut() {
            Some(open)
                if open
                    .last()
                    .is_some_and(|last| point.0 - last.0 <= usual * 5.0) =>
            {
                open.push(point);
            }
            _ => segments.push(vec![point]),
        }
    }
    segments
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is beyond 2^53 bytes or milliseconds is not drawn"
)]
fn float(value: u64) -> Option<f64> {
    (value < 1 << 53).then_some(value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(values: &[Option<u64>]) -> Vec<Epoch> {
        let numbered = (0..).zip(values);
        numbered
            .map(|(epoch, rss_bytes)| Epoch {
                epoch,
                rss_bytes: *rss_bytes,
                ..Epoch::default()
            })
            .collect()
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let epochs = epochs(&[Some(1), Some(2), None, Some(4)]);
        let epochs: Vec<&Epoch> = epochs.iter().collect();
        let found = segments(&epochs, Along::Epochs, super::super::metric::rss_bytes);
        assert_eq!(found, [vec![(0.0, 1.0), (1.0, 2.0)], vec![(3.0, 4.0)]]);
    }

    #[test]
    fn long_series_are_thinned_and_keep_their_peak() {
        let mut values = vec![Some(5); 10_000];
        values[7_777] = Some(900);
        let epochs = epochs(&values);
        let epochs: Vec<&Epoch> = epochs.iter().collect();
        let found = segments(&epochs, Along::Epochs, super::super::metric::rss_bytes);
        assert_eq!(found.len(), 1);
        assert!(found[0].len() <= limits::REPORT_LINE_POINTS);
        assert!(found[0].contains(&(7_777.0, 900.0)));
    }

    #[test]
    fn a_silent_sampler_leaves_a_gap() {
        let mut points: Vec<Place> = (0..50).map(|x| (f64::from(x), 1.0)).collect();
        points.extend((80..100).map(|x| (f64::from(x), 1.0)));
        assert_eq!(without_gaps(points).len(), 2);
        assert!(without_gaps(Vec::new()).is_empty());
    }
}
