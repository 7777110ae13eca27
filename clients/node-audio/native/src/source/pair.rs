//! Two sources as one: mixed, or side by side.
//!
//! Each is a capture of its own with a ring that JavaScript does not see; this thread takes packets out of
//! both, aligns them, and delivers. The capture is over when the first source is.

use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, Thread};
use std::time::Duration;

use crate::align::{Aligned, Aligner};
use crate::capture::Capture;
use crate::convert::Policy;
use crate::error::Result;
use crate::event::Event;
use crate::format::{Format, Sample};
use crate::frames::Data;
use crate::layout::{Counter, Layout, closed, word};
use crate::limits::{PAIR_SLOTS, TURN_MS};
use crate::packetizer::{Overrun, Packetizer, Settings, Silence, Time};
use crate::ring::Ring;
use crate::ring::consumer::{Consumer, Taken};
use crate::ring::sys::Heap;
use crate::session::{Bell, Session};
use crate::source::Source;

/// How two sources become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// Their samples are added, and clipped.
    Mix,
    /// The first's channels, then the second's.
    SideBySide,
}

impl Combine {
    /// What each source gives for a capture of this format.
    #[must_use]
    pub fn each(self, format: Format) -> Format {
        let channels = match self {
            Self::Mix => format.channels,
            Self::SideBySide => (format.channels / 2).max(1),
        };
        Format {
            channels,
            sample: Sample::F32,
            ..format
        }
    }
}

/// See the module.
pub struct Pair {
    sources: Option<[Box<dyn Source>; 2]>,
    combine: Combine,
    /// What each source gives: floats.
    each: Format,
    packet_frames: u32,
    policy: Policy,
}

impl Pair {
    /// Two sources for a capture of these settings.
    #[must_use]
    pub fn new(
        sources: [Box<dyn Source>; 2],
        combine: Combine,
        settings: &Settings,
        policy: Policy,
    ) -> Self {
        Self {
            sources: Some(sources),
            combine,
            each: combine.each(settings.format),
            packet_frames: settings.packet_frames,
            policy,
        }
    }

    fn track(&self, source: Box<dyn Source>) -> Result<Track> {
        let bytes = self.packet_frames * self.each.frame_bytes();
        let layout = Layout::new(PAIR_SLOTS, bytes)?;
        let heap = Heap::new(layout.bytes);
        let ring = Ring::new(heap.producer(), layout).expect("the memory is made by the layout");
        let consumer = Consumer::of(&ring);
        let settings = Settings {
            format: self.each,
            packet_frames: self.packet_frames,
            overrun: Overrun::DropOldest,
            silence: Silence::Emit,
            gate: None,
        };
        let bell = Box::new(Unparking(thread::current()));
        let packetizer = Packetizer::new(ring, settings)?;
        Ok(Track {
            capture: Capture::start(source, packetizer, self.policy, bell)?,
            consumer,
            next: 0,
            samples: Vec::with_capacity(bytes as usize / 4),
            _heap: heap,
        })
    }
}

/// Wakes the thread that joins both.
struct Unparking(Thread);

impl Bell for Unparking {
    fn ring(&self) {
        self.0.unpark();
    }
}

/// One of the two. The capture ends before its memory goes.
struct Track {
    capture: Capture,
    consumer: Consumer,
    /// Position of the next packet if nothing is lost.
    next: u64,
    samples: Vec<f32>,
    _heap: Heap,
}

impl Track {
    /// The next packet as floats, how many frames were lost before it, and its time.
    fn take(&mut self) -> Option<(u64, u64)> {
        let taken = self.consumer.take()?;
        let lost = taken.packet.position - self.next;
        self.next = taken.packet.position + u64::from(taken.packet.frames);
        self.decode(&taken);
        self.consumer.release(&taken);
        Some((lost, taken.packet.time_ns))
    }

    fn decode(&mut self, taken: &Taken) {
        let (samples, _) = taken.data.as_chunks::<4>();
        self.samples.clear();
        self.samples
            .extend(samples.iter().map(|&bytes| f32::from_le_bytes(bytes)));
    }

    fn is_over(&self) -> bool {
        self.consumer.word(word::CLOSED).load(SeqCst) != closed::OPEN
    }

    /// Has the next packet wake the thread.
    fn listen(&self) {
        self.consumer.word(word::DOORBELL).store(0, SeqCst);
    }
}

impl Source for Pair {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        let this_thread = thread::current();
        let control = session.control().clone();
        control.set_waker(Some(Box::new(move || this_thread.unpark())));
        let Some([first, second]) = self.sources.take() else {
            return Ok(());
        };
        let mut joined = Joined {
            first: self.track(first)?,
            second: self.track(second)?,
            aligner: Aligner::new(self.each.rate, self.each.channels, self.each.channels)?,
            combine: self.combine,
            each: self.each,
            bytes: Vec::new(),
        };
        joined.begin(session)?;
        while !session.is_stopped() {
            joined.first.listen();
            joined.second.listen();
            joined.turn(session)?;
            if joined.first.is_over() {
                joined.turn(session)?;
                return joined.outcome();
            }
            thread::park_timeout(Duration::from_millis(TURN_MS));
        }
        Ok(())
    }
}

/// Both, while they run.
struct Joined {
    first: Track,
    second: Track,
    aligner: Aligner,
    combine: Combine,
    each: Format,
    bytes: Vec<u8>,
}

impl Joined {
    fn format(&self) -> Format {
        let factor = match self.combine {
            Combine::Mix => 1,
            Combine::SideBySide => 2,
        };
        Format {
            channels: self.each.channels * factor,
            ..self.each
        }
    }

    /// Waits until both are open.
    fn begin(&mut self, session: &mut Session) -> Result<()> {
        let mut devices = Vec::new();
        for track in [&self.first, &self.second] {
            while !session.is_stopped() {
                match track.capture.event() {
                    Some(Event::Open(opened)) => {
                        devices.push(opened.device);
                        break;
                    }
                    Some(Event::Failed(error)) => return Err(error),
                    Some(_) => {}
                    None => {
                        track.listen();
                        thread::park_timeout(Duration::from_millis(TURN_MS));
                    }
                }
            }
        }
        session.begin(&devices.join(" + "), self.format())
    }

    fn turn(&mut self, session: &mut Session) -> Result<()> {
        self.tell(session)?;
        while let Some((lost, time_ns)) = self.first.take() {
            if lost > 0 {
                self.deliver(session)?;
                self.aligner.lose_first(lost);
                session.lose(lost)?;
            }
            self.aligner.push_first(&self.first.samples, time_ns);
        }
        while let Some((lost, time_ns)) = self.second.take() {
            if lost > 0 {
                self.aligner.lose_second(lost);
                session.interrupt()?;
            }
            self.aligner.push_second(&self.second.samples, time_ns)?;
        }
        self.deliver(session)
    }

    /// Passes events on; the second's failure is the pair's.
    fn tell(&self, session: &mut Session) -> Result<()> {
        for track in [&self.first, &self.second] {
            while let Some(event) = track.capture.event() {
                match event {
                    Event::Failed(error) => return Err(error),
                    Event::Ended | Event::Open(_) => {}
                    other => session.tell(other),
                }
            }
        }
        Ok(())
    }

    fn deliver(&mut self, session: &mut Session) -> Result<()> {
        let (combine, channels) = (self.combine, self.each.channels as usize);
        let bytes = &mut self.bytes;
        self.aligner.pull(|aligned| {
            bytes.clear();
            match combine {
                Combine::Mix => mix(&aligned, bytes),
                Combine::SideBySide => beside(&aligned, channels, bytes),
            }
            session.push(Data::Bytes(bytes), Time::of_device(aligned.time_ns))
        })?;
        session.count(Counter::FilledFrames, self.aligner.take_filled());
        Ok(())
    }

    fn outcome(&self) -> Result<()> {
        while let Some(event) = self.first.capture.event() {
            if let Event::Failed(error) = event {
                return Err(error);
            }
        }
        Ok(())
    }
}

fn mix(aligned: &Aligned<'_>, bytes: &mut Vec<u8>) {
    let samples = aligned.first.iter().zip(aligned.second);
    let sums = samples.map(|(one, other)| (one + other).clamp(-1.0, 1.0));
    bytes.extend(sums.flat_map(f32::to_le_bytes));
}

fn beside(aligned: &Aligned<'_>, channels: usize, bytes: &mut Vec<u8>) {
    let frames = aligned.first.chunks_exact(channels);
    for (one, other) in frames.zip(aligned.second.chunks_exact(channels)) {
        bytes.extend(
            one.iter()
                .chain(other)
                .flat_map(|sample| sample.to_le_bytes()),
        );
    }
}
