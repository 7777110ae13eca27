//! Drift of garbage-collected memory: growth of the floor that collections leave.
//!
//! Invariant: fewer than four collections, seen or forced, support no claim about a saw-tooth.

use super::slopes::{Slope, Slopes, between, through_troughs};
use super::{Drift, Hypothesis, Shape, counted, drift, judge_drift, judge_line};
use crate::limits::COLLECTIONS_MIN;
use crate::record::{Method, Outcome};
use crate::stats::teeth::{self, Floor, Teeth};

/// Like [`judge_drift`], for memory that may be garbage-collected: a saw-tooth is judged through its
/// troughs ([`Shape::Teeth`]).
///
/// `forced` is the number of collections that were forced in each series, where the scenario asks for
/// them; a point is then the memory after one, so with four of them any series has no teeth. With
/// fewer seen and fewer forced, a saw-tooth is INCONCLUSIVE, and so is a STABLE line for which too few
/// were forced.
#[must_use]
pub fn judge_memory(
    series: &[Vec<f64>],
    forced: Option<u32>,
    hypothesis: impl Into<Hypothesis>,
    seed: u64,
) -> Option<Drift> {
    let hypothesis = hypothesis.into();
    let (method, counted) = counted(series);
    let floors: Vec<Option<Floor>> = counted.iter().map(|points| teeth::floor(points)).collect();
    let with_teeth: Vec<&Floor> = floors.iter().flatten().collect();
    let is_forced = forced.is_some_and(|forced| forced >= COLLECTIONS_MIN);
    if with_teeth.is_empty() || with_teeth.len() * 2 < counted.len() {
        let line = judge_drift(series, hypothesis, seed)?;
        let is_unproven = forced.is_some() && !is_forced && line.outcome == Outcome::Stable;
        return Some(Drift {
            outcome: if is_unproven {
                Outcome::Inconclusive
            } else {
                line.outcome
            },
            ..line
        });
    }
    let is_in_all = with_teeth.len() == counted.len();
    let fewest = with_teeth.iter().map(|floor| floor.teeth.collections).min();
    let teeth = Teeth {
        collections: fewest.filter(|_| is_in_all).unwrap_or(0),
        period: with_teeth
            .iter()
            .map(|floor| floor.teeth.period)
            .fold(0.0, f64::max),
    };
    if teeth.collections >= COLLECTIONS_MIN {
        return judge_floors(&with_teeth, (method, &counted), teeth, hypothesis);
    }
    if is_forced {
        return judge_drift(series, hypothesis, seed);
    }
    Some(Drift {
        outcome: Outcome::Inconclusive,
        over_budget_p: 1.0,
        significant: false,
        shape: Shape::Teeth(teeth),
        ..judge_line(series, hypothesis, seed)?
    })
}

/// Selects the troughs of a series that count.
type Part = fn(&[(f64, f64)]) -> &[(f64, f64)];

/// Growth of the floor.
///
/// UNBOUNDED requires of the last half of the troughs only that its slope is over the budget as well:
/// so few have no useful interval.
fn judge_floors(
    floors: &[&Floor],
    (method, counted): (Method, &[&[f64]]),
    teeth: Teeth,
    hypothesis: Hypothesis,
) -> Option<Drift> {
    let slopes = |part: Part| {
        let each: Option<Vec<Slope>> = floors
            .iter()
            .map(|floor| through_troughs(floor, part(&floor.troughs)))
            .collect();
        match method {
            Method::FreshProcesses => {
                between(&each?.iter().map(|it| it.estimate).collect::<Vec<_>>())
            }
            _ => each.map(Slopes),
        }
    };
    let whole = slopes(|troughs| troughs)?;
    let last_half = slopes(|troughs| &troughs[(troughs.len() / 2).min(troughs.len() - 3)..])?;
    let troughs: Vec<Vec<f64>> = floors
        .iter()
        .zip(counted)
        .map(|(floor, points)| {
            let mut only = vec![f64::NAN; points.len()];
            for (at, value) in &floor.troughs {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the place of a point"
                )]
                let at = *at as usize;
                only[at] = *value;
            }
            only
        })
        .collect();
    let troughs: Vec<&[f64]> = troughs.iter().map(Vec::as_slice).collect();
    let found = drift(&troughs, method, (whole, last_half), hypothesis)?;
    let outcome = match found.outcome {
        Outcome::Growing if found.last_half.estimate > hypothesis.budget => Outcome::Unbounded,
        other => other,
    };
    Some(Drift {
        outcome,
        significant: found.whole.lower > 0.0,
        shape: Shape::Teeth(teeth),
        ..found
    })
}
