//! The rules whose settings apply to a query: cache policy, logging, rate.

use crate::config::Rule;

/// For each setting, the rule that it comes from, by its number from 0: the first one that matches and has the
/// setting, up to the one that decides. `None`: no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Caching of responses.
    pub cache: Option<usize>,
    /// Logging of the query.
    pub log: Option<usize>,
    /// Limit on the rate of queries.
    pub rate: Option<usize>,
}

impl Settings {
    /// Notes the settings of a rule that no earlier rule has.
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

    /// These settings, and those of `others` that are missing here.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            cache: self.cache.or(others.cache),
            log: self.log.or(others.log),
            rate: self.rate.or(others.rate),
        }
    }

    /// These settings, without those that `others` have.
    pub(crate) fn without(self, others: Self) -> Self {
        let of = |own: Option<usize>, other: Option<usize>| own.filter(|_| other.is_none());
        Self {
            cache: of(self.cache, others.cache),
            log: of(self.log, others.log),
            rate: of(self.rate, others.rate),
        }
    }
}
