//! A histogram of durations in fixed log-linear buckets.
//!
//! Bucket bounds double every [`STEPS`] buckets and are evenly spaced between
//! two doublings: 32 µs, 48 µs, 64 µs, 96 µs, 128 µs … 67 s. Computing an index takes
//! a few shifts, an interpolated quantile is off by a quarter at most, and a
//! histogram takes less than 400 bytes.
//!
//! Non-goals: exemplars and native (sparse) histograms.

use std::time::Duration;

use crate::cell::Counter;

/// Buckets per doubling.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 1;
/// The first bucket holds everything up to 2^5 µs = 32 µs.
const FIRST_EXPONENT: u32 = 5;
/// The last bound is 2^26 µs = 67.1 s; longer durations are counted as `+Inf`.
const LAST_EXPONENT: u32 = 26;
const BOUNDED: usize = (LAST_EXPONENT - FIRST_EXPONENT) as usize * STEPS + 1;
/// The bounded buckets and `+Inf`.
const BUCKETS: usize = BOUNDED + 1;

const _: () = assert!(size_of::<Histogram>() <= 1 << 10);

/// A histogram with one writer.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    /// Overflows after 584 years.
    sum_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: [const { Counter::new() }; BUCKETS],
            sum_ns: Counter::new(),
        }
    }

    /// Records one duration. Only the histogram's writer may call this.
    #[inline]
    pub fn observe(&self, elapsed: Duration) {
        let whole_ns = elapsed.as_secs().saturating_mul(1_000_000_000);
        let ns = whole_ns.saturating_add(u64::from(elapsed.subsec_nanos()));
        self.buckets[bucket_index(ns)].increment();
        self.sum_ns.add(ns);
    }
}

/// The sum of several histograms, for a scrape.
#[derive(Debug)]
pub struct HistogramSum {
    buckets: [u64; BUCKETS],
    sum_ns: u64,
}

impl HistogramSum {
    /// Sums `histograms`.
    pub fn of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut sum = Self {
            buckets: [0; BUCKETS],
            sum_ns: 0,
        };
        for histogram in histograms {
            for (total, cell) in sum.buckets.iter_mut().zip(&histogram.buckets) {
                *total = total.wrapping_add(cell.value());
            }
            sum.sum_ns = sum.sum_ns.wrapping_add(histogram.sum_ns.value());
        }
        sum
    }

    /// The number of durations. Computed from the buckets, so that it agrees with `+Inf` even
    /// if a worker records concurrently.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all durations in seconds.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum of seconds is read as a float"
    )]
    pub fn seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// The difference to `earlier`, a sum of the same histograms.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |index: usize| self.buckets[index].saturating_sub(earlier.buckets[index]);
        Self {
            buckets: std::array::from_fn(added),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }

    /// The quantile `share`, 0 to 1, in seconds, interpolated linearly within its bucket and so off
    /// by a quarter at most. `None` for an empty histogram. A quantile beyond the last bound is
    /// reported as that bound.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    pub fn quantile_seconds(&self, share: f64) -> Option<f64> {
        let wanted = self.count() as f64 * share;
        let mut below = 0.0;
        let mut lower = 0.0;
        for (upper, count) in self.buckets() {
            let count = count as f64;
            if count > 0.0 && below + count >= wanted {
                let into = (wanted - below) / count;
                let is_bounded = upper.is_finite();
                return Some(
                    lower
                        + if is_bounded {
                            (upper - lower) * into
                        } else {
                            0.0
                        },
                );
            }
            below += count;
            lower = upper;
        }
        None
    }

    /// Upper bound in seconds and count of each bucket, not cumulative.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        (0..BUCKETS)
            .map(|index| (bound_seconds(index), self.buckets[index]))
            .collect()
    }
}

/// The bucket whose bounds enclose `ns`; upper bounds belong to their bucket,
/// as `le` says.
#[inline]
fn bucket_index(ns: u64) -> usize {
    // Whole microseconds strictly below the duration: 64 µs sharp gives 63 and
    // stays in the bucket that ends at 64 µs, a nanosecond more gives 64.
    let us = ns.saturating_sub(1) / 1_000;
    if us < 1 << FIRST_EXPONENT {
        return 0;
    }
    let exponent = us.ilog2();
    if exponent >= LAST_EXPONENT {
        return BOUNDED;
    }
    let step = (us >> (exponent - STEP_BITS)) as usize & (STEPS - 1);
    (exponent - FIRST_EXPONENT) as usize * STEPS + step + 1
}

/// The inverse of [`bucket_index`]: the longest duration of a bucket.
#[expect(clippy::cast_precision_loss, reason = "bounds are below 2^53 µs")]
fn bound_seconds(index: usize) -> f64 {
    let Some(above_first) = index.checked_sub(1) else {
        return (1_u64 << FIRST_EXPONENT) as f64 / 1e6;
    };
    if index >= BOUNDED {
        return f64::INFINITY;
    }
    let (doubling, step) = (above_first / STEPS, above_first % STEPS);
    let us = ((STEPS + step + 1) as u64) << (doubling + FIRST_EXPONENT as usize) >> STEP_BITS;
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Vec<f64> {
        (0..BUCKETS).map(bound_seconds).collect()
    }

    #[test]
    fn bounds_rise_from_32_us_past_a_minute() {
        let bounds = bounds();
        assert!(bounds.is_sorted_by(|a, b| a < b));
        assert_eq!(bounds[..6], [32e-6, 48e-6, 64e-6, 96e-6, 128e-6, 192e-6]);
        assert_eq!(bounds[BUCKETS - 2..], [67.108_864, f64::INFINITY]);
    }

    #[test]
    fn every_bound_belongs_to_its_bucket_and_a_nanosecond_more_to_the_next() {
        for (index, bound) in bounds().into_iter().enumerate().take(BOUNDED) {
            let ns = u64::try_from(Duration::from_secs_f64(bound).as_nanos()).expect("a minute");
            assert_eq!(bucket_index(ns), index, "{bound} s");
            assert_eq!(bucket_index(ns + 1), index + 1, "just above {bound} s");
        }
        assert_eq!(bucket_index(0), 0);
        assert_eq!(bucket_index(u64::MAX), BOUNDED);
    }

    #[test]
    fn histograms_add_up() {
        let (one, other) = (Histogram::new(), Histogram::new());
        one.observe(Duration::from_micros(10));
        one.observe(Duration::from_millis(1));
        other.observe(Duration::from_millis(1));
        other.observe(Duration::MAX);
        other.observe(Duration::from_secs(100));
        let sum = HistogramSum::of([&one, &other].into_iter());
        assert_eq!(sum.count(), 5);
        let filled: Vec<(f64, u64)> = sum
            .buckets()
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(filled, [(32e-6, 1), (1.024e-3, 2), (f64::INFINITY, 2)]);
    }

    #[test]
    fn the_sum_is_in_seconds() {
        let histogram = Histogram::new();
        histogram.observe(Duration::from_millis(1_500));
        histogram.observe(Duration::from_millis(250));
        let sum = HistogramSum::of([&histogram].into_iter());
        assert!((sum.seconds() - 1.75).abs() < 1e-9);
    }
    #[test]
    fn a_quantile_lies_in_the_bucket_of_its_rank() {
        let histogram = Histogram::new();
        let before = HistogramSum::of([&histogram].into_iter());
        assert_eq!(before.quantile_seconds(0.5), None);
        (0..98).for_each(|_| histogram.observe(Duration::from_micros(900)));
        (0..2).for_each(|_| histogram.observe(Duration::from_millis(40)));
        let after = HistogramSum::of([&histogram].into_iter());
        let at = |share| after.quantile_seconds(share).expect("there are durations");
        assert!((768e-6..=1_024e-6).contains(&at(0.5)), "{}", at(0.5));
        assert!((32.768e-3..=49.152e-3).contains(&at(0.99)), "{}", at(0.99));
        histogram.observe(Duration::MAX);
        let last = HistogramSum::of([&histogram].into_iter()).since(&after);
        assert_eq!(last.count(), 1);
        assert_eq!(last.quantile_seconds(0.5), Some(67.108_864));
    }
}
