//! One capture: a source on a thread of its own.
//!
//! **Invariant:** when a [`Capture`] is gone, so is its thread: the memory that it writes may go.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::convert::Policy;
use crate::error::Result;
use crate::event::Event;
use crate::packetizer::Packetizer;
use crate::session::{Bell, Control, Session};
use crate::source::Source;
use crate::thread::Thread;

/// A running capture; see the module.
pub struct Capture {
    thread: Thread,
    events: Receiver<Event>,
}

impl Capture {
    /// Starts a source's thread.
    ///
    /// # Errors
    /// [`Error::Backend`]: the thread can't be started.
    pub fn start(
        mut source: Box<dyn Source>,
        packetizer: Packetizer,
        policy: Policy,
        bell: Box<dyn Bell>,
    ) -> Result<Self> {
        let control = Arc::new(Control::default());
        let (mut session, events) = Session::new(packetizer, policy, control.clone(), bell);
        let run = move || {
            let outcome = source.run(&mut session);
            session.control().set_waker(None);
            session.end(outcome);
        };
        let thread = Thread::start("steppe-audio", control, run)?;
        Ok(Self { thread, events })
    }

    /// Leaves frames out until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.thread.control().pause();
    }

    /// Lets frames pass again.
    pub fn resume(&self) {
        self.thread.control().resume();
    }

    /// The oldest event that was not fetched yet.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Ends the source, and waits until its thread has ended.
    pub fn close(&mut self) {
        self.thread.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_map::ChannelMap;
    use crate::format::{Format, Sample};
    use crate::layout::{closed, flag, word};
    use crate::packetizer::{Overrun, Settings, Silence};
    use crate::ring::tests::{Consumer, ring};
    use crate::source::synthetic::{self, Pace, Synthetic, Wave};
    use crate::wait;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;

    const FORMAT: Format = Format {
        rate: 48_000,
        channels: 2,
        sample: Sample::S16,
    };

    fn packetizer(slots: u32) -> Packetizer {
        let settings = Settings {
            format: FORMAT,
            map: ChannelMap::standard(2),
            packet_frames: 48,
            // Packets in the ring stay there, however busy the machine is.
            overrun: Overrun::DropNewest,
            silence: Silence::Emit,
            gate: None,
        };
        Packetizer::new(ring(slots, 192), settings).unwrap()
    }

    fn source(frames: Option<u64>, pace: Pace) -> Box<Synthetic> {
        let settings = synthetic::Settings {
            format: FORMAT,
            map: ChannelMap::standard(2),
            wave: Wave::Ramp,
            pace,
            period: 48,
            frames,
        };
        Box::new(Synthetic::new(settings).unwrap())
    }

    #[test]
    fn a_burst_arrives_whole_and_ends() {
        let packetizer = packetizer(4);
        let consumer = Consumer::of(packetizer.ring());
        let memory = packetizer.ring().memory();
        let bells = Arc::new(AtomicU32::new(0));
        let rung = bells.clone();
        let bell = move || {
            rung.fetch_add(1, SeqCst);
        };
        let source = source(Some(48 * 1_000 + 7), Pace::Burst);
        let capture = Capture::start(source, packetizer, Policy::Refuse, Box::new(bell)).unwrap();
        let (mut frames, mut seen) = (0_u64, 0);
        loop {
            let is_over = memory.u32(word::CLOSED * 4).load(SeqCst) == closed::ENDED;
            while let Some(taken) = consumer.take() {
                assert_eq!(
                    (
                        taken.packet.position,
                        taken.packet.flags & flag::DISCONTINUITY
                    ),
                    (frames, 0)
                );
                for frame in taken.data.chunks_exact(4) {
                    let mut expected = [0; 4];
                    synthetic::ramp(frames, FORMAT, &mut expected);
                    assert_eq!(frame, expected);
                    frames += 1;
                }
                consumer.release(&taken);
            }
            if is_over {
                break;
            }
            seen = wait::wait(&memory, seen, 100);
        }
        assert_eq!(frames, 48 * 1_000 + 7);
        // The first ring was not answered, so there was no second.
        assert_eq!(bells.load(SeqCst), 1);
        assert!(matches!(capture.event(), Some(Event::Open(_))));
        assert_eq!(capture.event(), Some(Event::Ended));
    }

    #[test]
    fn a_paced_capture_ends_when_it_is_closed() {
        let packetizer = packetizer(4);
        let memory = packetizer.ring().memory();
        let pace = Pace::Clock {
            ppm: 0.0,
            speed: 1.0,
        };
        let bell = Box::new(|| {});
        let mut capture =
            Capture::start(source(None, pace), packetizer, Policy::Refuse, bell).unwrap();
        let mut seen = 0;
        while seen < 3 {
            seen = wait::wait(&memory, seen, 100);
        }
        capture.close();
        let head = memory.u32(word::HEAD * 4).load(SeqCst);
        assert_eq!(memory.u32(word::CLOSED * 4).load(SeqCst), closed::ENDED);
        assert_eq!(wait::wait(&memory, head, 100), head);
    }

    #[test]
    fn what_a_pause_leaves_out_is_counted_and_flagged() {
        let packetizer = packetizer(64);
        let consumer = Consumer::of(packetizer.ring());
        let memory = packetizer.ring().memory();
        let skipped = || {
            let counter = crate::layout::Counter::PausedFrames;
            crate::ring::counter_of(&memory, counter).load(SeqCst)
        };
        let pace = Pace::Clock {
            ppm: 0.0,
            speed: 1.0,
        };
        let bell = Box::new(|| {});
        let capture = Capture::start(source(None, pace), packetizer, Policy::Refuse, bell).unwrap();
        capture.pause();
        while skipped() == 0 {
            std::thread::yield_now();
        }
        while let Some(taken) = consumer.take() {
            consumer.release(&taken);
        }
        capture.resume();
        let next = loop {
            if let Some(taken) = consumer.take() {
                break taken;
            }
        };
        assert_ne!(next.packet.flags & flag::DISCONTINUITY, 0);
    }
}
