//! How loud a packet is.

use crate::convert::mulaw;
use crate::format::Sample;

/// Peak and root mean square of samples, 1 at full scale.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Level {
    /// Largest magnitude.
    pub peak: f32,
    /// Root of the mean of the squares.
    pub rms: f32,
}

impl Level {
    /// The level of interleaved samples of any number of channels.
    #[must_use]
    pub fn of(data: &[u8], sample: Sample) -> Self {
        match sample {
            Sample::S16 => over(s16(data)),
            Sample::F32 => over(f32(data)),
            Sample::Mulaw => over(data.iter().map(|&code| mulaw::decode(code))),
        }
    }

    /// The root mean square in dB below full scale; `-inf` of silence.
    #[must_use]
    pub fn rms_dbfs(self) -> f32 {
        20.0 * self.rms.log10()
    }
}

fn s16(data: &[u8]) -> impl ExactSizeIterator<Item = f32> {
    let (samples, _) = data.as_chunks::<2>();
    (samples.iter()).map(|&bytes| f32::from(i16::from_le_bytes(bytes)) / 32_768.0)
}

fn f32(data: &[u8]) -> impl ExactSizeIterator<Item = f32> {
    let (samples, _) = data.as_chunks::<4>();
    samples.iter().map(|&bytes| f32::from_le_bytes(bytes))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a packet has less than 2^24 samples"
)]
fn over(samples: impl ExactSizeIterator<Item = f32>) -> Level {
    let count = samples.len().max(1) as f32;
    let (mut peak, mut squares) = (0.0_f32, 0.0_f32);
    for sample in samples {
        peak = peak.max(sample.abs());
        squares += sample * sample;
    }
    Level {
        peak,
        rms: (squares / count).sqrt(),
    }
}

/// Whether every sample is zero.
#[must_use]
pub fn is_silent(data: &[u8], sample: Sample) -> bool {
    match sample {
        Sample::S16 => data.iter().all(|&byte| byte == 0),
        // Both zeros of a float.
        Sample::F32 => f32(data).all(|sample| sample == 0.0),
        // Both zeros of µ-law.
        Sample::Mulaw => data.iter().all(|&code| code | 0x80 == 0xff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_a_square_wave_are_its_amplitude() {
        let s16: Vec<u8> = [16_384_i16, -16_384]
            .repeat(240)
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let level = Level::of(&s16, Sample::S16);
        assert_eq!((level.peak, level.rms), (0.5, 0.5));
        assert!((level.rms_dbfs() + 6.02).abs() < 0.01);
        let f32: Vec<u8> = [0.25_f32, -0.25]
            .repeat(240)
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        assert_eq!(Level::of(&f32, Sample::F32).rms, 0.25);
        assert_eq!(Level::of(&[], Sample::F32), Level::default());
    }

    #[test]
    fn silence_is_zero_in_every_format() {
        assert!(is_silent(&[0; 8], Sample::S16));
        assert!(!is_silent(&[0, 0, 0, 1], Sample::S16));
        assert!(is_silent(&(-0.0_f32).to_le_bytes(), Sample::F32));
        assert!(is_silent(&[0xff, 0x7f], Sample::Mulaw) && !is_silent(&[0xfe], Sample::Mulaw));
    }
}
