//! The filter of rubato's asynchronous resampler: its length, and the position in the input of each frame of its
//! output.
//!
//! rubato rounds the delay to whole frames of its output. Here it is exact: frame `k` of the output is from the
//! input's frame `(k + 1)·t − N/2 + 1/F`, where `t` is the length of an output frame in input frames, `N` the
//! length of the filter and `F` its points a frame (rubato 5.1, `make_sincs` and `init_last_index`).

use rubato::{SincInterpolationParameters, WindowFunction};

/// Points of the filter for each of its frames: rubato's default.
const OVERSAMPLING: f64 = 128.0;

/// A filter of `len` frames of the input, a multiple of 8.
#[derive(Debug, Clone, Copy)]
pub struct Sinc {
    len: u32,
}

/// Fewest frames of a filter that converts rates: the longer, the wider its passband up to half the rate.
const CONVERT_LEN_MIN: u32 = 256;
/// Most frames of such a filter, for rates that are 32 times apart. Beyond that ratio the passband ends earlier.
const CONVERT_LEN_MAX: u32 = 2_048;
/// Frames of a filter for each frame of a lower rate. The passband is up to 0.9 of half that rate within 1 dB, and
/// attenuation is 60 dB from 1.13 times half that rate on: 3.6 and 4.5 kHz for telephony.
const CONVERT_LEN_A_FRAME: u32 = 64;

/// The filter that follows drift: both rates are the same, so it need not cut off near half of them.
pub const ALIGN: Sinc = Sinc { len: 128 };

impl Sinc {
    /// The filter that converts from one rate to another.
    #[must_use]
    pub fn converting(from_rate: u32, to_rate: u32) -> Self {
        let len = (from_rate * CONVERT_LEN_A_FRAME).div_ceil(to_rate);
        Self {
            len: len
                .clamp(CONVERT_LEN_MIN, CONVERT_LEN_MAX)
                .next_multiple_of(8),
        }
    }

    /// Parameters of rubato.
    #[must_use]
    pub fn parameters(self) -> SincInterpolationParameters {
        SincInterpolationParameters::new(self.len as usize, WindowFunction::BlackmanHarris2)
    }

    /// Position in the input of the output's first frame; most often negative.
    #[must_use]
    pub fn first_position(self, ratio: f64) -> f64 {
        1.0 / ratio - f64::from(self.len) / 2.0 + 1.0 / OVERSAMPLING
    }

    /// Number of output frames that are from before the input, and the position of the next one: within half an
    /// output frame of the input's first.
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
        for (from, to) in [
            (48_000, 48_000),
            (44_100, 48_000),
            (48_000, 24_000),
            (48_000, 16_000),
            (48_000, 8_000),
        ] {
            let ratio = f64::from(to) / f64::from(from);
            let (skipped, position) = Sinc::converting(from, to).lead(ratio);
            assert!(position.abs() <= 0.5 / ratio + 1e-9, "{ratio}: {position}");
            assert!(skipped > 0, "{ratio}");
        }
        assert_eq!(ALIGN.lead(1.0), (63, 1.0 / 128.0));
    }

    #[test]
    fn a_filter_is_as_long_as_the_lower_rate_needs() {
        let len = |from, to| Sinc::converting(from, to).len;
        assert_eq!([16_000, 24_000, 44_100].map(|to| len(48_000, to)), [256; 3]);
        assert_eq!(
            [44_100, 48_000, 96_000].map(|from| len(from, 8_000)),
            [360, 384, 768]
        );
        assert_eq!(len(384_000, 4_000), CONVERT_LEN_MAX);
    }
}
