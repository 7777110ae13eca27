//! The capture as its source sees it: the destination of frames, events, and the order to stop.
//!
//! **Invariant:** the event loop is woken only when no wake is under way.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::channel_map::StreamFormat;
use crate::clock;
use crate::convert::{Conversion, Policy};
use crate::error::Result;
use crate::event::{Event, Opened};
use crate::format::Format;
use crate::frames::Data;
use crate::layout::{Counter, closed, doorbell, word};
use crate::limits::{EVENTS_MAX, HELD_PACKETS_MAX};
use crate::packetizer::{Loss, Packetizer, Time};
use crate::wait;

/// Wakes the event loop.
pub trait Bell: Send {
    /// Makes the event loop look at the queue, soon. Neither waits nor fails.
    fn ring(&self);
}

impl<F: Fn() + Send> Bell for F {
    fn ring(&self) {
        self();
    }
}

/// Wakes a source that waits for its device.
pub type Waker = Box<dyn Fn() + Send>;

/// Orders of a capture's owner to its thread.
#[derive(Default)]
pub struct Control {
    is_stopped: AtomicBool,
    is_paused: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Control {
    /// Makes the source end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = &*waker {
            wake();
        }
    }

    /// True if the source has to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Acquire)
    }

    /// Leaves frames out until [`resume`](Self::resume). The device goes on.
    pub fn pause(&self) {
        self.is_paused.store(true, Release);
    }

    /// Lets frames pass again.
    pub fn resume(&self) {
        self.is_paused.store(false, Release);
    }

    /// Sets the waker of the source; `None` when it can't be woken any more.
    pub fn set_waker(&self, waker: Option<Waker>) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
    }
}

/// The session of a source; see the module.
pub struct Session {
    packetizer: Packetizer,
    control: Arc<Control>,
    events: SyncSender<Event>,
    bell: Box<dyn Bell>,
    policy: Policy,
    /// Format of the device.
    device: StreamFormat,
    conversion: Conversion,
    has_begun: bool,
    /// Value of `HEAD` when readers were last woken.
    told: u32,
    /// True while wakes are deferred until the source has delivered all its packets.
    holds_wakes: bool,
    group: Group,
}

/// Packets for which readers are woken together.
#[derive(Debug, Clone, Copy)]
struct Group {
    packets: u32,
    /// Longest time that a packet waits for the others, in ns.
    ns: u64,
    /// Time since which a packet waits, in ns.
    since_ns: Option<u64>,
}

impl Group {
    const NONE: Self = Self {
        packets: 1,
        ns: 0,
        since_ns: None,
    };
}

impl Session {
    /// A session, and the receiver of its events.
    #[must_use]
    pub fn new(
        packetizer: Packetizer,
        policy: Policy,
        control: Arc<Control>,
        bell: Box<dyn Bell>,
    ) -> (Self, Receiver<Event>) {
        let (events, received) = sync_channel(EVENTS_MAX);
        let session = Self {
            device: packetizer.stream_format(),
            policy,
            conversion: Conversion::None,
            has_begun: false,
            packetizer,
            control,
            events,
            bell,
            told: 0,
            holds_wakes: false,
            group: Group::NONE,
        };
        (session, received)
    }

    /// The orders of the owner.
    #[must_use]
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// True if the source has to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// True once a device was opened.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Format of the packets.
    #[must_use]
    pub fn format(&self) -> Format {
        self.packetizer.format()
    }

    /// True if every slot is filled or held.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.packetizer.ring().is_full()
    }

    /// Reports that the device is open, with the format of its frames.
    ///
    /// # Errors
    /// [`Error::Format`](crate::error::Error::Format): the policy refuses the conversion.
    pub fn begin(&mut self, device: &str, format: impl Into<StreamFormat>) -> Result<()> {
        let format = format.into();
        self.begin_again(format)?;
        self.has_begun = true;
        self.tell(Event::Open(self.opened(device)));
        Ok(())
    }

    fn opened(&self, device: &str) -> Opened {
        Opened {
            device: device.to_owned(),
            format: self.device,
            delay_frames: self.conversion.delay_frames(),
        }
    }

    /// Notes that the device is another one, or open again, with the new format of its frames.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub fn begin_again(&mut self, format: impl Into<StreamFormat>) -> Result<()> {
        let format = format.into();
        self.conversion = Conversion::new(format, self.packetizer.stream_format(), self.policy)?;
        self.device = format;
        Ok(())
    }

    /// Reports that the stream has moved to this device.
    pub fn moved(&mut self, device: &str) {
        self.tell(Event::Moved(self.opened(device)));
    }

    /// Reports that the device is back, after this many frames were lost.
    pub fn reconnected(&mut self, lost_frames: u64) {
        self.packetizer.ring().count(Counter::Reconnects, 1);
        let format = self.device;
        self.tell(Event::Reconnected {
            lost_frames,
            format,
        });
    }

    /// Takes frames of the device, the first captured at this time.
    ///
    /// # Errors
    /// [`Error::Overrun`](crate::error::Error::Overrun), with the policy `error`.
    pub fn push(&mut self, data: Data<'_>, time: Time) -> Result<()> {
        if self.control.is_paused.load(Acquire) {
            self.draw_out()?;
            let frames = self.scaled(data.count(self.device.format));
            self.packetizer.pass_over(frames);
        } else {
            self.convert(data, time)?;
        }
        self.ring_if_published();
        Ok(())
    }

    fn convert(&mut self, data: Data<'_>, time: Time) -> Result<()> {
        let packetizer = &mut self.packetizer;
        match &mut self.conversion {
            Conversion::None => packetizer.push(&data.plain(self.device.format), time),
            Conversion::Mix(matrix) => packetizer.push(&matrix.mixed(data), time),
            Conversion::Resample(resampler) => {
                resampler.push(data, time, |frames, time| packetizer.push(&frames, time))?;
                let copied = resampler.take_copied();
                packetizer.ring().count(Counter::CopiedFrames, copied);
                Ok(())
            }
        }
    }

    /// Flushes the resampler.
    fn draw_out(&mut self) -> Result<()> {
        let packetizer = &mut self.packetizer;
        match &mut self.conversion {
            Conversion::None | Conversion::Mix(_) => Ok(()),
            Conversion::Resample(resampler) => {
                resampler.flush(|frames, time| packetizer.push(&frames, time))
            }
        }
    }

    /// Number of frames of packets that a number of the device's frames makes.
    fn scaled(&self, frames: u64) -> u64 {
        match &self.conversion {
            Conversion::None | Conversion::Mix(_) => frames,
            Conversion::Resample(resampler) => resampler.scaled(frames),
        }
    }

    /// Publishes frames that have not filled a packet yet.
    pub fn flush(&mut self) {
        self.packetizer.flush();
        self.ring_if_published();
    }

    /// Adds to a counter of the source.
    pub fn count(&self, counter: Counter, more: u64) {
        self.packetizer.ring().count(counter, more);
    }

    /// Adds frames of the device to a counter, as the frames of packets that they make.
    pub fn count_frames(&self, counter: Counter, frames: u64) {
        self.count(counter, self.scaled(frames));
    }

    /// Notes the bound of the error of frames' times, in ns, as far as the source knows.
    pub fn note_time_error(&self, ns: u64) {
        self.packetizer.ring().set(Counter::TimeErrorNs, ns);
    }

    /// Reports lost frames of the device, and returns the number of frames of packets that they are.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn lose(&mut self, loss: Loss) -> Result<u64> {
        self.draw_out()?;
        let frames = self.scaled(loss.frames);
        self.packetizer.lose(Loss { frames, ..loss });
        self.ring_if_published();
        Ok(frames)
    }

    /// Marks a discontinuity: the next frames do not follow on the last ones.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn interrupt(&mut self) -> Result<()> {
        self.draw_out()?;
        self.packetizer.interrupt();
        self.ring_if_published();
        Ok(())
    }

    /// Reports an event.
    pub fn tell(&mut self, event: Event) {
        let ring = self.packetizer.ring();
        if self.events.try_send(event).is_err() {
            ring.count(Counter::LostEvents, 1);
        }
        ring.words(word::EVENTS).store(1, SeqCst);
        if ring.words(word::DOORBELL).load(SeqCst) == doorbell::EVENTS {
            ring.count(Counter::Wakes, 1);
            self.bell.ring();
        } else {
            self.wake();
        }
    }

    /// Ends the session: no packet follows.
    pub fn end(mut self, outcome: Result<()>) {
        let outcome = outcome.and_then(|()| self.draw_out());
        self.packetizer.end();
        let (state, event) = match outcome {
            Ok(()) => (closed::ENDED, Event::Ended),
            Err(error) => (closed::FAILED, Event::Failed(error)),
        };
        let ring = self.packetizer.ring();
        ring.words(word::CLOSED).store(state, SeqCst);
        self.tell(event);
        wait::wake(&self.packetizer.ring().memory());
    }

    /// Defers wakes until [`let_wakes`](Self::let_wakes), or until [`HELD_PACKETS_MAX`] packets wait: an early wake
    /// would preempt the thread of the source, which has more to deliver.
    pub fn hold_wakes(&mut self) {
        self.holds_wakes = true;
    }

    /// Groups packets of this total length into one wake, which comes after that time at the latest, and for at most
    /// half of the ring. The source has to call [`wake_if_due`](Self::wake_if_due) then.
    pub fn group_wakes(&mut self, length: Duration) {
        let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let frames = self.format().frames_in(ns);
        let packets = u32::try_from(frames).unwrap_or(u32::MAX) / self.packetizer.packet_frames();
        let half = self.packetizer.ring().layout().slots / 2;
        self.group = Group {
            packets: packets.clamp(1, half.max(1)),
            ns,
            since_ns: None,
        };
    }

    /// Longest time that the source may wait for its device: the wake of a group is due then.
    #[must_use]
    pub fn turn_max(&self, longest: Duration, now_ns: u64) -> Duration {
        match self.group.since_ns {
            Some(since_ns) => {
                let left = self
                    .group
                    .ns
                    .saturating_sub(now_ns.saturating_sub(since_ns));
                longest.min(Duration::from_nanos(left))
            }
            None => longest,
        }
    }

    /// Wakes readers if a packet has waited for its group for too long.
    pub fn wake_if_due(&mut self, now_ns: u64) {
        let since_ns = self.group.since_ns;
        if since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= self.group.ns) {
            self.tell_packets();
        }
    }

    /// Ends the deferral of wakes, and wakes readers that have something to read.
    pub fn let_wakes(&mut self) {
        self.holds_wakes = false;
        self.ring_if_published();
    }

    fn ring_if_published(&mut self) {
        let ring = self.packetizer.ring();
        let head = ring.words(word::HEAD).load(SeqCst);
        let waiting = head.wrapping_sub(self.told);
        let least = self.group.packets;
        if waiting == 0 || (self.holds_wakes && waiting < HELD_PACKETS_MAX.max(least)) {
            return;
        }
        if waiting < least {
            self.group.since_ns.get_or_insert_with(clock::now_ns);
            return;
        }
        self.tell_packets();
    }

    fn tell_packets(&mut self) {
        self.group.since_ns = None;
        let ring = self.packetizer.ring();
        self.told = ring.words(word::HEAD).load(SeqCst);
        wait::wake(&ring.memory());
        self.wake();
    }

    fn wake(&self) {
        let ring = self.packetizer.ring();
        let word = ring.words(word::DOORBELL);
        // A failed exchange takes the cache line from its reader all the same, and would do so for each packet while
        // a wake is under way.
        let (silent, rung) = (doorbell::SILENT, doorbell::RUNG);
        let is_silent = word.load(SeqCst) == silent;
        if is_silent && word.compare_exchange(silent, rung, SeqCst, SeqCst).is_ok() {
            ring.count(Counter::Wakes, 1);
            self.bell.ring();
        }
    }
}

#[cfg(test)]
pub mod tests;
