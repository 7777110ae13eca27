//! Resampling by rubato's windowed sinc, without the filter's delay.
//!
//! The first frame that goes out is the first that came in: frames that the filter puts before it are dropped,
//! and those still in the filter at the end are flushed with zeros. So times stay true; the delay that remains
//! is that a frame goes out later, see [`Resampler::delay_frames`].

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Async, FixedAsync, Indexing, Resampler as _};

use super::in_floats;
use super::mix::Matrix;
use super::sample::encode;
use super::sinc::Sinc;
use crate::channel_map::StreamFormat;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::frames::{Data, Frames};
use crate::limits::{CLOCK_PPM_MAX, RESAMPLE_CHUNKS_A_SECOND};
use crate::packetizer::Time;

/// Resamples and mixes a stream; see the module.
pub struct Resampler {
    from: Format,
    to: Format,
    sinc: Sinc,
    inner: Async<f32>,
    matrix: Matrix,
    /// Room for one chunk, interleaved; its first `filled` frames are there.
    input: Vec<f32>,
    filled: usize,
    output: Vec<f32>,
    /// Frames of the filter's delay that were not dropped yet.
    delay_left: usize,
    /// Position in the input of the first frame that goes out: within half a frame of its first.
    offset: f64,
    /// Frames in and out since the start or the last flush.
    frames_in: u64,
    frames_out: u64,
    /// A frame that came in, and its time.
    anchor: (u64, Time),
    /// Frames that were decoded or resampled.
    copied: u64,
    scratch: Vec<u8>,
}

/// Resampled frames, encoded when they are written.
#[derive(Debug, Clone, Copy)]
pub struct Resampled<'a> {
    samples: &'a [f32],
    format: Format,
}

impl Frames for Resampled<'_> {
    fn count(&self) -> u64 {
        self.samples.len() as u64 / u64::from(self.format.channels)
    }

    fn write(&self, first: u64, target: &mut [u8]) {
        let start = usize::try_from(first).unwrap_or(usize::MAX) * self.format.channels as usize;
        let width = self.format.sample.bytes() as usize;
        let samples = &self.samples[start..];
        for (bytes, &sample) in target.chunks_exact_mut(width).zip(samples) {
            encode(self.format.sample, sample, bytes);
        }
    }
}

impl Resampler {
    /// A resampler from one format to another.
    ///
    /// # Errors
    /// [`Error::Format`]: rubato can't convert these rates.
    pub fn new(source: StreamFormat, target: StreamFormat) -> Result<Self> {
        let (from, to) = (source.format, target.format);
        let refused = |reason: String| Error::Format(format!("{from} to {to}: {reason}"));
        let ratio = f64::from(to.rate) / f64::from(from.rate);
        let channels = to.channels as usize;
        let chunk = (from.rate / RESAMPLE_CHUNKS_A_SECOND).max(1) as usize;
        let sinc = Sinc::converting(from.rate, to.rate);
        let inner = Async::new_sinc(
            ratio,
            1.0 + CLOCK_PPM_MAX / 1e6,
            &sinc.parameters(),
            chunk,
            channels,
            FixedAsync::Input,
        )
        .map_err(|error| refused(error.to_string()))?;
        let mut mixed = in_floats(to);
        mixed.rate = from.rate;
        let mixed = StreamFormat {
            format: mixed,
            ..target
        };
        Ok(Self {
            from,
            to,
            matrix: Matrix::new(source, mixed),
            input: vec![0.0; chunk * channels],
            filled: 0,
            output: vec![0.0; inner.output_frames_max() * channels],
            delay_left: sinc.lead(ratio).0,
            offset: sinc.lead(ratio).1,
            sinc,
            inner,
            frames_in: 0,
            frames_out: 0,
            anchor: (0, Time::of_device(0)),
            copied: 0,
            scratch: vec![0; chunk * channels * 4],
        })
    }

    /// Delay of sound from input to output, in frames of packets: the filter's delay, and up to one chunk that
    /// has to be full.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "some thousand at most")]
    pub fn delay_frames(&self) -> f64 {
        let chunk = self.input.len() / self.to.channels as usize;
        self.inner.output_delay() as f64 + chunk as f64 * self.nominal_ratio()
    }

    fn nominal_ratio(&self) -> f64 {
        f64::from(self.to.rate) / f64::from(self.from.rate)
    }

    /// Copied frames since the last call.
    pub fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }

    /// Resamples frames, and gives the result to `deliver`, with the time of its first frame.
    ///
    /// # Errors
    /// Those of `deliver`.
    pub fn push(
        &mut self,
        data: Data<'_>,
        time: Time,
        mut deliver: impl FnMut(Resampled<'_>, Time) -> Result<()>,
    ) -> Result<()> {
        self.anchor = (self.frames_in, time);
        let count = data.count(self.from);
        let mut done = 0;
        while done < count {
            done += self.take(data, done, count - done);
            if self.filled == self.chunk() {
                self.process(None, &mut deliver)?;
            }
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        self.input.len() / self.to.channels as usize
    }

    /// Decodes and mixes frames into the chunk, and returns their number.
    fn take(&mut self, data: Data<'_>, first: u64, left: u64) -> u64 {
        let room = self.chunk() - self.filled;
        let frames = usize::try_from(left).map_or(room, |left| left.min(room));
        let channels = self.to.channels as usize;
        let bytes = &mut self.scratch[..frames * channels * 4];
        self.matrix.mixed(data).write(first, bytes);
        let (samples, _) = bytes.as_chunks::<4>();
        let target = &mut self.input[self.filled * channels..][..frames * channels];
        for (sample, &bytes) in target.iter_mut().zip(samples) {
            *sample = f32::from_le_bytes(bytes);
        }
        self.filled += frames;
        self.frames_in += frames as u64;
        frames as u64
    }

    fn process(
        &mut self,
        partial: Option<usize>,
        deliver: &mut impl FnMut(Resampled<'_>, Time) -> Result<()>,
    ) -> Result<()> {
        let channels = self.to.channels as usize;
        let (room_in, room_out) = (self.chunk(), self.output.len() / channels);
        let indexing = partial.map(|frames| Indexing::new().partial_len(frames));
        let input = InterleavedSlice::new(&self.input[..], channels, room_in);
        let output = InterleavedSlice::new_mut(&mut self.output[..], channels, room_out);
        let (Ok(input), Ok(mut output)) = (input, output) else {
            return Ok(());
        };
        let made = self
            .inner
            .process_into_buffer(&input, &mut output, indexing.as_ref())
            .map_err(|error| Error::Format(error.to_string()))?;
        self.filled = 0;
        // Each frame is copied twice: decoded and mixed, then resampled.
        self.copied += 2 * made.1 as u64;
        let skipped = self.delay_left.min(made.1);
        self.delay_left -= skipped;
        self.deliver_output(skipped, made.1, deliver)
    }

    fn deliver_output(
        &mut self,
        first: usize,
        end: usize,
        deliver: &mut impl FnMut(Resampled<'_>, Time) -> Result<()>,
    ) -> Result<()> {
        if first >= end {
            return Ok(());
        }
        let time = self.time_of(self.frames_out);
        self.frames_out += (end - first) as u64;
        let channels = self.to.channels as usize;
        let resampled = Resampled {
            samples: &self.output[first * channels..end * channels],
            format: self.to,
        };
        deliver(resampled, time)
    }

    /// Capture time of the output frame of this number.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "exact to 2^53 frames"
    )]
    fn time_of(&self, frame_out: u64) -> Time {
        let (frame_in, time) = self.anchor;
        let position = self.offset + frame_out as f64 / self.nominal_ratio();
        let ahead_ns = (position - frame_in as f64) * 1e9 / f64::from(self.from.rate);
        Time {
            ns: time.ns.saturating_add_signed(ahead_ns as i64),
            ..time
        }
    }

    /// Flushes the filter, and begins anew.
    ///
    /// # Errors
    /// Those of `deliver`.
    pub fn flush(
        &mut self,
        mut deliver: impl FnMut(Resampled<'_>, Time) -> Result<()>,
    ) -> Result<()> {
        let due = scaled(self.frames_in, self.from.rate, self.to.rate);
        let mut partial = self.filled;
        while self.frames_out < due {
            let left = usize::try_from(due - self.frames_out).unwrap_or(usize::MAX);
            let mut rest = left;
            self.process(Some(partial), &mut |frames: Resampled<'_>, time| {
                let kept = rest.min(usize::try_from(frames.count()).unwrap_or(0));
                rest -= kept;
                let channels = frames.format.channels as usize;
                let samples = &frames.samples[..kept * channels];
                deliver(Resampled { samples, ..frames }, time)
            })?;
            partial = 0;
        }
        self.inner.reset();
        self.delay_left = self.sinc.lead(self.nominal_ratio()).0;
        (self.filled, self.frames_in, self.frames_out) = (0, 0, 0);
        Ok(())
    }

    /// Frames of packets that a number of the device's frames makes.
    #[must_use]
    pub fn scaled(&self, frames: u64) -> u64 {
        scaled(frames, self.from.rate, self.to.rate)
    }
}

/// A number of frames at one rate, converted to the other; rounded to the nearest.
fn scaled(frames: u64, from: u32, to: u32) -> u64 {
    let (frames, from, to) = (u128::from(frames), u128::from(from), u128::from(to));
    u64::try_from((frames * to + from / 2) / from).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sample;
    use std::f64::consts::TAU;

    fn format(rate: u32, channels: u32, sample: Sample) -> Format {
        Format {
            rate,
            channels,
            sample,
        }
    }

    /// Frames of a sine, the same on each channel.
    fn sine(format: Format, hertz: f64, frames: u32) -> Vec<u8> {
        let frames = (0..frames).flat_map(|frame| {
            let phase = TAU * hertz * f64::from(frame) / f64::from(format.rate);
            let mut bytes = vec![0; format.sample.bytes() as usize];
            #[expect(clippy::cast_possible_truncation, reason = "a sample")]
            encode(format.sample, phase.sin() as f32 * 0.5, &mut bytes);
            bytes.repeat(format.channels as usize)
        });
        frames.collect()
    }

    /// Resamples in fragments of 441 frames, and returns the bytes and times of the output.
    fn resampled(from: Format, to: Format, data: &[u8]) -> (Vec<u8>, Vec<(u64, u64)>) {
        let mut resampler = Resampler::new(from.into(), to.into()).unwrap();
        let (mut bytes, mut times, mut count) = (Vec::new(), Vec::new(), 0_u64);
        let mut collect = |frames: Resampled<'_>, time: Time| {
            let frame_bytes = u64::from(to.frame_bytes());
            let mut target = vec![0; usize::try_from(frames.count() * frame_bytes).unwrap()];
            frames.write(0, &mut target);
            times.push((count, time.ns));
            count += frames.count();
            bytes.extend(target);
            Ok(())
        };
        let fragment = 441 * from.frame_bytes() as usize;
        let mut done = 0_u64;
        for data in data.chunks(fragment) {
            let time = Time::of_device(1_000_000_000 + from.duration_ns(done));
            resampler
                .push(Data::Bytes(data), time, &mut collect)
                .unwrap();
            done += Data::Bytes(data).count(from);
        }
        resampler.flush(&mut collect).unwrap();
        (bytes, times)
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "a second in ns")]
    fn a_sine_is_itself_at_the_other_rate_and_in_its_place() {
        for (from_rate, to_rate) in [
            (44_100, 48_000),
            (48_000, 16_000),
            (48_000, 24_000),
            (48_000, 8_000),
        ] {
            let from = format(from_rate, 2, Sample::F32);
            let to = format(to_rate, 1, Sample::F32);
            let (bytes, times) = resampled(from, to, &sine(from, 1_000.0, from_rate));
            assert_eq!(bytes.len(), to_rate as usize * 4, "a second is a second");
            let shift = times[0].1 as f64 - 1e9;
            assert!(
                shift.abs() <= 0.5e9 / f64::from(to_rate),
                "{shift} ns from its place"
            );
            // Without the ends, where the sine begins and stops abruptly.
            for at in 300..to_rate - 300 {
                let seconds = f64::from(at) / f64::from(to_rate) + shift / 1e9;
                let expected = 0.5 * (TAU * 1_000.0 * seconds).sin();
                let sample = decode_f32(&bytes[at as usize * 4..][..4]);
                let error = f64::from(sample) - expected;
                assert!(
                    error.abs() < 1e-3,
                    "{from_rate} to {to_rate}, frame {at}: {error}"
                );
            }
            for (frame, ns) in times {
                let due = (1_000_000_000 + to.duration_ns(frame)) as f64 + shift;
                assert!(
                    (ns as f64 - due).abs() < 2_000.0,
                    "{from_rate} to {to_rate}, frame {frame}: {ns} {due}"
                );
            }
        }
    }

    fn decode_f32(bytes: &[u8]) -> f32 {
        super::super::sample::decode(Sample::F32, bytes)
    }

    #[test]
    fn what_the_target_can_not_have_is_filtered_out() {
        let from = format(48_000, 1, Sample::S16);
        let to = format(8_000, 1, Sample::S16);
        let (bytes, _) = resampled(from, to, &sine(from, 7_000.0, 48_000));
        let level = crate::level::Level::of(&bytes[800..bytes.len() - 800], Sample::S16);
        assert!(level.rms_dbfs() < -80.0, "{} dB", level.rms_dbfs());
    }

    /// Level of a sine of this frequency that is left, in dB.
    #[expect(clippy::cast_precision_loss, reason = "a second of frames")]
    fn response(from: Format, to: Format, hertz: f64) -> f64 {
        let (bytes, _) = resampled(from, to, &sine(from, hertz, from.rate / 4));
        let samples: Vec<f64> = bytes
            .chunks_exact(4)
            .map(|bytes| f64::from(decode_f32(bytes)))
            .collect();
        // Without the ends, where the sine begins and stops abruptly.
        let samples = &samples[100..samples.len() - 100];
        let power = samples.iter().map(|sample| sample * sample).sum::<f64>();
        10.0 * (power / samples.len() as f64 / 0.125).log10()
    }

    #[test]
    fn telephony_passes_3_4_khz_within_1_db_and_60_db_less_from_4_6() {
        let to = format(8_000, 1, Sample::F32);
        for rate in [32_000, 44_100, 48_000, 96_000] {
            let from = format(rate, 1, Sample::F32);
            for hertz in (300..=3_400).step_by(100) {
                let db = response(from, to, f64::from(hertz));
                assert!(db.abs() <= 1.0, "{rate}, {hertz} Hz: {db} dB");
            }
            for hertz in (4_600..rate / 2).step_by(200) {
                let db = response(from, to, f64::from(hertz));
                assert!(db <= -60.0, "{rate}, {hertz} Hz: {db} dB");
            }
        }
    }

    /// Signal-to-noise ratio of a sine in dB: the rest after subtracting the best sine of this frequency.
    #[expect(clippy::cast_precision_loss, reason = "a second of frames")]
    fn snr(from: Format, to: Format, hertz: f64) -> f64 {
        let (bytes, _) = resampled(from, to, &sine(from, hertz, from.rate));
        let samples: Vec<f64> = bytes
            .chunks_exact(4)
            .map(|bytes| f64::from(decode_f32(bytes)))
            .collect();
        let samples = &samples[300..samples.len() - 300];
        let step = TAU * hertz / f64::from(to.rate);
        let (mut cc, mut cs, mut ss, mut yc, mut ys) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (index, &sample) in samples.iter().enumerate() {
            let (sin, cos) = (step * index as f64).sin_cos();
            (cc, cs, ss) = (cc + cos * cos, cs + cos * sin, ss + sin * sin);
            (yc, ys) = (yc + sample * cos, ys + sample * sin);
        }
        let determinant = cc * ss - cs * cs;
        let (a, b) = (
            (yc * ss - ys * cs) / determinant,
            (ys * cc - yc * cs) / determinant,
        );
        let (mut signal, mut noise) = (0.0, 0.0);
        for (index, &sample) in samples.iter().enumerate() {
            let (sin, cos) = (step * index as f64).sin_cos();
            let fitted = a * cos + b * sin;
            signal += fitted * fitted;
            noise += (sample - fitted) * (sample - fitted);
        }
        10.0 * (signal / noise).log10()
    }

    #[test]
    fn the_noise_of_presets_is_that_of_floats() {
        for (from_rate, to_rate) in [
            (48_000, 8_000),
            (48_000, 16_000),
            (48_000, 24_000),
            (44_100, 16_000),
            (44_100, 48_000),
        ] {
            let from = format(from_rate, 1, Sample::F32);
            let db = snr(from, format(to_rate, 1, Sample::F32), 997.0);
            assert!(db > 110.0, "{from_rate} to {to_rate}: {db} dB");
        }
    }

    #[test]
    fn its_delay_is_some_milliseconds() {
        let resampler = Resampler::new(
            format(48_000, 2, Sample::S16).into(),
            format(24_000, 1, Sample::S16).into(),
        );
        let ms = resampler.unwrap().delay_frames() / 24.0;
        assert!((2.0..10.0).contains(&ms), "{ms} ms");
    }
}
