//! Frames of one of two sources that wait for the other's, with their capture times.

use std::collections::VecDeque;

use crate::limits::PAIR_SLOTS;
use crate::packetizer::Time;

/// A track; see the module. Frames are numbered from the first that came, lost ones included.
#[derive(Debug)]
pub struct Track {
    pub(super) channels: usize,
    /// Length of a frame, in ns.
    frame_ns: f64,
    /// The number of the next frame.
    pub(super) received: u64,
    /// The number after the last frame with an estimated time.
    pub(super) estimated: u64,
    /// Frames that wait to go out.
    pub(super) ready: VecDeque<f32>,
    /// First frames of packets and their times, the oldest first.
    marks: VecDeque<(u64, u64)>,
}

impl Track {
    /// A track with room for `frames` waiting frames.
    pub(super) fn new(rate: u32, channels: u32, frames: usize) -> Self {
        Self {
            channels: channels as usize,
            frame_ns: 1e9 / f64::from(rate),
            received: 0,
            estimated: 0,
            ready: VecDeque::with_capacity(frames * channels as usize),
            marks: VecDeque::with_capacity(PAIR_SLOTS as usize),
        }
    }

    /// Takes note of frames that arrive, the first captured at this time.
    pub(super) fn receive(&mut self, samples: usize, time: Time) {
        if self.marks.len() == self.marks.capacity() {
            self.marks.pop_front();
        }
        self.marks.push_back((self.received, time.ns));
        self.received += (samples / self.channels) as u64;
        if time.is_estimated {
            self.estimated = self.received;
        }
    }

    /// Capture time in ns of the point `position` frames after the source's start: by the time of the
    /// packet that it is in. `None` before the first packet.
    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 frames or ns")]
    pub(super) fn time_of(&self, position: f64) -> Option<f64> {
        let mut marks = self.marks.iter().rev();
        let of_packet = marks.find(|(frame, _)| *frame as f64 <= position);
        let (frame, ns) = of_packet.or(self.marks.front())?;
        Some(*ns as f64 + (position - *frame as f64) * self.frame_ns)
    }

    /// Forgets the times of packets before the one with this frame.
    pub(super) fn forget_before(&mut self, frame: u64) {
        while self.marks.get(1).is_some_and(|(first, _)| *first <= frame) {
            self.marks.pop_front();
        }
    }

    pub(super) fn ready_frames(&self) -> usize {
        self.ready.len() / self.channels
    }

    /// Number of frames that may still be added, up to `frames` waiting ones.
    pub(super) fn room(&self, frames: usize) -> usize {
        frames.saturating_sub(self.ready_frames())
    }

    pub(super) fn fill(&mut self, frames: usize) {
        let samples = frames * self.channels;
        self.ready.extend(std::iter::repeat_n(0.0, samples));
    }

    /// Leaves out the next `frames` waiting frames, or all if there are fewer.
    pub(super) fn skip(&mut self, frames: u64) {
        let ready = self.ready_frames();
        let frames = usize::try_from(frames).map_or(ready, |frames| frames.min(ready));
        self.ready.drain(..frames * self.channels);
    }
}
