//! Synthetic device: a sine, silence, or a ramp whose samples encode their frame's number.
//!
//! Its clock is the monotonic one, with an offset in parts per million and a factor; or none, so that
//! packets come as fast as slots are free, for benchmarks.

use std::f64::consts::TAU;
use std::thread;
use std::time::Duration;

use crate::channel_map::{ChannelMap, StreamFormat};
use crate::clock;
use crate::error::{Error, Result};
use crate::format::{Format, Sample};
use crate::frames::Data;
use crate::limits::{CLOCK_PPM_MAX, SPEED_MAX};
use crate::packetizer::Time;
use crate::session::Session;
use crate::source::Source;

/// Signal of a synthetic device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wave {
    /// A sine of a whole number of Hz on every channel.
    Sine {
        /// Frequency in Hz.
        frequency: u32,
        /// Amplitude, 1 at full scale.
        amplitude: f32,
    },
    /// Zeros.
    Silence,
    /// A second of noise, a second of zeros, and so on: for tests of the gate.
    Speech,
    /// A ramp of the frame's number, see [`ramp`].
    Ramp,
}

/// Pace of the frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Frames come by the monotonic clock.
    Clock {
        /// Drift of the clock in parts per million: positive runs fast.
        ppm: f64,
        /// Speed, as a multiple of real time.
        speed: f64,
    },
    /// Frames come whenever a slot is free.
    Burst,
}

/// Settings of a synthetic device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Format of its frames.
    pub format: Format,
    /// Positions of its channels.
    pub map: ChannelMap,
    /// Signal of the device.
    pub wave: Wave,
    /// Pace of the frames.
    pub pace: Pace,
    /// Frames of a period, which are delivered at a time.
    pub period: u32,
    /// Number of frames after which the device ends.
    pub frames: Option<u64>,
}

/// A synthetic device; see the module.
#[derive(Debug)]
pub struct Synthetic {
    settings: Settings,
    wave: Generator,
    ticks: Ticks,
    /// Room for one period, for waves without a table.
    buffer: Vec<u8>,
    next: u64,
}

impl Synthetic {
    /// A device that has not begun.
    ///
    /// # Errors
    /// [`Error::Options`] for an invalid clock or period.
    pub fn new(settings: Settings) -> Result<Self> {
        if settings.period == 0 {
            return Err(Error::Options(
                "the period must have at least one frame".to_owned(),
            ));
        }
        let bytes = settings.period * settings.format.frame_bytes();
        Ok(Self {
            settings,
            wave: Generator::new(settings.wave, settings.format)?,
            ticks: Ticks::new(settings.format.rate, settings.pace)?,
            buffer: vec![0; bytes as usize],
            next: 0,
        })
    }

    /// Frames of the next period, fewer at the end. `None`: the device has ended.
    fn period(&mut self) -> Option<u32> {
        let left = (self.settings.frames).map_or(u64::MAX, |frames| frames - self.next);
        let frames =
            u32::try_from(left).map_or(self.settings.period, |left| left.min(self.settings.period));
        (frames > 0).then_some(frames)
    }

    fn deliver(&mut self, frames: u32, session: &mut Session) -> Result<()> {
        let bytes = (frames * self.settings.format.frame_bytes()) as usize;
        let time = Time::of_device(self.ticks.at(self.next));
        let data = self.wave.read(self.next, &mut self.buffer[..bytes]);
        session.push(Data::Bytes(data), time)?;
        self.next += u64::from(frames);
        Ok(())
    }

    /// Waits until the frames before this one have been captured.
    fn wait_for(&self, frame: u64, session: &Session) {
        match self.settings.pace {
            Pace::Clock { .. } => self.wait_until(self.ticks.at(frame), session),
            Pace::Burst => {
                while session.is_full() && !session.is_stopped() {
                    thread::yield_now();
                }
            }
        }
    }

    fn wait_until(&self, due_ns: u64, session: &Session) {
        while !session.is_stopped() {
            let left = due_ns.saturating_sub(clock::now_ns());
            if left == 0 {
                return;
            }
            thread::park_timeout(Duration::from_nanos(left));
        }
    }
}

impl Source for Synthetic {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        let this_thread = thread::current();
        let control = session.control().clone();
        control.set_waker(Some(Box::new(move || this_thread.unpark())));
        let Settings { format, map, .. } = self.settings;
        session.begin("synthetic", StreamFormat { format, map })?;
        self.ticks.start_ns = clock::now_ns();
        while let Some(frames) = self.period() {
            self.wait_for(self.next + u64::from(frames), session);
            if session.is_stopped() {
                break;
            }
            self.deliver(frames, session)?;
        }
        Ok(())
    }
}

/// Capture times of frames.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    start_ns: u64,
    /// Length of a frame, by the monotonic clock.
    frame_ns: f64,
}

impl Ticks {
    fn new(rate: u32, pace: Pace) -> Result<Self> {
        let factor = match pace {
            Pace::Clock { ppm, speed } => {
                if ppm.is_nan() || ppm.abs() > CLOCK_PPM_MAX {
                    let message = format!(
                        "source.synthetic.driftPpm is {ppm}; expected at most ±{CLOCK_PPM_MAX}"
                    );
                    return Err(Error::Options(message));
                }
                if !(speed > 0.0 && speed <= SPEED_MAX) {
                    let message = format!(
                        "source.synthetic.speed is {speed}; expected above 0, at most {SPEED_MAX}"
                    );
                    return Err(Error::Options(message));
                }
                speed * (1.0 + ppm / 1e6)
            }
            Pace::Burst => 1.0,
        };
        Ok(Self {
            start_ns: 0,
            frame_ns: 1e9 / (f64::from(rate) * factor),
        })
    }

    /// Capture time of the frame of this number.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "exact to 2^53 frames, which is 5,900 years; never negative"
    )]
    fn at(&self, frame: u64) -> u64 {
        self.start_ns + (frame as f64 * self.frame_ns) as u64
    }
}

/// Generator of samples.
#[derive(Debug)]
enum Generator {
    /// A table of frames that repeats.
    Table {
        bytes: Vec<u8>,
        format: Format,
    },
    Silence(u8),
    Ramp(Format),
}

impl Generator {
    fn new(wave: Wave, format: Format) -> Result<Self> {
        match wave {
            Wave::Silence => Ok(Self::Silence(format.sample.silence())),
            Wave::Ramp if format.sample == Sample::Mulaw => {
                let message = "source.synthetic.signal 'probe' requires s16 or f32 samples";
                Err(Error::Options(message.to_owned()))
            }
            Wave::Ramp => Ok(Self::Ramp(format)),
            Wave::Speech => Ok(Self::looped(format, 2, noise(format.rate))),
            Wave::Sine {
                frequency,
                amplitude,
            } => Ok(Self::looped(format, 1, |frame| {
                let phase = TAU * f64::from(frequency) * f64::from(frame);
                (phase / f64::from(format.rate)).sin() * f64::from(amplitude)
            })),
        }
    }

    fn looped(format: Format, seconds: u32, mut value: impl FnMut(u32) -> f64) -> Self {
        let frames = 0..format.rate * seconds;
        let bytes = frames.flat_map(|frame| {
            let sample = encoded(value(frame), format.sample);
            sample.repeat(format.channels as usize)
        });
        Self::Table {
            bytes: bytes.collect(),
            format,
        }
    }

    /// Frames from number `first` on, as many as fit into the buffer: in the table, like those in a
    /// device's own memory, or else written to the buffer.
    fn read<'a>(&'a self, first: u64, buffer: &'a mut [u8]) -> &'a [u8] {
        match self {
            Self::Silence(byte) => buffer.fill(*byte),
            Self::Ramp(format) => write_ramp(first, *format, buffer),
            Self::Table { bytes, format } => {
                let at = offset_of(bytes, first, *format);
                if let Some(frames) = bytes.get(at..at + buffer.len()) {
                    return frames;
                }
                write_around(bytes, at, buffer);
            }
        }
        buffer
    }
}

/// Noise of a second, half of full scale at most, and zeros after it.
fn noise(rate: u32) -> impl FnMut(u32) -> f64 {
    // xorshift32, Marsaglia 2003: the same samples every time.
    let mut state = 0x9e37_79b9_u32;
    move |frame| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let value = f64::from(state) / f64::from(u32::MAX) - 0.5;
        if frame < rate { value } else { 0.0 }
    }
}

/// Offset in a table of the frame of this number.
fn offset_of(table: &[u8], first: u64, format: Format) -> usize {
    let frame_bytes = u64::from(format.frame_bytes());
    let frames = table.len() as u64 / frame_bytes;
    usize::try_from(first % frames * frame_bytes).unwrap_or(0)
}

/// Writes a table from byte `at` on, and from its start after its end.
fn write_around(table: &[u8], mut at: usize, target: &mut [u8]) {
    let mut rest = target;
    while !rest.is_empty() {
        let len = rest.len().min(table.len() - at);
        let (now, later) = rest.split_at_mut(len);
        now.copy_from_slice(&table[at..at + len]);
        rest = later;
        at = 0;
    }
}

fn write_ramp(first: u64, format: Format, target: &mut [u8]) {
    let frames = target.chunks_exact_mut(format.frame_bytes() as usize);
    for (number, frame) in (first..).zip(frames) {
        ramp(number, format, frame);
    }
}

/// The frame of this number of a ramp.
///
/// s16: the number's low 15 bits on the first channel, the next 15 on the second, and so on around.
/// f32: the number modulo 2^24, over 2^24, on each channel: exact. No frame but the first is silent.
pub fn ramp(number: u64, format: Format, frame: &mut [u8]) {
    match format.sample {
        Sample::S16 => {
            for (channel, sample) in frame.chunks_exact_mut(2).enumerate() {
                let bits = number >> (15 * (channel % 4)) & 0x7fff;
                let bits = u16::try_from(bits).unwrap_or(0);
                sample.copy_from_slice(&bits.to_le_bytes());
            }
        }
        Sample::F32 => {
            let low = u32::try_from(number & 0x00ff_ffff).unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
            let value = low as f32 / 16_777_216.0;
            for sample in frame.chunks_exact_mut(4) {
                sample.copy_from_slice(&value.to_le_bytes());
            }
        }
        Sample::Mulaw => frame.fill(Sample::Mulaw.silence()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounded, and saturating as `as` is"
)]
fn encoded(value: f64, sample: Sample) -> Vec<u8> {
    let s16 = (value * 32_767.0).round() as i16;
    match sample {
        Sample::S16 => s16.to_le_bytes().into(),
        Sample::F32 => (value as f32).to_le_bytes().into(),
        Sample::Mulaw => vec![crate::convert::mulaw::encode(s16)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        rate: 48_000,
        channels: 2,
        sample: Sample::S16,
    };

    #[test]
    fn a_ramp_tells_each_frame_apart() {
        let mut frame = [0; 4];
        ramp(0x1234_5678, FORMAT, &mut frame);
        let channel = |at: usize| u64::from(u16::from_le_bytes([frame[at], frame[at + 1]]));
        assert_eq!(channel(0) | channel(2) << 15, 0x1234_5678 & 0x3fff_ffff);
        let mono = Format {
            channels: 1,
            sample: Sample::F32,
            ..FORMAT
        };
        let mut sample = [0; 4];
        ramp(12_345_678, mono, &mut sample);
        assert_eq!(f32::from_le_bytes(sample) * 16_777_216.0, 12_345_678.0);
    }

    #[test]
    fn a_sine_goes_on_over_the_end_of_its_table() {
        let wave = Wave::Sine {
            frequency: 1_000,
            amplitude: 0.5,
        };
        let generator = Generator::new(wave, FORMAT).unwrap();
        let mut buffers = [[0; 48 * 4]; 2];
        let [one, other] = &mut buffers;
        let (first, target) = (generator.read(0, one), generator.read(47_976, other));
        // The table has a thousand periods: half a period before its end equals half a period after its
        // start.
        assert_eq!(target[24 * 4..], first[..24 * 4]);
        assert_eq!(i16::from_le_bytes([first[48], first[49]]), 16_384);
    }

    #[test]
    fn speech_is_a_second_of_noise_and_one_of_silence() {
        let generator = Generator::new(Wave::Speech, FORMAT).unwrap();
        let second = |first| {
            let mut buffer = vec![0; 48_000 * 4];
            crate::level::Level::of(generator.read(first, &mut buffer), Sample::S16)
        };
        assert!(second(0).rms > 0.25 && second(96_000) == second(0));
        assert_eq!(second(48_000).peak, 0.0);
    }

    #[test]
    fn a_clock_that_runs_fast_is_ahead() {
        let at = |ppm, speed| {
            let pace = Pace::Clock { ppm, speed };
            Ticks::new(48_000, pace).unwrap().at(480_000_000)
        };
        assert!(at(0.0, 1.0).abs_diff(10_000_000_000_000) < 10);
        assert!(at(100.0, 1.0).abs_diff(9_999_000_100_000) < 100_000);
        assert!(at(0.0, 100.0).abs_diff(100_000_000_000) < 10);
        for (ppm, speed) in [
            (f64::NAN, 1.0),
            (20_000.0, 1.0),
            (0.0, 0.0),
            (0.0, f64::INFINITY),
        ] {
            assert!(Ticks::new(48_000, Pace::Clock { ppm, speed }).is_err());
        }
    }
}
