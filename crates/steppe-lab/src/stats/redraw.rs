//! The standard error of one series' slope, from the series redrawn many times.
//!
//! Points of a series aren't independent: memory that is high stays high for a while. Redrawing
//! points one by one would take that away and find slopes far too sure, so blocks of neighbors are
//! redrawn (moving blocks; Künsch 1989). Blocks still cut memory at their ends, and a window has too
//! few long ones, so what the last point explains of the next is taken out first and put back after
//! (prewhitening; Davison & Hinkley 1997 §8.2.3). The error is used with the t quantile of as many
//! degrees of freedom as there are blocks, less two for the line: few blocks know little about
//! noise.
//!
//! Rule of the blocks, fixed by the count of points n alone: 2√n points, and at most a quarter of n.
//!
//! How often a 95 % interval misses the slope (simulated; 5 % is nominal): 3 to 6 % with white,
//! autocorrelated (up to 0.8) or heavy-tailed noise from 100 points on and with a sawtooth; 10 to 15 %
//! with noise that lasts for a fifth of the window or more (0.95), or with such noise under white
//! noise. Blocks without prewhitening miss 5 to 9 % and 13 to 25 %, at n^⅓ points a block 8 to 54 %.
//!
//! Invariant: a slope of anything added to the series, or its level, does not change the error.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::{deviation, median, theil_sen};
use crate::limits::{AUTOCORRELATION_MAX, BOOTSTRAP_POINTS_MAX, BOOTSTRAP_SERIES};

/// Standard error of the Theil–Sen slope of `points`, and its degrees of freedom.
///
/// `None`: fewer than five points. A straight line (memory that doesn't move) has an error of 0.
pub(super) fn standard_error(points: &[f64], random: &mut Pcg64) -> Option<(f64, u32)> {
    let group = points.len().div_ceil(BOOTSTRAP_POINTS_MAX).max(1);
    let folded: Vec<f64> = points.chunks(group).map(fold).collect();
    let noise = Noise::of(&folded)?;
    let mut redrawn = folded.clone();
    let mut slopes = Vec::with_capacity(BOOTSTRAP_SERIES);
    for _ in 0..BOOTSTRAP_SERIES {
        noise.redraw(&mut redrawn, random);
        slopes.push(theil_sen(&redrawn)?);
    }
    Some((deviation(&slopes)? / group as f64, noise.degrees()))
}

/// What is left of a series when its line is taken out.
struct Noise {
    residuals: Vec<f64>,
    /// What remains of a residual a step later, 0 to below 1.
    kept: f64,
    /// What each residual has beside what is kept of the last one.
    innovations: Vec<f64>,
    /// Innovations that are drawn together.
    block: usize,
}

impl Noise {
    fn of(points: &[f64]) -> Option<Self> {
        let slope = theil_sen(points)?;
        let is_present = |(_, point): &(usize, &f64)| point.is_finite();
        let mut residuals: Vec<f64> = points
            .iter()
            .enumerate()
            .filter(is_present)
            .map(|(step, point)| point - slope * step as f64)
            .collect();
        if residuals.len() < POINTS_MIN {
            return None;
        }
        center(&mut residuals);
        let kept = autocorrelation(&residuals);
        let pairs = residuals.iter().zip(&residuals[1..]);
        let mut innovations: Vec<f64> = pairs.map(|(last, next)| next - kept * last).collect();
        center(&mut innovations);
        let block = block_len(residuals.len());
        Some(Self {
            residuals,
            kept,
            innovations,
            block,
        })
    }

    /// Replaces every point that is there by noise of the same kind.
    fn redraw(&self, points: &mut [f64], random: &mut Pcg64) {
        let starts = self.innovations.len() - self.block + 1;
        let mut value = self.residuals[random.random_range(0..self.residuals.len())];
        let mut drawn: &[f64] = &[];
        for point in points.iter_mut().filter(|point| point.is_finite()) {
            if drawn.is_empty() {
                let start = random.random_range(0..starts);
                drawn = &self.innovations[start..start + self.block];
            }
            value = self.kept * value + drawn[0];
            drawn = &drawn[1..];
            *point = value;
        }
    }

    fn degrees(&self) -> u32 {
        let blocks = self.residuals.len() / self.block;
        u32::try_from(blocks.saturating_sub(2).max(1)).unwrap_or(u32::MAX)
    }
}

fn block_len(points: usize) -> usize {
    (4 * points).isqrt().min(points / 4).max(2)
}

/// How much of a residual is left a step later. The plain estimate is too low by (2 + 4ρ)/n where a
/// level and a slope were taken out; that is put back.
fn autocorrelation(residuals: &[f64]) -> f64 {
    let products = residuals.iter().zip(&residuals[1..]).map(|(a, b)| a * b);
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let count = residuals.len() as f64;
    let plain = products.sum::<f64>() / squares;
    ((count * plain + 2.0) / (count - 4.0)).clamp(0.0, AUTOCORRELATION_MAX)
}

fn center(values: &mut [f64]) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter_mut().for_each(|value| *value -= mean);
}

/// One point for a group of neighbors: the median of those that are there.
fn fold(group: &[f64]) -> f64 {
    if let [point] = group {
        return *point;
    }
    let present = group.iter().copied().filter(|point| point.is_finite());
    median(present.collect()).unwrap_or(f64::NAN)
}

/// An autocorrelation needs more points than its correction takes away.
const POINTS_MIN: usize = 5;
