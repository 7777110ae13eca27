//! Statistics of drift and of pairs: pure functions over numbers.
//!
//! The same numbers and the same seed give the same answer: nothing here reads a clock, a file or a
//! global. Every answer has its basis and its confidence; where numbers don't suffice there is no
//! answer (`None`), never a zero. `tests/simulation` checks the answers against series whose truth
//! is known.
//!
//! Leaves out the meaning of the numbers: units, leak or retention, sentences.

mod drift;
mod holm;
mod looks;
mod pairs;
mod redraw;
mod shape;
mod student;
mod teeth;
mod theil_sen;

pub use drift::{Drift, Hypothesis, Shape, auto_warmup, judge_drift, judge_memory};
pub use holm::{Alarm, holm};
pub use looks::Look;
pub use pairs::{Comparison, GateInput, detectable_ratio, judge_pairs, noise};
pub use shape::Stairs;
pub use teeth::Teeth;
pub use theil_sen::theil_sen;

/// Confidence of two-sided intervals.
pub const CONFIDENCE: f64 = 0.95;
/// Chance on either side of such an interval that a claim at the budget is false.
pub const ALPHA: f64 = (1.0 - CONFIDENCE) / 2.0;

/// Standard deviation of a sample; `None` with fewer than two values.
///
/// Values that are all the same have exactly 0: rounding of the mean would spoil that.
fn deviation(values: &[f64]) -> Option<f64> {
    let [first, _, ..] = values else {
        return None;
    };
    let count = values.len() as f64;
    let mean = values.iter().map(|value| value - first).sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - first - mean).powi(2))
        .sum();
    Some((squares / (count - 1.0)).sqrt())
}

/// The points that are not missing (`NAN`), each with its step.
fn known(points: &[f64]) -> Vec<(f64, f64)> {
    let all = points.iter().enumerate();
    all.filter(|(_, point)| point.is_finite())
        .map(|(step, point)| (step as f64, *point))
        .collect()
}

/// The median of some numbers; `None` without any.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[values.len() / 2]))
}
