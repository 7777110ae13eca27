//! Counters of the target that have to rise, as a proof that the tested feature was at work.

use std::collections::BTreeMap;

use super::kept::number;
use super::metrics::family;
use super::{Measured, figure};
use crate::record::{Epoch, Finding, MetricTable, Outcome, SeriesColumn};

/// Compares the rise of a variant's counters, from the first measured epoch of a run to its last, with the rise that
/// the scenario requires. Series of one name are summed, and so are runs.
pub fn rises(
    table: &MetricTable,
    epochs: &[Epoch],
    variant: &str,
    least: &BTreeMap<String, f64>,
) -> Vec<Finding> {
    let measured = Measured::of(epochs, variant);
    let risen = |name: &str| {
        let is_it = |series: &str| series == name || family(series) == name;
        let series = table.series().filter(|(series, _)| is_it(series));
        let each: Vec<f64> = series
            .filter_map(|(_, column)| rise(&measured, column, variant))
            .collect();
        (!each.is_empty()).then(|| each.iter().sum::<f64>())
    };
    let finding = |(name, least): (&String, &f64)| finding(name, risen(name), *least);
    least.iter().map(finding).collect()
}

/// Rise of a series over all runs; `None`: no run has it at both ends.
fn rise(measured: &Measured<'_>, column: &SeriesColumn, variant: &str) -> Option<f64> {
    let of_run = |(run, epochs): (&u32, &Vec<&Epoch>)| {
        let at = |epoch: &&Epoch| Some(column.at(variant, *run, epoch.epoch)?.1);
        Some(epochs.last().and_then(at)? - epochs.first().and_then(at)?)
    };
    let runs: Vec<f64> = measured.runs.iter().filter_map(of_run).collect();
    (!runs.is_empty()).then(|| runs.iter().sum())
}

fn finding(name: &str, risen: Option<f64>, least: f64) -> Finding {
    let mut finding = figure(&format!("{name}_rise"), "", risen, Some(least));
    let Some(risen) = risen else {
        finding.outcome = Outcome::Inconclusive;
        finding.text = format!("the target's {name} was not seen");
        let help = "check its spelling against metrics.csv, and that the target exposes it from \
                    its start";
        finding.notes.push(help.to_owned());
        return finding;
    };
    if risen < least {
        finding.outcome = Outcome::NoGo;
    }
    finding.text = format!(
        "the target's {name} rose by {}; at least {} is required",
        number(risen),
        number(least)
    );
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{MetricKind, Reading};

    #[test]
    fn counters_of_one_name_rise_together_and_from_the_first_epoch_that_counts() {
        let epoch = |number: u32| Epoch {
            variant: "it".to_owned(),
            epoch: number,
            warmup: number == 0,
            ..Epoch::default()
        };
        let epochs: Vec<Epoch> = (0..3).map(epoch).collect();
        let mut table = MetricTable::default();
        // `idle` rises only during warm-up.
        let told = [
            [
                ("hits{of=\"a\"}", 5.0),
                ("hits{of=\"b\"}", 1.0),
                ("idle", 0.0),
            ],
            [
                ("hits{of=\"a\"}", 6.0),
                ("hits{of=\"b\"}", 1.0),
                ("idle", 9.0),
            ],
            [
                ("hits{of=\"a\"}", 9.0),
                ("hits{of=\"b\"}", 2.0),
                ("idle", 9.0),
            ],
        ];
        for (epoch, told) in epochs.iter().zip(told) {
            let reading = |(series, value): (&str, f64)| Reading {
                series: series.to_owned(),
                kind: MetricKind::Counter,
                value,
            };
            let read = told.map(reading);
            table.take(("it", 0, epoch.epoch), 0, &read, 10);
        }
        let least = ["hits", "hits{of=\"b\"}", "idle", "none"];
        let least = least.map(|name| (name.to_owned(), 2.0)).into();
        let found = rises(&table, &epochs, "it", &least);
        let told: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.metric.as_str(),
                    it.outcome,
                    it.value.map(|of| of.estimate),
                )
            })
            .collect();
        let expected = [
            ("hits_rise", Outcome::Go, Some(4.0)),
            ("hits{of=\"b\"}_rise", Outcome::NoGo, Some(1.0)),
            ("idle_rise", Outcome::NoGo, Some(0.0)),
            ("none_rise", Outcome::Inconclusive, None),
        ];
        assert_eq!(told, expected);
    }
}
