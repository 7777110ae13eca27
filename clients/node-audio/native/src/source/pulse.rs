//! PulseAudio, and PipeWire by its PulseAudio interface, through libpulse.
//!
//! The stream is opened in the device's own format, so that what converts it, and how long that takes,
//! is known here. A source is always named, and a monitor may not be moved: the server would put a stream
//! whose monitor went away on the microphone. **Invariant:** a stream that was lost is opened again, and
//! what is missing in between is told by the clock.

mod resolve;
pub mod sys;

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

use crate::clock;
use crate::clock::device::DeviceClock;
use crate::device::{Backend, Device, Kind, Program, Wanted};
use crate::error::Result;
use crate::event::Event;
use crate::format::Format;
use crate::frames::Data;
use crate::limits::TURN_MS;
use crate::packetizer::Time;
use crate::session::{Control, Session};
use crate::source::Source;
use crate::source::outage::{Outage, outlast_all};
use resolve::Resolved;
use sys::{Connection, Fault, Fragment, Recording};

/// See the module.
#[derive(Debug)]
pub struct Pulse {
    wanted: Wanted,
    /// Length of a packet.
    packet: Duration,
}

impl Pulse {
    /// A capture of packets of this length.
    #[must_use]
    pub fn new(wanted: Wanted, packet: Duration) -> Self {
        Self { wanted, packet }
    }

    /// Opens the stream, and delivers until it ends.
    fn capture(&self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        let connected = Connected::open(session.control())?;
        let connection = &connected.connection;
        let resolved = resolve::resolve(connection, &self.wanted)?;
        let fault = |fault: Fault| connection.error(fault, &resolved.source);
        let request = resolved.request(self.packet);
        let recording = Recording::start(connection, &request).map_err(fault)?;
        connection.subscribe();
        let mut stream = Stream {
            resolved: &resolved,
            connection,
            recording: &recording,
            clock: DeviceClock::new(resolved.format.rate),
            frames: 0,
            is_suspended: false,
        };
        outage.over(session, &recording.source(), resolved.format)?;
        let ended = stream.run(session, outage, &self.wanted);
        if !session.is_stopped() {
            outage.began(session, stream.clock.time_of(stream.frames))?;
        }
        ended
    }
}

impl Source for Pulse {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        outlast_all(session, |session, outage| self.capture(session, outage))
    }
}

/// A connection whose loop the capture's owner can wake.
struct Connected {
    connection: Connection,
    control: Arc<Control>,
}

impl Connected {
    fn open(control: &Arc<Control>) -> Result<Self> {
        let asked = control.clone();
        let connection = Connection::open(Box::new(move || asked.is_stopped()))?;
        let (waker, this_thread) = (connection.waker(), thread::current());
        control.set_waker(Some(Box::new(move || {
            waker.wake();
            this_thread.unpark();
        })));
        Ok(Self {
            connection,
            control: control.clone(),
        })
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // The loop goes with the connection: nobody may wake it any more.
        self.control.set_waker(Some(unparking(thread::current())));
    }
}

fn unparking(thread: Thread) -> Box<dyn Fn() + Send> {
    Box::new(move || thread.unpark())
}

/// A stream that is open.
struct Stream<'c> {
    resolved: &'c Resolved,
    connection: &'c Connection,
    recording: &'c Recording<'c>,
    clock: DeviceClock,
    /// Frames that came, those of holes too.
    frames: u64,
    is_suspended: bool,
}

impl Stream<'_> {
    /// Delivers until the capture is to end, or the default is another device.
    fn run(&mut self, session: &mut Session, outage: &mut Outage, wanted: &Wanted) -> Result<()> {
        let fault = |fault: Fault| self.connection.error(fault, &self.resolved.source);
        let turn = Duration::from_millis(TURN_MS);
        while !session.is_stopped() {
            self.connection.turn(turn).map_err(fault)?;
            if !self.recording.is_ready() {
                return Err(fault(self.connection.fault("pa_stream_get_state")));
            }
            if self.is_superseded(wanted)? {
                return Ok(());
            }
            self.look_at_device(session)?;
            self.drain(session, outage)?;
        }
        Ok(())
    }

    /// Whether the default is another device than this.
    fn is_superseded(&self, wanted: &Wanted) -> Result<bool> {
        let follows_default = *wanted == Wanted::Loopback(None);
        if !follows_default || !self.connection.changes().is_of_server() {
            return Ok(false);
        }
        let resolved = resolve::resolve(self.connection, wanted)?;
        Ok(resolved.source != self.resolved.source)
    }

    /// Tells of a device that was changed or suspended.
    fn look_at_device(&mut self, session: &mut Session) -> Result<()> {
        if self.recording.take_moved() {
            session.interrupt()?;
            let device = self.recording.source();
            session.tell(Event::Moved { device });
        }
        let is_suspended = self.recording.is_suspended();
        if is_suspended == self.is_suspended {
            return Ok(());
        }
        self.is_suspended = is_suspended;
        if is_suspended {
            self.clock.interrupt();
            session.interrupt()?;
            session.tell(Event::Suspended);
        } else {
            session.tell(Event::Resumed);
        }
        Ok(())
    }

    /// Delivers what is there.
    fn drain(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        let latency_ns = self.recording.latency_ns();
        let mut is_first = true;
        loop {
            let outcome = RefCell::new(Ok(()));
            let took = self.recording.next(|fragment| {
                if is_first {
                    observe(
                        &mut self.clock,
                        self.frames,
                        latency_ns,
                        fragment.frames(self.resolved.format),
                    );
                    is_first = false;
                }
                let time = Time {
                    ns: self.clock.time_of(self.frames).unwrap_or_default(),
                    is_estimated: latency_ns.is_none(),
                };
                *outcome.borrow_mut() = outage
                    .close_gap(session, time.ns)
                    .and_then(|()| deliver(session, fragment, self.resolved.format, time));
                fragment.frames(self.resolved.format)
            });
            let took = took.map_err(|fault| self.connection.error(fault, &self.resolved.source))?;
            outcome.into_inner()?;
            match took {
                Some(frames) => self.frames += frames,
                None => return Ok(()),
            }
        }
    }
}

impl Fragment<'_> {
    fn frames(self, format: Format) -> u64 {
        let bytes = match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Hole(bytes) => bytes,
        };
        bytes as u64 / u64::from(format.frame_bytes())
    }
}

/// Notes when the next frame was captured; where the server has not said, as if the fragment ended now.
fn observe(clock: &mut DeviceClock, frame: u64, latency_ns: Option<i64>, fragment: u64) {
    let now = clock::now_ns();
    let captured = match latency_ns {
        Some(latency) => now.checked_add_signed(latency.saturating_neg()),
        None => now.checked_sub(fragment * 1_000_000_000 / u64::from(clock.rate())),
    };
    clock.observe(frame, captured.unwrap_or(now));
}

fn deliver(
    session: &mut Session,
    fragment: Fragment<'_>,
    format: Format,
    time: Time,
) -> Result<()> {
    match fragment {
        Fragment::Bytes(bytes) => session.push(Data::Bytes(bytes), time),
        Fragment::Hole(_) => session.lose(fragment.frames(format)),
    }
}

/// The devices that there are.
///
/// # Errors
/// There is no server, or it does not answer.
pub fn devices() -> Result<Vec<Device>> {
    let connection = Connection::open(Box::new(|| false))?;
    let fault = |fault: Fault| connection.error(fault, "");
    let sources = connection.sources().map_err(fault)?;
    let defaults = connection.defaults().map_err(fault)?;
    let default_input =
        resolve::default_input(&sources, &defaults).map(|source| source.name.clone());
    Ok(sources
        .into_iter()
        .map(|source| match &source.monitor_of {
            Some((_, sink)) => Device {
                is_default: *sink == defaults.sink,
                kind: Kind::Loopback,
                id: source.name,
                name: source.description,
                format: source.format,
                backend: Backend::Pulse,
            },
            None => Device {
                is_default: Some(&source.name) == default_input.as_ref(),
                kind: Kind::Input,
                id: source.name,
                name: source.description,
                format: source.format,
                backend: Backend::Pulse,
            },
        })
        .collect())
}

/// The programs that play sound, once each.
///
/// # Errors
/// There is no server, or it does not answer.
pub fn programs() -> Result<Vec<Program>> {
    let connection = Connection::open(Box::new(|| false))?;
    let playing = connection.playing();
    let playing = playing.map_err(|fault| connection.error(fault, ""))?;
    let mut programs: Vec<Program> = Vec::new();
    for stream in playing {
        let is_listed = programs.iter().any(|program| program.pid == stream.pid);
        if stream.pid != 0 && !is_listed {
            programs.push(Program {
                pid: stream.pid,
                name: stream.name,
            });
        }
    }
    Ok(programs)
}

/// Calls `on_change` whenever devices or defaults have changed, until it is stopped.
///
/// # Errors
/// There is no server, or it went away.
pub fn watch(control: &Arc<Control>, on_change: &dyn Fn()) -> Result<()> {
    let connected = Connected::open(control)?;
    let connection = &connected.connection;
    connection.subscribe();
    // What changed before this was told to nobody.
    on_change();
    while !control.is_stopped() {
        let turned = connection.turn(Duration::from_millis(TURN_MS));
        turned.map_err(|fault| connection.error(fault, ""))?;
        let changes = connection.changes();
        if changes.is_of_devices() || changes.is_of_server() {
            on_change();
        }
        if !connection.is_ready() {
            return Err(connection.error(connection.fault("pa_context_get_state"), ""));
        }
    }
    Ok(())
}
