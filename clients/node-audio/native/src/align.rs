//! Two sources on one clock: the second is resampled as its clock drifts against the first's.
//!
//! Frames of the first go out as they are. The second's are put beside those that were captured at the
//! same time: at first, and after a gap, by leaving frames out or putting silence in; then by a resampler
//! whose ratio follows the ratio of both clocks, corrected by what is still missing. No thread or clock is
//! here: packets and their times go in, aligned frames come out.

use std::collections::VecDeque;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Adjustable, Async, FixedAsync, Resampler};

use crate::clock::device::DeviceClock;
use crate::convert::sinc;
use crate::error::{Error, Result};
use crate::limits::{ALIGN_JUMP_NS, ALIGN_RATIO_MAX, ALIGN_WAIT_NS, RESAMPLE_CHUNKS_A_SECOND};

/// How long an error takes to be corrected, in s: short enough to follow drift, long enough that no pitch
/// is heard to change.
const CORRECTION: f64 = 2.0;

/// Frames of one source, as floats.
#[derive(Debug)]
struct Track {
    channels: usize,
    clock: DeviceClock,
    /// Frames that came, those that were lost among them.
    received: u64,
    /// Frames that wait to go out.
    ready: VecDeque<f32>,
}

impl Track {
    fn new(rate: u32, channels: u32) -> Self {
        Self {
            channels: channels as usize,
            clock: DeviceClock::new(rate),
            received: 0,
            ready: VecDeque::new(),
        }
    }

    fn ready_frames(&self) -> usize {
        self.ready.len() / self.channels
    }

    fn fill(&mut self, frames: usize) {
        let samples = frames * self.channels;
        self.ready.extend(std::iter::repeat_n(0.0, samples));
    }
}

/// See the module.
pub struct Aligner {
    rate: u32,
    first: Track,
    second: Track,
    resampler: Async<f32>,
    /// Frames of the second that wait for a chunk to be full.
    pending: Vec<f32>,
    output: Vec<f32>,
    /// Where in the second's stream the next frame of the resampler is from.
    position: f64,
    /// Frames of the first that went out: the next one's number.
    gone: u64,
    /// Frames of the second that were missing.
    filled: u64,
    is_placed: bool,
}

/// Frames that belong together, the first captured at this time.
pub struct Aligned<'a> {
    /// Of the first source, interleaved.
    pub first: &'a [f32],
    /// Of the second, of as many frames.
    pub second: &'a [f32],
    /// When the first of them was captured, in ns.
    pub time_ns: u64,
}

impl Aligner {
    /// For two sources of this rate.
    ///
    /// # Errors
    /// [`Error::Format`]: rubato can't resample it.
    pub fn new(rate: u32, first_channels: u32, second_channels: u32) -> Result<Self> {
        let chunk = (rate / RESAMPLE_CHUNKS_A_SECOND).max(1) as usize;
        let resampler = Async::new_sinc(
            1.0,
            ALIGN_RATIO_MAX,
            &sinc::ALIGN.parameters(),
            chunk,
            second_channels as usize,
            FixedAsync::Input,
        )
        .map_err(|error| Error::Format(error.to_string()))?;
        let room = resampler.output_frames_max() * second_channels as usize;
        Ok(Self {
            rate,
            first: Track::new(rate, first_channels),
            second: Track::new(rate, second_channels),
            position: sinc::ALIGN.first_position(1.0),
            pending: Vec::with_capacity(chunk * second_channels as usize),
            output: vec![0.0; room],
            resampler,
            gone: 0,
            filled: 0,
            is_placed: false,
        })
    }

    /// Takes frames of the first source, captured at this time.
    pub fn push_first(&mut self, samples: &[f32], time_ns: u64) {
        self.first.clock.observe(self.first.received, time_ns);
        self.first.received += (samples.len() / self.first.channels) as u64;
        self.first.ready.extend(samples);
    }

    /// Takes note of frames of the first source that were lost: the next ones are later by that.
    pub fn lose_first(&mut self, frames: u64) {
        self.first.received += frames;
        self.gone += frames;
        self.first.clock.interrupt();
    }

    /// Takes frames of the second source, captured at this time.
    ///
    /// # Errors
    /// [`Error::Format`]: rubato refuses.
    pub fn push_second(&mut self, samples: &[f32], time_ns: u64) -> Result<()> {
        self.second.clock.observe(self.second.received, time_ns);
        self.second.received += (samples.len() / self.second.channels) as u64;
        let chunk = self.resampler.input_frames_next() * self.second.channels;
        let mut rest = samples;
        while !rest.is_empty() {
            let taken = rest.len().min(chunk - self.pending.len());
            self.pending.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if self.pending.len() == chunk {
                self.resample()?;
            }
        }
        Ok(())
    }

    /// Takes note of frames of the second source that were lost.
    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 frames")]
    pub fn lose_second(&mut self, frames: u64) {
        self.second.received += frames;
        self.second.clock.interrupt();
        // What is in the filter is of before the gap, a few ms; what follows is placed anew.
        self.position += frames as f64;
        self.is_placed = false;
    }

    fn resample(&mut self) -> Result<()> {
        self.steer()?;
        let channels = self.second.channels;
        let (frames_in, frames_out) = (self.pending.len() / channels, self.output.len() / channels);
        let ratio = self.resampler.resample_ratio();
        let input = InterleavedSlice::new(&self.pending[..], channels, frames_in);
        let output = InterleavedSlice::new_mut(&mut self.output[..], channels, frames_out);
        let (Ok(input), Ok(mut output)) = (input, output) else {
            return Ok(());
        };
        let made = self
            .resampler
            .process_into_buffer(&input, &mut output, None)
            .map_err(|error| Error::Format(error.to_string()))?;
        self.pending.clear();
        #[expect(clippy::cast_precision_loss, reason = "some hundred frames")]
        self.place(made.1, made.1 as f64 / ratio);
        Ok(())
    }

    /// Puts what was resampled, so many frames from so many of the second source, where it belongs.
    fn place(&mut self, frames: usize, of_frames: f64) {
        let mut start = 0;
        if let Some(error_ns) = self.error_ns() {
            let is_far = error_ns.abs() > ALIGN_JUMP_NS;
            if !self.is_placed || is_far {
                let late = self.frames_of(error_ns.abs());
                if error_ns > 0.0 {
                    // What is missing was never captured, or lost.
                    self.second.fill(late);
                    self.filled += late as u64;
                } else {
                    start = late.min(frames);
                }
                self.is_placed = error_ns > 0.0 || start < frames;
            }
        }
        let channels = self.second.channels;
        let samples = &self.output[start * channels..frames * channels];
        if self.is_placed {
            self.second.ready.extend(samples);
        }
        self.position += of_frames;
    }

    /// Follows the clocks: the resampler's ratio is the ratio of the frames' lengths, and what corrects
    /// the error within [`CORRECTION`].
    fn steer(&mut self) -> Result<()> {
        let Some(error_ns) = self.error_ns().filter(|_| self.is_placed) else {
            return Ok(());
        };
        let drift = self.second.clock.frame_ratio() / self.first.clock.frame_ratio();
        let ratio = drift * (1.0 + error_ns / 1e9 / CORRECTION);
        let ratio = ratio.clamp(1.0 / ALIGN_RATIO_MAX, ALIGN_RATIO_MAX);
        self.resampler
            .set_resample_ratio(ratio, false)
            .map_err(|error| Error::Format(error.to_string()))
    }

    /// By how much the next frame of the resampler was captured later than the frame of the first source
    /// that it would go out with. `None` while a clock is unknown.
    fn error_ns(&self) -> Option<f64> {
        let number = self.gone + self.second.ready_frames() as u64;
        let first = self.first.clock.exact_time_of_frame(number)?;
        Some(self.second.clock.exact_time_of(self.position)? - first)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    fn frames_of(&self, ns: f64) -> usize {
        (ns * f64::from(self.rate) / 1e9).round() as usize
    }

    /// Gives the frames that have both sources, as far as they are there. A second source that has been
    /// silent for too long is filled with silence.
    ///
    /// # Errors
    /// Those of `deliver`.
    pub fn pull(&mut self, mut deliver: impl FnMut(Aligned<'_>) -> Result<()>) -> Result<()> {
        let waiting = self.first.ready_frames();
        let late = waiting.saturating_sub(self.frames_of(ALIGN_WAIT_NS));
        let missing = late.saturating_sub(self.second.ready_frames());
        if missing > 0 {
            self.second.fill(missing);
            self.filled += missing as u64;
        }
        let frames = waiting.min(self.second.ready_frames());
        if frames == 0 {
            return Ok(());
        }
        let time_ns = self.first.clock.time_of(self.gone).unwrap_or_default();
        let (first, second) = (frames * self.first.channels, frames * self.second.channels);
        deliver(Aligned {
            first: &self.first.ready.make_contiguous()[..first],
            second: &self.second.ready.make_contiguous()[..second],
            time_ns,
        })?;
        self.first.ready.drain(..first);
        self.second.ready.drain(..second);
        self.gone += frames as u64;
        Ok(())
    }

    /// Frames of the second that were missing since this was last asked.
    pub fn take_filled(&mut self) -> u64 {
        std::mem::take(&mut self.filled)
    }
}

#[cfg(test)]
mod tests;
