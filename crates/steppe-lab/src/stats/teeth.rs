//! Saw-teeth: memory of a runtime that collects garbage, and the floor below them.
//!
//! Such memory rises at the rate of allocation until a collection, and falls at once. The rise says
//! nothing about memory that is kept; only the memory that is left after collections does. So growth is
//! judged through the troughs, the lower envelope of the series.
//!
//! A saw-tooth is claimed by a rule fixed beforehand: falls from one point to the next that are large
//! beside the range and beside the typical change, few rises of that size, and between falls a climb of
//! one slope that explains most of the residuals of a straight line. Teeth of less than some six points
//! are noise like any other, and teeth that are small beside the growth of the whole are not looked for.
//!
//! Leaves out the climb to a first collection: before any fall, it can't be told from a leak.

use super::{known, median};

/// Collections that were seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Teeth {
    /// Number of collections in the series that has the fewest.
    pub collections: u32,
    /// Steps from one collection to the next.
    pub period: f64,
}

/// The lower envelope of one series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Floor {
    pub(super) teeth: Teeth,
    /// Place and value of the point after each collection.
    pub(super) troughs: Vec<(f64, f64)>,
    /// Variance of a trough, as far as it is known without looking at troughs: memory allocated since
    /// the collection, which may have been at any moment of the step, and the noise around the climbs.
    pub(super) variance: f64,
    /// Degrees of freedom of that variance.
    pub(super) degrees: u32,
}

/// The floor of `points`, if they are a saw-tooth. A missing point is `NAN`.
pub(super) fn floor(points: &[f64]) -> Option<Floor> {
    let known = known(points);
    let changes: Vec<f64> = known.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let noise = median(changes.iter().map(|change| change.abs()).collect())?;
    let values = || known.iter().map(|(_, value)| *value);
    let range = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
    let least = (FALL_NOISES * noise).max(FALL_SHARE * range);
    let falls: Vec<usize> = (0..changes.len())
        .filter(|at| changes[*at] < -least)
        .collect();
    let rises = changes.iter().filter(|change| **change > least).count();
    if falls.is_empty() || rises * 4 > falls.len() {
        return None;
    }
    let climbs = Climbs::of(&known, &falls)?;
    let (_, by_line) = fit(std::iter::once(known.as_slice()));
    let size = falls.iter().map(|at| -changes[*at]).sum::<f64>() / falls.len() as f64;
    let longest = climbs.longest * climbs.slope;
    let climbs_back = longest >= size / 2.0;
    if !climbs_back || climbs.squares > UNEXPLAINED_MAX * by_line {
        return None;
    }
    let troughs = troughs(&known, &falls);
    let collections = u32::try_from(troughs.len()).ok()?;
    let period = match troughs.as_slice() {
        [first, .., last] => (last.0 - first.0) / f64::from(collections - 1),
        // One fall has no distance; take the time to climb back.
        _ => size / climbs.slope,
    };
    Some(Floor {
        teeth: Teeth {
            collections,
            period,
        },
        troughs,
        variance: climbs.slope.powi(2) / 12.0 + climbs.squares / f64::from(climbs.degrees),
        degrees: climbs.degrees,
    })
}

/// The climbs between falls, as lines of one slope.
struct Climbs {
    slope: f64,
    /// Sum of squares of the residuals.
    squares: f64,
    degrees: u32,
    /// Steps of the longest climb.
    longest: f64,
}

impl Climbs {
    /// `None`: the parts don't climb, or there are too few points to tell.
    fn of(known: &[(f64, f64)], falls: &[usize]) -> Option<Self> {
        let ends = falls.iter().map(|at| at + 1).chain([known.len()]);
        let mut start = 0;
        let parts: Vec<&[(f64, f64)]> = ends
            .map(|end| {
                let part = &known[start..end];
                start = end;
                part
            })
            .collect();
        let degrees = known.len().checked_sub(parts.len() + 1)?;
        let degrees = u32::try_from(degrees).ok().filter(|degrees| *degrees > 0)?;
        let (slope, squares) = fit(parts.iter().copied());
        let length = |part: &&[(f64, f64)]| match part {
            [first, .., last] => last.0 - first.0,
            _ => 0.0,
        };
        (slope > 0.0).then(|| Self {
            slope,
            squares,
            degrees,
            longest: parts.iter().map(length).fold(0.0, f64::max),
        })
    }
}

/// Lines through parts that have levels of their own and one slope, by least squares: the slope, and the
/// squares of the residuals.
fn fit<'a>(parts: impl Iterator<Item = &'a [(f64, f64)]>) -> (f64, f64) {
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for part in parts {
        let count = part.len() as f64;
        let at = part.iter().map(|(x, _)| x).sum::<f64>() / count;
        let level = part.iter().map(|(_, y)| y).sum::<f64>() / count;
        for (x, y) in part {
            xx += (x - at).powi(2);
            xy += (x - at) * (y - level);
            yy += (y - level).powi(2);
        }
    }
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let squares = (yy - slope * xy).max(0.0);
    (slope, squares)
}

/// The end of each fall. A fall that takes several steps ends once.
fn troughs(known: &[(f64, f64)], falls: &[usize]) -> Vec<(f64, f64)> {
    let mut troughs: Vec<(f64, f64)> = Vec::new();
    let mut end = 0;
    for at in falls {
        if *at < end {
            continue;
        }
        end = at + 1;
        while end + 1 < known.len() && known[end + 1].1 < known[end].1 {
            end += 1;
        }
        troughs.push(known[end]);
    }
    troughs
}

/// Size of a fall, as a multiple of the typical change from point to point.
const FALL_NOISES: f64 = 5.0;
/// Size of a fall, as a share of the range.
const FALL_SHARE: f64 = 1.0 / 3.0;
/// Share of a line's squares of residuals that climbs may leave.
const UNEXPLAINED_MAX: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    /// A series that rises by 3 a step for `period` steps, on a floor that rises by `leak` a step.
    fn teeth(points: u32, period: u32, leak: f64) -> Vec<f64> {
        let point = |step: u32| 100.0 + 3.0 * f64::from(step % period) + leak * f64::from(step);
        (0..points).map(point).collect()
    }

    #[test]
    fn collections_are_counted_and_their_floor_is_told() {
        let found = floor(&teeth(100, 12, 0.25)).unwrap();
        assert_eq!(found.teeth.collections, 8);
        assert_eq!(found.teeth.period, 12.0);
        let expected: Vec<(f64, f64)> = (1..9)
            .map(|n| f64::from(n * 12))
            .map(|t| (t, 100.0 + 0.25 * t))
            .collect();
        assert_eq!(found.troughs, expected);
    }

    #[test]
    fn one_collection_says_how_long_the_next_takes() {
        let found = floor(&teeth(70, 40, 0.0)).unwrap();
        assert_eq!(found.teeth.collections, 1);
        assert!((found.teeth.period - 39.0).abs() < 0.5, "{found:?}");
    }

    #[test]
    fn a_fall_of_two_steps_is_one_collection() {
        let mut points = teeth(100, 20, 0.0);
        for at in [20, 40, 60, 80] {
            points[at] = 130.0;
            points[at + 1] = 101.0;
        }
        let found = floor(&points).unwrap();
        assert_eq!(found.teeth.collections, 4);
        assert!(
            found.troughs.iter().all(|(_, value)| *value == 101.0),
            "{found:?}"
        );
    }

    #[test]
    fn gaps_keep_their_place() {
        let mut points = teeth(100, 12, 0.0);
        points[30] = f64::NAN;
        assert_eq!(floor(&points).unwrap().teeth.period, 12.0);
    }

    #[test]
    fn what_has_no_teeth_has_no_floor() {
        let of = |value: fn(f64) -> f64| {
            floor(&(0..100).map(|t| value(f64::from(t))).collect::<Vec<_>>())
        };
        assert_eq!(of(|_| 7.0), None);
        assert_eq!(of(|t| 3.0 * t), None);
        assert_eq!(of(|t| 10.0 * (t * 5.0).sin()), None);
        // One step down, and a square wave: nothing climbs.
        assert_eq!(of(|t| if t < 50.0 { 90.0 } else { 0.0 }), None);
        assert_eq!(of(|t| 50.0 * ((t / 10.0).floor() % 2.0)), None);
        // A leak that once gave back a little.
        assert_eq!(of(|t| if t < 50.0 { t } else { t - 15.0 }), None);
        assert_eq!(floor(&[]), None);
    }
}
