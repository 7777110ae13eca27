//! Growth that is no straight line: a plateau that is still approached, and stairs.
//!
//! A cache that fills looks like a leak until it is full; the curve shows that growth slows down, and
//! where it ends. Memory that grows by a block every so often is flat in between, which a median of
//! slopes takes for noise; the corners of the stairs show its rate of growth. Both are looked for by
//! rules fixed beforehand, and claimed only where they explain a large part of what a line leaves.

use super::{known, median};

/// A rise that slows down: `level − rise · e^(−t / time_constant)`, beside a straight line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settling {
    /// Time constant in steps.
    pub(super) time_constant: f64,
    /// Level at which the series ends, if there is nothing but the curve.
    pub(super) level: f64,
    /// The series without the curve.
    pub(super) rest: Vec<f64>,
}

/// A rise in jumps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stairs {
    /// Height of a jump.
    pub size: f64,
    /// Steps of the series from one jump to the next.
    pub period: f64,
    /// Number of jumps.
    pub count: u32,
}

/// Stairs, with the series of their corners, without the flat parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Corners {
    pub(super) stairs: Stairs,
    /// Place and value of each point right after a jump.
    pub(super) points: Vec<(f64, f64)>,
}

/// The curve that explains `points` much better than a line; `None` if none does.
pub(super) fn settling(points: &[f64]) -> Option<Settling> {
    let known = known(points);
    if known.len() < POINTS_MIN {
        return None;
    }
    let line = fit(&known, |_| 0.0)?;
    // A slower curve could not be told from a line.
    let slowest = points.len() as f64 / 3.0;
    let mut best: Option<(f64, Fit)> = None;
    let mut time_constant = FASTEST;
    while time_constant <= slowest {
        if let Some(found) = fit(&known, decay(time_constant))
            && best
                .as_ref()
                .is_none_or(|(_, best)| found.squares < best.squares)
        {
            best = Some((time_constant, found));
        }
        time_constant *= TIME_CONSTANT_RATIO;
    }
    let (time_constant, found) = best?;
    let explains = found.squares <= UNEXPLAINED_MAX * line.squares;
    let rises = found.curve < 0.0;
    if !explains || !rises {
        return None;
    }
    let left = decay(time_constant);
    let rest = points.iter().enumerate();
    let rest = rest.map(|(step, point)| point - found.curve * left(step as f64));
    Some(Settling {
        time_constant,
        level: level_of(&known, decay(time_constant))?,
        rest: rest.collect(),
    })
}

/// Share of a rise that is left after a number of steps.
fn decay(time_constant: f64) -> impl Fn(f64) -> f64 {
    move |step| (-step / time_constant).exp()
}

/// The stairs that make up most of a series' rise; `None` if there are none.
pub(super) fn stairs(points: &[f64]) -> Option<Corners> {
    let known = known(points);
    let rises: Vec<f64> = known.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let total = known.last()?.1 - known.first()?.1;
    let highest = rises.iter().copied().fold(0.0, f64::max);
    let noise = median(rises.iter().map(|rise| rise.abs()).collect())?;
    let threshold = (JUMP_NOISES * noise).max(highest / 4.0);
    let jumps: Vec<usize> = (0..rises.len())
        .filter(|index| rises[*index] > threshold)
        .collect();
    let count = u32::try_from(jumps.len()).ok()?;
    let jumped: f64 = jumps.iter().map(|index| rises[*index]).sum();
    let is_most = total > 0.0 && (JUMPED_MIN..=1.0 / JUMPED_MIN).contains(&(jumped / total));
    // More than one jump in four points is a line with noise.
    let are_apart = jumps.len() * 4 <= rises.len();
    if jumps.len() < JUMPS_MIN || !is_most || !are_apart {
        return None;
    }
    let corners: Vec<(f64, f64)> = jumps.iter().map(|index| known[index + 1]).collect();
    let (first, last) = (corners.first()?, corners.last()?);
    Some(Corners {
        stairs: Stairs {
            size: jumped / f64::from(count),
            period: (last.0 - first.0) / f64::from(count - 1),
            count,
        },
        points: corners,
    })
}

/// A line of least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) slope: f64,
    /// Standard error of the slope, by the residuals.
    pub(super) error: f64,
    pub(super) degrees: u32,
    /// Sum of squares of the places' distances from their mean.
    pub(super) spread: f64,
}

/// The line through places and values; `None` with fewer than three.
pub(super) fn line_through(points: &[(f64, f64)]) -> Option<Line> {
    let degrees = u32::try_from(points.len().checked_sub(2)?).ok()?;
    let count = points.len() as f64;
    let center = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (at, level) = (center(|point| point.0), center(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - at).powi(2)).sum();
    let slope = points
        .iter()
        .map(|(x, y)| (x - at) * (y - level))
        .sum::<f64>()
        / spread;
    let squares: f64 = points
        .iter()
        .map(|(x, y)| (y - level - slope * (x - at)).powi(2))
        .sum();
    let is_known = spread > 0.0 && degrees > 0;
    is_known.then(|| Line {
        slope,
        error: (squares / f64::from(degrees) / spread).sqrt(),
        degrees,
        spread,
    })
}

/// The constant beside a basis, by least squares.
fn level_of(known: &[(f64, f64)], basis: impl Fn(f64) -> f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = known.iter().map(|(t, y)| (basis(*t), *y)).collect();
    let slope = line_through(&points)?.slope;
    let count = points.len() as f64;
    let rest: f64 = points.iter().map(|(x, y)| y - slope * x).sum();
    Some(rest / count)
}

/// `constant + line · t + curve · basis(t)` by least squares.
struct Fit {
    curve: f64,
    /// Sum of squares of the residuals.
    squares: f64,
}

/// Fits the curve; a basis of zeros leaves it out.
fn fit(known: &[(f64, f64)], basis: impl Fn(f64) -> f64) -> Option<Fit> {
    let count = known.len() as f64;
    let scale = known.last()?.0.max(1.0);
    // Columns that are centered, and one after the other made orthogonal: no matrix to invert.
    let centered = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / count;
        let rest = values.iter().map(|value| value - mean);
        rest.collect::<Vec<f64>>()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let time = centered(known.iter().map(|(t, _)| t / scale).collect());
    let curve = centered(known.iter().map(|(t, _)| basis(*t)).collect());
    let values = centered(known.iter().map(|(_, y)| *y).collect());
    let time_square = dot(&time, &time);
    if time_square == 0.0 {
        return None;
    }
    let along = dot(&curve, &time) / time_square;
    let own: Vec<f64> = curve
        .iter()
        .zip(&time)
        .map(|(c, t)| c - along * t)
        .collect();
    let own_square = dot(&own, &own);
    let curve_slope = if own_square > 1e-12 {
        dot(&own, &values) / own_square
    } else {
        0.0
    };
    let time_slope = dot(&time, &values) / time_square - curve_slope * along;
    let left = values
        .iter()
        .zip(time.iter().zip(&curve))
        .map(|(y, (t, c))| (y - time_slope * t - curve_slope * c).powi(2));
    Some(Fit {
        curve: curve_slope,
        squares: left.sum(),
    })
}

/// A curve has four parameters to fit.
const POINTS_MIN: usize = 24;
/// Time constant in steps of the fastest curve that is tried, and the ratio of each to the next.
const FASTEST: f64 = 2.0;
const TIME_CONSTANT_RATIO: f64 = 1.05;
/// Share of a line's squares of residuals that a curve may leave.
const UNEXPLAINED_MAX: f64 = 0.4;
/// Size of a jump, as a multiple of the typical change from point to point.
const JUMP_NOISES: f64 = 6.0;
/// Share of the rise that jumps make up.
const JUMPED_MIN: f64 = 0.7;
/// Two jumps have one distance, which is no period.
const JUMPS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: u32, of: impl Fn(f64) -> f64) -> Vec<f64> {
        (0..points).map(|step| of(f64::from(step))).collect()
    }

    #[test]
    fn a_plateau_that_fills_is_told_with_where_it_ends() {
        for time_constant in [8.0, 25.0] {
            let filling = curve(100, |t| 50.0 - 30.0 * (-t / time_constant).exp());
            let found = settling(&filling).unwrap();
            assert!((found.level - 50.0).abs() < 1.0, "{found:?}");
            assert!((found.time_constant / time_constant - 1.0).abs() < 0.15);
            let span = found.rest.iter().copied().fold(f64::MIN, f64::max)
                - found.rest.iter().copied().fold(f64::MAX, f64::min);
            assert!(span < 2.0, "{span}");
        }
    }

    #[test]
    fn a_leak_behind_a_plateau_is_left() {
        let both = curve(100, |t| 50.0 - 30.0 * (-t / 10.0).exp() + 0.5 * t);
        let rest = settling(&both).unwrap().rest;
        assert!(
            (rest[99] - rest[0] - 49.5).abs() < 3.0,
            "{}",
            rest[99] - rest[0]
        );
    }

    #[test]
    fn a_line_and_what_speeds_up_are_no_plateau() {
        assert_eq!(settling(&curve(100, |t| 3.0 * t + (t * 7.0).sin())), None);
        assert_eq!(settling(&curve(100, |t| t * t)), None);
        assert_eq!(settling(&curve(100, |_| 7.0)), None);
        assert_eq!(settling(&curve(20, |t| 9.0 - (-t).exp())), None);
    }

    #[test]
    fn stairs_are_told_with_their_size_and_period() {
        let found = stairs(&curve(100, |t| 96.0 * (t / 15.0).floor() + (t * 5.0).sin())).unwrap();
        assert_eq!(found.stairs.count, 6);
        assert!((found.stairs.size - 96.0).abs() < 2.0, "{found:?}");
        assert!((found.stairs.period - 15.0).abs() < 0.01);
        let line = line_through(&found.points).unwrap();
        assert!((line.slope - 6.4).abs() < 0.1 && line.error < 0.1 && line.degrees == 4);
    }

    #[test]
    fn a_line_noise_and_a_single_step_are_no_stairs() {
        assert_eq!(stairs(&curve(100, |t| 5.0 * t)), None);
        assert_eq!(stairs(&curve(100, |t| 10.0 * (t * 5.0).sin())), None);
        assert_eq!(
            stairs(&curve(100, |t| if t < 50.0 { 0.0 } else { 90.0 })),
            None
        );
        assert_eq!(stairs(&[]), None);
    }
}
