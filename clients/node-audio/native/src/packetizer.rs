//! Makes packets of a source's frames: from the source's buffer into a slot.
//!
//! **Invariant:** every frame that a source delivers or reports lost is published, dropped and
//! counted, or left out on purpose and counted. **Invariant:** no allocation, lock or wait.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::channel_map::{ChannelMap, StreamFormat};
use crate::clock::wall::{Reading, WallClock};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::frames::Frames;
use crate::gate::{self, Gate, Verdict};
use crate::layout::{Counter, flag};
use crate::level::Level;
use crate::ring::{Record, Ring, Slot};

/// Overrun policy: the packet to drop when no slot is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overrun {
    /// The oldest packet that no consumer has taken is dropped.
    DropOldest,
    /// The new packet is dropped.
    DropNewest,
    /// The capture fails.
    Fail,
}

/// Policy on packets whose samples are all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Publish them like others, flagged.
    Emit,
    /// Leave them out, and count them.
    Skip,
}

/// Settings of packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Format of the frames.
    pub format: Format,
    /// Positions of the channels.
    pub map: ChannelMap,
    /// Frames of a full packet.
    pub packet_frames: u32,
    /// Policy when no slot is free.
    pub overrun: Overrun,
    /// Policy on packets of zeros.
    pub silence: Silence,
    /// The gate, if there is one.
    pub gate: Option<gate::Settings>,
}

/// Capture time of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// Time in ns of the monotonic clock.
    pub ns: u64,
    /// True if the time is estimated, and not the device's.
    pub is_estimated: bool,
}

impl Time {
    /// A time that the device reported.
    #[must_use]
    pub fn of_device(ns: u64) -> Self {
        Self {
            ns,
            is_estimated: false,
        }
    }

    /// The time `ns` later.
    #[must_use]
    pub fn plus(self, ns: u64) -> Self {
        Self {
            ns: self.ns.saturating_add(ns),
            ..self
        }
    }
}

/// Frames that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Number of missing frames.
    pub frames: u64,
    /// True if the number was not counted, but inferred from the time that has passed.
    pub is_estimated: bool,
}

impl Loss {
    /// Frames that the source counted.
    #[must_use]
    pub fn exact(frames: u64) -> Self {
        Self {
            frames,
            is_estimated: false,
        }
    }

    /// Frames that would have filled a gap in time.
    #[must_use]
    pub fn estimated(frames: u64) -> Self {
        Self {
            frames,
            is_estimated: true,
        }
    }
}

/// A packet that is being filled.
#[derive(Debug)]
struct Filling {
    /// `None`: no slot was free, and the packet is dropped.
    slot: Option<Slot>,
    frames: u32,
    time: Time,
}

/// Fills slots with packets; see the module.
#[derive(Debug)]
pub struct Packetizer {
    ring: Ring,
    settings: Settings,
    filling: Option<Filling>,
    position: u64,
    sequence: u64,
    /// True once a frame has come.
    has_started: bool,
    /// Flags of the next packet.
    flags: u32,
    wall: WallClock,
    gate: Option<Gate>,
    /// Packets of the gate's pre-roll, the oldest first. Its capacity never changes.
    kept: Vec<(Slot, Record)>,
}

impl Packetizer {
    /// A packetizer whose ring is empty.
    ///
    /// # Errors
    /// [`Error::Options`]: a packet does not fit into a slot, or the pre-roll not into the ring.
    pub fn new(ring: Ring, settings: Settings) -> Result<Self> {
        let layout = ring.layout();
        let bytes = u64::from(settings.packet_frames) * u64::from(settings.format.frame_bytes());
        if settings.packet_frames == 0 || bytes > layout.slot_bytes.into() {
            return Err(Error::Options(format!(
                "a packet of {} frames has {bytes} bytes; ring.slotBytes is only {}",
                settings.packet_frames, layout.slot_bytes
            )));
        }
        let preroll = settings.gate.map_or(0, |gate| gate.preroll);
        if preroll > layout.slots / 2 {
            return Err(Error::Options(format!(
                "gate.prerollMs is {preroll} packets; expected at most half of the {} slots",
                layout.slots
            )));
        }
        ring.describe(settings.format, settings.packet_frames);
        Ok(Self {
            ring,
            settings,
            filling: None,
            position: 0,
            sequence: 0,
            has_started: false,
            flags: 0,
            wall: WallClock::default(),
            gate: settings.gate.map(Gate::new),
            kept: Vec::with_capacity(preroll as usize),
        })
    }

    /// The ring that is filled.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Format of the packets.
    #[must_use]
    pub fn format(&self) -> Format {
        self.settings.format
    }

    /// Frames of a full packet.
    #[must_use]
    pub fn packet_frames(&self) -> u32 {
        self.settings.packet_frames
    }

    /// Format and channel map of the packets.
    #[must_use]
    pub fn stream_format(&self) -> StreamFormat {
        StreamFormat {
            format: self.settings.format,
            map: self.settings.map,
        }
    }

    /// Appends frames, the first captured at this time, and publishes the packets that are full.
    ///
    /// # Errors
    /// [`Error::Overrun`], with the policy [`Overrun::Fail`].
    pub fn push(&mut self, frames: &impl Frames, time: Time) -> Result<()> {
        let count = frames.count();
        let mut done = 0_u64;
        while done < count {
            let time = time.plus(self.settings.format.duration_ns(done));
            done += u64::from(self.fill(frames, done, time)?);
        }
        Ok(())
    }

    /// Fills the current packet with frames from index `first` on, and returns their number.
    fn fill(&mut self, frames: &impl Frames, first: u64, time: Time) -> Result<u32> {
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => self.begin(time)?,
        };
        let room = self.settings.packet_frames - filling.frames;
        let left = frames.count() - first;
        let taken = u32::try_from(left).map_or(room, |left| left.min(room));
        if let Some(slot) = &filling.slot {
            let frame_bytes = self.settings.format.frame_bytes() as usize;
            let start = filling.frames as usize * frame_bytes;
            let len = taken as usize * frame_bytes;
            frames.write(first, &mut self.ring.data(slot)[start..start + len]);
            if frames.is_copied() {
                self.ring.count(Counter::CopiedFrames, taken.into());
            }
        }
        filling.frames += taken;
        if filling.frames == self.settings.packet_frames {
            self.finish(filling);
        } else {
            self.filling = Some(filling);
        }
        Ok(taken)
    }

    fn begin(&mut self, time: Time) -> Result<Filling> {
        self.note_start(time);
        Ok(Filling {
            slot: self.slot()?,
            frames: 0,
            time,
        })
    }

    /// Notes the capture time of the first frame, which may be a lost one before the first that came.
    fn note_start(&mut self, time: Time) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let lost_ns = self.settings.format.duration_ns(self.position);
        let started_ns = time.ns.saturating_sub(lost_ns);
        // The wall clock's offset is set before the start time.
        self.read_clocks();
        let started = self.ring.counter(Counter::StartedNs);
        started.store(started_ns, Release);
    }

    fn slot(&mut self) -> Result<Option<Slot>> {
        if let Some(slot) = self.ring.acquire() {
            return Ok(Some(slot));
        }
        match self.settings.overrun {
            Overrun::DropNewest => Ok(None),
            Overrun::Fail => Err(Error::Overrun {
                slots: self.ring.layout().slots,
            }),
            Overrun::DropOldest => Ok(self.ring.reclaim().map(|(slot, frames)| {
                self.count_dropped(frames);
                slot
            })),
        }
    }

    fn count_dropped(&self, frames: u32) {
        self.ring.count(Counter::DroppedPackets, 1);
        self.ring.count(Counter::DroppedFrames, frames.into());
    }

    /// Ends a packet, which may be shorter than a full one.
    fn finish(&mut self, filling: Filling) {
        let Filling { slot, frames, time } = filling;
        let Some(slot) = slot else {
            self.count_dropped(frames);
            self.pass_by(frames.into());
            return;
        };
        let record = self.describe(&slot, frames, time);
        let is_skipped = record.flags & flag::SILENT != 0 && self.settings.silence == Silence::Skip;
        if is_skipped {
            self.leave_out(slot, record.frames, Counter::SilentFrames);
            return;
        }
        let verdict = match &mut self.gate {
            Some(gate) => gate.judge(record.rms),
            None => Verdict::Passes,
        };
        match verdict {
            Verdict::Passes => self.publish(slot, record),
            Verdict::Opens => self.open_gate(slot, record),
            Verdict::Kept => self.keep(slot, record),
        }
    }

    fn describe(&mut self, slot: &Slot, frames: u32, time: Time) -> Record {
        let format = self.settings.format;
        let bytes = frames * format.frame_bytes();
        let data = &self.ring.data(slot)[..bytes as usize];
        let level = Level::of(data, format.sample);
        let mut flags = 0;
        if level.is_silent() {
            flags |= flag::SILENT;
        }
        if time.is_estimated {
            flags |= flag::TIME_ESTIMATED;
        }
        Record {
            frames,
            bytes,
            flags,
            time_ns: time.ns,
            peak: level.peak,
            rms: level.rms,
            ..Record::default()
        }
    }

    /// Publishes the pre-roll, then the packet that opened the gate.
    fn open_gate(&mut self, slot: Slot, record: Record) {
        self.flags |= flag::VOICE_BEGINS;
        // Remove from the front, and keep the capacity.
        while !self.kept.is_empty() {
            let (slot, record) = self.kept.remove(0);
            self.publish(slot, record);
        }
        self.publish(slot, record);
    }

    fn keep(&mut self, slot: Slot, record: Record) {
        let preroll = self.gate.as_ref().map_or(0, Gate::preroll) as usize;
        if preroll == 0 {
            return self.leave_out(slot, record.frames, Counter::GatedFrames);
        }
        if self.kept.len() == preroll {
            let (oldest, record) = self.kept.remove(0);
            self.leave_out(oldest, record.frames, Counter::GatedFrames);
        }
        self.kept.push((slot, record));
    }

    fn leave_out(&mut self, slot: Slot, frames: u32, reason: Counter) {
        self.ring.give_back(slot);
        self.flags |= flag::DISCONTINUITY;
        self.ring.count(reason, frames.into());
    }

    fn publish(&mut self, slot: Slot, mut record: Record) {
        record.flags |= std::mem::take(&mut self.flags);
        record.lost = low_word(self.ring.counter(Counter::LostFrames));
        record.estimated = low_word(self.ring.counter(Counter::EstimatedFrames));
        record.sequence = self.sequence;
        record.position = self.position;
        record.published_ns = self.read_clocks();
        let end_ns = record.time_ns + self.settings.format.duration_ns(record.frames.into());
        let latency = record.published_ns.saturating_sub(end_ns);
        self.ring.count(Counter::LatencyNs, latency);
        self.ring.publish(slot, &record);
        self.pass_by(record.frames.into());
    }

    /// Notes the wall clock's offset from the monotonic clock, and returns the time of the latter.
    fn read_clocks(&mut self) -> u64 {
        let reading = Reading::now();
        let offset = self.wall.observe(reading);
        self.ring
            .set(Counter::WallOffsetNs, offset.ns.cast_unsigned());
        self.ring.set(Counter::WallErrorNs, offset.error_ns);
        self.ring.set(Counter::WallSteps, self.wall.steps());
        reading.after
    }

    /// Counts a packet that was published or dropped.
    fn pass_by(&mut self, frames: u64) {
        self.sequence += 1;
        self.advance(frames);
    }

    fn advance(&mut self, frames: u64) {
        self.position += frames;
        let counter = self.ring.counter(Counter::Frames);
        counter.store(self.position, Relaxed);
    }

    /// Reports frames that the source lost: they were captured, and not delivered.
    pub fn lose(&mut self, loss: Loss) {
        self.flush();
        self.interrupt();
        self.ring.count(Counter::LostFrames, loss.frames);
        if loss.is_estimated {
            self.ring.count(Counter::EstimatedFrames, loss.frames);
        }
        self.advance(loss.frames);
    }

    /// Leaves out frames that come during a pause.
    pub fn pass_over(&mut self, frames: u64) {
        self.flush();
        self.forget_preroll();
        self.flags |= flag::DISCONTINUITY;
        self.ring.count(Counter::PausedFrames, frames);
    }

    /// Marks a discontinuity: the next frames do not follow on the last ones, though no frame is known to
    /// be lost.
    pub fn interrupt(&mut self) {
        self.flush();
        self.forget_preroll();
        self.flags |= flag::DISCONTINUITY;
        self.ring.count(Counter::Discontinuities, 1);
    }

    /// Ends the stream. Packets that the gate kept are left out.
    pub fn end(&mut self) {
        self.flush();
        self.forget_preroll();
    }

    /// Leaves out the packets that the gate kept: what follows does not follow on them.
    fn forget_preroll(&mut self) {
        while let Some((slot, record)) = self.kept.pop() {
            self.leave_out(slot, record.frames, Counter::GatedFrames);
        }
    }

    /// Publishes the packet that is not full yet.
    pub fn flush(&mut self) {
        if let Some(filling) = self.filling.take() {
            self.finish(filling);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a reader takes the difference of two, which wraps as they do"
)]
fn low_word(counter: &AtomicU64) -> u32 {
    counter.load(Relaxed) as u32
}

#[cfg(test)]
mod tests;
