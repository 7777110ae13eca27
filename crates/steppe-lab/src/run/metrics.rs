//! Reads the target's metrics in quiet moments, and judges them at the end.

use crate::judge;
use crate::limits::{METRIC_CLOCKS_SHOWN, METRIC_SERIES_MAX, METRIC_VALUES_MAX, METRICS_PATIENCE};
use crate::record::{Epoch, MetricRow, MetricTable, Problem, ProblemKind, VariantVerdict};
use crate::scenario::Scenario;
use crate::target::{Exposition, MetricClient};

#[derive(Debug, Default)]
pub(super) struct MetricReader {
    table: MetricTable,
    reads: u32,
    failures: u32,
    first_failure: Option<String>,
    /// The last exposition without its readings: counts of what was left out.
    left_out: Exposition,
}

impl MetricReader {
    /// Requests the metrics once, and returns the rows for the folder. `epochs`: number of epochs
    /// in all.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn read(
        &mut self,
        client: &MetricClient,
        url: &str,
        epochs: usize,
        (epoch, at_ms): (&Epoch, u64),
    ) -> Vec<MetricRow> {
        let series_max = METRIC_SERIES_MAX.min(METRIC_VALUES_MAX / epochs.max(1));
        self.reads += 1;
        match client.metrics(url, series_max, METRICS_PATIENCE) {
            Ok(found) => {
                let key = (epoch.variant.as_str(), epoch.run, epoch.epoch);
                let rows = self.table.take(key, at_ms, &found.readings, series_max);
                self.left_out = Exposition {
                    readings: Vec::new(),
                    ..found
                };
                rows
            }
            Err(error) => {
                self.failures += 1;
                self.first_failure.get_or_insert(error.to_string());
                Vec::new()
            }
        }
    }

    /// Adds findings on the series to the verdicts, and returns notes on what was looked at.
    pub(super) fn judge(
        self,
        variants: &mut [VariantVerdict],
        epochs: &[Epoch],
        scenario: &Scenario,
    ) -> Vec<Problem> {
        let Some(url) = &scenario.target.metrics else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        for variant in variants {
            let (budget, seed) = (&scenario.budget, scenario.seed);
            let mut found = judge::metrics(&self.table, epochs, &variant.name, budget, seed);
            let rises = judge::rises(&self.table, epochs, &variant.name, &budget.rises);
            found.findings.extend(rises);
            let worst = found.findings.iter().map(|finding| finding.outcome).max();
            variant.outcome = worst.map_or(variant.outcome, |worst| variant.outcome.max(worst));
            variant.findings.extend(found.findings);
            let text = format!(
                "metrics of {} ({url}): {} gauges judged, {} series measured only{}{}",
                variant.name,
                found.judged,
                found.measured,
                clocks(&found.clocks),
                self.left_out()
            );
            let help = "all of them, counters with their rate, are in metrics.csv; `budget.metrics` judges \
                        one by name";
            notes.push(Problem::new(ProblemKind::Note, text, help));
        }
        if let Some(why) = &self.first_failure {
            let text = format!(
                "metrics could not be read {} of {} times: {why}",
                self.failures, self.reads
            );
            notes.push(Problem::new(
                ProblemKind::Note,
                text,
                "see `target.metrics`",
            ));
        }
        notes
    }

    fn left_out(&self) -> String {
        let Exposition {
            over,
            long,
            unreadable,
            ..
        } = self.left_out;
        let parts = [
            (over, "beyond the number that is kept"),
            (long, "with a name that is too long"),
            (unreadable, "lines that are not series"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("; left out: {}", parts.join(", ")),
        }
    }
}

/// Names the series that were taken for clocks, so that readers see a leak that is named like one.
fn clocks(names: &[String]) -> String {
    let shown = names.len().min(METRIC_CLOCKS_SHOWN);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match shown {
        0 => String::new(),
        _ => format!("; as clocks: {}{more}", names[..shown].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::clocks;

    #[test]
    fn clocks_are_named_and_their_number_is_bounded() {
        let names: Vec<String> = (0..7).map(|number| format!("c{number}")).collect();
        assert_eq!(clocks(&[]), "");
        assert_eq!(clocks(&names[..2]), "; as clocks: c0, c1");
        assert_eq!(clocks(&names), "; as clocks: c0, c1, c2, c3, c4 and 2 more");
    }
}
