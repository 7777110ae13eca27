//! Instructions an operation, counted several times where two counts differ.
//!
//! Callgrind counts the same each time for what depends on nothing but its input. Work by the
//! clock (an allocator that gives memory back after a while) and threads that wait for each other
//! scatter: the median of a few counts is taken, and their spread is told.

use crate::stats::median;

/// Counts of one build.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts(Vec<f64>);

/// After that many, what still scatters is taken as it is.
const COUNTS_MAX: usize = 5;
/// Counts that lie as close together, of their median, need no more of them.
const SETTLED_MAX: f64 = 0.001;

impl Counts {
    pub fn push(&mut self, count: f64) {
        self.0.push(count);
    }

    /// NaN of none.
    pub fn median(&self) -> f64 {
        median(&self.0)
    }

    /// Another count would tell nothing new.
    pub fn is_settled(&self) -> bool {
        let count = self.0.len();
        count >= COUNTS_MAX || (count >= 2 && self.spread() <= SETTLED_MAX)
    }

    /// The distance of the middle counts from each other, of their median: of five counts without the extremes, of
    /// fewer with them. The median of five is off by some four tenths of that, and a ratio of two
    /// such medians stays within it nine times in ten.
    pub fn spread(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = if sorted.len() >= COUNTS_MAX {
            &sorted[1..sorted.len() - 1]
        } else {
            &sorted[..]
        };
        match middle {
            [first, .., last] => (last - first) / self.median(),
            _ => 0.0,
        }
    }
}

impl FromIterator<f64> for Counts {
    fn from_iter<I: IntoIterator<Item = f64>>(counts: I) -> Self {
        Self(counts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[f64]) -> Counts {
        values.iter().copied().collect()
    }

    #[test]
    fn counts_that_agree_are_settled_after_two() {
        assert!(!counts(&[]).is_settled());
        assert!(!counts(&[1_000.0]).is_settled());
        assert!(counts(&[1_000.0, 1_000.5]).is_settled());
        assert!(!counts(&[1_000.0, 1_010.0, 1_005.0]).is_settled());
        assert!(counts(&[1_000.0, 1_010.0, 1_005.0, 990.0, 1_100.0]).is_settled());
    }

    #[test]
    fn of_five_the_extremes_do_not_count() {
        let counts = counts(&[1_000.0, 1_010.0, 1_004.0, 900.0, 1_100.0]);
        assert_eq!(counts.median(), 1_004.0);
        assert_eq!(counts.spread(), 10.0 / 1_004.0);
    }
}
