//! Looks at a run that goes on until it is decided: when the next is due, and whether the run is over.
//!
//! Looks are fixed beforehand: for one process after `epochs.count` epochs, twice as many, and so on; for
//! several processes a variant after `epochs.runs` of them, twice as many, and so on; five at most. Leaves
//! out the outcome of a look (`judge::Looked`).

use std::collections::BTreeMap;

use crate::judge::{Decision, Looked};
use crate::limits::LOOKS_MAX;
use crate::record::VariantVerdict;
use crate::scenario::SoakPlan;
use crate::stats::Look;

/// The interval between looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// A number of steps of the one process.
    Steps(usize),
    /// A number of processes of a variant.
    Runs(u32),
}

impl Due {
    pub(super) fn of(plan: &SoakPlan) -> Self {
        if plan.runs > 1 {
            return Self::Runs(plan.runs);
        }
        Self::Steps(usize::try_from(plan.count).unwrap_or(usize::MAX))
    }

    /// The most steps of a process and processes of a variant, up to the last look.
    pub(super) fn most(self, plan: &SoakPlan) -> (u32, u32) {
        match self {
            Self::Steps(_) => (plan.count.saturating_mul(LOOKS_MAX), plan.runs),
            Self::Runs(_) => (plan.count, plan.runs.saturating_mul(LOOKS_MAX)),
        }
    }
}

/// The looks at each variant.
#[derive(Debug, Default)]
pub(super) struct Looking {
    by_variant: BTreeMap<String, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    looked: Looked,
    /// The outcome of the last look.
    verdict: Option<VariantVerdict>,
    decision: Option<Decision>,
}

impl Looking {
    /// The next look; the last one if there is none left.
    pub(super) fn next(&self, variant: &str) -> Look {
        let over = self
            .by_variant
            .get(variant)
            .map_or(0, |seen| seen.looked.count());
        Look {
            number: (over + 1).min(LOOKS_MAX),
            of: LOOKS_MAX,
        }
    }

    /// Takes the verdict on a variant at `look`, after `epochs` epochs; `judge` gives the verdict of an
    /// earlier look by the data of now. True: that was the variant's last look.
    pub(super) fn take(
        &mut self,
        (look, epochs): (Look, u64),
        mut verdict: VariantVerdict,
        judge: impl Fn(Look) -> Option<VariantVerdict>,
    ) -> bool {
        let seen = self.by_variant.entry(verdict.name.clone()).or_default();
        seen.decision = Some(seen.looked.take((look, epochs), &mut verdict, judge));
        seen.verdict = Some(verdict);
        look.is_last() || seen.decision != Some(Decision::Open)
    }

    /// True if the variant needs no more runs.
    pub(super) fn is_over(&self, variant: &str) -> bool {
        self.by_variant.get(variant).is_some_and(|seen| {
            seen.looked.count() >= LOOKS_MAX
                || seen
                    .decision
                    .as_ref()
                    .is_some_and(|it| *it != Decision::Open)
        })
    }

    /// The verdict of the last look, if nothing was measured since.
    pub(super) fn verdict(&self, variant: &str, epochs: u64) -> Option<VariantVerdict> {
        let verdict = self.by_variant.get(variant)?.verdict.as_ref()?;
        let is_all = verdict
            .looks
            .last()
            .is_some_and(|look| look.epochs == epochs);
        is_all.then(|| verdict.clone())
    }

    /// Sentences on variants that ended before their last look, because a limit is exceeded for good.
    pub(super) fn ended_early(&self) -> impl Iterator<Item = String> + '_ {
        self.by_variant.iter().filter_map(|(name, seen)| {
            let Some(Decision::Failed(metric)) = &seen.decision else {
                return None;
            };
            let look = seen.verdict.as_ref()?.looks.last()?;
            (look.number < look.of).then(|| {
                format!(
                    "{name} ended at look {} of {}: the limit of {metric} is exceeded, and more \
                     epochs can't improve the verdict",
                    look.number, look.of
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(count: u32, runs: u32) -> SoakPlan {
        SoakPlan {
            length: std::time::Duration::from_secs(1),
            count,
            warmup: 1,
            quiesce: std::time::Duration::from_millis(100),
            runs,
            until: crate::scenario::Until::Decided,
        }
    }

    #[test]
    fn one_process_goes_on_and_of_many_there_are_more() {
        let one = plan(60, 1);
        assert_eq!(Due::of(&one), Due::Steps(60));
        assert_eq!(Due::of(&one).most(&one), (300, 1));
        let five = plan(60, 5);
        assert_eq!(Due::of(&five), Due::Runs(5));
        assert_eq!(Due::of(&five).most(&five), (60, 25));
    }
}
