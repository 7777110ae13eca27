//! Holm's correction: of many series that are judged at once, some are over their budget by chance.

/// Which alarms count, of so many series that were judged; `alarms` has their p values.
///
/// Alarms are taken by their p values, the surest first; the k-th of m series counts where its p is at
/// most α / (m − k + 1), and none after the first that does not (Holm 1979). So the chance that any
/// alarm is false is at most `alpha` (α), however many series there are.
#[must_use]
pub fn holm(alarms: &[f64], series: usize, alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..alarms.len()).collect();
    order.sort_by(|a, b| alarms[*a].total_cmp(&alarms[*b]));
    let mut counts = vec![false; alarms.len()];
    let mut left = series.max(alarms.len());
    for index in order {
        if alarms[index] * left as f64 > alpha {
            break;
        }
        counts[index] = true;
        left -= 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ALPHA;

    #[test]
    fn one_alone_needs_no_more_than_its_own_level() {
        assert_eq!(holm(&[0.024], 1, ALPHA), [true]);
        assert_eq!(holm(&[0.026], 1, ALPHA), [false]);
        assert!(holm(&[], 3, ALPHA).is_empty());
    }

    #[test]
    fn of_many_the_surest_needs_the_most() {
        // α / 20 = 0.00125, α / 19 = 0.001316.
        assert_eq!(holm(&[0.0012], 20, ALPHA), [true]);
        assert_eq!(holm(&[0.0013], 20, ALPHA), [false]);
        assert_eq!(holm(&[0.0013, 0.0012], 20, ALPHA), [true, true]);
        // What comes after the first that fails fails too.
        assert_eq!(holm(&[0.0013, 0.0013], 20, ALPHA), [false, false]);
    }
}
