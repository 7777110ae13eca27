//! PulseAudio, and PipeWire by its PulseAudio interface, through libpulse.
//!
//! The stream is opened in the device's own format, so that conversion and its delay are known here. A
//! source is always named, and a monitor may not be moved: the server would put a stream whose monitor
//! went away on the microphone. **Invariant:** a stream that was lost is opened again, and the gap in
//! between is reported by the clock.

mod connected;
mod follow;
mod outlet;
mod program;
mod resolve;
mod stream;
pub mod sys;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::device::{self, Backend, Device, Kind, Wanted};
use crate::error::Result;
use crate::limits::TURN_MS;
use crate::process::{ProcFs, Processes};
use crate::session::{Control, Session};
use crate::source::Source;
use crate::source::outage::{Outage, outlast_all, outlast_until};
use connected::Connected;
use program::Program;
use stream::Stream;
use sys::{Connection, Fault, Recording};

/// A capture from a sound server; see the module.
#[derive(Debug)]
pub struct Pulse {
    wanted: Wanted,
    /// Length of fragments, and between wakes of the event loop.
    fragment: Duration,
}

impl Pulse {
    /// A capture of fragments of this length.
    #[must_use]
    pub fn new(wanted: Wanted, fragment: Duration) -> Self {
        Self { wanted, fragment }
    }

    /// Opens the stream, and delivers until it ends.
    fn capture(&self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        let connected = Connected::open(session.control())?;
        let connection = &connected.connection;
        let resolved = resolve::resolve(connection, &self.wanted)?;
        let fault = |fault: Fault| connection.error(fault, &resolved.source);
        let request = resolved.request(self.fragment);
        let recording = Rc::new(Recording::start(connection, &request).map_err(fault)?);
        connection.subscribe();
        let mut stream = Stream::new(connection, recording.clone(), resolved.clone());
        stream.ask_begin().map_err(fault)?;
        outage.over(session, &recording.source(), resolved.format)?;
        let ended = stream.run(session, outage, &self.wanted);
        if !session.is_stopped() {
            outage.began(session, stream.end_ns())?;
        }
        ended
    }
}

impl Source for Pulse {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        session.group_wakes(self.fragment);
        if let Wanted::Process(target) = &self.wanted {
            let mut program = Program::new(target, self.fragment);
            return outlast_until(session, |session, outage| program.capture(session, outage));
        }
        outlast_all(session, |session, outage| self.capture(session, outage))
    }
}

/// Lists the devices.
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

/// Lists the programs that play sound, once each.
///
/// # Errors
/// There is no server, or it does not answer.
pub fn programs() -> Result<Vec<device::Program>> {
    let connection = Connection::open(Box::new(|| false))?;
    let playing = connection.playing();
    let playing = playing.map_err(|fault| connection.error(fault, ""))?;
    let mut programs: Vec<device::Program> = Vec::new();
    for stream in playing {
        let is_listed = programs.iter().any(|program| program.pid == stream.pid);
        if stream.pid != 0 && !is_listed {
            programs.push(device::Program {
                pid: stream.pid,
                start_ms: ProcFs.start_ms(stream.pid),
                name: stream.name,
            });
        }
    }
    Ok(programs)
}

/// Calls `on_change` whenever devices or defaults have changed, until `control` stops it.
///
/// # Errors
/// There is no server, or it went away.
pub fn watch(control: &Arc<Control>, on_change: &dyn Fn()) -> Result<()> {
    let connected = Connected::open(control)?;
    let connection = &connected.connection;
    connection.subscribe();
    // Changes before the subscription were not reported.
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
