//! Level of a packet: peak and root mean square.
//!
//! Each packet is measured on its source's thread, so this is written for vectors: a row of samples at a
//! time, each lane with sums of its own, which depend on no other lane's. Sums of integers are exact; those
//! of floats have a relative error of at most 64 · 2⁻²⁴, four millionths, however long a packet is.

use crate::convert::mulaw;
use crate::format::Sample;

/// Samples of a row. Additions of floats take some cycles each: four vectors of four keep them busy.
const LANES: usize = 16;

/// Samples whose squares are summed as floats, 64 a lane; the sums of such blocks are summed as doubles.
const BLOCK: usize = 64 * LANES;

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
            Sample::S16 => of_integers(data.as_chunks().0, i16::from_le_bytes),
            Sample::F32 => of_floats(data.as_chunks().0),
            Sample::Mulaw => of_integers(data.as_chunks().0, |[code]: [u8; 1]| {
                mulaw::decode_s16(code)
            }),
        }
    }

    /// True if every sample is zero.
    #[must_use]
    pub fn is_silent(self) -> bool {
        // A NaN never becomes the peak; the mean is 1 then.
        self.peak == 0.0 && self.rms == 0.0
    }

    /// The root mean square in dB below full scale; `-inf` of silence.
    #[must_use]
    pub fn rms_dbfs(self) -> f32 {
        20.0 * self.rms.log10()
    }
}

fn of_floats(samples: &[[u8; 4]]) -> Level {
    let (mut peak, mut squares) = (0.0, 0.0);
    for block in samples.chunks(BLOCK) {
        let mut floats = Floats::default();
        let (rows, rest) = block.as_chunks::<LANES>();
        rows.iter().for_each(|row| floats.add(row));
        floats.add(&padded(rest));
        peak = louder(peak, floats.peak());
        squares += floats.squares();
    }
    Level {
        peak,
        rms: root_mean(squares, samples.len()),
    }
}

fn of_integers<const BYTES: usize>(
    samples: &[[u8; BYTES]],
    decode: impl Fn([u8; BYTES]) -> i16,
) -> Level {
    let mut integers = Integers::default();
    let (rows, rest) = samples.as_chunks::<LANES>();
    for row in rows {
        integers.add(row.iter().map(|&bytes| decode(bytes)));
    }
    integers.add(rest.iter().map(|&bytes| decode(bytes)));
    Level {
        peak: f32::from(integers.peak()) / 32_768.0,
        rms: root_mean(integers.squares(), samples.len()) / 32_768.0,
    }
}

/// A row of the last samples, filled with zeros, which change no level.
fn padded(rest: &[[u8; 4]]) -> [[u8; 4]; LANES] {
    let mut row = [[0; 4]; LANES];
    row[..rest.len()].copy_from_slice(rest);
    row
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a count below 2^53, and a level needs no more digits"
)]
fn root_mean(squares: f64, count: usize) -> f32 {
    (squares / count.max(1) as f64).sqrt() as f32
}

/// The greater of two magnitudes, by one instruction a vector; a NaN as `magnitude` is never greater.
fn louder(peak: f32, magnitude: f32) -> f32 {
    if magnitude > peak { magnitude } else { peak }
}

/// Peaks and sums of squares of floats, by lane.
#[derive(Default)]
struct Floats {
    peaks: [f32; LANES],
    squares: [f32; LANES],
}

impl Floats {
    fn add(&mut self, row: &[[u8; 4]; LANES]) {
        let lanes = self.peaks.iter_mut().zip(&mut self.squares);
        for ((peak, squares), &bytes) in lanes.zip(row) {
            let sample = f32::from_le_bytes(bytes);
            *peak = louder(*peak, sample.abs());
            *squares += sample * sample;
        }
    }

    fn peak(&self) -> f32 {
        self.peaks.into_iter().fold(0.0, louder)
    }

    fn squares(&self) -> f64 {
        self.squares.into_iter().map(f64::from).sum()
    }
}

/// Extremes and sums of squares of integers, by lane.
#[derive(Default)]
struct Integers {
    most: [i16; LANES],
    least: [i16; LANES],
    squares: [u64; LANES],
}

impl Integers {
    fn add(&mut self, row: impl Iterator<Item = i16>) {
        let lanes = self.most.iter_mut().zip(&mut self.least);
        for (((most, least), squares), sample) in lanes.zip(&mut self.squares).zip(row) {
            *most = sample.max(*most);
            *least = sample.min(*least);
            let wide = i32::from(sample);
            *squares += u64::from((wide * wide).cast_unsigned());
        }
    }

    fn peak(&self) -> u16 {
        let extremes = self.most.iter().chain(&self.least);
        let magnitudes = extremes.map(|extreme| extreme.unsigned_abs());
        magnitudes.max().unwrap_or(0)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "exact to 2^53, which is 8 million samples at full scale"
    )]
    fn squares(&self) -> f64 {
        self.squares.iter().sum::<u64>() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(
        samples: impl IntoIterator<Item = f32>,
        encode: fn(f32) -> [u8; N],
    ) -> Vec<u8> {
        samples.into_iter().flat_map(encode).collect()
    }

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
        let f32 = bytes([0.25, -0.25].repeat(240), f32::to_le_bytes);
        assert_eq!(Level::of(&f32, Sample::F32).rms, 0.25);
        assert_eq!(Level::of(&[], Sample::F32), Level::default());
        assert_eq!(Level::of(&[], Sample::S16), Level::default());
    }

    /// Distinct samples of alternating sign, within full scale.
    fn sample(index: u16) -> i16 {
        index.wrapping_mul(40_503).cast_signed()
    }

    /// The level by one sum after the other, in doubles.
    fn plain(samples: &[f32]) -> (f32, f64) {
        let peak = samples
            .iter()
            .fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
        let squares: f64 = samples
            .iter()
            .map(|&sample| f64::from(sample).powi(2))
            .sum();
        let count = u32::try_from(samples.len().max(1)).unwrap();
        (peak, (squares / f64::from(count)).sqrt())
    }

    #[test]
    fn a_level_of_any_length_is_that_of_one_sum_in_doubles() {
        for len in (0..=70).chain([960, 1_023, 1_025, 5_000]) {
            let integers: Vec<i16> = (1..=len).map(sample).collect();
            let s16: Vec<u8> = integers
                .iter()
                .flat_map(|sample| sample.to_le_bytes())
                .collect();
            let mulaw: Vec<u8> = integers
                .iter()
                .map(|&sample| mulaw::encode(sample))
                .collect();
            let decoded: Vec<f32> = mulaw.iter().map(|&code| mulaw::decode(code)).collect();
            let exact: Vec<f32> = integers
                .iter()
                .map(|&sample| f32::from(sample) / 32_768.0)
                .collect();
            let floats = bytes(exact.iter().copied(), f32::to_le_bytes);
            for (data, format, samples) in [
                (&s16, Sample::S16, &exact),
                (&mulaw, Sample::Mulaw, &decoded),
                (&floats, Sample::F32, &exact),
            ] {
                let (level, (peak, rms)) = (Level::of(data, format), plain(samples));
                assert_eq!(level.peak, peak, "{len} of {format:?}");
                let error = (f64::from(level.rms) - rms).abs();
                assert!(error <= rms * 2e-6, "{len} of {format:?}: {error}");
            }
        }
    }

    #[test]
    fn the_loudest_packet_there_is_has_full_scale() {
        let loudest = i16::MIN.to_le_bytes().repeat(1 << 17);
        let level = Level::of(&loudest, Sample::S16);
        assert_eq!((level.peak, level.rms), (1.0, 1.0));
        // A single sum of this many floats would stop growing.
        let quiet = 0.1_f32.to_le_bytes().repeat(1 << 21);
        let error = (Level::of(&quiet, Sample::F32).rms - 0.1).abs();
        assert!(error < 1e-6, "{error}");
    }

    #[test]
    fn silence_is_zero_in_every_format() {
        let is_silent = |data: &[u8], sample| Level::of(data, sample).is_silent();
        assert!(is_silent(&[0; 8], Sample::S16));
        assert!(!is_silent(&[0, 0, 0, 1], Sample::S16));
        assert!(is_silent(&(-0.0_f32).to_le_bytes(), Sample::F32));
        assert!(!is_silent(&f32::NAN.to_le_bytes(), Sample::F32));
        // A sample so faint that its square is zero.
        assert!(!is_silent(&1e-30_f32.to_le_bytes(), Sample::F32));
        assert!(is_silent(&[0xff, 0x7f], Sample::Mulaw) && !is_silent(&[0xfe], Sample::Mulaw));
    }
}
