//! ALSA, through libasound: microphones and line inputs where there is no sound server.
//!
//! It has no monitors of outputs and tells no programs apart. Frames of hardware (`hw:…`) are taken from
//! where it writes them; those of other PCMs, which libasound makes of others, are copied once more, which
//! is counted.

mod sys;

use std::time::Duration;

use crate::channel_map::StreamFormat;
use crate::clock;
use crate::clock::timeline::Times;
use crate::device::{Backend, Device, Kind};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::Format;
use crate::frames::Data;
use crate::layout::Counter;
use crate::limits::TURN_MS;
use crate::packetizer::Time;
use crate::session::Session;
use crate::source::Source;
use crate::source::outage::Outage;
use crate::source::periods::{Period, Periods};
use sys::{Fault, Pcm, Request};

/// The device that is taken when none is named, as ALSA's configuration has it.
const DEFAULT: &str = "default";

/// See the module.
#[derive(Debug)]
pub struct Alsa {
    device: String,
    /// Length of a packet.
    packet: Duration,
}

impl Alsa {
    /// A capture of packets of this length, from this PCM or the default one.
    #[must_use]
    pub fn new(device: Option<&str>, packet: Duration) -> Self {
        Self {
            device: device.unwrap_or(DEFAULT).to_owned(),
            packet,
        }
    }

    fn error(&self, fault: Fault) -> Error {
        let device = &self.device;
        match fault.code {
            libc::ENOENT => Error::NoDevice(format!("ALSA device '{device}'")),
            libc::ENODEV | libc::ENXIO | libc::EBADFD => Error::Unplugged(format!("'{device}'")),
            libc::EACCES | libc::EPERM => Error::Permission(format!(
                "ALSA denies access to '{device}'; add the user to the group 'audio'"
            )),
            _ => Error::Backend {
                call: fault.call,
                reason: format!("{} ('{device}')", fault.text),
            },
        }
    }
}

impl Source for Alsa {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        let request = Request {
            format: session.format(),
            period: self.packet,
        };
        let pcm = Pcm::open(&self.device, &request).map_err(|fault| match fault.code {
            // What it says when the configuration's default leads to a card that is not there.
            libc::ENOENT | libc::ENODEV if self.device == DEFAULT => {
                Error::NoDevice("the default input of ALSA: no sound card found".to_owned())
            }
            _ => self.error(fault),
        })?;
        let format = pcm.format();
        let map = pcm.channel_map();
        session.begin(&self.device, StreamFormat { format, map })?;
        let mut stream = Stream {
            pcm,
            format,
            periods: Periods::new(format, Times::Told),
            outage: Outage::default(),
            is_recovered: false,
        };
        while !session.is_stopped() {
            stream.turn(session).map_err(|failure| match failure {
                Failure::Device(fault) => self.error(fault),
                Failure::Session(error) => error,
            })?;
        }
        Ok(())
    }
}

/// Why a turn failed.
enum Failure {
    Device(Fault),
    Session(Error),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Device(fault)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

/// A PCM that captures.
struct Stream {
    pcm: Pcm,
    format: Format,
    periods: Periods,
    /// None: a PCM that goes away is not opened again.
    outage: Outage,
    /// It was recovered, and has given nothing since.
    is_recovered: bool,
}

impl Stream {
    /// Waits for a period and delivers what is there.
    fn turn(&mut self, session: &mut Session) -> std::result::Result<(), Failure> {
        match self.read(session) {
            Err(Failure::Device(fault)) if fault.is_interruption() => {
                self.pcm.recover(&fault)?;
                self.periods.break_off();
                self.is_recovered = true;
                Ok(session.interrupt()?)
            }
            outcome => outcome,
        }
    }

    fn read(&mut self, session: &mut Session) -> std::result::Result<(), Failure> {
        if !self.pcm.wait(Duration::from_millis(TURN_MS))? {
            return Ok(());
        }
        let (format, periods, outage) = (self.format, &mut self.periods, &mut self.outage);
        let is_recovered = &mut self.is_recovered;
        self.pcm.read(|span| {
            let data = Data::Bytes(span.bytes);
            if span.is_copy {
                session.count(Counter::CopiedFrames, data.count(format));
            }
            let captured = clock::now_ns().saturating_sub(format.duration_ns(span.behind));
            let time = Time::of_device(captured);
            periods.deliver(session, outage, Period { data, time })?;
            if std::mem::take(is_recovered) {
                session.tell(Event::Resumed);
            }
            Ok(())
        })
    }
}

/// The PCMs that capture.
///
/// # Errors
/// There is no libasound.
pub fn devices() -> Result<Vec<Device>> {
    let named = sys::captures().map_err(|reason| Error::NoServer(reason.to_owned()))?;
    let device = |(id, name): (String, String)| Device {
        is_default: id == DEFAULT,
        kind: Kind::Input,
        format: sys::ASSUMED.into(),
        backend: Backend::Alsa,
        id,
        name,
    };
    Ok(named.into_iter().map(device).collect())
}
