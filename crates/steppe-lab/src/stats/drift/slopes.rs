//! Slopes with their standard errors: one for all processes, or one each.
//!
//! Leaves out budgets and words.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::mean;
use crate::record::Interval;
use crate::stats::redraw::standard_error;
use crate::stats::shape;
use crate::stats::student::{t_quantile, upper_tail};
use crate::stats::teeth::Floor;
use crate::stats::{deviation, theil_sen};

/// Slopes with their standard errors: one for all processes, or one each.
pub(super) struct Slopes(pub(super) Vec<Slope>);

/// An estimate whose error has a t distribution.
#[derive(Clone, Copy)]
pub(super) struct Slope {
    pub(super) estimate: f64,
    pub(super) error: f64,
    pub(super) degrees: u32,
    /// Another error and its degrees of freedom; see [`crate::stats::redraw::StandardError`]. P values are the
    /// smaller of those by either error.
    pub(super) modeled: (f64, u32),
}

impl Slopes {
    /// The hull of their intervals, each with a chance of `alpha` on either side of it.
    pub(super) fn interval(&self, alpha: f64) -> Interval {
        let reach = |slope: &Slope| slope.quantile(1.0 - alpha) * slope.error;
        let lower = self.0.iter().map(|slope| slope.estimate - reach(slope));
        let upper = self.0.iter().map(|slope| slope.estimate + reach(slope));
        let sum: f64 = self.0.iter().map(|slope| slope.estimate).sum();
        Interval {
            lower: lower.fold(f64::INFINITY, f64::min),
            estimate: sum / self.0.len() as f64,
            upper: upper.fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// One-sided p value against the budget. A claim holds for each slope, so the largest p value counts.
    pub(super) fn over(&self, budget: f64) -> f64 {
        let each = self.0.iter().map(|slope| slope.over(budget));
        each.fold(0.0, f64::max)
    }

    /// The least slope that four of five measurements would tell from 0 at this level.
    pub(super) fn detectable(&self, alpha: f64) -> f64 {
        let share = 1.0 - alpha;
        let each = self.0.iter();
        let each = each.map(|slope| (slope.quantile(share) + slope.quantile(POWER)) * slope.error);
        each.fold(0.0, f64::max)
    }
}

impl Slope {
    fn quantile(&self, share: f64) -> f64 {
        t_quantile(share, self.degrees)
    }

    fn over(&self, budget: f64) -> f64 {
        let distance = self.estimate - budget;
        let chance = |(error, degrees): (f64, u32)| match error {
            // Without noise the answer is certain.
            0.0 if distance > 0.0 => 0.0,
            0.0 => 1.0,
            _ => upper_tail(distance / error, degrees),
        };
        chance((self.error, self.degrees)).min(chance(self.modeled))
    }
}

/// The mean of the processes' slopes.
///
/// Slopes that are all the same (memory that doesn't move) have an interval without a width.
pub(super) fn between_processes(series: &[&[f64]], window: fn(&[f64]) -> &[f64]) -> Option<Slopes> {
    let slopes: Option<Vec<f64>> = series
        .iter()
        .map(|points| theil_sen(window(points)))
        .collect();
    between(&slopes?)
}

pub(super) fn between(slopes: &[f64]) -> Option<Slopes> {
    let error = deviation(slopes)? / (slopes.len() as f64).sqrt();
    let degrees = u32::try_from(slopes.len() - 1).unwrap_or(u32::MAX);
    Some(Slopes(vec![Slope {
        estimate: mean(slopes)?,
        error,
        degrees,
        modeled: (error, degrees),
    }]))
}

/// The line through the troughs of a process.
///
/// Its error is that of least squares. A handful of troughs know little of their own noise, so p values use
/// the variance of all points where that is no less.
pub(super) fn through_troughs(floor: &Floor, troughs: &[(f64, f64)]) -> Option<Slope> {
    let line = shape::line_through(troughs)?;
    let known = (floor.variance / line.spread).sqrt();
    Some(Slope {
        estimate: line.slope,
        error: line.error,
        degrees: line.degrees,
        modeled: (known.max(line.error), floor.degrees),
    })
}

/// The slope of each process by itself.
pub(super) fn within_processes(
    series: &[&[f64]],
    window: fn(&[f64]) -> &[f64],
    seed: u64,
) -> Option<Slopes> {
    let mut random = Pcg64::seed_from_u64(seed);
    let each: Option<Vec<Slope>> = series
        .iter()
        .map(|points| {
            let points = window(points);
            let found = standard_error(points, &mut random)?;
            let (error, degrees) = found.redrawn;
            Some(Slope {
                estimate: theil_sen(points)?,
                error,
                degrees,
                modeled: found.modeled,
            })
        })
        .collect();
    each.filter(|each| !each.is_empty()).map(Slopes)
}

/// Probability of finding an effect of the size that is called detectable.
const POWER: f64 = 0.8;
