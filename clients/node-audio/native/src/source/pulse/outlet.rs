//! From the mix of a program's streams to the capture: encodes samples and reports losses.
//!
//! **Invariant:** the time of the next frame is known as long as the mix goes on, also after lost frames: an outage
//! counts from there.

use crate::convert::sample::encode;
use crate::error::Result;
use crate::format::Format;
use crate::frames::Data;
use crate::layout::Counter;
use crate::limits::DISCONTINUITY_NS;
use crate::packetizer::Time;
use crate::session::Session;
use crate::source::mixer::Mixed;
use crate::source::outage::Outage;

/// Copies of a frame: out of libpulse, into the ring of its stream, out of it, mixed, encoded.
const LANE_COPIES: u64 = 5;

/// Passes a mix to the capture; see the module.
#[derive(Debug)]
pub struct Outlet {
    format: Format,
    /// Room for encoded samples.
    encoded: Vec<u8>,
    /// Capture time of the next frame, if it follows on the last one.
    end_ns: Option<u64>,
}

impl Outlet {
    /// An outlet without frames yet.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            format,
            encoded: Vec::new(),
            end_ns: None,
        }
    }

    /// Capture time of the frame after the last one that was delivered or reported as lost, in ns. `None`: none was.
    #[must_use]
    pub fn end_ns(&self) -> Option<u64> {
        self.end_ns
    }

    /// Passes the mixer's output to the capture.
    ///
    /// # Errors
    /// Those of [`Session::push`].
    pub fn give(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        mixed: Mixed<'_>,
    ) -> Result<()> {
        let (frames, time) = match mixed {
            Mixed::Filled(frames) => {
                session.count_frames(Counter::FilledFrames, frames);
                return session.interrupt();
            }
            Mixed::Lost(loss, time) => (loss.frames, time),
            Mixed::Silence(frames, time) => (frames, time),
            Mixed::Sound(samples, time, _) => {
                let channels = u64::from(self.format.channels);
                (samples.len() as u64 / channels, time)
            }
        };
        outage.close_gap(session, time.ns)?;
        self.follow(session, frames, time)?;
        match mixed {
            Mixed::Filled(_) => Ok(()),
            Mixed::Lost(loss, _) => session.lose(loss).map(|_| ()),
            Mixed::Silence(frames, time) => session.push(Data::Silence(frames), time),
            Mixed::Sound(samples, time, has_hole) => {
                if has_hole {
                    session.interrupt()?;
                    session.count_frames(Counter::FilledFrames, frames);
                }
                session.count(Counter::CopiedFrames, LANE_COPIES * frames);
                self.encode(samples);
                session.push(Data::Bytes(&self.encoded), time)
            }
        }
    }

    /// Marks a discontinuity if frames, the first of this time, don't follow on the last ones.
    fn follow(&mut self, session: &mut Session, frames: u64, time: Time) -> Result<()> {
        let jump_ns = self.end_ns.map_or(0, |end_ns| end_ns.abs_diff(time.ns));
        self.end_ns = Some(time.ns + self.format.duration_ns(frames));
        if jump_ns > DISCONTINUITY_NS {
            session.interrupt()?;
        }
        Ok(())
    }

    fn encode(&mut self, samples: &[f32]) {
        let sample = self.format.sample;
        let width = sample.bytes() as usize;
        self.encoded.resize(samples.len() * width, 0);
        for (bytes, &value) in self.encoded.chunks_exact_mut(width).zip(samples) {
            encode(sample, value, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::Gaps;
    use crate::layout::flag;
    use crate::packetizer::Loss;
    use crate::ring::consumer::Consumer;
    use crate::ring::tests::ring;
    use crate::session::tests::{FORMAT, PACKET_BYTES, session};

    const MS: u64 = 1_000_000;
    const PACKET: [f32; 480] = [0.5; 480];

    /// A capture of a program, and its reader.
    struct Program {
        session: Session,
        outage: Outage,
        outlet: Outlet,
        consumer: Consumer,
        gaps: Gaps,
    }

    impl Program {
        fn new() -> Self {
            let ring = ring(4, PACKET_BYTES);
            let consumer = Consumer::of(&ring);
            let (session, _) = session(ring);
            let mut program = Self {
                session,
                outage: Outage::default(),
                outlet: Outlet::new(FORMAT),
                consumer,
                gaps: Gaps::default(),
            };
            program.connect();
            program
        }

        /// Opens another connection.
        fn connect(&mut self) {
            let end_ns = self.outlet.end_ns();
            self.outage.began(&mut self.session, end_ns).unwrap();
            self.outlet = Outlet::new(FORMAT);
            let over = self.outage.over(&mut self.session, "program", FORMAT);
            over.unwrap();
        }

        fn give(&mut self, mixed: Mixed<'_>) {
            let (session, outage) = (&mut self.session, &mut self.outage);
            self.outlet.give(session, outage, mixed).unwrap();
        }

        fn lose(&mut self, frames: u64, ms: u64) {
            self.give(Mixed::Lost(Loss::exact(frames), Time::of_device(ms * MS)));
        }

        /// Plays a packet of this time. Returns its losses, counted and estimated, and flags.
        fn play(&mut self, ms: u64) -> ([u64; 2], u32) {
            let time = Time::of_device(ms * MS);
            self.give(Mixed::Sound(&PACKET, time, false));
            let taken = self.consumer.take().unwrap();
            self.consumer.release(&taken);
            let losses = self.gaps.before(&taken.packet);
            (losses.map(|loss| loss.frames), taken.packet.flags)
        }
    }

    #[test]
    fn an_outage_beside_lost_frames_is_told_whole() {
        let mut program = Program::new();
        assert_eq!(program.play(1_000).0, [0, 0]);
        program.lose(960, 1_010);
        program.connect();
        assert_eq!(
            program.play(3_030),
            ([960, 2_000 * 48], flag::DISCONTINUITY)
        );
        // Frames that are lost after it, and before the next one.
        program.connect();
        program.lose(480, 4_040);
        program.connect();
        assert_eq!(
            program.play(5_050),
            ([480, 2_000 * 48], flag::DISCONTINUITY)
        );
        // No frames between two connections.
        program.connect();
        program.connect();
        assert_eq!(program.play(6_060), ([0, 1_000 * 48], flag::DISCONTINUITY));
        assert_eq!(program.play(6_070), ([0, 0], 0));
    }

    #[test]
    fn frames_that_were_silence_before_they_were_lost_are_counted_and_flagged() {
        let mut program = Program::new();
        assert_eq!(program.play(1_000), ([0, 0], flag::DISCONTINUITY));
        program.give(Mixed::Filled(300));
        assert_eq!(program.play(1_010), ([0, 0], flag::DISCONTINUITY));
        assert_eq!(program.consumer.counter(Counter::FilledFrames), 300);
    }
}
