//! ALSA, through libasound: microphones and line inputs where there is no sound server.
//!
//! ALSA has no monitors of outputs and no programs. Frames of hardware (`hw:…`) are taken from where the
//! device writes them; those of other PCMs, which libasound derives from others, are copied once more, which
//! is counted. Packets wake the event loop in groups, like those of sound servers.

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
use sys::{Fault, Pcm, Request, Span};

/// The device that is used when none is named, by ALSA's configuration.
const DEFAULT: &str = "default";

/// A capture from a PCM; see the module.
#[derive(Debug)]
pub struct Alsa {
    device: String,
    /// Length of a period, and between wakes of the event loop.
    fragment: Duration,
}

impl Alsa {
    /// A capture of periods of this length, from this PCM or the default one.
    #[must_use]
    pub fn new(device: Option<&str>, fragment: Duration) -> Self {
        Self {
            device: device.unwrap_or(DEFAULT).to_owned(),
            fragment,
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
            period: self.fragment,
        };
        let pcm = Pcm::open(&self.device, &request).map_err(|fault| match fault.code {
            // libasound's error if the configuration's default leads to a missing card.
            libc::ENOENT | libc::ENODEV if self.device == DEFAULT => {
                Error::NoDevice("the default input of ALSA: no sound card found".to_owned())
            }
            _ => self.error(fault),
        })?;
        let format = pcm.format();
        let map = pcm.channel_map();
        session.begin(&self.device, StreamFormat { format, map })?;
        session.group_wakes(self.fragment);
        let mut stream = Stream::new(pcm, format);
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
#[derive(Debug)]
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

/// The interface of a PCM that a stream of periods needs.
trait Periodic {
    /// Waits for a period; `false`: none came in this time.
    fn wait(&self, timeout: Duration) -> std::result::Result<bool, Fault>;

    /// Gives the available frames to `deliver`, if there are any.
    fn read(&mut self, deliver: impl FnOnce(Span<'_>) -> Outcome) -> Outcome;

    /// Recovers after an interruption.
    fn recover(&self, fault: &Fault) -> std::result::Result<(), Fault>;
}

impl Periodic for Pcm {
    fn wait(&self, timeout: Duration) -> std::result::Result<bool, Fault> {
        Pcm::wait(self, timeout)
    }

    fn read(&mut self, deliver: impl FnOnce(Span<'_>) -> Outcome) -> Outcome {
        Pcm::read(self, deliver)
    }

    fn recover(&self, fault: &Fault) -> std::result::Result<(), Fault> {
        Pcm::recover(self, fault)
    }
}

/// Result of a turn.
type Outcome = std::result::Result<(), Failure>;

/// A PCM that captures.
struct Stream<P> {
    pcm: P,
    format: Format,
    periods: Periods,
    /// Never begins: a PCM that goes away is not opened again.
    outage: Outage,
    /// True after a recovery, until the next frame.
    is_recovered: bool,
}

impl<P: Periodic> Stream<P> {
    fn new(pcm: P, format: Format) -> Self {
        Self {
            pcm,
            format,
            periods: Periods::new(format, Times::Told),
            outage: Outage::default(),
            is_recovered: false,
        }
    }

    /// Waits for a period and delivers its frames; for less long if packets wait for their group.
    fn turn(&mut self, session: &mut Session) -> Outcome {
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

    fn read(&mut self, session: &mut Session) -> Outcome {
        let turn = session.turn_max(Duration::from_millis(TURN_MS), clock::now_ns());
        let has_period = self.pcm.wait(turn)?;
        session.wake_if_due(clock::now_ns());
        if !has_period {
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

/// The PCMs that can capture.
///
/// # Errors
/// libasound is missing.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::ring::counter_of;
    use crate::ring::tests::ring;
    use crate::session::tests::{FORMAT, PACKET_BYTES, session};

    /// A PCM with periods of a packet, the first `periods` of which are there at once.
    struct Scripted {
        periods: RefCell<u32>,
        /// Time limits of the waits that found nothing.
        waited: RefCell<Vec<Duration>>,
    }

    impl Periodic for Scripted {
        fn wait(&self, timeout: Duration) -> std::result::Result<bool, Fault> {
            if *self.periods.borrow() > 0 {
                return Ok(true);
            }
            self.waited.borrow_mut().push(timeout);
            thread::sleep(timeout);
            Ok(false)
        }

        fn read(&mut self, deliver: impl FnOnce(Span<'_>) -> Outcome) -> Outcome {
            *self.periods.get_mut() -= 1;
            deliver(Span {
                bytes: &[1; PACKET_BYTES as usize],
                behind: 480,
                is_copy: false,
            })
        }

        fn recover(&self, _: &Fault) -> std::result::Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn packets_wait_for_each_other_but_not_for_long() {
        let group = Duration::from_millis(20);
        // Number of periods that come at once, and wakes after them and after the next wait.
        for (periods, wakes) in [(1, [0, 1]), (2, [1, 1]), (3, [1, 2])] {
            // A thread that is preempted between two periods wakes for the first alone: repeat such a run.
            let (seen, waited) = loop {
                let began = Instant::now();
                let (seen, waited, took) = wakes_after(periods, group, began);
                if took < group {
                    break (seen, waited);
                }
            };
            assert_eq!(seen, wakes, "{periods} periods");
            let is_short = waited.iter().all(|&wait| wait <= group);
            assert_eq!(is_short, wakes[0] < wakes[1], "{waited:?}");
        }
    }

    /// Wakes after a number of periods and after the next wait, the waits, and the time that the periods took.
    fn wakes_after(
        periods: u32,
        group: Duration,
        began: Instant,
    ) -> ([u64; 2], Vec<Duration>, Duration) {
        let ring = ring(16, PACKET_BYTES);
        let memory = ring.memory();
        let (mut session, _events) = session(ring);
        session.group_wakes(group);
        let pcm = Scripted {
            periods: RefCell::new(periods),
            waited: RefCell::default(),
        };
        let mut stream = Stream::new(pcm, FORMAT);
        let woken = || {
            memory
                .u32(crate::layout::word::DOORBELL * 4)
                .store(0, SeqCst);
            counter_of(&memory, Counter::Wakes).load(SeqCst)
        };
        let mut seen = 0;
        for _ in 0..periods {
            stream.turn(&mut session).unwrap();
            seen = woken();
        }
        let took = began.elapsed();
        stream.turn(&mut session).unwrap();
        let waited = stream.pcm.waited.borrow().clone();
        ([seen, woken()], waited, took)
    }
}
