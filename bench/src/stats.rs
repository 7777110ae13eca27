//! Medians, extremes and pairwise ratios over rounds.
//!
//! Ratios are taken within a round and only then summarized: a slow minute of the machine hits
//! both halves of a pair.

/// The median, or NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// The smallest and the largest value, or NaN of nothing.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    let smallest = values.iter().copied().fold(f64::NAN, f64::min);
    let largest = values.iter().copied().fold(f64::NAN, f64::max);
    (smallest, largest)
}

/// Median of `values[i] / reference[i]`: element `i` of both is from round `i`.
pub fn ratio(values: &[f64], reference: &[f64]) -> f64 {
    let ratios: Vec<f64> = values
        .iter()
        .zip(reference)
        .map(|(ours, theirs)| ours / theirs)
        .collect();
    median(&ratios)
}

/// Ratios of element `i` of both, as far as both go.
pub fn ratios(values: &[f64], reference: &[f64]) -> Vec<f64> {
    let pairs = values.iter().zip(reference);
    pairs.map(|(ours, theirs)| ours / theirs).collect()
}

/// A 95 % interval of the median of `values`: the percentile bootstrap, with the same draws each
/// time. With few values it is close to their extremes; NaN of nothing.
pub fn median_interval(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut random = Draws::new(0x9e37_79b9_7f4a_7c15);
    let mut resampled = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resampled.fill_with(|| values[random.below(values.len())]);
            median(&resampled)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (
        medians[RESAMPLES / 40],
        medians[RESAMPLES - 1 - RESAMPLES / 40],
    )
}

const RESAMPLES: usize = 4_000;

/// SplitMix64: enough to draw which rounds are in a resample, and which of two runs first.
#[derive(Debug)]
pub struct Draws(u64);

impl Draws {
    /// The same draws for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `0..bound`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a remainder is below the bound"
    )]
    pub const fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Standard deviation over mean, of a sample; NaN of fewer than two.
pub fn variation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt() / mean
}

/// `round`'s order of `count` contestants: each has each place once in `count` rounds, and comes
/// after another one than the round before, whose warm or cold memory and caches it finds.
///
/// Williams, "Experimental designs balanced for the estimation of residual effects" (1949): a first
/// row of 0, 1, n - 1, 2, n - 2, …, to which each next row adds one.
pub fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| {
        let step = match place % 2 {
            0 => count - place / 2,
            _ => place.div_ceil(2),
        };
        (round + step) % count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_takes_the_middle_or_the_mean_of_the_two_middles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn extremes_ignore_order() {
        assert_eq!(extremes(&[2.0, 9.0, 1.0]), (1.0, 9.0));
        assert!(extremes(&[]).0.is_nan());
    }

    #[test]
    fn ratio_pairs_rounds_before_it_takes_the_median() {
        // Round 2 is slow for both: the ratio of the medians would be 1.0 / 2.0.
        assert_eq!(ratio(&[1.0, 8.0, 0.5], &[2.0, 10.0, 1.0]), 0.5);
        assert_eq!(ratio(&[1.0, 8.0, 3.0], &[2.0, 10.0, 3.0]), 0.8);
    }

    #[test]
    fn an_interval_of_the_median_lies_within_the_extremes_and_repeats() {
        let values = [0.98, 1.02, 1.0, 1.01, 0.99, 1.03, 0.97];
        let (low, high) = median_interval(&values);
        assert!((0.97..1.0).contains(&low) && (1.0..=1.03).contains(&high));
        // As the bench of the audio package has it, in JavaScript.
        assert_eq!((low, high), (0.98, 1.02));
        assert_eq!(median_interval(&values), (low, high));
        assert_eq!(median_interval(&[2.0]), (2.0, 2.0));
        assert!(median_interval(&[]).0.is_nan());
    }

    #[test]
    fn variation_is_of_a_sample() {
        assert_eq!(variation(&[1.0, 3.0]), 2.0_f64.sqrt() / 2.0);
        assert!(variation(&[1.0]).is_nan());
    }

    #[test]
    fn everybody_has_each_place_once() {
        for count in 1..14 {
            let rounds: Vec<Vec<_>> = (0..count)
                .map(|round| order(count, round).collect())
                .collect();
            for place in 0..count {
                let mut there: Vec<_> = rounds.iter().map(|all| all[place]).collect();
                there.sort_unstable();
                assert!(there.into_iter().eq(0..count), "place {place} of {count}");
            }
            for mut all in rounds {
                all.sort_unstable();
                assert!(all.into_iter().eq(0..count), "{count}");
            }
        }
    }

    #[test]
    fn a_contestant_comes_after_another_one_each_round() {
        let before = |round| {
            let all: Vec<_> = order(13, round).collect();
            let at = all
                .iter()
                .position(|&index| index == 5)
                .expect("it is there");
            at.checked_sub(1).map(|at| all[at])
        };
        for round in 1..20 {
            assert_ne!(before(round), before(round - 1), "round {round}");
        }
    }
}
