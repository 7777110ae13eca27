//! Two sources on one clock: the second is resampled as its clock drifts against the first's.
//!
//! Frames of the first go out as they are. The second's are put beside those that were captured at the
//! same time: at first, and after a gap or silence, by leaving frames out or putting silence in; then by a
//! resampler, whose ratio a [control loop](control) on the error of time moves by fractions of a frame. No
//! thread or clock is here: packets and their times, which their sources have filtered, go in, and aligned
//! frames come out.
//!
//! **Invariant:** nothing is allocated for a packet, nor does memory grow while a source stands still.

mod control;
mod track;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Adjustable, Async, FixedAsync, Resampler};

use crate::convert::sinc;
use crate::error::{Error, Result};
use crate::limits::{
    ALIGN_AHEAD_NS, ALIGN_JUMP_NS, ALIGN_RATIO_MAX, ALIGN_WAIT_NS, RESAMPLE_CHUNKS_A_SECOND,
};
use crate::packetizer::Time;
use control::RateControl;
use track::Track;

/// Aligns two sources; see the module.
pub struct Aligner {
    rate: u32,
    packet_frames: usize,
    /// Most frames of the second that wait for the first.
    ahead: usize,
    first: Track,
    second: Track,
    resampler: Async<f32>,
    control: RateControl,
    /// Frames of the second that wait for a chunk to be full.
    pending: Vec<f32>,
    output: Vec<f32>,
    /// Position in the second's stream of the next frame of the resampler.
    position: f64,
    /// Number of frames of the first that went out: the number of the next one.
    gone: u64,
    /// The part of `gone` up to the last frame whose second source has an estimated time.
    estimated: u64,
    /// Frames of the second that were missing.
    filled: u64,
    is_placed: bool,
}

/// Frames captured at the same time, at most a packet of them.
pub struct Aligned<'a> {
    /// Frames of the first source, interleaved.
    pub first: &'a [f32],
    /// Frames of the second source, as many, interleaved.
    pub second: &'a [f32],
    /// Capture time of the first source's first frame. Estimated if the time of either source is.
    pub time: Time,
}

impl Aligner {
    /// An aligner for two sources of this rate, with packets of at most `packet_frames` frames.
    ///
    /// # Errors
    /// [`Error::Format`]: rubato can't resample this rate.
    pub fn new(rate: u32, [first, second]: [u32; 2], packet_frames: u32) -> Result<Self> {
        let chunk = (rate / RESAMPLE_CHUNKS_A_SECOND).max(1) as usize;
        let resampler = Async::new_sinc(
            1.0,
            ALIGN_RATIO_MAX,
            &sinc::ALIGN.parameters(),
            chunk,
            second as usize,
            FixedAsync::Input,
        )
        .map_err(|error| Error::Format(error.to_string()))?;
        let packet_frames = packet_frames as usize;
        let waiting = frames_of(rate, ALIGN_WAIT_NS) + packet_frames;
        let ahead = frames_of(rate, ALIGN_AHEAD_NS) + packet_frames;
        let room = resampler.output_frames_max() * second as usize;
        Ok(Self {
            rate,
            packet_frames,
            ahead,
            first: Track::new(rate, first, waiting),
            second: Track::new(rate, second, ahead),
            position: sinc::ALIGN.first_position(1.0),
            pending: Vec::with_capacity(chunk * second as usize),
            output: vec![0.0; room],
            resampler,
            control: RateControl::new(),
            gone: 0,
            estimated: 0,
            filled: 0,
            is_placed: false,
        })
    }

    /// Takes a packet of the first source, captured at this time; [`pull`](Self::pull) has to follow.
    pub fn push_first(&mut self, samples: &[f32], time: Time) {
        self.first.receive(samples.len(), time);
        self.first.ready.extend(samples);
    }

    /// Makes waiting frames of the first source ready to go out, with silence for missing ones of the
    /// second.
    pub fn hurry(&mut self) {
        self.fill(self.first.ready_frames());
    }

    /// Takes note of lost frames of the first source, once the frames before them were
    /// [hurried](Self::hurry) and pulled: later frames move by that many, and frames of the second that
    /// were captured with the lost ones are left out.
    pub fn lose_first(&mut self, frames: u64) {
        self.first.received += frames;
        self.gone += frames;
        self.second.skip(frames);
        // More frames of that time are left out too, until the first has frames to place them beside.
        self.is_placed &= self.second.ready_frames() > 0;
    }

    /// Takes a packet of the second source, captured at this time.
    ///
    /// # Errors
    /// [`Error::Format`]: rubato fails.
    pub fn push_second(&mut self, samples: &[f32], time: Time) -> Result<()> {
        self.second.receive(samples.len(), time);
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

    /// Takes note of lost frames of the second source.
    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 frames")]
    pub fn lose_second(&mut self, frames: u64) {
        self.second.received += frames;
        // The filter still holds frames from before the gap, a few ms; the next ones are placed anew.
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

    /// Appends resampled frames, made of `of_frames` of the second source, at the place of their time.
    fn place(&mut self, frames: usize, of_frames: f64) {
        let mut start = 0;
        if let Some(error_ns) = self.error_ns() {
            let is_far = error_ns.abs() > ALIGN_JUMP_NS;
            if !self.is_placed || is_far {
                let late = frames_of(self.rate, error_ns.abs());
                if error_ns > 0.0 {
                    // The missing frames were never captured, or lost.
                    let missing = late.min(self.second.room(self.ahead));
                    self.second.fill(missing);
                    self.filled += missing as u64;
                } else {
                    start = late.min(frames);
                }
                self.is_placed = error_ns > 0.0 || start < frames;
                self.control.restart();
            }
        }
        // Frames too far ahead are left out, and the next ones placed anew.
        self.is_placed &= frames - start <= self.second.room(self.ahead);
        if self.is_placed {
            let channels = self.second.channels;
            let samples = &self.output[start * channels..frames * channels];
            self.second.ready.extend(samples);
            self.note_estimated();
        }
        self.position += of_frames;
    }

    /// Takes note of the last frame to go out whose second source has an estimated time.
    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 frames")]
    fn note_estimated(&mut self) {
        if self.position < self.second.estimated as f64 {
            self.estimated = self.gone + self.second.ready_frames() as u64;
        }
    }

    /// Sets the resampler's ratio by the error of the next frame.
    #[expect(clippy::cast_precision_loss, reason = "a chunk")]
    fn steer(&mut self) -> Result<()> {
        let Some(error_ns) = self.error_ns().filter(|_| self.is_placed) else {
            return Ok(());
        };
        let frames = self.pending.len() / self.second.channels;
        let seconds = frames as f64 / f64::from(self.rate);
        let ratio = self.control.ratio(error_ns / 1e9, seconds);
        self.resampler
            .set_resample_ratio(ratio, false)
            .map_err(|error| Error::Format(error.to_string()))
    }

    /// Capture time of the next frame of the resampler, less that of the first source's frame that it
    /// would go out with. `None` before both sources have a time.
    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 frames")]
    fn error_ns(&self) -> Option<f64> {
        let number = self.gone + self.second.ready_frames() as u64;
        let first = self.first.time_of(number as f64)?;
        Some(self.second.time_of(self.position)? - first)
    }

    /// Delivers the frames that both sources have. A second source that has been silent for too long is
    /// filled with silence.
    ///
    /// # Errors
    /// Those of `deliver`.
    pub fn pull(&mut self, mut deliver: impl FnMut(Aligned<'_>) -> Result<()>) -> Result<()> {
        let waiting = self.first.ready_frames();
        self.fill(waiting.saturating_sub(frames_of(self.rate, ALIGN_WAIT_NS)));
        loop {
            let ready = self.first.ready_frames().min(self.second.ready_frames());
            let frames = ready.min(self.packet_frames);
            if frames == 0 {
                return Ok(());
            }
            let time = self.time();
            let (first, second) = (frames * self.first.channels, frames * self.second.channels);
            deliver(Aligned {
                first: &self.first.ready.make_contiguous()[..first],
                second: &self.second.ready.make_contiguous()[..second],
                time,
            })?;
            self.first.ready.drain(..first);
            self.second.ready.drain(..second);
            self.gone += frames as u64;
            self.first.forget_before(self.gone);
        }
    }

    /// Fills the second source with silence up to `frames` waiting frames; its next frames are placed
    /// anew.
    fn fill(&mut self, frames: usize) {
        let missing = frames.saturating_sub(self.second.ready_frames());
        self.second.fill(missing);
        self.filled += missing as u64;
        self.is_placed &= missing == 0;
    }

    /// Capture time of the next frame that goes out.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "exact to 2^53 frames or ns, and saturating"
    )]
    fn time(&self) -> Time {
        Time {
            ns: self.first.time_of(self.gone as f64).unwrap_or_default() as u64,
            is_estimated: self.gone < self.first.estimated.max(self.estimated),
        }
    }

    /// Missing frames of the second since the last call.
    pub fn take_filled(&mut self) -> u64 {
        std::mem::take(&mut self.filled)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and saturating"
)]
fn frames_of(rate: u32, ns: f64) -> usize {
    (ns * f64::from(rate) / 1e9).round() as usize
}

#[cfg(test)]
mod tests;
