//! The figures of all runs, by case and allocator.
//!
//! Invariant: element `i` of all series is from the same round, or half of a round with `--before`. A run
//! that failed leaves NaN there, so that pairs stay aligned, and is recorded as a failure.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use anyhow::Result;

use super::case::Case;
use super::peer::{Contestant, Peer};
use super::run::Figures;
use crate::before::comparison::{Comparison, Costs, Instructions};
use crate::before::counts::Counts;
use crate::stats;

/// One allocator in one case.
#[derive(Debug, Default)]
pub struct Record {
    runs: Vec<Option<Figures>>,
    pub instructions: Counts,
    pub syscalls: Option<f64>,
}

/// Every allocator in every case.
pub struct Records {
    records: BTreeMap<(Case, Peer), Record>,
    failures: Vec<String>,
}

/// A ratio of two series of rounds: its median, and a 95 % interval of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Records {
    pub fn new(cases: &[Case], contestants: &[Contestant]) -> Self {
        let keys = cases.iter().flat_map(|&case| {
            contestants
                .iter()
                .map(move |contestant| (case, contestant.peer))
        });
        Self {
            records: keys.map(|key| (key, Record::default())).collect(),
            failures: Vec::new(),
        }
    }

    pub fn add(&mut self, case: Case, peer: Peer, outcome: Result<Figures>) {
        if let Err(error) = &outcome {
            let failure = format!("{} under {}: {error:#}", case.name(), peer.name());
            self.failures.push(failure);
        }
        let record = self.records.entry((case, peer)).or_default();
        record.runs.push(outcome.ok());
    }

    pub fn add_instructions(&mut self, case: Case, peer: Peer, count: f64) {
        let record = self.records.entry((case, peer)).or_default();
        record.instructions.push(count);
    }

    pub fn add_syscalls(&mut self, case: Case, peer: Peer, count: f64) {
        self.records.entry((case, peer)).or_default().syscalls = Some(count);
    }

    pub fn of(&self, case: Case, peer: Peer) -> Option<&Record> {
        self.records.get(&(case, peer))
    }

    /// Programs that failed, by case and allocator.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The mimalloc with the highest median rate in a case of this run.
    pub fn best_mimalloc(&self, case: Case) -> Option<Peer> {
        let of_case = self.records.iter().filter(|((at, _), _)| *at == case);
        let rates = of_case
            .filter(|((_, peer), _)| peer.is_mimalloc())
            .map(|((_, peer), record)| (*peer, record.rate()))
            .filter(|(_, rate)| rate.is_finite());
        rates
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(peer, _)| peer)
    }

    /// Compares a profile of today's library with that of the other commit, in a case.
    pub fn to_before(&self, case: Case, peer: Peer) -> Option<Comparison> {
        let now = self.of(case, peer)?;
        let before = self.of(case, peer.before()?)?;
        Some(Comparison {
            name: format!("{}, {}", case.name(), peer.name()),
            unit: "ns",
            costs: Costs {
                now: now.cpu_ns(),
                before: before.cpu_ns(),
            },
            instructions: Instructions::of(now.instructions.clone(), before.instructions.clone()),
        })
    }

    /// Rates of an allocator over those of the best mimalloc, round by round.
    pub fn to_best_mimalloc(&self, case: Case, peer: Peer) -> Option<Ratio> {
        let reference = self.of(case, self.best_mimalloc(case)?)?;
        let ratios = stats::ratios(&self.of(case, peer)?.rates(), &reference.rates());
        Ratio::of(&ratios)
    }
}

impl Record {
    /// Operations a CPU second, by round.
    pub fn rates(&self) -> Vec<f64> {
        let rate = |run: &Option<Figures>| run.as_ref().map_or(f64::NAN, Figures::rate);
        self.runs.iter().map(rate).collect()
    }

    /// True when another count of instructions would add nothing.
    pub fn is_settled(&self) -> bool {
        self.instructions.is_settled()
    }

    /// Nanoseconds of CPU an operation, by round.
    pub fn cpu_ns(&self) -> Vec<f64> {
        self.rates().iter().map(|rate| 1e9 / rate).collect()
    }

    /// The median of the rates.
    pub fn rate(&self) -> f64 {
        stats::median(&measured(self.rates()))
    }

    /// The median of a figure, over the rounds that have it; NaN if none has.
    pub fn median(&self, figure: impl Fn(&Figures) -> Option<f64>) -> f64 {
        let values: Vec<f64> = self.runs.iter().flatten().filter_map(figure).collect();
        stats::median(&values)
    }

    pub fn held_kib(&self) -> f64 {
        self.median(|run| run.held_kib().map(|kib| kib as f64))
    }

    pub fn idle_kib(&self) -> f64 {
        self.median(|run| run.idle_kib().map(|kib| kib as f64))
    }

    pub fn peak_kib(&self) -> f64 {
        self.median(|run| Some(run.peak_kib as f64))
    }

    pub fn mark_kib(&self, name: &str) -> f64 {
        self.median(|run| run.mark(name).map(|kib| kib as f64))
    }

    pub fn cpu_seconds(&self) -> f64 {
        self.median(|run| Some(run.cpu_us as f64 / 1e6))
    }

    /// Bytes held over bytes requested, for a case that reports the latter.
    pub fn held_to_live(&self) -> f64 {
        self.median(|run| {
            let live = (run.live_bytes > 0).then_some(run.live_bytes as f64)?;
            Some(run.held_kib()? as f64 * 1024.0 / live)
        })
    }
}

impl Ratio {
    /// The ratio over the rounds that both have; `None` without one.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let ratios = measured(ratios.to_vec());
        let (low, high) = stats::median_interval(&ratios);
        (!ratios.is_empty()).then(|| Self {
            median: stats::median(&ratios),
            low,
            high,
        })
    }
}

impl Display for Ratio {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.3} [{:.3}, {:.3}]",
            self.median, self.low, self.high
        )
    }
}

fn measured(mut values: Vec<f64>) -> Vec<f64> {
    values.retain(|value| value.is_finite());
    values
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn run(operations: u64) -> Result<Figures> {
        Ok(Figures {
            operations,
            cpu_us: 1_000_000,
            ..Figures::default()
        })
    }

    fn records() -> Records {
        let mut records = Records::new(&[], &[]);
        for (ours, two, three) in [(110, 100, 90), (12, 10, 10), (330, 200, 300)] {
            records.add(Case::Larson, Peer::SteppeBalanced, run(ours));
            records.add(Case::Larson, Peer::Mimalloc2, run(two));
            records.add(Case::Larson, Peer::Mimalloc3, run(three));
        }
        records
    }

    #[test]
    fn the_best_mimalloc_is_that_of_the_median_and_pairs_are_rounds() {
        let records = records();
        assert_eq!(records.best_mimalloc(Case::Larson), Some(Peer::Mimalloc2));
        let ratio = records.to_best_mimalloc(Case::Larson, Peer::SteppeBalanced);
        let ratio = ratio.expect("both ran");
        assert_eq!(ratio.median, 1.2);
        assert!(ratio.low >= 1.1 && ratio.high <= 1.65);
        assert_eq!(records.best_mimalloc(Case::Large), None);
    }

    #[test]
    fn a_run_that_failed_takes_its_pair_with_it() {
        let mut records = records();
        records.add(Case::Larson, Peer::SteppeBalanced, Err(anyhow!("crashed")));
        records.add(Case::Larson, Peer::Mimalloc2, run(1));
        assert_eq!(
            records.failures(),
            ["larson under steppe-balanced: crashed"]
        );
        let ratio = records.to_best_mimalloc(Case::Larson, Peer::SteppeBalanced);
        assert_eq!(ratio.map(|ratio| ratio.median), Some(1.2));
    }
}
