//! Rows of `metrics.csv`: series that the target reports of itself, and the table that they come from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kind of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// The value goes up and down.
    Gauge,
    /// The value goes up, and starts from zero again after a restart.
    Counter,
}

/// One series at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Name with labels, as the target writes it.
    pub series: String,
    /// Kind of the series.
    pub kind: MetricKind,
    /// Finite.
    pub value: f64,
}

/// One series in one epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricRow {
    pub variant: String,
    pub run: u32,
    pub epoch: u32,
    pub series: String,
    /// `gauge` or `counter`.
    pub kind: String,
    pub value: f64,
    /// Growth of a counter a second since the epoch before; empty in the first epoch, and after a
    /// restart.
    pub per_s: Option<f64>,
}

/// The target's series in all epochs, by name and by (variant, run, epoch).
#[derive(Debug, Default)]
pub struct MetricTable {
    series: BTreeMap<String, SeriesColumn>,
}

/// One series.
#[derive(Debug)]
pub struct SeriesColumn {
    pub kind: MetricKind,
    values: BTreeMap<(String, u32, u32), (u64, f64)>,
}

impl MetricTable {
    /// Takes in what was read in an epoch at `at_ms`, and returns its rows. New series beyond
    /// `series_max` are left out (labels may be made up of anything).
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn take(
        &mut self,
        epoch: (&str, u32, u32),
        at_ms: u64,
        read: &[Reading],
        series_max: usize,
    ) -> Vec<MetricRow> {
        let (variant, run, number) = epoch;
        let mut rows = Vec::new();
        for reading in read {
            let is_known = self.series.contains_key(&reading.series);
            if !is_known && self.series.len() >= series_max {
                continue;
            }
            let column = self.series.entry(reading.series.clone());
            let column = column.or_insert_with(|| SeriesColumn {
                kind: reading.kind,
                values: BTreeMap::new(),
            });
            let key = (variant.to_owned(), run, number);
            column.values.insert(key, (at_ms, reading.value));
            rows.push(MetricRow {
                variant: variant.to_owned(),
                run,
                epoch: number,
                series: reading.series.clone(),
                kind: match column.kind {
                    MetricKind::Gauge => "gauge".to_owned(),
                    MetricKind::Counter => "counter".to_owned(),
                },
                value: reading.value,
                per_s: column.per_second(variant, run, number),
            });
        }
        rows
    }

    /// Every series, by its name with labels.
    pub fn series(&self) -> impl Iterator<Item = (&str, &SeriesColumn)> {
        self.series
            .iter()
            .map(|(name, column)| (name.as_str(), column))
    }
}

impl SeriesColumn {
    /// The time of a reading, in milliseconds since the first run began, and its value.
    pub fn at(&self, variant: &str, run: u32, epoch: u32) -> Option<(u64, f64)> {
        self.values.get(&(variant.to_owned(), run, epoch)).copied()
    }

    /// Growth a second of a counter since the epoch before.
    pub fn per_second(&self, variant: &str, run: u32, epoch: u32) -> Option<f64> {
        let (now_ms, now) = self.at(variant, run, epoch)?;
        let (then_ms, then) = self.at(variant, run, epoch.checked_sub(1)?)?;
        let ms = u32::try_from(now_ms.checked_sub(then_ms)?).ok()?;
        let is_counter = self.kind == MetricKind::Counter;
        let grown = Some(now - then).filter(|grown| *grown >= 0.0 && ms > 0 && is_counter)?;
        Some(grown * 1_000.0 / f64::from(ms))
    }
}
