//! Two sources as one: mixed, or side by side.
//!
//! Each is a capture of its own with a ring that JavaScript does not see; this thread takes packets out of both,
//! aligns them, and delivers. The capture is over when the first source is. **Invariant:** nothing is allocated for a
//! packet.

use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use crate::align::{Aligned, Aligner};
use crate::capture::Capture;
use crate::channel_map::{ChannelMap, StreamFormat};
use crate::convert::Policy;
use crate::error::Result;
use crate::event::Event;
use crate::format::{Format, Sample};
use crate::frames::Data;
use crate::gaps::Gaps;
use crate::layout::{Counter, Layout, closed, flag, word};
use crate::limits::{PAIR_SLOTS, TURN_MS};
use crate::packetizer::{Loss, Overrun, Packetizer, Settings, Silence, Time};
use crate::ring::Ring;
use crate::ring::consumer::Consumer;
use crate::ring::sys::Heap;
use crate::session::Session;
use crate::source::Source;

/// Combination of two sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// Samples of both are added, and clipped.
    Mix,
    /// The channels of the first, then those of the second.
    SideBySide,
}

impl Combine {
    /// Format of each source for a capture of this format.
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

    /// The channel map of each source for a capture with this one.
    #[must_use]
    pub fn each_map(self, map: &ChannelMap) -> ChannelMap {
        let positions = map.positions();
        match self {
            Self::Mix => *map,
            Self::SideBySide => ChannelMap::new(&positions[..positions.len().div_ceil(2)]),
        }
    }
}

/// Two sources as one; see the module.
pub struct Pair {
    sources: Option<[Box<dyn Source>; 2]>,
    combine: Combine,
    /// Format of each source: floats.
    each: Format,
    /// Channel map of the capture.
    map: ChannelMap,
    packet_frames: u32,
    policy: Policy,
}

impl Pair {
    /// Combines two sources for a capture of these settings.
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
            map: settings.map,
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
            map: self.combine.each_map(&self.map),
            packet_frames: self.packet_frames,
            overrun: Overrun::DropOldest,
            silence: Silence::Emit,
            gate: None,
        };
        let joining = thread::current();
        let bell = Box::new(move || joining.unpark());
        let packetizer = Packetizer::new(ring, settings)?;
        Ok(Track {
            capture: Capture::start(source, packetizer, self.policy, bell)?,
            consumer,
            gaps: Gaps::default(),
            samples: Vec::with_capacity(bytes as usize / 4),
            _heap: heap,
        })
    }
}

/// One of the two sources. Field order: the capture is dropped before its memory.
struct Track {
    capture: Capture,
    consumer: Consumer,
    gaps: Gaps,
    samples: Vec<f32>,
    _heap: Heap,
}

/// Losses and time of a packet whose samples were taken.
struct Told {
    /// Frames lost before it: counted ones and estimated ones.
    lost: [Loss; 2],
    time: Time,
}

impl Track {
    /// Takes the next packet; its samples replace the last one's.
    fn take(&mut self) -> Option<Told> {
        let taken = self.consumer.take()?;
        let packet = taken.packet;
        let lost = self.gaps.before(&packet);
        self.samples.clear();
        self.samples
            .extend(self.consumer.words(&taken).map(f32::from_bits));
        self.consumer.release(&taken);
        let time = Time {
            ns: packet.time_ns,
            is_estimated: packet.flags & flag::TIME_ESTIMATED != 0,
        };
        Some(Told { lost, time })
    }

    fn is_over(&self) -> bool {
        self.consumer.word(word::CLOSED).load(SeqCst) != closed::OPEN
    }

    /// Makes the next packet wake the thread.
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
        let channels = [self.each.channels; 2];
        let mut joined = Joined {
            first: self.track(first)?,
            second: self.track(second)?,
            aligner: Aligner::new(self.each.rate, channels, self.packet_frames)?,
            combine: self.combine,
            each: self.each,
            map: self.map,
            bytes: vec![0; (self.packet_frames * self.each.frame_bytes()) as usize * 2],
        };
        joined.begin(session)?;
        while !session.is_stopped() {
            joined.first.listen();
            joined.second.listen();
            let told = joined.tell(session);
            joined.turn(session)?;
            if told.is_err() || joined.first.is_over() {
                joined.finish(session)?;
                return told.and_then(|()| joined.outcome());
            }
            thread::park_timeout(Duration::from_millis(TURN_MS));
        }
        Ok(())
    }
}

/// Both sources, while they run.
struct Joined {
    first: Track,
    second: Track,
    aligner: Aligner,
    combine: Combine,
    each: Format,
    map: ChannelMap,
    /// Room for a packet of both sources.
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

    /// Waits until both sources are open.
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
        let format = StreamFormat {
            format: self.format(),
            map: self.map,
        };
        session.begin(&devices.join(" + "), format)
    }

    /// Delivers the frames that both sources have.
    fn turn(&mut self, session: &mut Session) -> Result<()> {
        while !session.is_stopped() {
            // One packet of each at a time, so that neither waits for all packets in the other's ring.
            let has_first = self.take_first(session)?;
            let has_second = self.take_second(session)?;
            if !has_first && !has_second {
                break;
            }
            self.deliver(session)?;
        }
        Ok(())
    }

    /// Delivers the rest of the first source once one of them has ended, without waiting for the second, and reports
    /// frames missing after it.
    fn finish(&mut self, session: &mut Session) -> Result<()> {
        self.turn(session)?;
        self.aligner.hurry();
        self.deliver(session)?;
        if !self.first.is_over() {
            return Ok(());
        }
        let lost = self.first.gaps.at_end(&self.first.consumer);
        for lost in lost.into_iter().filter(|lost| lost.frames > 0) {
            session.lose(lost)?;
        }
        Ok(())
    }

    /// Hands the next packet of the first source to the aligner. False if there was none.
    fn take_first(&mut self, session: &mut Session) -> Result<bool> {
        let Some(Told { lost, time }) = self.first.take() else {
            return Ok(false);
        };
        for lost in lost.into_iter().filter(|lost| lost.frames > 0) {
            self.aligner.hurry();
            self.deliver(session)?;
            self.aligner.lose_first(lost.frames);
            session.lose(lost)?;
        }
        self.aligner.push_first(&self.first.samples, time);
        Ok(true)
    }

    /// Like [`take_first`](Self::take_first), for the second source.
    fn take_second(&mut self, session: &mut Session) -> Result<bool> {
        let Some(Told { lost, time }) = self.second.take() else {
            return Ok(false);
        };
        let frames = lost.iter().map(|lost| lost.frames).sum();
        if frames > 0 {
            self.aligner.lose_second(frames);
            session.interrupt()?;
        }
        self.aligner.push_second(&self.second.samples, time)?;
        Ok(true)
    }

    /// Passes on events; a failure of the second source fails the pair.
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
        let frame_bytes = self.format().frame_bytes() as usize;
        let bytes = &mut self.bytes;
        self.aligner.pull(|aligned| {
            let frames = aligned.first.len() / channels;
            let bytes = &mut bytes[..frames * frame_bytes];
            match combine {
                Combine::Mix => mix(&aligned, bytes),
                Combine::SideBySide => beside(&aligned, channels, bytes),
            }
            session.push(Data::Bytes(bytes), aligned.time)
        })?;
        session.count(Counter::FilledFrames, self.aligner.take_filled());
        // Times of packets are those of the first source.
        session.note_time_error(self.first.consumer.counter(Counter::TimeErrorNs));
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

fn mix(aligned: &Aligned<'_>, target: &mut [u8]) {
    let (target, _) = target.as_chunks_mut::<4>();
    let samples = aligned.first.iter().zip(aligned.second);
    for (bytes, (one, other)) in target.iter_mut().zip(samples) {
        *bytes = (one + other).clamp(-1.0, 1.0).to_le_bytes();
    }
}

fn beside(aligned: &Aligned<'_>, channels: usize, target: &mut [u8]) {
    let (target, _) = target.as_chunks_mut::<4>();
    let both = aligned.first.chunks_exact(channels);
    let both = both.zip(aligned.second.chunks_exact(channels));
    for (frame, (one, other)) in target.chunks_exact_mut(2 * channels).zip(both) {
        for (bytes, sample) in frame.iter_mut().zip(one.iter().chain(other)) {
            *bytes = sample.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::ring::sys::Memory;
    use crate::ring::tests::{Consumer, Taken, ring};

    const FORMAT: Format = Format {
        rate: 48_000,
        channels: 1,
        sample: Sample::F32,
    };
    const PACKET: u32 = 48;

    /// A source of a constant, whose times are estimated for its first packets.
    struct Stamped {
        sample: f32,
        packets: u64,
        estimated: u64,
    }

    impl Source for Stamped {
        fn run(&mut self, session: &mut Session) -> Result<()> {
            session.begin("stamped", FORMAT)?;
            let bytes = self.sample.to_le_bytes().repeat(PACKET as usize);
            for packet in 0..self.packets {
                let time = Time {
                    ns: 1_000_000_000 + FORMAT.duration_ns(packet * u64::from(PACKET)),
                    is_estimated: packet < self.estimated,
                };
                session.push(Data::Bytes(&bytes), time)?;
            }
            while !session.is_stopped() {
                thread::park_timeout(Duration::from_millis(1));
            }
            Ok(())
        }
    }

    /// A capture of two sources, the reader of its ring, and that ring's memory.
    fn pair(sources: [Box<dyn Source>; 2], combine: Combine) -> (Capture, Consumer, Memory) {
        let channels = match combine {
            Combine::Mix => 1,
            Combine::SideBySide => 2,
        };
        let settings = Settings {
            format: Format { channels, ..FORMAT },
            map: ChannelMap::standard(channels),
            packet_frames: PACKET,
            overrun: Overrun::DropNewest,
            silence: Silence::Emit,
            gate: None,
        };
        let ring = ring(64, 1_024);
        let (consumer, memory) = (Consumer::of(&ring), ring.memory());
        let packetizer = Packetizer::new(ring, settings).unwrap();
        let pair = Pair::new(sources, combine, &settings, Policy::Refuse);
        let capture = Capture::start(Box::new(pair), packetizer, Policy::Refuse, Box::new(|| {}));
        (capture.unwrap(), consumer, memory)
    }

    /// The first thirty packets of two sources.
    fn captured(sources: [Stamped; 2], combine: Combine) -> Vec<Taken> {
        let sources = sources.map(|source| Box::new(source) as Box<dyn Source>);
        let (_capture, consumer, _) = pair(sources, combine);
        let mut packets = Vec::new();
        while packets.len() < 30 {
            match consumer.take() {
                Some(taken) => packets.push(taken),
                None => thread::yield_now(),
            }
        }
        packets
    }

    fn samples(taken: &Taken) -> Vec<f32> {
        let (samples, _) = taken.data.as_chunks::<4>();
        samples
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect()
    }

    #[test]
    fn a_pair_marks_times_that_either_source_has_estimated() {
        for estimated in [[10, 0], [0, 10]] {
            let sources = estimated.map(|estimated| Stamped {
                sample: 0.25,
                packets: 40,
                estimated,
            });
            let packets = captured(sources, Combine::Mix);
            let is_marked = |taken: &Taken| taken.packet.flags & flag::TIME_ESTIMATED != 0;
            assert!(packets[..10].iter().all(is_marked), "{estimated:?}");
            // The second is resampled by chunks of 120 frames.
            assert!(!packets[13..].iter().any(is_marked), "{estimated:?}");
        }
    }

    /// A source of ten packets that ends by itself or fails, after frames that were lost.
    struct Ending(Option<Error>);

    impl Source for Ending {
        fn run(&mut self, session: &mut Session) -> Result<()> {
            session.begin("ending", FORMAT)?;
            let data = [1; 4 * PACKET as usize];
            for packet in 0..10 {
                let ns = 1_000_000_000 + FORMAT.duration_ns(packet * u64::from(PACKET));
                session.push(Data::Bytes(&data), Time::of_device(ns))?;
            }
            session.lose(Loss::exact(100))?;
            session.lose(Loss::estimated(20))?;
            self.0.take().map_or(Ok(()), Err)
        }
    }

    #[test]
    fn frames_after_the_last_packet_of_the_first_are_told_and_those_before_it_go_out() {
        for error in [None, Some(Error::Unplugged("'first'".to_owned()))] {
            // The second has delivered less than the first, which has waited for it.
            let second = Stamped {
                sample: 0.25,
                packets: 3,
                estimated: 0,
            };
            let first = Ending(error.clone());
            let (mut capture, consumer, memory) =
                pair([Box::new(first), Box::new(second)], Combine::Mix);
            while memory.u32(word::CLOSED * 4).load(SeqCst) == closed::OPEN {
                thread::yield_now();
            }
            capture.close();
            let packets: Vec<Taken> = std::iter::from_fn(|| consumer.take()).collect();
            let frames: u32 = packets.iter().map(|taken| taken.packet.frames).sum();
            assert_eq!(frames, 10 * PACKET);
            let count = |counter| crate::ring::counter_of(&memory, counter).load(SeqCst);
            let lost = [
                Counter::LostFrames,
                Counter::EstimatedFrames,
                Counter::Frames,
            ]
            .map(count);
            assert_eq!(lost, [120, 20, u64::from(10 * PACKET) + 120]);
            assert!(count(Counter::FilledFrames) > 0);
            let last = std::iter::from_fn(|| capture.event()).last();
            assert_eq!(last, Some(error.map_or(Event::Ended, Event::Failed)));
        }
    }

    #[test]
    fn two_sources_are_added_or_stand_side_by_side() {
        let sources = || {
            [0.25, -0.75].map(|sample| Stamped {
                sample,
                packets: 40,
                estimated: 0,
            })
        };
        // A packet after the filter of the second has settled at the constant.
        let mixed = &captured(sources(), Combine::Mix)[20];
        assert_eq!((mixed.packet.frames, mixed.packet.position), (48, 960));
        for sample in samples(mixed) {
            assert!((sample + 0.5).abs() < 1e-3, "{sample}");
        }
        let beside = samples(&captured(sources(), Combine::SideBySide)[20]);
        assert_eq!(beside.len(), 96);
        for frame in beside.chunks(2) {
            assert_eq!(frame[0], 0.25);
            assert!((frame[1] + 0.75).abs() < 1e-3, "{frame:?}");
        }
    }
}
