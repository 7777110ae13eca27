//! Channels of a device mixed to those that were asked for.

use std::f32::consts::FRAC_1_SQRT_2;

use super::sample::{decode, encode};
use crate::format::Format;
use crate::frames::{Data, Frames, span};
use crate::limits::CHANNELS_MAX;

/// What each channel that goes out has of each that comes in.
#[derive(Debug, Clone)]
pub struct Matrix {
    from: Format,
    to: Format,
    /// By the channel that goes out, then by the one that comes in.
    gains: Vec<f32>,
    /// Each channel is itself.
    is_identity: bool,
}

/// FL FR FC LFE BL BR, the order of WAVE files and PulseAudio, to stereo: ITU-R BS.775-3 table 2,
/// without the LFE, scaled so that nothing clips.
const SURROUND: [[f32; 6]; 2] = {
    const FRONT: f32 = 1.0 / (1.0 + 2.0 * FRAC_1_SQRT_2);
    const SIDE: f32 = FRONT * FRAC_1_SQRT_2;
    [
        [FRONT, 0.0, SIDE, 0.0, SIDE, 0.0],
        [0.0, FRONT, SIDE, 0.0, 0.0, SIDE],
    ]
};

impl Matrix {
    /// The matrix for so many channels to so many.
    ///
    /// One channel goes to all, all go to one by their mean, six to two as BS.775 has it. Otherwise each
    /// goes to its own number; those beyond are left out, and channels that get none are silent.
    #[must_use]
    pub fn new(from: Format, to: Format) -> Self {
        let gain = |output: u32, input: u32| match (from.channels, to.channels) {
            (1, _) => 1.0,
            #[expect(clippy::cast_precision_loss, reason = "at most 32")]
            (inputs, 1) => 1.0 / inputs as f32,
            (6, 2) => SURROUND[output as usize][input as usize],
            _ => f32::from(u8::from(output == input)),
        };
        let gains = (0..to.channels)
            .flat_map(|output| (0..from.channels).map(move |input| gain(output, input)));
        Self {
            from,
            to,
            gains: gains.collect(),
            is_identity: from.channels == to.channels,
        }
    }

    /// The frames, mixed and encoded as they are written.
    #[must_use]
    pub fn mixed<'a>(&'a self, data: Data<'a>) -> Mixed<'a> {
        Mixed { matrix: self, data }
    }

    fn frame(&self, input: &[u8], output: &mut [u8]) {
        let mut samples = [0.0; CHANNELS_MAX as usize];
        let width = self.from.sample.bytes() as usize;
        for (sample, bytes) in samples.iter_mut().zip(input.chunks_exact(width)) {
            *sample = decode(self.from.sample, bytes);
        }
        let samples = &samples[..self.from.channels as usize];
        let width = self.to.sample.bytes() as usize;
        for (channel, bytes) in output.chunks_exact_mut(width).enumerate() {
            let value = if self.is_identity {
                samples[channel]
            } else {
                let gains = &self.gains[channel * samples.len()..][..samples.len()];
                gains
                    .iter()
                    .zip(samples)
                    .map(|(gain, sample)| gain * sample)
                    .sum()
            };
            encode(self.to.sample, value, bytes);
        }
    }
}

/// See [`Matrix::mixed`].
#[derive(Debug, Clone, Copy)]
pub struct Mixed<'a> {
    matrix: &'a Matrix,
    data: Data<'a>,
}

impl Frames for Mixed<'_> {
    fn count(&self) -> u64 {
        self.data.count(self.matrix.from)
    }

    fn write(&self, first: u64, target: &mut [u8]) {
        let Matrix { from, to, .. } = *self.matrix;
        let Data::Bytes(bytes) = self.data else {
            return target.fill(to.sample.silence());
        };
        let (width_in, width_out) = (from.frame_bytes() as usize, to.frame_bytes() as usize);
        let len = target.len() / width_out * width_in;
        let input = span(bytes, first, len, from).chunks_exact(width_in);
        for (input, output) in input.zip(target.chunks_exact_mut(width_out)) {
            self.matrix.frame(input, output);
        }
    }

    fn is_copied(&self) -> bool {
        matches!(self.data, Data::Bytes(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sample;

    fn floats(channels: u32) -> Format {
        Format {
            rate: 48_000,
            channels,
            sample: Sample::F32,
        }
    }

    fn mix(input: &[f32], to: u32) -> Vec<f32> {
        let channels = u32::try_from(input.len()).unwrap();
        let matrix = Matrix::new(floats(channels), floats(to));
        let bytes: Vec<u8> = input
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let mut output = vec![0; to as usize * 4];
        matrix.mixed(Data::Bytes(&bytes)).write(0, &mut output);
        let (samples, _) = output.as_chunks::<4>();
        samples
            .iter()
            .map(|&sample| f32::from_le_bytes(sample))
            .collect()
    }

    #[test]
    fn channels_are_mixed_by_their_number() {
        assert_eq!(mix(&[0.5], 2), [0.5, 0.5]);
        assert_eq!(mix(&[0.5, -0.25], 1), [0.125]);
        assert_eq!(mix(&[0.5, 0.25, 1.0], 2), [0.5, 0.25]);
        assert_eq!(mix(&[0.5, 0.25], 4), [0.5, 0.25, 0.0, 0.0]);
        let full = mix(&[1.0; 6], 2);
        assert!(
            (full[0] - 1.0).abs() < 1e-6 && full[0] == full[1],
            "{full:?}"
        );
        assert_eq!(mix(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 2), [0.0, 0.0]);
    }

    #[test]
    fn samples_are_encoded_on_the_way() {
        let from = Format {
            sample: Sample::S16,
            ..floats(2)
        };
        let to = Format {
            sample: Sample::Mulaw,
            ..floats(1)
        };
        let matrix = Matrix::new(from, to);
        let frames: Vec<u8> = [0_i16, 0, 1_000, 1_000, -1_000, -1_000]
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let mixed = matrix.mixed(Data::Bytes(&frames));
        let mut output = [0; 2];
        mixed.write(1, &mut output);
        assert_eq!((mixed.count(), output), (3, [0xce, 0x4e]));
        matrix.mixed(Data::Silence(2)).write(0, &mut output);
        assert_eq!(output, [0xff, 0xff]);
    }
}
