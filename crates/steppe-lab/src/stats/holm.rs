//! Holm's correction: of many series that are judged at once, some are over their budget by chance.

/// A series that is over its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    /// Probability of the alarm by chance.
    pub p_value: f64,
    /// Weight of its share of the level, as a part of [`holm`]'s `total_weight`.
    pub weight: f64,
}

impl Alarm {
    /// An alarm with the same weight as every other series: 1.
    #[must_use]
    pub fn of_equals(p_value: f64) -> Self {
        Self {
            p_value,
            weight: 1.0,
        }
    }
}

/// Tells which alarms count, of series judged at once whose weights sum up to `total_weight`.
///
/// Alarms are taken by p value over weight, the surest first; one counts where its p is at most α times its
/// share of the weights that are left, and none after the first that does not (Holm 1979, with weights in
/// section 4; all weights 1: α / (m − k + 1) for the k-th of m). So the chance that any alarm is false is
/// at most `alpha` (α), however many series there are, and whatever they have in common.
#[must_use]
pub fn holm(alarms: &[Alarm], total_weight: f64, alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..alarms.len()).collect();
    let rank = |index: usize| alarms[index].p_value / alarms[index].weight;
    order.sort_by(|a, b| rank(*a).total_cmp(&rank(*b)));
    let mut counts = vec![false; alarms.len()];
    let mut left = total_weight;
    for index in order {
        let Alarm { p_value, weight } = alarms[index];
        if p_value * left > alpha * weight {
            break;
        }
        counts[index] = true;
        left -= weight;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ALPHA;

    fn equal(p_values: &[f64], series: f64) -> Vec<bool> {
        let alarms = p_values.iter().copied().map(Alarm::of_equals);
        let alarms: Vec<Alarm> = alarms.collect();
        holm(&alarms, series, ALPHA)
    }

    #[test]
    fn one_alone_needs_no_more_than_its_own_level() {
        assert_eq!(equal(&[0.024], 1.0), [true]);
        assert_eq!(equal(&[0.026], 1.0), [false]);
        assert!(equal(&[], 3.0).is_empty());
    }

    #[test]
    fn of_many_the_surest_needs_the_most() {
        // α / 20 = 0.00125, α / 19 = 0.001316.
        assert_eq!(equal(&[0.0012], 20.0), [true]);
        assert_eq!(equal(&[0.0013], 20.0), [false]);
        assert_eq!(equal(&[0.0013, 0.0012], 20.0), [true, true]);
        // All after the first that fails fail too.
        assert_eq!(equal(&[0.0013, 0.0013], 20.0), [false, false]);
    }

    #[test]
    fn half_of_the_weight_has_half_of_the_level() {
        let memory = |p_value| Alarm {
            p_value,
            weight: 13.0,
        };
        let other = Alarm::of_equals;
        assert_eq!(holm(&[memory(0.0124)], 26.0, ALPHA), [true]);
        assert_eq!(holm(&[memory(0.0126)], 26.0, ALPHA), [false]);
        // α / 26 = 0.00096; with memory's share once memory counts as an alarm, α / 13 = 0.0019.
        assert_eq!(holm(&[other(0.0009)], 26.0, ALPHA), [true]);
        assert_eq!(holm(&[other(0.0011)], 26.0, ALPHA), [false]);
        assert_eq!(
            holm(&[other(0.0011), memory(0.0023)], 26.0, ALPHA),
            [true, true]
        );
    }
}
