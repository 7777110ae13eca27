//! macOS: CoreAudio's HAL. Microphones by their device; outputs and processes by a process tap (macOS
//! 14.2 and later) in an aggregate device of our own.
//!
//! The device's thread puts samples into a queue without waiting; the capture's thread takes them out,
//! which is one copy more than elsewhere, and counted. Type-checked, untested.

mod sys;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::clock::timeline::Times;
use crate::device::{Backend, Device, Follow, Kind, Program, Target, Wanted, Which};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::Format;
use crate::frames::Data;
use crate::layout::Counter;
use crate::packetizer::Time;
use crate::session::{Control, Session};
use crate::source::Source;
use crate::source::outage::{Outage, outlast_all};
use crate::source::periods::{Period, Periods};
use crate::source::polled;
use crate::source::suspicion::Suspicion;
use sys::{Recording, Status, Tap};

/// A capture by CoreAudio.
pub struct System {
    wanted: Wanted,
    /// Length of a packet.
    packet: Duration,
}

impl System {
    /// A capture of packets of this length; the device decides the period.
    #[must_use]
    pub fn new(wanted: Wanted, packet: Duration) -> Self {
        Self { wanted, packet }
    }

    fn capture(&self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        // Drop order: the tap outlives the recording of its aggregate device.
        let (tap, device, name) = self.open()?;
        let recording = Recording::start(device).map_err(|status| error(status, &name))?;
        outage.over(session, &name, recording.format())?;
        let mut stream = Stream {
            periods: Periods::new(recording.format().format, Times::Stamped),
            suspicion: Suspicion::new(recording.format().format),
            bytes: Vec::new(),
            recording,
        };
        let ended = stream.run(session, outage, &name, self.packet);
        if !session.is_stopped() {
            outage.began(session, stream.periods.end_ns())?;
        }
        drop(stream);
        drop(tap);
        ended
    }

    fn open(&self) -> Result<(Option<Tap>, u32, String)> {
        match &self.wanted {
            Wanted::Input(id) => {
                let device = input(id.as_deref())?;
                Ok((None, device.object, device.id))
            }
            Wanted::Loopback(None) => tapped(None, "loopback".to_owned()),
            Wanted::Loopback(Some(id)) if id == LOOPBACK => tapped(None, id.clone()),
            Wanted::Loopback(Some(id)) => Err(Error::NoDevice(format!("loopback '{id}'"))),
            Wanted::Process(target) => {
                let pid = process(target)?;
                let found = sys::process_of(pid);
                let process = found.ok_or_else(|| Error::NoProcess(target.which.to_string()))?;
                tapped(Some(process), format!("process {pid}"))
            }
        }
    }
}

/// The CoreAudio object of the process to capture, without its children.
fn process(target: &Target) -> Result<u32> {
    match (&target.which, target.follow) {
        (_, Some(Follow::Restart | Follow::Children)) => Err(Error::Unsupported(
            "source.follow other than 'none'".to_owned(),
        )),
        (
            &Which::Process {
                pid,
                start_ms: None,
            },
            _,
        ) => Ok(pid),
        _ => Err(Error::Unsupported(
            "source.program and source.startTimeMs; name a process by source.pid".to_owned(),
        )),
    }
}

/// Id of the tap of all outputs.
const LOOPBACK: &str = "loopback";

fn tapped(process: Option<u32>, name: String) -> Result<(Option<Tap>, u32, String)> {
    let tap = Tap::create(process).map_err(|status| error(status, &name))?;
    let device = tap.device();
    Ok((Some(tap), device, name))
}

fn input(id: Option<&str>) -> Result<sys::Entry> {
    let entries = sys::inputs().map_err(|status| error(status, "inputs"))?;
    let default = sys::default_input();
    let is_it = |entry: &sys::Entry| match id {
        Some(id) => entry.id == id,
        None => Some(entry.object) == default,
    };
    let name = id.unwrap_or("the default input");
    let found = entries.into_iter().find(is_it);
    found.ok_or_else(|| Error::NoDevice(format!("'{name}'")))
}

fn error(status: Status, device: &str) -> Error {
    match status {
        Status::TooOld => {
            Error::Unsupported("capture of played sound requires macOS 14.2 or later".to_owned())
        }
        Status::Code(sys::BAD_OBJECT | sys::BAD_DEVICE) => Error::Unplugged(format!("'{device}'")),
        Status::Code(sys::NOT_PERMITTED) => Error::Permission(format!(
            "macOS denies access to '{device}'; allow it in System Settings, Privacy & Security"
        )),
        Status::Code(code) => Error::Backend {
            call: "CoreAudio",
            reason: format!("OSStatus {code} ('{device}')"),
        },
    }
}

impl Source for System {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        let this_thread = thread::current();
        let control = session.control().clone();
        control.set_waker(Some(Box::new(move || this_thread.unpark())));
        outlast_all(session, |session, outage| self.capture(session, outage))
    }
}

/// A device that records.
struct Stream {
    recording: Recording,
    periods: Periods,
    suspicion: Suspicion,
    bytes: Vec<u8>,
}

impl Stream {
    fn run(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        name: &str,
        packet: Duration,
    ) -> Result<()> {
        while !session.is_stopped() {
            if !self.recording.is_alive() {
                return Err(Error::Unplugged(format!("'{name}'")));
            }
            let lost = self.recording.take_lost();
            if lost > 0 {
                self.periods.lose(session, lost)?;
            }
            while self.deliver(session, outage)? {}
            // The device's thread must not wake another one: poll twice a packet.
            thread::park_timeout(packet / 2);
        }
        Ok(())
    }

    /// Delivers one period of the device; `false`: none has come.
    fn deliver(&mut self, session: &mut Session, outage: &mut Outage) -> Result<bool> {
        let (bytes, suspicion) = (&mut self.bytes, &mut self.suspicion);
        let mut is_suspect = false;
        let taken = self.recording.take(|samples, frames| {
            is_suspect |= suspicion.is_raised_by(samples, frames);
            bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        });
        let Some(period) = taken else {
            return Ok(false);
        };
        session.count(Counter::CopiedFrames, period.frames);
        let (data, time) = (Data::Bytes(&self.bytes), Time::of_device(period.time_ns));
        let period = Period { data, time };
        self.periods.deliver(session, outage, period)?;
        self.bytes.clear();
        if is_suspect {
            session.tell(Event::PermissionSuspected);
        }
        Ok(true)
    }
}

/// Lists the devices.
///
/// # Errors
/// CoreAudio does not answer.
pub fn devices() -> Result<Vec<Device>> {
    let default = sys::default_input();
    let entries = sys::inputs().map_err(|status| error(status, "inputs"))?;
    let input = |entry: sys::Entry| Device {
        is_default: Some(entry.object) == default,
        id: entry.id,
        name: entry.name,
        kind: Kind::Input,
        format: entry.format,
        backend: Backend::CoreAudio,
    };
    let mut found: Vec<Device> = entries.into_iter().map(input).collect();
    if sys::has_taps() {
        found.push(Device {
            id: LOOPBACK.to_owned(),
            name: "System audio".to_owned(),
            kind: Kind::Loopback,
            is_default: true,
            format: TAP_FORMAT.into(),
            backend: Backend::CoreAudio,
        });
    }
    Ok(found)
}

/// Format of a tap's mix; its rate is that of the output, most often this one.
const TAP_FORMAT: Format = Format {
    rate: 48_000,
    channels: 2,
    sample: crate::format::Sample::F32,
};

/// Lists the programs that play sound.
///
/// # Errors
/// [`Error::Unsupported`] before macOS 14.2.
pub fn programs() -> Result<Vec<Program>> {
    let playing = sys::playing().map_err(|status| error(status, "processes"))?;
    let program = |(pid, name)| Program {
        pid,
        start_ms: None,
        name,
    };
    Ok(playing.into_iter().map(program).collect())
}

/// Calls `on_change` whenever devices have changed, until `control` stops it.
///
/// # Errors
/// CoreAudio does not answer.
pub fn watch(control: &Arc<Control>, on_change: &dyn Fn()) -> Result<()> {
    polled::watch(control, on_change, devices)
}
