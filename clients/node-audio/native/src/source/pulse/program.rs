//! All streams of one program, mixed.
//!
//! Each stream that the program plays is recorded by itself, into a ring that JavaScript does not see, and the
//! [mixer](crate::source::mixer) makes one stream of them. Later streams join; the capture goes on while there is
//! none, and ends with the program. **Invariant:** a frame that one stream lost is counted, see the mixer.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connected::Connected;
use super::follow::Tracker;
use super::outlet::Outlet;
use super::resolve::{self, Resolved};
use super::stream::Stream;
use super::sys::{Connection, Fault, Playing, Recording};
use crate::channel_map::StreamFormat;
use crate::clock;
use crate::convert::{Policy, in_floats};
use crate::device::{Target, Wanted};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::gaps::Gaps;
use crate::layout::{Counter, Layout, flag};
use crate::limits::{PROGRAM_LOOK_MS, PROGRAM_PACKET_MS, PROGRAM_SLOTS, PROGRAM_STREAMS_MAX};
use crate::packetizer::{Overrun, Packetizer, Settings, Silence, Time};
use crate::process::ProcFs;
use crate::ring::Ring;
use crate::ring::consumer::Consumer;
use crate::ring::sys::Heap;
use crate::session::{Control, Session};
use crate::source::mixer::{Activity, Mixer, Stamp};
use crate::source::outage::Outage;

/// A capture of all streams of a program; see the module.
pub struct Program {
    tracker: Tracker<ProcFs>,
    /// Length of a fragment.
    fragment: Duration,
    /// Format of the first stream's sink, once there was one.
    format: Option<StreamFormat>,
    /// True while the program has ended and its restart is awaited.
    is_gone: bool,
}

impl Program {
    /// A program that is not captured yet.
    pub fn new(target: &Target, fragment: Duration) -> Self {
        Self {
            tracker: Tracker::new(target, ProcFs),
            fragment,
            format: None,
            is_gone: false,
        }
    }

    /// Captures until the program or the capture ends.
    ///
    /// # Errors
    /// [`Error::NoProcess`]: the program plays nothing; or the server went away.
    pub fn capture(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
    ) -> Result<ControlFlow<()>> {
        let connected = Connected::open(session.control())?;
        let connection = &connected.connection;
        connection.subscribe();
        let playing = self.playing(connection)?;
        let name = self.tracker.which().to_string();
        let format = match self.format {
            Some(format) => format,
            None if playing.is_empty() => return Err(Error::NoProcess(name)),
            None => *self.format.insert(format_of(connection, &playing)?),
        };
        outage.over(session, &name, format)?;
        let mut streams = Streams {
            connection,
            format,
            fragment: self.fragment,
            lanes: Vec::new(),
            opened: 0,
            announced_ns: clock::now_ns(),
            mixer: Mixer::new(format.format, clock::now_ns()),
            outlet: Outlet::new(format.format),
        };
        let ended = self.run(session, outage, &mut streams);
        if !session.is_stopped() {
            outage.began(session, streams.outlet.end_ns())?;
        }
        ended.map(ControlFlow::Break)
    }

    fn run(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        streams: &mut Streams<'_>,
    ) -> Result<()> {
        let connection = streams.connection;
        let fault = |fault: Fault| connection.error(fault, "");
        let look_every = Duration::from_millis(PROGRAM_LOOK_MS);
        let mut is_stale = true;
        let mut looked = Instant::now();
        let mut read_ns = clock::now_ns();
        while !session.is_stopped() {
            is_stale |= connection.changes().is_of_streams();
            // New streams were announced after the last read from the server, however late this thread has its
            // turn.
            streams.announced_ns = std::mem::replace(&mut read_ns, clock::now_ns());
            if is_stale {
                let playing = self.playing(connection)?;
                streams.refresh(&playing)?;
            }
            if looked.elapsed() >= look_every || is_stale {
                looked = Instant::now();
                if self.is_over(session, streams) {
                    return streams.deliver(session, outage);
                }
            }
            let idle_turn = streams.mixer.is_idle().then_some(self.fragment);
            let turns = streams.lanes.iter().filter_map(Lane::turn_max);
            let turn = turns.chain(idle_turn).fold(look_every, Duration::min);
            let turn = session.turn_max(turn, clock::now_ns());
            connection.turn(turn).map_err(fault)?;
            session.wake_if_due(clock::now_ns());
            if !connection.is_ready() {
                return Err(fault(connection.fault("pa_context_get_state")));
            }
            is_stale = streams.step()?;
            streams.deliver(session, outage)?;
        }
        Ok(())
    }

    fn playing(&mut self, connection: &Connection) -> Result<Vec<Playing>> {
        let playing = connection.playing();
        let playing = playing.map_err(|fault| connection.error(fault, ""))?;
        Ok(self.tracker.select(playing))
    }

    /// True once the program has ended for good. Reports its end and its return.
    fn is_over(&mut self, session: &mut Session, streams: &Streams<'_>) -> bool {
        let is_there = self.tracker.is_alive() || !streams.lanes.is_empty();
        if !self.tracker.awaits_restart() {
            return !is_there;
        }
        if is_there && self.is_gone {
            session.reconnected(0);
        }
        if !is_there && !self.is_gone {
            let reason = format!(
                "{} has ended; waiting for its restart",
                self.tracker.which()
            );
            session.tell(Event::Reconnecting { reason });
        }
        self.is_gone = !is_there;
        false
    }
}

/// Format of the sink of the first stream; of the default one for streams that have no sink yet.
fn format_of(connection: &Connection, playing: &[Playing]) -> Result<StreamFormat> {
    let sources = connection.sources();
    let sources = sources.map_err(|fault| connection.error(fault, ""))?;
    let mut found = playing
        .iter()
        .filter_map(|one| Resolved::stream(&sources, one));
    match found.next() {
        Some(found) => Ok(found.format),
        None => Ok(resolve::resolve(connection, &Wanted::Loopback(None))?.format),
    }
}

/// The recorded streams of the program.
struct Streams<'c> {
    connection: &'c Connection,
    format: StreamFormat,
    fragment: Duration,
    lanes: Vec<Lane<'c>>,
    /// Number of streams that were opened.
    opened: u32,
    /// Time before which the server had not announced the new streams, in ns.
    announced_ns: u64,
    mixer: Mixer,
    outlet: Outlet,
}

impl<'c> Streams<'c> {
    /// Opens and closes streams, to record those that the program plays.
    fn refresh(&mut self, playing: &[Playing]) -> Result<()> {
        self.close_ended(playing)?;
        let is_wanted = |one: &&Playing| {
            let mut lanes = self.lanes.iter();
            !lanes.any(|lane| lane.index == one.index && lane.stream.is_some())
        };
        let wanted: Vec<&Playing> = playing.iter().filter(is_wanted).collect();
        let connection = self.connection;
        if !wanted.is_empty() {
            let sources = connection.sources();
            let sources = sources.map_err(|fault| connection.error(fault, ""))?;
            for one in wanted {
                let has_lane = self.lanes.iter().any(|lane| lane.index == one.index);
                if !has_lane && self.lanes.len() >= PROGRAM_STREAMS_MAX {
                    continue;
                }
                let resolved = Resolved::stream(&sources, one);
                let stream = resolved.and_then(|resolved| self.open(resolved));
                self.record(one.index, stream)?;
            }
        }
        for lane in &self.lanes {
            let one = playing.iter().find(|one| one.index == lane.index);
            let activity = match one {
                Some(one) if one.is_corked => Activity::Paused,
                Some(_) => Activity::Playing,
                None => Activity::Ended,
            };
            self.mixer.set(lane.id, activity, self.announced_ns);
        }
        Ok(())
    }

    /// Takes the last frames of streams that the program no longer plays.
    fn close_ended(&mut self, playing: &[Playing]) -> Result<()> {
        let is_over = |lane: &Lane<'_>| !playing.iter().any(|one| one.index == lane.index);
        for mut lane in self.lanes.extract_if(.., |lane| is_over(lane)) {
            lane.ask_end()?;
            lane.end_stream(&mut self.mixer)?;
            lane.close(&mut self.mixer, self.fragment);
        }
        Ok(())
    }

    /// Starts to record a stream. `None`: the stream has ended meanwhile.
    fn open(&self, resolved: Resolved) -> Option<Stream<'c>> {
        let mut resolved = resolved;
        // The server converts a stream that plays to another sink.
        resolved.format = self.lane_format();
        let request = resolved.request(self.fragment);
        let recording = Rc::new(Recording::start(self.connection, &request).ok()?);
        let mut stream = Stream::new(self.connection, recording, resolved);
        stream.ask_begin().ok()?;
        Some(stream)
    }

    fn lane_format(&self) -> StreamFormat {
        StreamFormat {
            format: in_floats(self.format.format),
            map: self.format.map,
        }
    }

    /// Gives an opened stream to its lane: a stream that the server has moved keeps its lane, which counts the
    /// frames missing in between.
    fn record(&mut self, index: u32, stream: Option<Stream<'c>>) -> Result<()> {
        let format = self.lane_format();
        let at = self.lanes.iter().position(|lane| lane.index == index);
        match (at, stream) {
            (Some(at), Some(stream)) => self.lanes[at].begin(stream, format)?,
            (Some(at), None) => self.lanes.remove(at).close(&mut self.mixer, self.fragment),
            (None, Some(stream)) => {
                let mut lane = Lane::new(format)?;
                (lane.index, lane.id) = (index, self.opened);
                lane.begin(stream, format)?;
                self.opened = self.opened.wrapping_add(1);
                self.lanes.push(lane);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Takes the available frames of the streams. True: the server has ended a stream, by itself or since it was
    /// moved.
    fn step(&mut self) -> Result<bool> {
        let mut has_ended = false;
        for lane in &mut self.lanes {
            if let Some(stream) = &mut lane.stream
                && stream.step(&mut lane.session, &mut lane.outage).is_err()
            {
                lane.end_stream(&mut self.mixer)?;
                lane.was_cut = true;
                has_ended = true;
            }
            lane.take(&mut self.mixer);
        }
        Ok(has_ended)
    }

    /// Delivers the mix.
    fn deliver(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        let errors = self
            .lanes
            .iter()
            .map(|lane| lane.consumer.counter(Counter::TimeErrorNs));
        if let Some(error_ns) = errors.max() {
            session.note_time_error(error_ns);
        }
        session.count_frames(Counter::UnheardFrames, self.mixer.take_unheard());
        let outlet = &mut self.outlet;
        self.mixer
            .pull(clock::now_ns(), |mixed| outlet.give(session, outage, mixed))
    }
}

/// A stream that is recorded into a ring of its own. Field order: session and consumer are dropped before the
/// memory.
struct Lane<'c> {
    /// Index of the stream at the server.
    index: u32,
    /// Number of the stream in the mixer: the server may reuse an index.
    id: u32,
    /// `None`: the server has ended the stream.
    stream: Option<Stream<'c>>,
    /// True if the server ended the stream, and may have had a fragment that was not full.
    was_cut: bool,
    session: Session,
    outage: Outage,
    consumer: Consumer,
    gaps: Gaps,
    _heap: Heap,
}

impl<'c> Lane<'c> {
    fn new(format: StreamFormat) -> Result<Self> {
        let frames = format.format.rate * PROGRAM_PACKET_MS / 1_000;
        let layout = Layout::new(PROGRAM_SLOTS, frames * format.format.frame_bytes())?;
        let heap = Heap::new(layout.bytes);
        let ring = Ring::new(heap.producer(), layout).expect("the memory is made by the layout");
        let consumer = Consumer::of(&ring);
        let settings = Settings {
            format: format.format,
            map: format.map,
            packet_frames: frames,
            overrun: Overrun::DropOldest,
            silence: Silence::Emit,
            gate: None,
        };
        let packetizer = Packetizer::new(ring, settings)?;
        let control = Arc::new(Control::default());
        let (session, _) = Session::new(packetizer, Policy::Refuse, control, Box::new(|| {}));
        Ok(Self {
            index: 0,
            id: 0,
            stream: None,
            was_cut: false,
            session,
            outage: Outage::default(),
            consumer,
            gaps: Gaps::default(),
            _heap: heap,
        })
    }

    fn begin(&mut self, stream: Stream<'c>, format: StreamFormat) -> Result<()> {
        self.outage.over(&mut self.session, "stream", format)?;
        self.stream = Some(stream);
        self.was_cut = false;
        Ok(())
    }

    /// Most frames that the server may have recorded at the end and not sent.
    fn unsent(&self, fragment: Duration) -> u64 {
        let ns = u64::try_from(fragment.as_nanos()).unwrap_or(u64::MAX);
        if self.was_cut {
            self.session.format().frames_in(ns)
        } else {
            0
        }
    }

    fn turn_max(&self) -> Option<Duration> {
        self.stream.as_ref().map(Stream::turn_max)
    }

    fn ask_end(&mut self) -> Result<()> {
        match &mut self.stream {
            Some(stream) => stream.ask_end(&mut self.session, &mut self.outage),
            None => Ok(()),
        }
    }

    /// Takes the last frames of the stream, and notes its end: another one may follow.
    fn end_stream(&mut self, mixer: &mut Mixer) -> Result<()> {
        if let Some(mut stream) = self.stream.take() {
            while !stream.finish(&mut self.session, &mut self.outage)? {
                self.take(mixer);
            }
            self.outage.began(&mut self.session, stream.end_ns())?;
        }
        Ok(())
    }

    /// Hands the rest to the mixer, and closes the lane.
    fn close(mut self, mixer: &mut Mixer, fragment: Duration) {
        mixer.miss(self.unsent(fragment));
        self.take(mixer);
        mixer.set(self.id, Activity::Ended, clock::now_ns());
    }

    /// Hands new packets to the mixer, and the losses after them.
    fn take(&mut self, mixer: &mut Mixer) {
        self.session.flush();
        while let Some(taken) = self.consumer.take() {
            let packet = taken.packet;
            let stamp = Stamp {
                lost: self.gaps.before(&packet),
                time: Time {
                    ns: packet.time_ns,
                    is_estimated: packet.flags & flag::TIME_ESTIMATED != 0,
                },
            };
            let samples = self.consumer.words(&taken).map(f32::from_bits);
            mixer.push(self.id, samples, stamp);
            self.consumer.release(&taken);
        }
        mixer.lose(self.id, self.gaps.at_end(&self.consumer));
    }
}
