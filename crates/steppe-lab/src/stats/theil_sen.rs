//! The Theil–Sen slope: the median of the slopes between all pairs of points.
//!
//! Exact, whatever the order of the pairs: no pair is left out and none is estimated. Memory is bounded
//! ([`SLOPES_HELD_MAX`]) whatever the number of points; time grows with its square, 0.04 ms at 200
//! points and 0.1 s at 10,000.
//!
//! Slopes aren't sorted. A sample of them brackets the median, one look at all pairs counts those
//! below the bracket and holds those within, and the median is selected among the few that were held
//! (Floyd & Rivest 1975). Searching in O(n log n) by counting inversions (Cole et al. 1989) was
//! left out: it wins from some thousand points on, and a soak has hundreds.
//!
//! Theil 1950, "A rank-invariant method of linear and polynomial regression analysis"; Sen 1968,
//! "Estimates of the regression coefficient based on Kendall's tau".

use crate::limits::{SLOPES_HELD_MAX, SLOPES_SAMPLED_MIN, SLOPES_SELECTED_DIRECTLY};

/// Slope per step of points that are one step apart.
///
/// A missing point is `NAN`, and keeps its place. Up to 29 % of points may be anything at all without
/// moving the slope out of the range of the others. `None`: fewer than two points.
#[must_use]
pub fn theil_sen(points: &[f64]) -> Option<f64> {
    let is_usable = |point: &f64| point.abs() < USABLE_MAX;
    let present = points.iter().filter(|point| is_usable(point)).count();
    if present < 2 {
        return None;
    }
    let usable: Vec<f64> = points
        .iter()
        .map(|point| if is_usable(point) { *point } else { f64::NAN })
        .collect();
    let slopes = Slopes {
        points: &usable,
        count: present * (present - 1) / 2,
    };
    let (lower, upper) = slopes.at_ranks((slopes.count - 1) / 2, slopes.count / 2);
    Some(f64::midpoint(lower, upper))
}

/// The slopes of all pairs of points, none of them stored. Those of a missing point are `NAN`, which is
/// neither below, within nor above any bracket, so they fall out of every count.
struct Slopes<'a> {
    points: &'a [f64],
    count: usize,
}

/// Counts of all slopes relative to the bracket `low..=high`.
struct Look {
    low: f64,
    high: f64,
    below: usize,
    at_low: usize,
    between: usize,
    at_high: usize,
    /// Slopes strictly between: all, or every 2nd, 4th, … once they became too many.
    held: Vec<f64>,
}

impl Slopes<'_> {
    /// The slopes that have these ranks (from 0) in ascending order; the ranks are equal or neighbors.
    fn at_ranks(&self, first: usize, last: usize) -> (f64, f64) {
        let mut sample = self.sample();
        // The sample stands for `inside` slopes, those strictly between `floor` and `ceiling`; `below`
        // are no higher than the floor. Each round moves one of the two, so there is a last one.
        let (mut floor, mut ceiling) = (f64::NEG_INFINITY, f64::INFINITY);
        let (mut below, mut inside) = (0, self.count);
        loop {
            if sample.len() == inside {
                return select(&mut sample, first - below, last - below);
            }
            let (low, high) = bracket(&mut sample, (first - below, last - below), inside);
            let mut look = self.look(low, high);
            match look.place(first, last) {
                Place::Found(slope) => return (slope, slope),
                Place::Apart => {
                    return (self.at_ranks(first, first).0, self.at_ranks(last, last).0);
                }
                Place::Between => (floor, ceiling) = (low, high),
                Place::Below => {
                    ceiling = low;
                    look = self.look(floor, ceiling);
                }
                Place::Above => {
                    floor = high;
                    look = self.look(floor, ceiling);
                }
            }
            below = look.below + look.at_low;
            inside = look.between;
            sample = look.held;
        }
    }

    /// All slopes if they are few, else some of them, evenly over pairs near and far.
    fn sample(&self) -> Vec<f64> {
        let stride = if self.count <= SLOPES_SELECTED_DIRECTLY {
            1
        } else {
            self.count / SLOPES_SAMPLED_MIN.max(2 * self.count.isqrt())
        };
        let mut sample = Vec::with_capacity(self.count / stride + 1);
        let mut skip = 0;
        for (steps, far) in self.by_distance() {
            let pairs = far.len();
            let near_and_far = self.points.iter().zip(far).skip(skip).step_by(stride);
            sample.extend(near_and_far.map(|(near, far)| (far - near) / steps));
            let taken = pairs.saturating_sub(skip).div_ceil(stride);
            skip = skip + taken * stride - pairs;
        }
        sample.retain(|slope| !slope.is_nan());
        sample
    }

    fn look(&self, low: f64, high: f64) -> Look {
        let mut look = Look {
            low,
            high,
            below: 0,
            at_low: 0,
            between: 0,
            at_high: 0,
            held: Vec::new(),
        };
        // Hot: 200 points have 19,900 slopes, and a standard error needs 200 times that. So slopes that
        // are surely outside are counted by their difference alone, without the division, and there is
        // no branch on a condition that is as likely as not.
        let mut near_bracket = vec![0.0; self.points.len()];
        let mut stride = 1;
        for (steps, far) in self.by_distance() {
            let (from, to) = (low * steps, high * steps);
            let (from, to) = (from - rounding(from), to + rounding(to));
            let (mut below, mut count) = (0, 0);
            for (near, far) in self.points.iter().zip(far) {
                let difference = far - near;
                below += usize::from(difference < from);
                near_bracket[count] = difference;
                count += usize::from((difference >= from) & (difference <= to));
            }
            look.below += below;
            for difference in &near_bracket[..count] {
                look.note(difference / steps, &mut stride);
            }
        }
        look
    }

    /// For each distance in steps: the points that have a partner at that distance before them.
    fn by_distance(&self) -> impl Iterator<Item = (f64, &[f64])> {
        (1..self.points.len()).map(|steps| (steps as f64, &self.points[steps..]))
    }
}

/// The place of the wanted ranks relative to a bracket.
enum Place {
    /// The ranks are at one of its ends, of this value.
    Found(f64),
    Between,
    Below,
    Above,
    /// The ranks are on two sides of one of its ends.
    Apart,
}

impl Look {
    /// Counts a slope that may be within; `stride` is a power of two.
    fn note(&mut self, slope: f64, stride: &mut usize) {
        if slope < self.low {
            self.below += 1;
        } else if slope == self.low {
            self.at_low += 1;
        } else if slope < self.high {
            if self.between & (*stride - 1) == 0 {
                self.held.push(slope);
            }
            self.between += 1;
            if self.held.len() == SLOPES_HELD_MAX {
                let mut index = 0;
                self.held.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                *stride *= 2;
            }
        } else if slope == self.high {
            self.at_high += 1;
        }
    }

    fn place(&self, first: usize, last: usize) -> Place {
        let low_ends = self.below + self.at_low;
        let high_starts = low_ends + self.between;
        let high_ends = high_starts + self.at_high;
        if last < self.below {
            Place::Below
        } else if first >= self.below && last < low_ends {
            Place::Found(self.low)
        } else if first >= low_ends && last < high_starts {
            Place::Between
        } else if first >= high_starts && last < high_ends {
            Place::Found(self.high)
        } else if first >= high_ends {
            Place::Above
        } else {
            Place::Apart
        }
    }
}

/// Upper bound of the rounding error of a slope times steps, against a difference divided by them.
fn rounding(difference: f64) -> f64 {
    4.0 * f64::EPSILON * difference.abs() + f64::MIN_POSITIVE
}

/// Two values of the sample that most likely have the wanted ranks of all `inside` between them: three
/// standard deviations of the rank of a median on either side.
fn bracket(sample: &mut [f64], ranks: (usize, usize), inside: usize) -> (f64, f64) {
    let margin = (9 * sample.len() / 4).isqrt() + 1;
    let last_index = sample.len() - 1;
    let low_index = (ranks.0 * sample.len() / inside).saturating_sub(margin);
    let high_index = (ranks.1 * sample.len() / inside + margin).min(last_index);
    let (_, high, _) = sample.select_nth_unstable_by(high_index, f64::total_cmp);
    let high = *high;
    let (_, low, _) = sample[..=high_index].select_nth_unstable_by(low_index, f64::total_cmp);
    (*low, high)
}

/// The values that have these ranks among `values`; the ranks are equal or neighbors.
fn select(values: &mut [f64], first: usize, last: usize) -> (f64, f64) {
    let (_, lower, above) = values.select_nth_unstable_by(first, f64::total_cmp);
    let lower = *lower;
    if first == last {
        return (lower, lower);
    }
    let upper = above.iter().copied().fold(f64::INFINITY, f64::min);
    (lower, upper)
}

/// Differences of points below this are finite. No memory is this large.
const USABLE_MAX: f64 = 1e300;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All slopes, sorted.
    fn naive(points: &[f64]) -> Option<f64> {
        let mut slopes = Vec::new();
        for (from, near) in points.iter().enumerate() {
            for (to, far) in points.iter().enumerate().skip(from + 1) {
                let is_present = near.is_finite() && far.is_finite();
                slopes.extend(is_present.then(|| (far - near) / (to - from) as f64));
            }
        }
        slopes.sort_by(f64::total_cmp);
        let last = slopes.len().checked_sub(1)?;
        Some(f64::midpoint(slopes[last / 2], slopes[slopes.len() / 2]))
    }

    /// A number that looks random, the same for the same index.
    fn scattered(index: usize) -> f64 {
        ((index * 7_919 + 13) * (index + 101) % 1_009) as f64
    }

    #[test]
    fn a_line_has_its_slope() {
        assert_eq!(theil_sen(&[1.0, 3.0, 5.0, 7.0]), Some(2.0));
        assert_eq!(theil_sen(&[4096.0; 300]), Some(0.0));
    }

    #[test]
    fn too_few_points_have_none() {
        assert_eq!(theil_sen(&[]), None);
        assert_eq!(theil_sen(&[1.0]), None);
        assert_eq!(theil_sen(&[1.0, f64::NAN, f64::INFINITY]), None);
        assert_eq!(theil_sen(&[1.0, f64::NAN, 2.0]), Some(0.5));
    }

    #[test]
    fn a_quarter_of_outliers_moves_nothing_far() {
        let mut points: Vec<f64> = (0..200).map(|i| 3.0 * f64::from(i)).collect();
        for index in (0..200).step_by(4) {
            points[index] = if index % 8 == 0 { 1e9 } else { -1e9 };
        }
        assert_eq!(theil_sen(&points), Some(3.0));
    }

    #[test]
    fn long_series_are_as_exact_as_short_ones() {
        for count in [91, 92, 200, 241, 700] {
            let points: Vec<f64> = (0..count).map(scattered).collect();
            assert_eq!(theil_sen(&points), naive(&points), "{count} points");
        }
    }

    #[test]
    fn steps_and_ties_are_selected_through() {
        let staircase: Vec<f64> = (0..900_u32).map(|i| f64::from(i / 50)).collect();
        assert_eq!(theil_sen(&staircase), naive(&staircase));
        let late_step: Vec<f64> = (0..900_u32).map(|i| f64::from(i / 800)).collect();
        assert_eq!(theil_sen(&late_step), Some(0.0));
        let zigzag: Vec<f64> = (0..900_u32).map(|i| f64::from(i % 2)).collect();
        assert_eq!(theil_sen(&zigzag), Some(0.0));
    }

    #[test]
    fn ranks_outside_of_the_bracket_are_found() {
        // The lowest slope of all is lower than the lowest of any sample, most likely.
        let points: Vec<f64> = (0..300).map(scattered).collect();
        let slopes = Slopes {
            points: &points,
            count: 300 * 299 / 2,
        };
        let mut sorted = Vec::new();
        for (steps, far) in slopes.by_distance() {
            sorted.extend(
                points
                    .iter()
                    .zip(far)
                    .map(|(near, far)| (far - near) / steps),
            );
        }
        sorted.sort_by(f64::total_cmp);
        for rank in [0, 1, 77, 20_000, 44_000, slopes.count - 1] {
            assert_eq!(slopes.at_ranks(rank, rank).0, sorted[rank], "rank {rank}");
        }
    }

    fn series() -> impl Strategy<Value = Vec<f64>> {
        let page = (0_i32..40).prop_map(f64::from);
        let any = -1e6..1e6_f64;
        prop_oneof![
            prop::collection::vec(page, 2..160),
            prop::collection::vec(any, 2..160),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn it_is_the_median_of_all_slopes(points in series(), gaps in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
            let mut points = points;
            for gap in gaps {
                let index = gap.index(points.len());
                points[index] = f64::NAN;
            }
            prop_assert_eq!(theil_sen(&points), naive(&points));
        }

        #[test]
        fn it_follows_shift_scale_and_trend(points in series(), shift in -1e6..1e6_f64, scale in -8.0..8.0_f64, trend in -50.0..50.0_f64) {
            let changed: Vec<f64> = points
                .iter()
                .enumerate()
                .map(|(step, point)| scale * point + shift + trend * step as f64)
                .collect();
            let expected = scale * theil_sen(&points).unwrap() + trend;
            let found = theil_sen(&changed).unwrap();
            prop_assert!((found - expected).abs() <= 1e-6, "{} for {}", found, expected);
        }
    }
}
