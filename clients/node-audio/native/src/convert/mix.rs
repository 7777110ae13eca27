//! Mixes the channels of a device to those of packets, by their positions.
//!
//! Gains are those of ITU-R BS.775-4, annex 4, table 2: a channel that has no loudspeaker of its own goes to its
//! neighbors, the center and surrounds at −3 dB; the LFE is left out, as in BS.775. Positions that BS.775 does not
//! have (6.1, 7.1, heights) are folded in the same way, step by step.
//!
//! # Deviations
//! - All gains of a matrix are scaled by one factor where the sum of a row is above 1, so that full scale on all
//!   channels at once does not clip: stereo to mono is the mean.
//! - A mono device goes to left and right at 0 dB, not −3 dB: the samples are copied.
//! - Channels without a position (AUX) are mixed by number: see [`discrete`].

use std::f32::consts::FRAC_1_SQRT_2 as M3DB;

use super::sample::{decode, encode};
use crate::channel_map::{ChannelMap, Position, StreamFormat};
use crate::format::Format;
use crate::frames::{Data, Frames, span};
use crate::limits::CHANNELS_MAX;

/// Gain of each input channel for each output channel.
#[derive(Debug, Clone)]
pub struct Matrix {
    from: Format,
    to: Format,
    /// Gains by output channel, then by input channel.
    gains: Vec<f32>,
    /// True if each output channel is the input channel of its number.
    is_identity: bool,
}

/// Loudspeakers that stand in for a missing one, with gains.
type Fold = &'static [(Position, f32)];

/// Ways to fold a position, the best first: the first one whose loudspeakers all exist is taken.
fn folds(position: Position) -> &'static [Fold] {
    use Position::{
        FrontCenter as Fc, FrontLeft as Fl, FrontRight as Fr, Mono, RearCenter as Rc,
        RearLeft as Rl, RearRight as Rr, SideLeft as Sl, SideRight as Sr,
    };
    match position {
        Mono => &[&[(Fl, 1.0), (Fr, 1.0)], &[(Fc, 1.0)]],
        Fc => &[&[(Mono, 1.0)], &[(Fl, M3DB), (Fr, M3DB)]],
        Fl | Fr => &[&[(Fc, M3DB)], &[(Mono, M3DB)]],
        Position::FrontLeftOfCenter => &[
            &[(Fl, M3DB), (Fc, M3DB)],
            &[(Fl, 1.0)],
            &[(Fc, M3DB)],
            &[(Mono, M3DB)],
        ],
        Position::FrontRightOfCenter => &[
            &[(Fr, M3DB), (Fc, M3DB)],
            &[(Fr, 1.0)],
            &[(Fc, M3DB)],
            &[(Mono, M3DB)],
        ],
        Rl => &[
            &[(Sl, 1.0)],
            &[(Rc, M3DB)],
            &[(Fl, M3DB)],
            &[(Fc, 0.5)],
            &[(Mono, 0.5)],
        ],
        Rr => &[
            &[(Sr, 1.0)],
            &[(Rc, M3DB)],
            &[(Fr, M3DB)],
            &[(Fc, 0.5)],
            &[(Mono, 0.5)],
        ],
        Sl => &[
            &[(Rl, 1.0)],
            &[(Rc, M3DB)],
            &[(Fl, M3DB)],
            &[(Fc, 0.5)],
            &[(Mono, 0.5)],
        ],
        Sr => &[
            &[(Rr, 1.0)],
            &[(Rc, M3DB)],
            &[(Fr, M3DB)],
            &[(Fc, 0.5)],
            &[(Mono, 0.5)],
        ],
        Rc => &[
            &[(Rl, M3DB), (Rr, M3DB)],
            &[(Sl, M3DB), (Sr, M3DB)],
            &[(Fl, 0.5), (Fr, 0.5)],
            &[(Fc, M3DB)],
            &[(Mono, M3DB)],
        ],
        Position::TopCenter => &[&[(Fl, 0.5), (Fr, 0.5)], &[(Fc, M3DB)], &[(Mono, M3DB)]],
        Position::TopFrontLeft => &[&[(Fl, M3DB)], &[(Fc, 0.5)], &[(Mono, 0.5)]],
        Position::TopFrontRight => &[&[(Fr, M3DB)], &[(Fc, 0.5)], &[(Mono, 0.5)]],
        Position::TopFrontCenter => &[&[(Fc, M3DB)], &[(Fl, 0.5), (Fr, 0.5)], &[(Mono, M3DB)]],
        Position::TopRearLeft => &[
            &[(Rl, M3DB)],
            &[(Sl, M3DB)],
            &[(Rc, 0.5)],
            &[(Fl, 0.5)],
            &[(Mono, 0.5)],
        ],
        Position::TopRearRight => &[
            &[(Rr, M3DB)],
            &[(Sr, M3DB)],
            &[(Rc, 0.5)],
            &[(Fr, 0.5)],
            &[(Mono, 0.5)],
        ],
        Position::TopRearCenter => &[
            &[(Rc, M3DB)],
            &[(Rl, 0.5), (Rr, 0.5)],
            &[(Sl, 0.5), (Sr, 0.5)],
            &[(Fl, 0.5), (Fr, 0.5)],
            &[(Mono, 0.5)],
        ],
        Position::Lfe | Position::Aux(_) => &[],
    }
}

/// Gains by positions: by output channel, then by input channel.
fn positional(from: &[Position], to: &[Position]) -> Vec<f32> {
    let has = |position: &Position| to.contains(position);
    let way = |input: Position| -> Vec<(Position, f32)> {
        if has(&input) {
            return vec![(input, 1.0)];
        }
        let mut ways = folds(input).iter();
        let found = ways.find(|way| way.iter().all(|(position, _)| has(position)));
        found.map_or_else(Vec::new, |way| way.to_vec())
    };
    let ways: Vec<_> = from.iter().map(|&input| way(input)).collect();
    let gain = |output: Position, input: Position, way: &[(Position, f32)]| {
        let part = way.iter().find(|(position, _)| *position == output);
        let gain = part.map_or(0.0, |(_, gain)| *gain);
        // A surround that joins another one of its side does so at −3 dB.
        let joins = output != input && from.contains(&output);
        if joins { gain.min(M3DB) } else { gain }
    };
    let inputs = || from.iter().zip(&ways);
    let rows = to
        .iter()
        .flat_map(|&output| inputs().map(move |(&input, way)| gain(output, input, way)));
    rows.collect()
}

/// Gains by number, where either map has no position: one input goes to all outputs, all inputs go to a single
/// output by their mean; otherwise each goes to its own number. Inputs beyond are left out, and outputs beyond are
/// silent.
fn discrete(from: usize, to: usize) -> Vec<f32> {
    match (from, to) {
        (1, _) | (_, 1) => vec![1.0; from * to],
        _ => identity(from, to),
    }
}

/// Gains that map each channel to its own number.
fn identity(from: usize, to: usize) -> Vec<f32> {
    let gain = |output: usize, input: usize| f32::from(u8::from(output == input));
    let rows = (0..to).flat_map(|output| (0..from).map(move |input| gain(output, input)));
    rows.collect()
}

fn is_discrete(map: &ChannelMap) -> bool {
    let mut positions = map.positions().iter();
    positions.all(|position| matches!(position, Position::Aux(_)))
}

/// Scales gains by one factor so that no row is above 1.
fn scaled(mut gains: Vec<f32>, inputs: usize) -> Vec<f32> {
    let rows = gains.chunks_exact(inputs);
    let loudest = rows.map(|row| row.iter().sum()).fold(1.0, f32::max);
    if loudest > 1.0 {
        gains.iter_mut().for_each(|gain| *gain /= loudest);
    }
    gains
}

impl Matrix {
    /// The matrix from one map to another.
    #[must_use]
    pub fn new(from: StreamFormat, to: StreamFormat) -> Self {
        let (inputs, outputs) = (from.map.positions(), to.map.positions());
        let is_square = inputs.len() == outputs.len();
        let is_one = is_square && inputs.len() == 1;
        let gains = if is_one || is_discrete(&from.map) || is_discrete(&to.map) {
            discrete(inputs.len(), outputs.len())
        } else {
            positional(inputs, outputs)
        };
        Self {
            is_identity: is_square && gains == identity(inputs.len(), outputs.len()),
            gains: scaled(gains, inputs.len()),
            from: from.format,
            to: to.format,
        }
    }

    /// True if the channels stay as they are.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// Gains of an output channel, by input channel.
    #[must_use]
    pub fn row(&self, output: usize) -> &[f32] {
        let inputs = self.from.channels as usize;
        &self.gains[output * inputs..][..inputs]
    }

    /// The frames, mixed and encoded when they are written.
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
                self.row(channel)
                    .iter()
                    .zip(samples)
                    .map(|(gain, sample)| gain * sample)
                    .sum()
            };
            encode(self.to.sample, value, bytes);
        }
    }
}

/// Frames of [`Matrix::mixed`].
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

    /// Samples of one map, mixed to another.
    fn mixed(input: &[f32], from: ChannelMap, to: ChannelMap) -> Vec<f32> {
        let stream = |map: ChannelMap| StreamFormat {
            format: floats(u32::try_from(map.positions().len()).unwrap()),
            map,
        };
        let matrix = Matrix::new(stream(from), stream(to));
        let bytes: Vec<u8> = input
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        let mut output = vec![0; to.positions().len() * 4];
        matrix.mixed(Data::Bytes(&bytes)).write(0, &mut output);
        let (samples, _) = output.as_chunks::<4>();
        samples
            .iter()
            .map(|&sample| f32::from_le_bytes(sample))
            .collect()
    }

    fn map(names: &str) -> ChannelMap {
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        ChannelMap::parse(&names).unwrap()
    }

    /// Gains of each channel of a map into another map, in thousandths.
    #[expect(clippy::cast_possible_truncation, reason = "at most 1,000")]
    fn gains(from: ChannelMap, to: ChannelMap) -> Vec<Vec<i32>> {
        let count = from.positions().len();
        let alone = |channel| {
            let mut frame = vec![0.0; count];
            frame[channel] = 1.0;
            let output = mixed(&frame, from, to);
            let rounded = output.iter().map(|gain| (gain * 1_000.0).round() as i32);
            rounded.collect()
        };
        (0..count).map(alone).collect()
    }

    #[test]
    fn surround_is_folded_as_bs_775_has_it() {
        let standard = ChannelMap::standard;
        // Scaled by 1 / (1 + 2 × 0.7071) = 0.414: left, right, center, LFE, surrounds.
        let stereo = [[414, 0], [0, 414], [293, 293], [0, 0], [293, 0], [0, 293]];
        assert_eq!(gains(standard(6), standard(2)), stereo);
        // By 1 / (2 × 0.7071 + 1 + 2 × 0.5) = 0.293.
        let mono = [[207], [207], [293], [0], [146], [146]];
        assert_eq!(gains(standard(6), standard(1)), mono);
        // The same in the order that ALSA and PulseAudio have.
        let alsa = map("front-left front-right rear-left rear-right front-center lfe");
        let stereo = [[414, 0], [0, 414], [293, 0], [0, 293], [293, 293], [0, 0]];
        assert_eq!(gains(alsa, standard(2)), stereo);
        // 3/1: by 1 / (1 + 0.7071 + 0.5).
        let cinema = map("front-left front-right front-center rear-center");
        let stereo = [[453, 0], [0, 453], [320, 320], [227, 227]];
        assert_eq!(gains(cinema, standard(2)), stereo);
        // 2.1: nothing has to be scaled.
        let sub = map("front-left front-right lfe");
        let stereo = [[1_000, 0], [0, 1_000], [0, 0]];
        assert_eq!(gains(sub, standard(2)), stereo);
    }

    #[test]
    fn channels_go_to_the_loudspeakers_that_are_there() {
        let standard = ChannelMap::standard;
        let identity = |count: usize| {
            let row = |one: usize| (0..count).map(move |at| if at == one { 1_000 } else { 0 });
            (0..count)
                .map(|one| row(one).collect())
                .collect::<Vec<Vec<i32>>>()
        };
        for count in 1..=8 {
            assert_eq!(
                gains(standard(count), standard(count)),
                identity(count as usize)
            );
        }
        // A permutation is exact.
        let alsa = map("front-left front-right rear-left rear-right front-center lfe");
        let samples = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
        assert_eq!(
            mixed(&samples, alsa, standard(6)),
            [0.1, 0.2, 0.5, 0.6, 0.3, 0.4]
        );
        // The side of 5.1 is the rear of another 5.1.
        let side = map("front-left front-right front-center lfe side-left side-right");
        assert_eq!(gains(side, standard(6)), identity(6));
        // 7.1 to 5.1: the side joins the rear at −3 dB; all scaled by 1 / 1.7071.
        let narrow = gains(standard(8), standard(6));
        assert_eq!(narrow[4], [0, 0, 0, 0, 586, 0]);
        assert_eq!(narrow[6], [0, 0, 0, 0, 414, 0]);
        // Upmixed: an output channel without an input is silent.
        assert_eq!(mixed(&[0.5], standard(1), standard(2)), [0.5, 0.5]);
        assert_eq!(
            mixed(&[0.5], standard(1), standard(6)),
            [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(
            mixed(&[0.5, 0.25], standard(2), standard(4)),
            [0.5, 0.25, 0.0, 0.0]
        );
        assert_eq!(mixed(&[0.5, -0.25], standard(2), standard(1)), [0.125]);
        // One channel is one channel, whatever its place.
        assert_eq!(mixed(&[0.5], map("rear-left"), standard(1)), [0.5]);
    }

    #[test]
    fn channels_without_a_position_are_mixed_by_number() {
        let discrete = |count| ChannelMap::discrete(count);
        let standard = ChannelMap::standard;
        assert_eq!(
            mixed(&[0.5, 0.25, 1.0], discrete(3), standard(2)),
            [0.5, 0.25]
        );
        assert_eq!(
            mixed(&[0.5, 0.25, 0.75, 0.5], discrete(4), standard(1)),
            [0.5]
        );
        assert_eq!(mixed(&[0.5], standard(1), discrete(3)), [0.5, 0.5, 0.5]);
        let surround = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
        assert_eq!(mixed(&surround, standard(6), discrete(6)), surround);
        // An extra channel beside those with positions is left out.
        let extra = map("front-left front-right aux0");
        assert_eq!(mixed(&[0.5, 0.25, 1.0], extra, standard(2)), [0.5, 0.25]);
    }

    #[test]
    fn no_mix_is_louder_than_full_scale_and_nothing_known_is_lost() {
        let every: Vec<ChannelMap> = (1..=8).map(ChannelMap::standard).collect();
        for from in &every {
            for to in &every {
                let (inputs, outputs) = (from.positions(), to.positions());
                for sample in mixed(&vec![1.0; inputs.len()], *from, *to) {
                    assert!(sample <= 1.0 + 1e-6, "{from:?} to {to:?}: {sample}");
                }
                for (input, gains) in inputs.iter().zip(gains(*from, *to)) {
                    let is_left_out = gains.iter().all(|&gain| gain == 0);
                    let is_lfe = *input == Position::Lfe && !outputs.contains(input);
                    assert_eq!(is_left_out, is_lfe, "{input:?} of {from:?} to {to:?}");
                }
            }
        }
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
        let matrix = Matrix::new(from.into(), to.into());
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
