//! All streams of one program, mixed.
//!
//! Each stream that the program plays is recorded by itself, into a ring that JavaScript does not see, and the
//! [mixer](crate::source::mixer) makes one stream of them. Streams that come later join; the capture goes on while
//! there is none, and ends with the program. **Invariant:** a frame that one stream lost is counted, see the mixer.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connected::Connected;
use super::follow::Tracker;
use super::resolve::{self, Resolved};
use super::stream::Stream;
use super::sys::{Connection, Fault, Playing, Recording};
use crate::channel_map::StreamFormat;
use crate::clock;
use crate::convert::{Policy, in_floats, sample::encode};
use crate::device::{Target, Wanted};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::frames::Data;
use crate::layout::{Counter, Layout, flag};
use crate::limits::{
    DISCONTINUITY_NS, PROGRAM_LOOK_MS, PROGRAM_PACKET_MS, PROGRAM_SLOTS, PROGRAM_STREAMS_MAX,
};
use crate::packetizer::{Loss, Overrun, Packetizer, Settings, Silence, Time};
use crate::process::ProcFs;
use crate::ring::Ring;
use crate::ring::consumer::Consumer;
use crate::ring::sys::Heap;
use crate::session::{Control, Session};
use crate::source::mixer::{Activity, Mixed, Mixer, Stamp};
use crate::source::outage::Outage;

/// See the module.
pub struct Program {
    tracker: Tracker<ProcFs>,
    /// Length of a packet.
    packet: Duration,
    /// That of the first stream's sink, once there was one.
    format: Option<StreamFormat>,
    /// It has ended, and is waited for.
    is_gone: bool,
}

impl Program {
    /// A program that is not captured yet.
    pub fn new(target: &Target, packet: Duration) -> Self {
        Self {
            tracker: Tracker::new(target, ProcFs),
            packet,
            format: None,
            is_gone: false,
        }
    }

    /// Captures until the program or the capture ends.
    ///
    /// # Errors
    /// [`Error::NoProcess`]: it plays nothing; or the server went away.
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
            packet: self.packet,
            lanes: Vec::new(),
            opened: 0,
            mixer: Mixer::new(format.format, clock::now_ns()),
            encoded: Vec::new(),
            end_ns: None,
        };
        let ended = self.run(session, outage, &mut streams);
        if !session.is_stopped() {
            outage.began(session, streams.end_ns)?;
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
        while !session.is_stopped() {
            is_stale |= connection.changes().is_of_streams();
            if is_stale {
                let playing = self.playing(connection)?;
                streams.refresh(&playing)?;
            }
            if looked.elapsed() >= look_every || is_stale {
                looked = Instant::now();
                if self.is_over(session, streams) {
                    return Ok(());
                }
            }
            let idle_turn = streams.mixer.is_idle().then_some(self.packet);
            let turns = streams.lanes.iter().map(|lane| lane.stream.turn_max());
            let turn = turns.chain(idle_turn).fold(look_every, Duration::min);
            connection.turn(turn).map_err(fault)?;
            if !connection.is_ready() {
                return Err(fault(connection.fault("pa_context_get_state")));
            }
            is_stale = streams.step();
            streams.deliver(session, outage)?;
        }
        Ok(())
    }

    fn playing(&mut self, connection: &Connection) -> Result<Vec<Playing>> {
        let playing = connection.playing();
        let playing = playing.map_err(|fault| connection.error(fault, ""))?;
        Ok(self.tracker.select(playing))
    }

    /// True once the program has ended for good. Tells when it has ended and when it is back.
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

/// Streams that are recorded.
struct Streams<'c> {
    connection: &'c Connection,
    format: StreamFormat,
    packet: Duration,
    lanes: Vec<Lane<'c>>,
    /// Streams that were opened.
    opened: u32,
    mixer: Mixer,
    /// Room for what goes out.
    encoded: Vec<u8>,
    /// When the next frame that goes out was captured, if it follows on the last one.
    end_ns: Option<u64>,
}

impl<'c> Streams<'c> {
    /// Opens and closes streams, so that those are recorded that the program plays.
    fn refresh(&mut self, playing: &[Playing]) -> Result<()> {
        let is_new = |one: &&Playing| !self.lanes.iter().any(|lane| lane.index == one.index);
        let added: Vec<&Playing> = playing.iter().filter(is_new).collect();
        let connection = self.connection;
        if !added.is_empty() {
            let sources = connection.sources();
            let sources = sources.map_err(|fault| connection.error(fault, ""))?;
            let found = added.into_iter().filter_map(|one| {
                let resolved = Resolved::stream(&sources, one)?;
                Some((one.index, resolved))
            });
            for (index, resolved) in found.take(PROGRAM_STREAMS_MAX - self.lanes.len()) {
                self.open(index, resolved)?;
            }
        }
        for lane in &self.lanes {
            let activity = match playing.iter().find(|one| one.index == lane.index) {
                Some(one) if one.is_corked => Activity::Paused,
                Some(_) => Activity::Playing,
                None => Activity::Ended,
            };
            self.mixer.set(lane.id, activity, clock::now_ns());
        }
        self.lanes
            .retain(|lane| playing.iter().any(|one| one.index == lane.index));
        Ok(())
    }

    fn open(&mut self, index: u32, resolved: Resolved) -> Result<()> {
        // The server converts a stream of another sink.
        let format = StreamFormat {
            format: in_floats(self.format.format),
            map: self.format.map,
        };
        let mut resolved = resolved;
        resolved.format = format;
        let request = resolved.request(self.packet);
        // A stream that has ended meanwhile can't be recorded.
        let recording = Recording::start(self.connection, &request).map(Rc::new);
        let opened = recording.and_then(|recording| {
            let mut stream = Stream::new(self.connection, recording, resolved);
            stream.ask_begin()?;
            Ok(stream)
        });
        if let Ok(stream) = opened {
            let mut lane = Lane::new(stream, format)?;
            lane.index = index;
            lane.id = self.opened;
            self.opened = self.opened.wrapping_add(1);
            self.lanes.push(lane);
        }
        Ok(())
    }

    /// Takes what the streams have; true: one has ended, by itself or since it was moved.
    fn step(&mut self) -> bool {
        let before = self.lanes.len();
        let mixer = &mut self.mixer;
        self.lanes.retain_mut(|lane| {
            let outcome = lane.stream.step(&mut lane.session, &mut lane.outage);
            lane.take(mixer);
            if outcome.is_err() {
                mixer.set(lane.id, Activity::Ended, clock::now_ns());
            }
            outcome.is_ok()
        });
        self.lanes.len() < before
    }

    /// Gives out what is mixed.
    fn deliver(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        let errors = self
            .lanes
            .iter()
            .map(|lane| lane.consumer.counter(Counter::TimeErrorNs));
        if let Some(error_ns) = errors.max() {
            session.note_time_error(error_ns);
        }
        let (encoded, end_ns, format) = (&mut self.encoded, &mut self.end_ns, self.format.format);
        self.mixer.pull(clock::now_ns(), |mixed| {
            let (frames, time) = match mixed {
                Mixed::Lost(loss) => {
                    *end_ns = None;
                    session.lose(loss)?;
                    return Ok(());
                }
                Mixed::Silence(frames, time) => (frames, time),
                Mixed::Sound(samples, time, _) => {
                    (samples.len() as u64 / u64::from(format.channels), time)
                }
            };
            outage.close_gap(session, time.ns)?;
            let jump_ns = end_ns.map_or(0, |end_ns| end_ns.abs_diff(time.ns));
            if jump_ns > DISCONTINUITY_NS {
                session.interrupt()?;
            }
            *end_ns = Some(time.ns + format.duration_ns(frames));
            let Mixed::Sound(samples, _, has_hole) = mixed else {
                return session.push(Data::Silence(frames), time);
            };
            if has_hole {
                session.interrupt()?;
                session.count(Counter::FilledFrames, frames);
            }
            let width = format.sample.bytes() as usize;
            encoded.resize(samples.len() * width, 0);
            for (bytes, &sample) in encoded.chunks_exact_mut(width).zip(samples) {
                encode(format.sample, sample, bytes);
            }
            session.count(Counter::CopiedFrames, LANE_COPIES * frames);
            session.push(Data::Bytes(encoded), time)
        })
    }
}

/// Copies of a frame before it goes out: into the ring of its stream, out of it, mixed, encoded.
const LANE_COPIES: u64 = 4;

/// A stream that is recorded into a ring of its own. The session and the consumer go before the memory.
struct Lane<'c> {
    /// Index of the stream at the server.
    index: u32,
    /// Number of the stream in the mixer: an index may be recorded again.
    id: u32,
    stream: Stream<'c>,
    session: Session,
    outage: Outage,
    consumer: Consumer,
    /// Position of the next packet if nothing is lost.
    next: u64,
    _heap: Heap,
}

impl<'c> Lane<'c> {
    fn new(stream: Stream<'c>, format: StreamFormat) -> Result<Self> {
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
        let (mut session, _) = Session::new(packetizer, Policy::Refuse, control, Box::new(|| {}));
        let mut outage = Outage::default();
        outage.over(&mut session, "stream", format)?;
        Ok(Self {
            index: 0,
            id: 0,
            stream,
            session,
            outage,
            consumer,
            next: 0,
            _heap: heap,
        })
    }

    /// Hands what has come to the mixer.
    fn take(&mut self, mixer: &mut Mixer) {
        self.session.flush();
        while let Some(taken) = self.consumer.take() {
            let packet = taken.packet;
            let stamp = Stamp {
                lost: Loss {
                    frames: packet.position - self.next,
                    is_estimated: packet.flags & flag::LOSS_ESTIMATED != 0,
                },
                time: Time {
                    ns: packet.time_ns,
                    is_estimated: packet.flags & flag::TIME_ESTIMATED != 0,
                },
            };
            self.next = packet.position + u64::from(packet.frames);
            let samples = self.consumer.words(&taken).map(f32::from_bits);
            mixer.push(self.id, samples, stamp);
            self.consumer.release(&taken);
        }
    }
}
