//! What speaks against a measurement: a generator that set the pace, operations that failed, quiet
//! moments that were none.

use std::collections::BTreeMap;

use crate::limits::{ERROR_KINDS_SHOWN_MAX, ERRORS_SHARE_MAX, SATURATED_SHARE_MAX};
use crate::load::Interval;
use crate::record::{Epoch, Problem, ProblemKind, total};
use crate::scenario::Budget;

#[derive(Debug, Default)]
pub(super) struct DataQuality {
    /// Why the generator set the pace, an entry for each measured epoch in which it did.
    saturated: Vec<String>,
    /// Measured epochs that had something in flight in their quiet moment.
    restless: u32,
    error_kinds: BTreeMap<String, u64>,
}

impl DataQuality {
    /// Takes note of what the loads say of an epoch.
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

    /// What they come to, over all measured rows.
    pub(super) fn problems(self, epochs: &[Epoch], budget: &Budget) -> Vec<Problem> {
        let mut problems = Vec::new();
        let measured = epochs.iter().filter(|epoch| !epoch.warmup);
        let (mut count, mut operations, mut errors) = (0, 0, 0);
        for epoch in measured {
            count += 1;
            operations = total([operations, epoch.operations].into_iter());
            errors = total([errors, epoch.errors].into_iter());
        }
        if count > 0 && operations == 0 {
            let kinds = self.shown_errors();
            problems.push(Problem::new(
                ProblemKind::HelperFailed,
                format!("no operation succeeded{kinds}"),
                "is the load's address the target's, and is `expect_status` what it answers?",
            ));
        } else if budget.errors.is_none() && errors > operations / (100 / ERRORS_SHARE_MAX) {
            let text = format!(
                "{errors} operations failed and {operations} succeeded{}",
                self.shown_errors()
            );
            problems.push(Problem::new(
                ProblemKind::HelperFailed,
                text,
                "memory under a load that fails says little; if that is meant, set `budget.errors`",
            ));
        } else if !self.error_kinds.is_empty() {
            let text = format!("operations failed{}", self.shown_errors());
            problems.push(Problem::new(ProblemKind::Note, text, ""));
        }
        if let Some(why) = self.saturated.first()
            && self.saturated.len() * 100 > count * SATURATED_SHARE_MAX
        {
            let text = format!(
                "the load generator set the pace in {} of {count} epochs: {why}",
                self.saturated.len()
            );
            problems.push(Problem::new(
                ProblemKind::GeneratorSaturated,
                text,
                "the figures say something about the generator, not the target",
            ));
        }
        if self.restless > 0 {
            let text = format!(
                "operations were in flight in the quiet moment of {} of {count} epochs",
                self.restless
            );
            problems.push(Problem::new(
                ProblemKind::Note,
                text,
                "raise `quiesce` above the slowest response",
            ));
        }
        problems
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
