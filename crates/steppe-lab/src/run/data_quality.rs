//! Reasons against a measurement: a generator that set the pace, operations that failed, quiet moments
//! with operations in flight.

use std::collections::BTreeMap;

use crate::limits::{ERROR_KINDS_SHOWN_MAX, ERRORS_SHARE_MAX, SATURATED_SHARE_MAX};
use crate::load::Interval;
use crate::record::{Epoch, Problem, ProblemKind, total};
use crate::scenario::Budget;

#[derive(Debug, Default)]
pub(super) struct DataQuality {
    /// Reasons why the generator set the pace, one for each measured epoch in which it did.
    saturated: Vec<String>,
    /// Number of measured epochs that had something in flight in their quiet moment.
    restless: u32,
    error_kinds: BTreeMap<String, u64>,
    /// The last lines of the target's output that speak of an error.
    complaints: Vec<String>,
    /// Collections that were to be forced; below, the number that failed and the first reason.
    collections: u32,
    uncollected: u32,
    why_uncollected: Option<String>,
}

impl DataQuality {
    /// Takes note of the loads' errors and saturation in an epoch.
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn note(&mut self, epoch: &Epoch, loads: &[Interval], is_quiet: bool) {
        for load in loads {
            for (kind, count) in &load.error_kinds {
                let is_known = self.error_kinds.contains_key(kind);
                if is_known || self.error_kinds.len() < ERROR_KINDS_SHOWN_MAX {
                    *self.error_kinds.entry(kind.clone()).or_default() += count;
                }
            }
        }
        if epoch.warmup {
            return;
        }
        self.restless += u32::from(!is_quiet);
        let saturated = loads
            .iter()
            .find_map(|load| Some((&load.name, load.saturated.as_ref()?)));
        if let Some((name, why)) = saturated {
            self.saturated.push(format!("{name}: {why}"));
        }
    }

    /// A sentence if so many epochs are lost that the rest of `count` can't make up for them.
    pub(super) fn lost(&self, count: usize) -> Option<String> {
        let lost = self.saturated.len();
        (lost * 100 > count * SATURATED_SHARE_MAX).then(|| {
            format!(
                "the load generator was the bottleneck in {lost} of at most {count} epochs, too \
                 many for a verdict"
            )
        })
    }

    /// Takes note of the errors in a target's output. They are reported only with other problems: a
    /// healthy server has such lines too.
    pub(super) fn hear(&mut self, complaints: Vec<String>) {
        if !complaints.is_empty() {
            self.complaints = complaints;
        }
    }

    /// Takes note of a collection that was to be forced, during warm-up as well.
    pub(super) fn note_collection(&mut self, done: Result<(), String>) {
        self.collections += 1;
        if let Err(why) = done {
            self.uncollected += 1;
            self.why_uncollected.get_or_insert(why);
        }
    }

    /// The problems over all measured rows.
    pub(super) fn problems(self, epochs: &[Epoch], budget: &Budget) -> Vec<Problem> {
        let mut problems = Vec::new();
        let measured = epochs.iter().filter(|epoch| !epoch.warmup);
        let (mut count, mut operations, mut errors, mut refused) = (0, 0, 0, 0);
        for epoch in measured {
            count += 1;
            operations = total([operations, epoch.operations.unwrap_or(0)].into_iter());
            errors = total([errors, epoch.errors.unwrap_or(0)].into_iter());
            refused = total([refused, epoch.refused.unwrap_or(0)].into_iter());
        }
        let is_driven = epochs.iter().any(|epoch| epoch.operations.is_some());
        if count > 0 && !is_driven {
            problems.push(Problem::new(
                ProblemKind::Note,
                "the lab generated no load: operations, errors, latency, throughput and costs per \
                 operation are not measured",
                "the verdict is about the target under its own load; `--url` or a [[load]] drives \
                 it",
            ));
        } else if count > 0 && operations == 0 && refused > 0 {
            problems.push(Problem::new(
                ProblemKind::HelperFailed,
                format!(
                    "no operation succeeded, {refused} were refused{}",
                    self.shown_errors()
                ),
                self.with_complaints(
                    "without accepted operations there are no figures: lower the load",
                ),
            ));
        } else if count > 0 && operations == 0 {
            let kinds = self.shown_errors();
            problems.push(Problem::new(
                ProblemKind::HelperFailed,
                format!("no operation succeeded{kinds}"),
                self.with_complaints(
                    "check that the load's address is the target's, and that `expect_status` \
                     matches its responses",
                ),
            ));
        } else if budget.errors.is_none() && errors > operations / (100 / ERRORS_SHARE_MAX) {
            let text = format!(
                "{errors} operations failed and {operations} succeeded{}",
                self.shown_errors()
            );
            problems.push(Problem::new(
                ProblemKind::HelperFailed,
                text,
                self.with_complaints(
                    "memory under a failing load proves little; if these errors are intended, set \
                     `budget.errors`",
                ),
            ));
        } else if !self.error_kinds.is_empty() {
            let text = format!("operations failed{}", self.shown_errors());
            problems.push(Problem::new(
                ProblemKind::Note,
                text,
                self.with_complaints(""),
            ));
        }
        if let Some(why) = self.saturated.first()
            && self.saturated.len() * 100 > count * SATURATED_SHARE_MAX
        {
            let text = format!(
                "the load generator was the bottleneck in {} of {count} epochs: {why}",
                self.saturated.len()
            );
            problems.push(Problem::new(
                ProblemKind::GeneratorSaturated,
                text,
                "the figures describe the generator, not the target",
            ));
        }
        if self.restless > 0 {
            let text = format!(
                "operations were in flight in the quiet moment of {} of {count} epochs",
                self.restless
            );
            let hangs = !self.error_kinds.is_empty() || !self.complaints.is_empty();
            let help = if hangs {
                self.with_complaints("they hang: fix that first, a longer `quiesce` does not help")
            } else {
                "raise `quiesce` above the slowest response".to_owned()
            };
            problems.push(Problem::new(ProblemKind::Note, text, help));
        }
        if let Some(why) = self.why_uncollected {
            let text = format!(
                "no collection could be forced in {} of {} epochs: {why}",
                self.uncollected, self.collections
            );
            let help = "memory of those epochs has garbage in it; see `target.collect`";
            problems.push(Problem::new(ProblemKind::Note, text, help));
        }
        problems
    }

    fn with_complaints(&self, help: &str) -> String {
        if self.complaints.is_empty() {
            return help.to_owned();
        }
        let said = format!("last errors of the target:\n{}", self.complaints.join("\n"));
        if help.is_empty() {
            said
        } else {
            format!("{help}; {said}")
        }
    }

    fn shown_errors(&self) -> String {
        let kinds = self
            .error_kinds
            .iter()
            .map(|(kind, count)| format!("{kind} ×{count}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        if kinds.is_empty() {
            kinds
        } else {
            format!(": {kinds}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn problems(complaints: &[&str], is_quiet: bool) -> Vec<Problem> {
        let mut quality = DataQuality::default();
        let epoch = Epoch {
            operations: Some(10),
            ..Epoch::default()
        };
        quality.note(&epoch, &[], is_quiet);
        quality.hear(complaints.iter().map(|line| (*line).to_owned()).collect());
        quality.problems(&[epoch], &Budget::default())
    }

    #[test]
    fn a_target_that_lets_operations_hang_is_quoted_and_quiesce_is_not_the_cure() {
        let found = problems(&["accept: Too many open files"], false);
        assert!(found[0].help.contains("Too many open files"), "{found:?}");
        assert!(!found[0].help.contains("raise `quiesce`"), "{found:?}");
        let slow = problems(&[], false);
        assert!(slow[0].help.contains("raise `quiesce`"), "{slow:?}");
        // Without a problem, the output of the target is not reported.
        assert_eq!(problems(&["error: nothing much"], true), []);
    }

    #[test]
    fn refusals_are_no_errors_but_all_of_them_say_nothing() {
        let of = |operations, refused| {
            let epoch = Epoch {
                operations: Some(operations),
                errors: Some(0),
                refused: Some(refused),
                ..Epoch::default()
            };
            DataQuality::default().problems(&[epoch], &Budget::default())
        };
        assert_eq!(of(1, 1000), []);
        assert_eq!(
            of(0, 1000)[0].text,
            "no operation succeeded, 1000 were refused"
        );
    }

    #[test]
    fn collections_that_failed_are_counted_with_the_first_reason() {
        let mut quality = DataQuality::default();
        for done in [Ok(()), Err("late"), Err("gone"), Ok(())] {
            quality.note_collection(done.map_err(str::to_owned));
        }
        let problems = quality.problems(&[], &Budget::default());
        let [problem] = problems.as_slice() else {
            panic!("{problems:?}");
        };
        assert_eq!(problem.kind, ProblemKind::Note);
        assert_eq!(
            problem.text,
            "no collection could be forced in 2 of 4 epochs: late"
        );
        let mut quality = DataQuality::default();
        quality.note_collection(Ok(()));
        assert!(quality.problems(&[], &Budget::default()).is_empty());
    }
}
