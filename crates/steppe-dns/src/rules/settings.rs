//! Which rules say something of a query beside what becomes of it.

use crate::config::Rule;

/// Which rule says each of these, by its number from 0: the first that matches and has it, as far as the
/// one that decides. `None`: none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// How responses are kept.
    pub cache: Option<usize>,
    /// Whether the query is logged.
    pub log: Option<usize>,
    /// How many such queries there may be.
    pub rate: Option<usize>,
}

impl Settings {
    /// Notes what a rule says that no earlier one has said.
    pub(super) fn note(&mut self, number: usize, rule: &Rule) {
        let set = |place: &mut Option<usize>, is_said: bool| {
            if is_said && place.is_none() {
                *place = Some(number);
            }
        };
        set(&mut self.cache, rule.cache.is_some());
        set(&mut self.log, rule.log.is_some());
        set(&mut self.rate, rule.rate.is_some());
    }

    /// These, and those of `others` that are not among them.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            cache: self.cache.or(others.cache),
            log: self.log.or(others.log),
            rate: self.rate.or(others.rate),
        }
    }

    /// Those of these that `others` do not have.
    pub(crate) fn without(self, others: Self) -> Self {
        let of = |own: Option<usize>, other: Option<usize>| own.filter(|_| other.is_none());
        Self {
            cache: of(self.cache, others.cache),
            log: of(self.log, others.log),
            rate: of(self.rate, others.rate),
        }
    }
}
