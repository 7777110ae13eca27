//! Ratios of two variants against limits.
//!
//! Variants run in pairs of fresh processes, close in time, so that the machine affects both alike. The
//! ratio of second to first is judged: the mean of the pairs' log ratios (their geometric mean), since
//! noise of times and bytes multiplies.
//!
//! The interval is a symmetric studentized bootstrap over the pairs (bootstrap-t; DiCiccio & Efron
//! 1996; symmetric: Hall 1988). At 10 pairs, where 5 % is nominal, percentile intervals miss the ratio
//! in 11 %, BCa ones in 11 to 18 %, equal-tailed bootstrap-t in 6 to 7 %, and the symmetric one in 4 %
//! with normal noise and in 2 to 3 % with heavy tails. The order within a pair is random, so the noise
//! of a log ratio is symmetric where the variants don't differ. Where it is skewed (a tenth of the
//! pairs far off to one side), each of them misses about 10 % or more.
//!
//! Several gates are judged together (Holm 1979): the chance that any gate says GO or NO-GO wrongly,
//! where each ratio is exactly its limit, stays at 5 %, half of it on either side.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::student::t_quantile;
use super::{CONFIDENCE, deviation};
use crate::limits::{BOOTSTRAP_PAIRS, PAIRS_MIN};
use crate::record::{Interval, Outcome};

/// The answer of one gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// `Go`, `NoGo` or `Inconclusive`.
    pub outcome: Outcome,
    /// Second over first.
    pub ratio: Interval,
    /// Confidence of the interval, 0 to 1: higher than 0.95 where several gates share the risk.
    pub confidence: f64,
    /// Number of pairs behind it.
    pub pairs: u32,
}

/// A metric of both variants, one pair an index, and the limit of their ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateInput<'a> {
    /// Values of the first variant.
    pub first: &'a [f64],
    /// Values of the second variant.
    pub second: &'a [f64],
    /// Limit of the ratio of second to first.
    pub limit: f64,
}

/// Judges all gates of a comparison together; one answer a gate, in their order.
///
/// GO: the upper bound of the ratio is under the limit. NO-GO: the lower one is over it. With fewer
/// than 10 pairs a gate is INCONCLUSIVE.
///
/// `None`: fewer than two pairs, a value without a partner, or one that has no logarithm (missing,
/// zero or negative).
#[must_use]
pub fn judge_pairs(gates: &[GateInput<'_>], seed: u64) -> Vec<Option<Comparison>> {
    let redrawn = |(index, gate): (usize, &GateInput<'_>)| {
        let random = Pcg64::seed_from_u64(seed.wrapping_add(index as u64));
        Some((
            gate.limit.ln(),
            Redrawn::of(log_ratios(gate.first, gate.second)?, random)?,
        ))
    };
    let redrawn: Vec<Option<(f64, Redrawn)>> = gates.iter().enumerate().map(redrawn).collect();
    // Gates with enough pairs share the risk; the others make no claim that could be wrong.
    let mut order: Vec<usize> = (0..gates.len())
        .filter(|index| matches!(&redrawn[*index], Some((_, ratio)) if ratio.is_enough()))
        .collect();
    let chance = |index: &usize| match &redrawn[*index] {
        Some((limit, ratio)) => ratio.chance(*limit),
        None => 1.0,
    };
    order.sort_by(|a, b| chance(a).total_cmp(&chance(b)));

    let mut answers: Vec<Option<Comparison>> = redrawn
        .iter()
        .map(|entry| {
            entry
                .as_ref()
                .map(|(_, ratio)| ratio.compare(None, CONFIDENCE))
        })
        .collect();
    let mut left = order.len();
    let mut is_open = true;
    for index in order {
        let Some((limit, ratio)) = &redrawn[index] else {
            continue;
        };
        let confidence = 1.0 - (1.0 - CONFIDENCE) / left as f64;
        let answer = ratio.compare(is_open.then_some(*limit), confidence);
        // Once one gate can't be told from its limit, those after it can't either.
        if answer.outcome == Outcome::Inconclusive {
            is_open = false;
        } else {
            left -= 1;
        }
        answers[index] = Some(answer);
    }
    answers
}

/// The smallest true ratio, above 1, that this number of pairs would tell from 1: with 80 % power at 95
/// % confidence, given the noise of these pairs.
///
/// The formula of a paired t test (the sum of two t quantiles), except that values redrawn from n pairs
/// vary less than the pairs do, by a factor of (n − 1)/n, and the interval is the wider for it. `None`
/// where the noise isn't known, or with fewer than two pairs.
#[must_use]
pub fn detectable_ratio(first: &[f64], second: &[f64], pairs: u32) -> Option<f64> {
    let degrees = pairs.checked_sub(1).filter(|degrees| *degrees > 0)?;
    let error = noise(first, second)? / f64::from(degrees).sqrt();
    let reach = t_quantile(f64::midpoint(1.0, CONFIDENCE), degrees) + t_quantile(POWER, degrees);
    Some((reach * error).exp())
}

/// Standard deviation of the pairs' log ratios: 0.02 is noise of 2 %.
///
/// `None`: fewer than two pairs, or values that have no logarithm.
#[must_use]
pub fn noise(first: &[f64], second: &[f64]) -> Option<f64> {
    deviation(&log_ratios(first, second)?)
}

fn log_ratios(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    if first.len() != second.len() {
        return None;
    }
    let has_logarithm = |value: f64| value.is_finite() && value > 0.0;
    first
        .iter()
        .zip(second)
        .map(|(first, second)| {
            let is_usable = has_logarithm(*first) && has_logarithm(*second);
            is_usable.then(|| second.ln() - first.ln())
        })
        .collect()
}

/// Log ratios of pairs, and the distances of redrawn means from their mean.
struct Redrawn {
    pairs: usize,
    mean: f64,
    /// Standard error of the mean.
    error: f64,
    /// Distances of redrawn means, without sign, in their own standard errors, ascending.
    distances: Vec<f64>,
}

impl Redrawn {
    fn of(ratios: Vec<f64>, mut random: Pcg64) -> Option<Self> {
        let pairs = ratios.len();
        let deviation = deviation(&ratios)?;
        let root = (pairs as f64).sqrt();
        let mean = ratios.iter().sum::<f64>() / pairs as f64;
        let distances = if pairs < PAIRS_MIN as usize || deviation == 0.0 {
            Vec::new()
        } else {
            let centered: Vec<f64> = ratios
                .iter()
                .map(|ratio| (ratio - mean) / deviation)
                .collect();
            let mut distances: Vec<f64> = (0..BOOTSTRAP_PAIRS)
                .map(|_| distance(&centered, &mut random) * root)
                .collect();
            distances.sort_by(f64::total_cmp);
            distances
        };
        Some(Self {
            pairs,
            mean,
            error: deviation / root,
            distances,
        })
    }

    fn is_enough(&self) -> bool {
        self.pairs >= PAIRS_MIN as usize
    }

    /// Two-sided p value of the pairs, if the true ratio is the limit.
    fn chance(&self, limit: f64) -> f64 {
        let off = (self.mean - limit).abs();
        if self.error == 0.0 {
            return f64::from(u8::from(off == 0.0));
        }
        let nearer = self
            .distances
            .partition_point(|distance| *distance < off / self.error);
        (self.distances.len() - nearer) as f64 / self.distances.len() as f64
    }

    /// The interval, and its place relative to the limit (a logarithm); `None` leaves the gate open.
    fn compare(&self, limit: Option<f64>, confidence: f64) -> Comparison {
        let reach = self.quantile(confidence) * self.error;
        let (lower, upper) = (self.mean - reach, self.mean + reach);
        let outcome = match limit {
            Some(limit) if upper < limit => Outcome::Go,
            Some(limit) if lower > limit => Outcome::NoGo,
            _ => Outcome::Inconclusive,
        };
        Comparison {
            outcome,
            ratio: Interval {
                lower: lower.exp(),
                estimate: self.mean.exp(),
                upper: upper.exp(),
            },
            confidence,
            pairs: u32::try_from(self.pairs).unwrap_or(u32::MAX),
        }
    }

    /// The distance that a share of redrawn means doesn't exceed. With too few pairs to redraw, that of
    /// the t distribution, which is right for normal noise.
    fn quantile(&self, share: f64) -> f64 {
        if self.distances.is_empty() {
            let degrees = u32::try_from(self.pairs - 1).unwrap_or(u32::MAX);
            return t_quantile(f64::midpoint(1.0, share), degrees);
        }
        let beyond = (1.0 - share) * self.distances.len() as f64;
        let is_kept = |index: &usize| (self.distances.len() - index) as f64 <= beyond + 1.0;
        let index = (0..self.distances.len()).find(is_kept);
        self.distances[index.unwrap_or(self.distances.len() - 1)]
    }
}

/// Mean of values redrawn from `centered`, in units of their own deviation over the root of their
/// count, without sign.
fn distance(centered: &[f64], random: &mut Pcg64) -> f64 {
    let count = centered.len() as f64;
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in centered {
        let value = centered[random.random_range(0..centered.len())];
        sum += value;
        squares += value * value;
    }
    let variance = (squares - sum * sum / count) / (count - 1.0);
    let deviation = variance.max(0.0).sqrt().max(REDRAWN_DEVIATION_MIN);
    (sum / count).abs() / deviation
}

/// Least deviation of redrawn values, as a share of the pairs'. One value drawn ten times has none, and
/// its mean would be infinitely far off.
const REDRAWN_DEVIATION_MIN: f64 = 0.3;

/// Probability of finding an effect of the size that is called detectable.
const POWER: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    const ONES: [f64; 12] = [1.0; 12];

    /// Twelve values around `center`, off by 2 % at most.
    fn around(center: f64) -> Vec<f64> {
        let off = [3, -7, 12, -18, 20, -4, 9, -11, 1, -15, 17, -6];
        off.map(|off| center * (1.0 + f64::from(off) / 1000.0))
            .to_vec()
    }

    fn judge(second: &[f64], limit: f64) -> Option<Comparison> {
        let first = &ONES[..second.len().min(ONES.len())];
        let gate = GateInput {
            first,
            second,
            limit,
        };
        judge_pairs(&[gate], 7).pop().unwrap()
    }

    #[test]
    fn a_ratio_is_held_against_its_limit() {
        let outcome = |center, limit| judge(&around(center), limit).unwrap().outcome;
        assert_eq!(outcome(1.0, 1.05), Outcome::Go);
        assert_eq!(outcome(1.10, 1.05), Outcome::NoGo);
        assert_eq!(outcome(1.05, 1.05), Outcome::Inconclusive);
        assert_eq!(outcome(0.9, 1.0), Outcome::Go);
    }

    #[test]
    fn the_interval_is_around_the_geometric_mean() {
        let answer = judge(&around(1.10), 1.05).unwrap();
        assert!((answer.ratio.estimate - 1.10).abs() < 0.002);
        assert!(answer.ratio.lower > 1.09 && answer.ratio.upper < 1.11);
        assert_eq!((answer.confidence, answer.pairs), (0.95, 12));
    }

    #[test]
    fn fewer_than_ten_pairs_are_inconclusive_whatever_they_say() {
        let answer = judge(&around(2.0)[..9], 1.05).unwrap();
        assert_eq!(answer.outcome, Outcome::Inconclusive);
        assert!(answer.ratio.lower > 1.9);
        assert_eq!(judge(&around(2.0)[..1], 1.05), None);
    }

    #[test]
    fn what_has_no_logarithm_is_not_judged() {
        for missing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut second = around(1.0);
            second[3] = missing;
            assert_eq!(judge(&second, 1.05), None, "{missing}");
            assert_eq!(noise(&ONES, &second), None);
        }
        assert_eq!(judge(&[1.0; 13], 1.05), None);
    }

    #[test]
    fn counts_that_never_vary_are_told_from_any_other_limit() {
        assert_eq!(judge(&[4.0; 12], 4.1).unwrap().outcome, Outcome::Go);
        assert_eq!(judge(&[4.0; 12], 3.9).unwrap().outcome, Outcome::NoGo);
        let same = judge(&[4.0; 12], 4.0).unwrap();
        assert_eq!(same.outcome, Outcome::Inconclusive);
        assert_eq!(same.ratio.lower, same.ratio.upper);
    }

    /// A third of redrawn sets don't have the one differing value, and no deviation at all.
    #[test]
    fn one_pair_that_differs_leaves_a_finite_interval() {
        let mut second = vec![1.0; 12];
        second[5] = 1.02;
        let answer = judge(&second, 1.05).unwrap();
        assert_eq!(answer.outcome, Outcome::Go);
        assert!(answer.ratio.upper < 1.02);
    }

    #[test]
    fn gates_share_the_risk() {
        let (clear, unclear) = (around(1.2), around(1.0));
        let gate = |second, limit| GateInput {
            first: &ONES,
            second,
            limit,
        };
        let gates = [
            gate(&unclear, 1.0),
            gate(&clear, 1.1),
            gate(&unclear, 1.001),
        ];
        let answers: Vec<Comparison> = judge_pairs(&gates, 7).into_iter().flatten().collect();
        let words: Vec<Outcome> = answers.iter().map(|answer| answer.outcome).collect();
        assert_eq!(
            words,
            [Outcome::Inconclusive, Outcome::NoGo, Outcome::Inconclusive]
        );
        // The clearest has a third of the 5 %, the others half of it.
        let shares = [2.0, 3.0, 2.0];
        for (answer, share) in answers.iter().zip(shares) {
            assert!((answer.confidence - (1.0 - 0.05 / share)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_gate_that_can_not_be_judged_costs_the_others_nothing() {
        let clear = around(1.2);
        let gate = |first, limit| GateInput {
            first,
            second: &clear,
            limit,
        };
        let answers = judge_pairs(&[gate(&ONES[..3], 1.1), gate(&ONES, 1.1)], 7);
        assert_eq!(answers[0], None);
        let answer = answers[1].as_ref().unwrap();
        assert_eq!((answer.outcome, answer.confidence), (Outcome::NoGo, 0.95));
    }

    #[test]
    fn more_pairs_detect_less() {
        let second = around(1.0);
        let noise = noise(&ONES, &second).unwrap();
        assert!((noise - 0.0127).abs() < 0.0005, "{noise}");
        let ten = detectable_ratio(&ONES, &second, 10).unwrap();
        let forty = detectable_ratio(&ONES, &second, 40).unwrap();
        assert!((1.01..1.02).contains(&ten) && forty < ten, "{ten} {forty}");
        assert_eq!(detectable_ratio(&ONES, &second, 1), None);
        assert_eq!(detectable_ratio(&ONES, &[3.0; 12], 10), Some(1.0));
    }
}
