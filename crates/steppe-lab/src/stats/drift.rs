//! Drift of a series against a budget.
//!
//! Significance alone would be the wrong question: with autocorrelated noise, a third of steady series have a
//! "significant" slope, and a warm-up that ends nearly always has one. So an interval of the slope (per step,
//! Theil–Sen) is compared with the growth budget.
//!
//! Intervals are two-sided, at 95 % where a run is looked at once ([`Hypothesis`]), so each of the claims "under the
//! budget" and "over it" is wrong at most 2.5 % of the time where growth is exactly the budget. UNBOUNDED needs two
//! intervals over the budget at once and is the rarer for it; nothing is corrected for that. A caller that judges many
//! series at once corrects for their number by [`Drift::over_budget_p`].
//!
//! - **Five fresh processes or more**: t interval of the mean of their slopes. Processes are independent of each other
//!   whatever the noise within one is like, so it holds without a model.
//! - **One**: its points are redrawn ([`super::redraw`]). The interval holds as far as the noise in the window shows
//!   its own autocorrelation, and says nothing about the next process.
//! - **Two to four**: each is judged by itself, and the interval is the hull of theirs: a claim holds for every process
//!   that was seen. A t interval of so few is so wide that a second run would say less than the first alone, and
//!   pooling their points would pretend that processes can't differ.
//!
//! Leaves out the drift of a random walk (noise that never returns), which can't be told from growth within one
//! process.

mod floors;
mod slopes;

use super::shape::{self, Stairs};
use super::teeth::Teeth;
use super::{ALPHA, known};
use crate::limits::{BOOTSTRAP_POINTS_MIN, FRESH_POINTS_MIN, FRESH_PROCESSES_MIN};
use crate::record::{Interval, Method, Outcome};

pub use floors::judge_memory;
use slopes::{Slope, Slopes, between_processes, within_processes};

/// The drift of one or several series. Slopes are per step.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// `Stable`, `Growing`, `Unbounded` or `Inconclusive`.
    pub outcome: Outcome,
    /// `FreshProcesses`, or `BlockBootstrap` with fewer than five series.
    pub method: Method,
    /// Slope of the whole window; the mean over the series.
    pub whole: Interval,
    /// Slope of the last half of the window.
    pub last_half: Interval,
    /// Confidence of both intervals, 0 to 1.
    pub confidence: f64,
    /// True if the lower bound is over 0, of the whole window and of its last half.
    pub significant: bool,
    /// Probability of slopes so far over the budget if growth is exactly the budget (one-sided): the smaller one of the
    /// whole window and of its last half, corrected for there being two.
    pub over_budget_p: f64,
    /// The least slope that four of five such measurements would tell from 0.
    pub detectable: f64,
    /// Rise from the first quarter's median to the last quarter's, per step; the mean over the series. It sees a single
    /// step, which a median of slopes doesn't: a series whose rise is over the budget is never called stable.
    pub rise: f64,
    /// Points of the shortest series, without missing ones.
    pub points: u32,
    /// Number of series that were long enough to count.
    pub series: u32,
    /// Form of the growth, where it is no straight line.
    pub shape: Shape,
}

/// The growth budget, and the risk of a false claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypothesis {
    /// Growth allowed, per step.
    pub budget: f64,
    /// The chance that "under the budget" is false where growth is exactly the budget; as much for
    /// "over it". From 0 to 0.5, without them.
    pub alpha: f64,
}

/// A budget that is tested once.
impl From<f64> for Hypothesis {
    fn from(budget: f64) -> Self {
        Self {
            budget,
            alpha: ALPHA,
        }
    }
}

/// The form of growth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A line, or no growth.
    Line,
    /// Growth slows down, and ends at this level: the mean over the series.
    Settles(f64),
    /// Growth in jumps; those of the first series.
    Stairs(Stairs),
    /// A saw-tooth: memory rises and is collected. Slopes are those of the floor where four collections or more were
    /// seen in each series, else those of a line.
    Teeth(Teeth),
}

/// Judges series of points that are one step (an epoch, a cycle) apart, warm-up left out.
///
/// One series a fresh process. A missing point is `NAN`, and keeps its place. A series that is too
/// short (8 points among five or more, else 12) is left out. `None`: none was long enough.
///
/// - STABLE: the upper bound of the whole window's slope is not over the budget, and growth of the
///   budget's size would have been seen ([`Drift::detectable`]).
/// - UNBOUNDED: the lower bound is over the budget, for the whole window and for its last half.
/// - GROWING: the lower bound is over the budget for the whole window only.
/// - INCONCLUSIVE: everything else; and growth that slows down and ends ([`Shape::Settles`]), unless the series without
///   that curve is UNBOUNDED by itself.
#[must_use]
pub fn judge_drift(
    series: &[Vec<f64>],
    hypothesis: impl Into<Hypothesis>,
    seed: u64,
) -> Option<Drift> {
    let hypothesis = hypothesis.into();
    let line = judge_line(series, hypothesis, seed)?;
    if line.outcome == Outcome::Stable {
        return Some(line);
    }
    let settled = settle(&line, series, hypothesis, seed);
    Some(settled.unwrap_or_else(|| climb(line, series, hypothesis)))
}

/// The drift of the rest, where all series slow down and end at a level.
fn settle(line: &Drift, series: &[Vec<f64>], hypothesis: Hypothesis, seed: u64) -> Option<Drift> {
    let counted = long_enough(series, points_min(line.method));
    let settling: Option<Vec<_>> = counted
        .iter()
        .map(|points| shape::settling(points))
        .collect();
    let settling = settling?;
    let levels: Vec<f64> = settling.iter().map(|each| each.level).collect();
    let rests: Vec<Vec<f64>> = settling.into_iter().map(|each| each.rest).collect();
    let rest = judge_line(&rests, hypothesis, seed)?;
    let is_sick = rest.outcome == Outcome::Unbounded;
    Some(Drift {
        outcome: if is_sick {
            rest.outcome
        } else {
            Outcome::Inconclusive
        },
        over_budget_p: rest.over_budget_p,
        // Growth that goes on behind the curve does not level off there.
        shape: if is_sick {
            Shape::Line
        } else {
            Shape::Settles(mean(&levels)?)
        },
        ..line.clone()
    })
}

/// The drift by the corners of stairs, where all series have some.
fn climb(line: Drift, series: &[Vec<f64>], Hypothesis { budget, alpha }: Hypothesis) -> Drift {
    let counted = long_enough(series, points_min(line.method));
    let corners: Option<Vec<_>> = counted.iter().map(|points| shape::stairs(points)).collect();
    let Some(corners) = corners.filter(|corners| !corners.is_empty()) else {
        return line;
    };
    let shape = Shape::Stairs(corners[0].stairs);
    let slopes: Option<Vec<Slope>> = corners
        .iter()
        .map(|each| {
            let line = shape::line_through(&each.points)?;
            Some(Slope {
                estimate: line.slope,
                error: line.error,
                degrees: line.degrees,
                modeled: (line.error, line.degrees),
            })
        })
        .collect();
    // The last half climbs on when it has its share of jumps.
    let goes_on = corners.iter().zip(&counted).all(|(each, points)| {
        let half = points.len() as f64 / 2.0;
        let late = each.points.iter().filter(|(at, _)| *at >= half).count() as f64;
        late * each.stairs.size / half > budget
    });
    let Some(slopes) = slopes.map(Slopes) else {
        return Drift { shape, ..line };
    };
    let whole = slopes.interval(alpha);
    let is_over = whole.lower > budget && goes_on;
    if line.outcome == Outcome::Unbounded || !is_over {
        return Drift { shape, ..line };
    }
    Drift {
        outcome: Outcome::Unbounded,
        whole,
        over_budget_p: slopes.over(budget),
        significant: true,
        shape,
        ..line
    }
}

fn points_min(method: Method) -> usize {
    match method {
        Method::FreshProcesses => FRESH_POINTS_MIN,
        _ => BOOTSTRAP_POINTS_MIN,
    }
}

/// The series that are long enough, and the method of their interval.
fn counted(series: &[Vec<f64>]) -> (Method, Vec<&[f64]>) {
    let fresh = long_enough(series, FRESH_POINTS_MIN);
    if fresh.len() >= FRESH_PROCESSES_MIN {
        return (Method::FreshProcesses, fresh);
    }
    let lone = long_enough(series, BOOTSTRAP_POINTS_MIN);
    (Method::BlockBootstrap, lone)
}

/// The drift as if growth were a line.
fn judge_line(series: &[Vec<f64>], hypothesis: Hypothesis, seed: u64) -> Option<Drift> {
    let (method, counted) = counted(series);
    let (whole, last_half) = match method {
        Method::FreshProcesses => (
            between_processes(&counted, whole)?,
            between_processes(&counted, last_half)?,
        ),
        _ => (
            within_processes(&counted, whole, seed)?,
            within_processes(&counted, last_half, !seed)?,
        ),
    };
    drift(&counted, method, (whole, last_half), hypothesis)
}

/// Number of a run's first points that are warm-up, where the scenario leaves it to the lab: a sixth, rounded up.
///
/// Fixed by the count alone, so that no look at the data can choose it after the fact. A series that settles with a
/// time constant of 15 epochs has 7 % of its way left after 40 of 240.
#[must_use]
pub fn auto_warmup(count: u32) -> u32 {
    count.div_ceil(6)
}

fn drift(
    series: &[&[f64]],
    method: Method,
    (whole, last_half): (Slopes, Slopes),
    Hypothesis { budget, alpha }: Hypothesis,
) -> Option<Drift> {
    let rises: Option<Vec<f64>> = series.iter().map(|points| rise(points)).collect();
    let rise = mean(&rises?)?;
    let points = series.iter().map(|points| present(points)).min()?;
    let detectable = whole.detectable(alpha);
    // An alarm needs both windows over the budget; its p value is from either one. Growth that speeds up, or a warm-up
    // that was not over, makes the whole window look noisy and leaves the last half clear. Twice the smaller of two p
    // values is a p value (Bonferroni).
    let over_budget_p = (2.0 * whole.over(budget).min(last_half.over(budget))).min(1.0);
    let (whole, last_half) = (whole.interval(alpha), last_half.interval(alpha));
    let would_be_seen = detectable <= budget;
    Some(Drift {
        outcome: outcome(whole, last_half, would_be_seen.then_some(rise), budget),
        method,
        whole,
        last_half,
        confidence: 1.0 - 2.0 * alpha,
        significant: whole.lower > 0.0 && last_half.lower > 0.0,
        over_budget_p,
        detectable,
        rise,
        points: u32::try_from(points).unwrap_or(u32::MAX),
        series: u32::try_from(series.len()).unwrap_or(u32::MAX),
        shape: Shape::Line,
    })
}

/// The outcome; `rise` is `None` where growth of the budget's size would have been missed.
fn outcome(whole: Interval, last_half: Interval, rise: Option<f64>, budget: f64) -> Outcome {
    let rose_little = rise.is_some_and(|rise| rise <= budget);
    if whole.upper <= budget && rose_little {
        Outcome::Stable
    } else if whole.lower > budget && last_half.lower > budget {
        Outcome::Unbounded
    } else if whole.lower > budget {
        Outcome::Growing
    } else {
        Outcome::Inconclusive
    }
}

/// Rise per step between the medians of the first and the last quarter of the points present.
fn rise(points: &[f64]) -> Option<f64> {
    let known = known(points);
    let quarter = known.len().div_ceil(4);
    let center = |part: &[(f64, f64)]| {
        let (steps, values): (Vec<f64>, Vec<f64>) = part.iter().copied().unzip();
        Some((mean(&steps)?, super::median(values)?))
    };
    let (from, first) = center(&known[..quarter])?;
    let (to, last) = center(&known[known.len() - quarter..])?;
    (to > from).then(|| (last - first) / (to - from))
}

/// Series with at least `points_min` points in the window, and half of them in its last half.
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

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: f64 = 4096.0;

    fn judge(series: &[Vec<f64>], budget: f64) -> Drift {
        judge_drift(series, budget, 7).unwrap()
    }

    fn line(slope: f64, points: u32) -> Vec<f64> {
        (0..points).map(|step| slope * f64::from(step)).collect()
    }

    /// A line with noise of 1 that looks random, and is the same every time.
    fn noisy(slope: f64, points: u32, stir: u32) -> Vec<f64> {
        let scatter = |step: u32| f64::from((step * 7_919 + stir) * (step + 101) % 1_009) / 1_009.0;
        (0..points)
            .map(|step| slope * f64::from(step) + scatter(step))
            .collect()
    }

    #[test]
    fn memory_that_does_not_move_is_stable() {
        for count in [1, 3, 5, 9] {
            let drift = judge(&vec![vec![1e9; 20]; count], 0.0);
            assert_eq!(drift.outcome, Outcome::Stable, "{count}");
            assert_eq!((drift.whole.lower, drift.whole.upper), (0.0, 0.0));
            assert!(!drift.significant);
        }
    }

    #[test]
    fn a_leak_without_noise_is_unbounded() {
        for count in [1, 4, 5] {
            let drift = judge(&vec![line(PAGE, 20); count], 1024.0);
            assert_eq!(drift.outcome, Outcome::Unbounded, "{count}");
            assert_eq!(drift.whole.estimate, PAGE);
            assert!(drift.significant);
        }
    }

    #[test]
    fn growth_under_the_budget_is_stable_and_significant() {
        let series: Vec<_> = (0..5).map(|stir| noisy(1.0, 60, stir)).collect();
        let drift = judge(&series, 2.0);
        assert_eq!(drift.outcome, Outcome::Stable);
        assert!(drift.significant);
        assert_eq!((drift.points, drift.series), (60, 5));
    }

    #[test]
    fn growth_that_has_stopped_is_told_with_its_level() {
        let stops = |stir| {
            let tail = noisy(0.0, 45, stir).into_iter().map(|point| 135.0 + point);
            noisy(3.0, 45, stir + 5).into_iter().chain(tail).collect()
        };
        let series: Vec<Vec<f64>> = (0..5).map(stops).collect();
        let drift = judge(&series, 0.5);
        assert_eq!(drift.outcome, Outcome::Inconclusive);
        let Shape::Settles(level) = drift.shape else {
            panic!("{drift:?}");
        };
        // A kink is no curve: the fitted end is off by some.
        assert!((130.0..160.0).contains(&level), "{level}");
        // A short series can't tell a curve from a line.
        let short: Vec<Vec<f64>> = series.iter().map(|all| all[35..58].to_vec()).collect();
        assert_eq!(judge(&short, 0.5).shape, Shape::Line);
    }

    /// A saw-tooth of 30 with noise of 1, on a floor that rises by `slope`.
    fn teeth(slope: f64, points: u32, period: u32, stir: u32) -> Vec<f64> {
        let rises = |step: u32| 30.0 / f64::from(period) * f64::from(step % period);
        let noisy = noisy(slope, points, stir);
        (0..points)
            .zip(noisy)
            .map(|(step, point)| point + rises(step + stir))
            .collect()
    }

    #[test]
    fn a_saw_tooth_is_judged_by_what_collections_leave() {
        for count in [1, 3, 5] {
            let judge = |slope, period| {
                let series: Vec<_> = (0..count)
                    .map(|stir| teeth(slope, 120, period, stir))
                    .collect();
                judge_memory(&series, None, 0.1, 7).unwrap()
            };
            let healthy = judge(0.0, 15);
            assert_eq!(healthy.outcome, Outcome::Stable, "{healthy:?}");
            let leaking = judge(0.2, 15);
            assert_eq!(leaking.outcome, Outcome::Unbounded, "{leaking:?}");
            assert!((leaking.whole.estimate - 0.2).abs() < 0.02, "{leaking:?}");
            let Shape::Teeth(teeth) = leaking.shape else {
                panic!("{leaking:?}");
            };
            assert!(teeth.collections >= 7, "{teeth:?}");
            // A floor as steep as the leak, with too few collections to claim anything.
            for slope in [0.0, 0.2] {
                let few = judge(slope, 50);
                assert_eq!(few.outcome, Outcome::Inconclusive, "{few:?}");
                assert!(matches!(few.shape, Shape::Teeth(teeth) if teeth.collections == 2));
            }
        }
    }

    #[test]
    fn a_process_that_was_not_collected_counts_as_none() {
        let climbs = (0..40).map(f64::from).collect();
        let series = [teeth(0.0, 120, 15, 1), teeth(0.0, 120, 15, 2), climbs];
        let drift = judge_memory(&series, None, 0.1, 7).unwrap();
        assert_eq!(drift.outcome, Outcome::Inconclusive);
        assert!(matches!(drift.shape, Shape::Teeth(teeth) if teeth.collections == 0));
    }

    #[test]
    fn collections_that_were_forced_count() {
        let flat = [noisy(0.0, 60, 1)];
        let word = |forced| judge_memory(&flat, forced, 1.0, 7).unwrap().outcome;
        assert_eq!(word(Some(60)), Outcome::Stable);
        assert_eq!(word(Some(3)), Outcome::Inconclusive);
        assert_eq!(word(None), Outcome::Stable);
        let leak = [noisy(2.0, 60, 1)];
        let drift = judge_memory(&leak, Some(60), 1.0, 7).unwrap();
        assert_eq!(Some(drift), judge_drift(&leak, 1.0, 7));
    }

    #[test]
    fn growth_around_the_budget_is_inconclusive() {
        let series: Vec<_> = (0..5)
            .map(|stir| noisy(f64::from(stir), 30, stir))
            .collect();
        assert_eq!(judge(&series, 2.0).outcome, Outcome::Inconclusive);
        assert_eq!(judge(&series, f64::NAN).outcome, Outcome::Inconclusive);
    }

    /// Three quarters of pairs don't have the step between them, so the Theil–Sen slope is 0.
    #[test]
    fn one_late_step_over_the_budget_is_not_stable() {
        let mut stepped = vec![0.0; 80];
        stepped.extend([64.0 * 1024.0; 30]);
        for count in [1, 5] {
            let drift = judge(&vec![stepped.clone(); count], 100.0);
            assert_eq!(drift.whole.estimate, 0.0);
            assert_eq!(drift.outcome, Outcome::Inconclusive, "{count}");
        }
        assert_eq!(judge(&vec![stepped; 5], 1000.0).outcome, Outcome::Stable);
    }

    #[test]
    fn a_leak_in_pages_is_as_steep_as_a_smooth_one() {
        // 500 bytes an epoch, seen as pages.
        let pages: Vec<f64> = line(500.0, 240)
            .into_iter()
            .map(|bytes| (bytes / PAGE).floor() * PAGE)
            .collect();
        let drift = judge(std::slice::from_ref(&pages), 250.0);
        assert_eq!(drift.outcome, Outcome::Unbounded);
        assert!((drift.whole.estimate - 500.0).abs() < 10.0);
        assert_eq!(judge(&[pages], 1000.0).outcome, Outcome::Stable);
    }

    #[test]
    fn few_processes_say_no_more_than_each_does() {
        let series: Vec<_> = (0..3)
            .map(|stir| noisy(f64::from(stir), 40, stir))
            .collect();
        let together = judge(&series, 1.0);
        assert_eq!(together.method, Method::BlockBootstrap);
        assert_eq!(
            (together.outcome, together.series),
            (Outcome::Inconclusive, 3)
        );
        assert!(together.whole.lower < 0.1 && together.whole.upper > 1.9);
        assert!((together.whole.estimate - 1.0).abs() < 0.1);
    }

    #[test]
    fn short_series_are_left_out_and_missing_points_are_not() {
        assert_eq!(judge_drift(&[], 1.0, 7), None);
        assert_eq!(judge_drift(&[line(1.0, 11)], 1.0, 7), None);
        assert_eq!(judge_drift(&[vec![f64::NAN; 100]], 1.0, 7), None);
        let mut one_half = line(1.0, 100);
        one_half[50..].fill(f64::NAN);
        assert_eq!(judge_drift(&[one_half], 1.0, 7), None);

        let mut series = vec![line(1.0, 20); 6];
        series[0].truncate(7);
        series[1][3] = f64::NAN;
        let drift = judge(&series, 1.0);
        assert_eq!((drift.series, drift.points), (5, 19));
        assert_eq!(drift.whole.estimate, 1.0);
    }

    #[test]
    fn the_same_seed_gives_the_same_answer() {
        let series = [noisy(0.0, 60, 1)];
        assert_eq!(judge_drift(&series, 1.0, 3), judge_drift(&series, 1.0, 3));
        assert_ne!(judge_drift(&series, 1.0, 3), judge_drift(&series, 1.0, 4));
    }

    #[test]
    fn warmup_is_a_sixth() {
        let rule = [(0, 0), (1, 1), (6, 1), (20, 4), (120, 20), (240, 40)];
        for (count, warmup) in rule {
            assert_eq!(auto_warmup(count), warmup);
        }
    }
}
