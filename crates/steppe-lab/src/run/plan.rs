//! The order of work: steps of a run, and runs of a scenario.

use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::looking::Due;
use super::{RunError, RunRequest};
use crate::record::RunKind;
use crate::scenario::{AbPlan, Until};

/// One point: load, then a quiet moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// `None`: no load, the memory before the first cycle.
    pub(super) load: Option<Duration>,
    pub(super) quiet: Duration,
    pub(super) warmup: bool,
    /// Command loads run to their own end.
    pub(super) to_end: bool,
}

/// The steps, variants and runs of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Names as they are recorded, with the scenario's variant that each stands for.
    pub(super) variants: Vec<(String, usize)>,
    /// Index into `variants`, and the run's number within it; in the order of execution.
    pub(super) runs: Vec<(usize, u32)>,
    pub(super) ab: Option<AbPlan>,
    /// Interval between looks, of a run that goes on until it is decided; steps and runs are then
    /// the upper bound.
    pub(super) due: Option<Due>,
}

impl Plan {
    pub(super) fn of(request: RunRequest<'_>) -> Result<Self, RunError> {
        let missing = |section, command| RunError::NoPlan {
            path: request.path.to_owned(),
            section,
            command,
        };
        let scenario = request.scenario;
        let all = scenario.variants.iter().enumerate();
        let all: Vec<_> = all
            .map(|(index, variant)| (variant.name.clone(), index))
            .collect();
        match request.kind {
            RunKind::Soak => {
                let plan = scenario
                    .soak
                    .as_ref()
                    .ok_or_else(|| missing("epochs", "soak"))?;
                let load = Some(plan.length.saturating_sub(plan.quiesce));
                let step = |index| Step {
                    load,
                    quiet: plan.quiesce,
                    warmup: index < plan.warmup,
                    to_end: false,
                };
                let due = (plan.until == Until::Decided).then(|| Due::of(plan));
                let (count, runs) = due.map_or((plan.count, plan.runs), |due| due.most(plan));
                Ok(Self {
                    steps: (0..count).map(step).collect(),
                    runs: interleaved(all.len(), runs, scenario.seed),
                    variants: all,
                    ab: None,
                    due,
                })
            }
            RunKind::Cycle => {
                let plan = scenario
                    .cycle
                    .as_ref()
                    .ok_or_else(|| missing("cycles", "cycle"))?;
                let start = Step {
                    load: None,
                    quiet: plan.quiesce,
                    warmup: true,
                    to_end: false,
                };
                let step = |index| Step {
                    load: Some(plan.length),
                    quiet: plan.quiesce,
                    warmup: index < plan.warmup,
                    to_end: true,
                };
                let steps = std::iter::once(start)
                    .chain((0..plan.count).map(step))
                    .collect();
                let runs = interleaved(all.len(), plan.runs, scenario.seed);
                Ok(Self {
                    steps,
                    variants: all,
                    runs,
                    ab: None,
                    due: None,
                })
            }
            RunKind::Ab => {
                let plan = scenario.ab.clone().ok_or_else(|| missing("ab", "ab"))?;
                Ok(Self::pairs(plan, all, scenario.seed))
            }
            // Any scenario can be calibrated: by its own A/B plan, or the default.
            RunKind::Calibrate | RunKind::Leaks => {
                let plan = scenario.ab.clone().unwrap_or_default();
                let same = vec![("first".to_owned(), 0), ("second".to_owned(), 0)];
                Ok(Self::pairs(plan, same, scenario.seed))
            }
        }
    }

    fn pairs(plan: AbPlan, variants: Vec<(String, usize)>, seed: u64) -> Self {
        let quiet = Duration::from_millis(250);
        let step = |load, warmup| Step {
            load: Some(load),
            quiet,
            warmup,
            to_end: false,
        };
        Self {
            steps: vec![step(plan.warmup, true), step(plan.length, false)],
            variants,
            runs: mirrored(plan.pairs, seed),
            ab: Some(plan),
            due: None,
        }
    }
}

/// Round after round, each variant once a round in an order of its own: a machine that slows down
/// slows all of them.
fn interleaved(variants: usize, runs: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let round = |run| {
        let mut round: Vec<_> = (0..variants).map(|variant| (variant, run)).collect();
        round.shuffle(&mut random);
        round
    };
    (0..runs).flat_map(round).collect()
}

/// ABBA or BAAB: each order is followed by its mirror image, so that a drift cancels out.
fn mirrored(pairs: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut first = 0;
    let pair = |run: u32| {
        first = if run.is_multiple_of(2) {
            usize::from(random.random_bool(0.5))
        } else {
            1 - first
        };
        [(first, run), (1 - first, run)]
    };
    (0..pairs).flat_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_has_its_turn_every_round() {
        let runs = interleaved(3, 4, 7);
        for (round, turns) in runs.chunks(3).enumerate() {
            let mut variants: Vec<_> = turns.iter().map(|(variant, _)| *variant).collect();
            variants.sort_unstable();
            assert_eq!(variants, [0, 1, 2]);
            assert!(turns.iter().all(|(_, run)| *run as usize == round));
        }
        assert_ne!(runs, interleaved(3, 4, 8));
        assert_eq!(runs, interleaved(3, 4, 7));
    }

    #[test]
    fn pairs_are_mirrored() {
        let runs = mirrored(10, 1);
        for quad in runs.chunks(4) {
            let order: Vec<_> = quad.iter().map(|(variant, _)| *variant).collect();
            assert!(order == [0, 1, 1, 0] || order == [1, 0, 0, 1], "{order:?}");
        }
    }
}
