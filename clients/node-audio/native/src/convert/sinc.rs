//! The filter of rubato's asynchronous resampler: its length, and where in the input each frame of its
//! output is from.
//!
//! rubato tells the delay in whole frames of its output. Here it is exact: frame `k` of the output is from
//! the input's frame `(k + 1)·t − N/2 + 1/F`, where `t` is the length of an output frame in input frames, `N`
//! the length of the filter and `F` its points a frame (rubato 5.1, `make_sincs` and `init_last_index`).

use rubato::{SincInterpolationParameters, WindowFunction};

/// Points of the filter for each of its frames: rubato's default.
const OVERSAMPLING: f64 = 128.0;

/// A filter of so many frames of the input, a multiple of 8.
#[derive(Debug, Clone, Copy)]
pub struct Sinc {
    len: u32,
}

/// What converts rates: the longer, the closer to half the rate it passes what is there.
pub const CONVERT: Sinc = Sinc { len: 256 };
/// What follows drift, where nothing is near half the rate that must not be.
pub const ALIGN: Sinc = Sinc { len: 128 };

impl Sinc {
    /// As rubato takes it.
    #[must_use]
    pub fn parameters(self) -> SincInterpolationParameters {
        SincInterpolationParameters::new(self.len as usize, WindowFunction::BlackmanHarris2)
    }

    /// Which frame of the input the first frame of the output is from; most often one before the first.
    #[must_use]
    pub fn first_position(self, ratio: f64) -> f64 {
        1.0 / ratio - f64::from(self.len) / 2.0 + 1.0 / OVERSAMPLING
    }

    /// How many frames of the output are from before the input, and where the next one is from: within half
    /// a frame of the output from the input's first.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "not negative, and some thousand at most"
    )]
    pub fn lead(self, ratio: f64) -> (usize, f64) {
        let first = self.first_position(ratio);
        let skipped = (-first * ratio).round().max(0.0) as usize;
        (skipped, first + skipped as f64 / ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_ends_near_the_first_frame() {
        for ratio in [1.0, 48.0 / 44.1, 0.5, 1.0 / 3.0, 1.0 / 6.0] {
            let (skipped, position) = CONVERT.lead(ratio);
            assert!(position.abs() <= 0.5 / ratio + 1e-9, "{ratio}: {position}");
            assert!(skipped > 0, "{ratio}");
        }
        assert_eq!(ALIGN.lead(1.0), (63, 1.0 / 128.0));
    }
}
