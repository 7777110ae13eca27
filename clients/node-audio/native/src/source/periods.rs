//! Periods of a device with their times: the common part of ALSA, WASAPI's microphones and CoreAudio.
//!
//! The [timeline](crate::clock::timeline) judges each period's time before the period is delivered, so that the packet
//! after a gap reports it. Losses that a device counts itself are exact.

use crate::clock::timeline::{Timeline, Times, Verdict};
use crate::error::Result;
use crate::format::Format;
use crate::frames::Data;
use crate::packetizer::{Loss, Time};
use crate::session::Session;
use crate::source::outage::Outage;

/// Frames that a device gives at a time.
#[derive(Debug, Clone, Copy)]
pub struct Period<'a> {
    /// Frames of the period.
    pub data: Data<'a>,
    /// Capture time of the first frame.
    pub time: Time,
}

/// The periods of a device; see the module.
#[derive(Debug)]
pub struct Periods {
    format: Format,
    timeline: Timeline,
    /// Number of the next frame.
    next: u64,
    /// True if the device reported a gap before the next period without its length.
    is_broken: bool,
}

impl Periods {
    /// A device without periods yet.
    #[must_use]
    pub fn new(format: Format, times: Times) -> Self {
        Self {
            format,
            timeline: Timeline::new(format, times),
            next: 0,
            is_broken: false,
        }
    }

    /// Capture time of the frame after the last one, in ns. `None`: none has come.
    #[must_use]
    pub fn end_ns(&self) -> Option<u64> {
        self.timeline.time_of(self.next)
    }

    /// Notes a gap of unknown length; the time of the next period gives it.
    #[cfg(any(not(target_os = "macos"), test))]
    pub fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Reports lost frames that the device has counted.
    ///
    /// # Errors
    /// As for [`Session::push`].
    #[cfg(any(target_os = "macos", test))]
    pub fn lose(&mut self, session: &mut Session, frames: u64) -> Result<()> {
        self.next += frames;
        session.lose(Loss::exact(frames))?;
        Ok(())
    }

    /// Delivers a period.
    ///
    /// # Errors
    /// As for [`Session::push`].
    pub fn deliver(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        Period { data, time }: Period<'_>,
    ) -> Result<()> {
        match self.judge(time) {
            Verdict::Gap(frames) => {
                self.timeline.skip(frames);
                session.lose(Loss::estimated(frames))?;
            }
            Verdict::Back => session.interrupt()?,
            Verdict::Follows | Verdict::Doubtful => {}
        }
        let time = Time {
            ns: self.end_ns().unwrap_or(time.ns),
            ..time
        };
        session.note_time_error(self.timeline.scatter_ns());
        outage.close_gap(session, time.ns)?;
        self.next += data.count(self.format);
        session.push(data, time)
    }

    fn judge(&mut self, time: Time) -> Verdict {
        if std::mem::take(&mut self.is_broken) {
            return self.timeline.resume(self.next, time.ns);
        }
        // An estimated time is that of this thread, which may have waited for its turn.
        if time.is_estimated && self.end_ns().is_some() {
            return Verdict::Follows;
        }
        self.timeline.observe(self.next, time.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::Gaps;
    use crate::layout::flag;
    use crate::ring::tests::{Consumer, ring};
    use crate::session::tests::{FORMAT, PACKET_BYTES, session};

    const MS: u64 = 1_000_000;

    /// Periods of 10 ms, one packet each, and the packets made of them.
    struct Device {
        periods: Periods,
        session: Session,
        outage: Outage,
        consumer: Consumer,
        gaps: Gaps,
    }

    impl Device {
        fn new(times: Times) -> Self {
            let ring = ring(4, PACKET_BYTES);
            let consumer = Consumer::of(&ring);
            let (session, _) = session(ring);
            Self {
                periods: Periods::new(FORMAT, times),
                session,
                outage: Outage::default(),
                consumer,
                gaps: Gaps::default(),
            }
        }

        /// Delivers a period of this time. Returns its packet's losses, counted and estimated, and flags.
        fn give(&mut self, ms: u64) -> ([u64; 2], u32) {
            self.give_at(Time::of_device(ms * MS))
        }

        fn give_at(&mut self, time: Time) -> ([u64; 2], u32) {
            let (session, outage) = (&mut self.session, &mut self.outage);
            let data = Data::Bytes(&[1; 960]);
            let period = Period { data, time };
            self.periods.deliver(session, outage, period).unwrap();
            let taken = self.consumer.take().unwrap();
            self.consumer.release(&taken);
            let losses = self.gaps.before(&taken.packet);
            (losses.map(|loss| loss.frames), taken.packet.flags)
        }
    }

    #[test]
    fn a_jump_of_stamped_times_is_told_by_the_packet_after_it() {
        let mut device = Device::new(Times::Stamped);
        assert_eq!(device.give(1_000), ([0, 0], 0));
        assert_eq!(device.give(1_010), ([0, 0], 0));
        assert_eq!(
            device.give(14_020),
            ([0, 14_000 * 48 - 990 * 48 - 10 * 48], flag::DISCONTINUITY)
        );
        assert_eq!(device.give(14_030), ([0, 0], 0));
        assert_eq!(device.give(12_000), ([0, 0], flag::DISCONTINUITY));
        assert_eq!(device.give(12_010), ([0, 0], 0));
    }

    #[test]
    fn a_time_that_is_no_device_s_makes_no_gap() {
        let mut device = Device::new(Times::Stamped);
        assert_eq!(device.give(1_000), ([0, 0], 0));
        let time = Time {
            ns: 1_200 * MS,
            is_estimated: true,
        };
        assert_eq!(device.give_at(time), ([0, 0], flag::TIME_ESTIMATED));
        assert_eq!(device.give(1_020), ([0, 0], 0));
    }

    #[test]
    fn after_an_overrun_one_time_is_enough() {
        let mut device = Device::new(Times::Told);
        for period in 0..10 {
            assert_eq!(device.give(1_000 + period * 10), ([0, 0], 0));
        }
        device.periods.break_off();
        assert_eq!(device.give(1_107), ([0, 7 * 48], flag::DISCONTINUITY));
        assert_eq!(device.give(1_117), ([0, 0], 0));
    }

    #[test]
    fn what_a_device_counts_is_exact() {
        let mut device = Device::new(Times::Stamped);
        device.give(1_000);
        device.periods.lose(&mut device.session, 960).unwrap();
        assert_eq!(device.give(1_030), ([960, 0], flag::DISCONTINUITY));
    }
}
