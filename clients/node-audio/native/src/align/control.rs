//! The ratio of a resampler that keeps two clocks together: a control loop on the error of time.
//!
//! A proportional and integral controller of second order, as PipeWire and zita-ajbridge match rates: the
//! integral learns the drift between the clocks, the proportional part takes the error out. The loop is fast
//! at first and after a large error, and slow once it has settled: the slower, the less jitter of times
//! becomes jitter of the ratio.
//! **Invariant:** only the ratio moves, within a limit: no frame is left out, and none is put in.

use std::f64::consts::{SQRT_2, TAU};

use crate::limits::{ALIGN_HZ, ALIGN_HZ_FIRST, ALIGN_LARGE, ALIGN_RATIO_MAX, ALIGN_SETTLING};

/// The control loop; see the module.
#[derive(Debug)]
pub struct RateControl {
    /// Drift between the clocks, as a part of the rate.
    drift: f64,
    /// Time since the loop began, in s.
    elapsed: f64,
}

impl RateControl {
    /// A loop without a known drift.
    #[must_use]
    pub fn new() -> Self {
        Self {
            drift: 0.0,
            elapsed: 0.0,
        }
    }

    /// Begins anew, as after a gap; keeps the drift.
    pub fn restart(&mut self) {
        self.elapsed = 0.0;
    }

    /// The ratio for the next `seconds`, where the next frame is `error` s later than it should be: a ratio
    /// above 1 makes more frames of the input.
    pub fn ratio(&mut self, error: f64, seconds: f64) -> f64 {
        if error.abs() > ALIGN_LARGE {
            self.restart();
        }
        let hertz = if self.elapsed < ALIGN_SETTLING {
            ALIGN_HZ_FIRST
        } else {
            ALIGN_HZ
        };
        self.elapsed += seconds;
        let omega = TAU * hertz;
        let wanted = self.drift + SQRT_2 * omega * error;
        let ratio = (1.0 + wanted).clamp(1.0 / ALIGN_RATIO_MAX, ALIGN_RATIO_MAX);
        // An error that is corrected at the limit tells nothing about the drift.
        let is_limited = ratio != 1.0 + wanted;
        if !is_limited {
            self.drift += omega * omega * error * seconds;
        }
        ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error in s after this many seconds of clocks that are `ppm` apart, and the drift that was found.
    fn after(seconds: u32, mut error: f64, ppm: f64) -> (f64, f64) {
        let mut control = RateControl::new();
        for _ in 0..seconds * 100 {
            let ratio = control.ratio(error, 0.01);
            assert!((1.0 / ALIGN_RATIO_MAX..=ALIGN_RATIO_MAX).contains(&ratio));
            error += 0.01 * (ppm / 1e6 - (ratio - 1.0));
        }
        (error, control.drift * 1e6)
    }

    #[test]
    fn it_takes_errors_out_and_learns_the_drift() {
        for (error, ppm) in [(0.0, 200.0), (0.002, -200.0), (-0.04, 400.0)] {
            let (error, found) = after(120, error, ppm);
            assert!(error.abs() < 1e-6, "{ppm} ppm: {error} s");
            assert!((found - ppm).abs() < 1.0, "{ppm} ppm: found {found}");
        }
    }
}
