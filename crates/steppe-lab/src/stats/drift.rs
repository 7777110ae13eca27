//! Does a series drift, held against a budget?
//!
//! Significance alone would be the wrong question: with autocorrelated noise, a third of steady
//! series have a "significant" slope, and a warm-up that ends nearly always has one. So an interval
//! of the slope (per step, of Theil and Sen) is held against what growth is allowed.
//!
//! Intervals are two-sided at 95 %, so each of the claims "under the budget" and "over it" is wrong
//! at most 2.5 % of the time where growth is exactly the budget. UNBOUNDED needs two intervals over
//! the budget at once and is the rarer for it; nothing is corrected for that.
//!
//! - **Five fresh processes or more**: t interval of the mean of their slopes. Processes are
//!   independent of each other whatever the noise within one is like, so it holds without a model.
//! - **One**: its points are redrawn ([`super::redraw`]). It holds as far as the noise of the
//!   window shows how long noise lasts, and says nothing about the next process.
//! - **Two to four**: each is judged by itself, and the interval is the hull of theirs: what is
//!   claimed holds for every process that was seen. A t interval of so few is so wide that a
//!   second run would say less than the first alone, and pooling their points would pretend that
//!   processes can't differ.
//!
//! Leaves out the drift of a random walk (noise that never returns): nothing tells it from growth
//! within one process.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::redraw::standard_error;
use super::student::t_quantile;
use super::{CONFIDENCE, theil_sen};
use crate::limits::{BOOTSTRAP_POINTS_MIN, FRESH_POINTS_MIN, FRESH_PROCESSES_MIN};
use crate::record::{Interval, Method, Word};

/// What is said about the drift of one or several series. Slopes are per step.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// `Stable`, `Growing`, `Unbounded` or `Inconclusive`.
    pub word: Word,
    /// `FreshProcesses`, or `BlockBootstrap` with fewer than five series.
    pub method: Method,
    /// Slope of the whole window; the mean over the series.
    pub whole: Interval,
    /// Slope of the last half of the window.
    pub last_half: Interval,
    /// Of both intervals, 0 to 1.
    pub confidence: f64,
    /// The lower bound is over 0, of the whole window and of its last half.
    pub significant: bool,
    /// Rise from the first quarter's median to the last quarter's, per step; the mean over the
    /// series. It sees the one step that a median of slopes doesn't: nothing whose rise is over the
    /// budget is called stable.
    pub rise: f64,
    /// Of the shortest series, without those that are missing.
    pub points: u32,
    /// How many series were long enough to count.
    pub series: u32,
}

/// Judges series of points that are one step (an epoch, a cycle) apart, warm-up left out.
///
/// One series a fresh process. A missing point is `NAN`, and keeps its place. A series that is too
/// short (8 points among five or more, else 12) is left out. `None`: none was long enough.
///
/// - STABLE: the upper bound of the whole window's slope is not over the budget.
/// - UNBOUNDED: the lower bound is over it, for the whole window and for its last half.
/// - GROWING: for the whole window only.
/// - INCONCLUSIVE: everything else.
#[must_use]
pub fn judge_drift(series: &[Vec<f64>], budget_per_step: f64, seed: u64) -> Option<Drift> {
    let fresh = long_enough(series, FRESH_POINTS_MIN);
    if fresh.len() >= FRESH_PROCESSES_MIN {
        let whole = between_processes(&fresh, whole)?;
        let last_half = between_processes(&fresh, last_half)?;
        return drift(
            &fresh,
            Method::FreshProcesses,
            (whole, last_half),
            budget_per_step,
        );
    }
    let lone = long_enough(series, BOOTSTRAP_POINTS_MIN);
    let whole = within_processes(&lone, whole, seed)?;
    let last_half = within_processes(&lone, last_half, !seed)?;
    drift(
        &lone,
        Method::BlockBootstrap,
        (whole, last_half),
        budget_per_step,
    )
}

/// How many of a run's first points are warm-up, where the scenario leaves it to the lab: a sixth,
/// rounded up.
///
/// Fixed by the count alone, so that nobody (and no look at the data) can choose it after the fact.
/// What settles with a time constant of 15 epochs has 7 % of its way left after 40 of 240.
#[must_use]
pub fn auto_warmup(count: u32) -> u32 {
    count.div_ceil(6)
}

fn drift(
    series: &[&[f64]],
    method: Method,
    (whole, last_half): (Interval, Interval),
    budget: f64,
) -> Option<Drift> {
    let rises: Option<Vec<f64>> = series.iter().map(|points| rise(points)).collect();
    let rise = mean(&rises?)?;
    let points = series.iter().map(|points| present(points)).min()?;
    Some(Drift {
        word: word(whole, last_half, rise, budget),
        method,
        whole,
        last_half,
        confidence: CONFIDENCE,
        significant: whole.lower > 0.0 && last_half.lower > 0.0,
        rise,
        points: u32::try_from(points).unwrap_or(u32::MAX),
        series: u32::try_from(series.len()).unwrap_or(u32::MAX),
    })
}

fn word(whole: Interval, last_half: Interval, rise: f64, budget: f64) -> Word {
    if whole.upper <= budget && rise <= budget {
        Word::Stable
    } else if whole.lower > budget && last_half.lower > budget {
        Word::Unbounded
    } else if whole.lower > budget {
        Word::Growing
    } else {
        Word::Inconclusive
    }
}

/// The mean of the processes' slopes and its t interval.
///
/// Slopes that are all the same (memory that doesn't move) have an interval without a width.
fn between_processes(series: &[&[f64]], window: fn(&[f64]) -> &[f64]) -> Option<Interval> {
    let slopes: Option<Vec<f64>> = series
        .iter()
        .map(|points| theil_sen(window(points)))
        .collect();
    let slopes = slopes?;
    let estimate = mean(&slopes)?;
    let error = super::deviation(&slopes)? / (slopes.len() as f64).sqrt();
    let degrees = u32::try_from(slopes.len() - 1).unwrap_or(u32::MAX);
    Some(around(estimate, error, degrees))
}

/// The hull of what each process by itself says; with one process, its own interval.
fn within_processes(
    series: &[&[f64]],
    window: fn(&[f64]) -> &[f64],
    seed: u64,
) -> Option<Interval> {
    let mut random = Pcg64::seed_from_u64(seed);
    let each: Option<Vec<Interval>> = series
        .iter()
        .map(|points| {
            let points = window(points);
            let (error, degrees) = standard_error(points, &mut random)?;
            Some(around(theil_sen(points)?, error, degrees))
        })
        .collect();
    let each = each?;
    let estimates: Vec<f64> = each.iter().map(|interval| interval.estimate).collect();
    let lower = each.iter().map(|interval| interval.lower);
    let upper = each.iter().map(|interval| interval.upper);
    Some(Interval {
        lower: lower.fold(f64::INFINITY, f64::min),
        estimate: mean(&estimates)?,
        upper: upper.fold(f64::NEG_INFINITY, f64::max),
    })
}

fn around(estimate: f64, error: f64, degrees: u32) -> Interval {
    let reach = t_quantile(f64::midpoint(1.0, CONFIDENCE), degrees) * error;
    Interval {
        lower: estimate - reach,
        estimate,
        upper: estimate + reach,
    }
}

/// Rise per step between the medians of the first and the last quarter of what is present.
fn rise(points: &[f64]) -> Option<f64> {
    let known: Vec<(f64, f64)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.is_finite())
        .map(|(step, point)| (step as f64, *point))
        .collect();
    let quarter = known.len().div_ceil(4);
    let center = |part: &[(f64, f64)]| {
        let (steps, values): (Vec<f64>, Vec<f64>) = part.iter().copied().unzip();
        Some((mean(&steps)?, super::median(values)?))
    };
    let (from, first) = center(&known[..quarter])?;
    let (to, last) = center(&known[known.len() - quarter..])?;
    (to > from).then(|| (last - first) / (to - from))
}

/// Those with so many points in the window, and half of them in its last half.
fn long_enough(series: &[Vec<f64>], points_min: usize) -> Vec<&[f64]> {
    let is_long = |points: &&[f64]| {
        present(points) >= points_min && present(last_half(points)) >= points_min / 2
    };
    series.iter().map(Vec::as_slice).filter(is_long).collect()
}

fn present(points: &[f64]) -> usize {
    points.iter().filter(|point| point.is_finite()).count()
}

fn whole(points: &[f64]) -> &[f64] {
    points
}

fn last_half(points: &[f64]) -> &[f64] {
    &points[points.len() / 2..]
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
