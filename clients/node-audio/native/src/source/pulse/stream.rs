//! An open stream of the server: passes its frames to the session, and reports losses.
//!
//! Frames have the server's numbers: the frames that it counts as sent and that did not arrive were skipped, exactly.
//! Frames that it did not even record show in time: the stream requests a timing report every now and then, and
//! whenever nothing came for a while. The next frames then stay in libpulse's queue, or in that of [`Recording`] for a
//! stream of a program, until the reports agree, so that the first packet after a gap reports it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::resolve::{self, Resolved};
use super::sys::{Connection, Fault, Fragment, Recording, Timing};
use crate::clock;
use crate::clock::timeline::{Timeline, Verdict};
use crate::device::Wanted;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::Format;
use crate::frames::Data;
use crate::limits::{
    BEHIND_NS, CLOCK_LOOKS, HOLD_NS_MAX, QUEUE_BYTES, STALL_NS, TIMING_EVERY_NS, TURN_MS,
};
use crate::packetizer::{Loss, Time};
use crate::session::Session;
use crate::source::outage::Outage;

/// A timing report, in frames.
#[derive(Debug, Clone, Copy)]
struct Report {
    /// Number of the frame that is read next here.
    read: u64,
    /// Number of the frame that the server records next.
    written: u64,
    /// Capture time of that frame.
    ns: u64,
}

impl Report {
    fn of(timing: Timing, format: Format) -> Self {
        let frames = |bytes: i64| {
            u64::try_from(bytes).map_or(0, |bytes| bytes / u64::from(format.frame_bytes()))
        };
        Self {
            read: frames(timing.read),
            written: frames(timing.written),
            ns: timing.ns.saturating_add_signed(-timing.latency_ns),
        }
    }
}

/// Frames missing before the frame of number `at`.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: u64,
    loss: Loss,
}

/// Frames that wait for the server's reports.
#[derive(Debug, Clone, Copy, Default)]
struct Hold {
    /// Time since which frames wait, in ns. `None`: there are none.
    since_ns: Option<u64>,
    /// Number of reports that came.
    looks: u32,
}

/// A stream of the server; see the module.
pub struct Stream<'c> {
    resolved: Resolved,
    connection: &'c Connection,
    recording: Rc<Recording<'c>>,
    timeline: Timeline,
    /// Number of the next frame.
    next: u64,
    /// The number after the last frame that the server had recorded by its last report.
    written: u64,
    /// The number after the last frame that the server had sent by its last report.
    sent: u64,
    gap: Option<Gap>,
    hold: Option<Hold>,
    /// Readable bytes at the last look.
    readable: usize,
    /// Time at which frames last came, in ns.
    arrived_ns: u64,
    asked_ns: u64,
    /// Time at which the stream had no frame yet.
    opened_ns: Option<u64>,
    is_suspended: bool,
    /// True if no report had the time of the first frame.
    is_time_estimated: bool,
    /// True once a frame was delivered or reported as lost: the gap before the first one was reported too.
    has_account: bool,
}

impl<'c> Stream<'c> {
    /// A stream without frames read.
    pub fn new(
        connection: &'c Connection,
        recording: Rc<Recording<'c>>,
        resolved: Resolved,
    ) -> Self {
        Self {
            timeline: Timeline::new(resolved.format.format, resolved.times),
            resolved,
            connection,
            recording,
            next: 0,
            written: 0,
            sent: 0,
            gap: None,
            hold: Some(Hold::default()),
            readable: 0,
            arrived_ns: 0,
            asked_ns: 0,
            opened_ns: None,
            is_suspended: false,
            is_time_estimated: false,
            has_account: false,
        }
    }

    /// Asks for the time at which the stream began. Called before anything else, so that the time is known even if
    /// this process is stopped from then on.
    ///
    /// # Errors
    /// The server does not answer, or the stream has ended.
    pub fn ask_begin(&mut self) -> std::result::Result<(), Fault> {
        for _ in 0..CLOCK_LOOKS {
            let timing = self.recording.timing()?;
            self.begin(timing);
        }
        Ok(())
    }

    /// Asks for a last report of a stream whose sound has ended: frames that the server sends before it have come
    /// then.
    ///
    /// # Errors
    /// Those of [`Session::push`]. A server that does not answer is no error.
    pub fn ask_end(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        if !self.recording.is_ready() {
            return Ok(());
        }
        // The answer to an earlier request is older than the end.
        for _ in 0..2 {
            if let Ok(Some(timing)) = self.recording.timing() {
                self.compare(session, outage, timing)?;
            }
        }
        Ok(())
    }

    /// Notes the time at which the stream began, by a report without frames; the earliest one counts.
    fn begin(&mut self, timing: Option<Timing>) {
        let report = timing.map(|timing| Report::of(timing, self.resolved.format.format));
        let empty = report.filter(|report| report.written == 0);
        let began_ns = empty.map(|report| report.ns);
        self.opened_ns = match (self.opened_ns, began_ns) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (before, now) => before.or(now),
        };
    }

    /// Capture time of the frame after the last one that was delivered or reported as lost, in ns. `None`: none was.
    pub fn end_ns(&self) -> Option<u64> {
        self.has_account.then(|| self.next_ns()).flatten()
    }

    fn next_ns(&self) -> Option<u64> {
        self.timeline.time_of(self.next)
    }

    /// Delivers until the capture is to end, or the default is another device.
    ///
    /// # Errors
    /// The stream or the connection ended, or those of [`Session::push`].
    pub fn run(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        wanted: &Wanted,
    ) -> Result<()> {
        while !session.is_stopped() {
            let turn_max = session.turn_max(self.turn_max(), clock::now_ns());
            let turned = self.connection.turn(turn_max);
            turned.map_err(|fault| self.error(fault))?;
            session.wake_if_due(clock::now_ns());
            if self.is_superseded(wanted)? {
                self.finish(session, outage)?;
                return Ok(());
            }
            self.step(session, outage)?;
        }
        Ok(())
    }

    fn error(&self, fault: Fault) -> Error {
        self.connection.error(fault, &self.resolved.source)
    }

    /// Longest turn of the connection before the next step.
    pub fn turn_max(&self) -> Duration {
        if self.hold.is_some() {
            return Duration::from_nanos(STALL_NS);
        }
        Duration::from_millis(TURN_MS)
    }

    /// Delivers frames that a turn of the connection has brought.
    ///
    /// # Errors
    /// The stream ended, or those of [`Session::push`].
    pub fn step(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        if !self.recording.is_ready() {
            let fault = self.connection.fault("pa_stream_get_state");
            self.finish(session, outage)?;
            return Err(self.error(fault));
        }
        self.look_at_device(session, outage)?;
        self.look_at_arrivals();
        if let Some(timing) = self.recording.take_timing() {
            self.compare(session, outage, timing)?;
        }
        if self.hold.is_none() {
            self.drain(session, outage, u64::MAX)?;
        }
        Ok(())
    }

    /// Delivers the remaining frames of a stream that has ended or is given up, without waiting for reports. Frames
    /// that the server had recorded by its last report, and that did not come, are lost. False: the ring was full, and
    /// more is to be delivered.
    ///
    /// # Errors
    /// Those of [`Session::push`].
    pub fn finish(&mut self, session: &mut Session, outage: &mut Outage) -> Result<bool> {
        self.hold = None;
        self.set_time();
        self.drain(session, outage, u64::MAX)?;
        if self.recording.readable_bytes() > 0 {
            return Ok(false);
        }
        if let Some(gap) = self.gap {
            self.leap(session, outage, gap)?;
        }
        let unread = self.written.saturating_sub(self.next);
        if unread > 0 {
            self.lose(session, outage, Loss::estimated(unread))?;
            self.next += unread;
        }
        session.flush();
        Ok(true)
    }

    /// Settles the time of the first frame by the reports so far; without any, by its arrival.
    fn set_time(&mut self) {
        if self.next_ns().is_none() {
            let frames = self.frames_in(self.recording.readable_bytes());
            let length_ns = self.resolved.format.format.duration_ns(frames);
            let ns = clock::now_ns().saturating_sub(length_ns);
            self.timeline.observe(self.next, ns);
            self.is_time_estimated = true;
        }
        self.timeline.conclude();
    }

    /// `true` if the default is another device than this one.
    fn is_superseded(&self, wanted: &Wanted) -> Result<bool> {
        let follows_default = *wanted == Wanted::Loopback(None);
        if !follows_default || !self.connection.changes().is_of_server() {
            return Ok(false);
        }
        let resolved = resolve::resolve(self.connection, wanted)?;
        Ok(resolved.source != self.resolved.source)
    }

    /// Reports that the device was changed or suspended. Frames of the old one go first.
    fn look_at_device(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        if self.recording.take_moved() {
            self.break_off(session, outage)?;
            let device = self.recording.source();
            session.moved(&device);
        }
        let is_suspended = self.recording.is_suspended();
        if is_suspended == self.is_suspended {
            return Ok(());
        }
        self.is_suspended = is_suspended;
        self.break_off(session, outage)?;
        session.tell(if is_suspended {
            Event::Suspended
        } else {
            Event::Resumed
        });
        Ok(())
    }

    /// Delivers the available frames, and holds later ones until a timing report.
    fn break_off(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        if self.hold.is_none() {
            self.drain(session, outage, u64::MAX)?;
            self.hold = Some(Hold::default());
        }
        session.interrupt()
    }

    /// Requests a report when frames have come and one is due, and holds frames after a stall.
    fn look_at_arrivals(&mut self) {
        let now = clock::now_ns();
        let readable = self.recording.readable_bytes();
        let has_come = readable > self.readable;
        self.readable = readable;
        if has_come {
            let is_stalled = now.saturating_sub(self.arrived_ns) > STALL_NS;
            self.arrived_ns = now;
            if is_stalled {
                self.hold.get_or_insert_default();
            }
        }
        let passed_ns = now.saturating_sub(self.asked_ns);
        let is_due = match &mut self.hold {
            Some(hold) if readable > 0 => {
                let since_ns = *hold.since_ns.get_or_insert(now);
                // Without any report a packet has no time.
                let has_time = self.timeline.time_of(self.next).is_some();
                if has_time && now.saturating_sub(since_ns) > HOLD_NS_MAX {
                    self.hold = None;
                }
                has_come || passed_ns > STALL_NS
            }
            _ => has_come && (self.timeline.is_in_doubt() || passed_ns > TIMING_EVERY_NS),
        };
        if is_due {
            self.asked_ns = now;
            self.recording.ask_timing();
        }
    }

    /// Compares the server's timing report with the frames that came.
    fn compare(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        timing: Timing,
    ) -> Result<()> {
        let report = Report::of(timing, self.resolved.format.format);
        // A gap was found and is still ahead; or nothing was recorded since, and the time may be that of the last
        // report: PipeWire does not report the age of its last cycle.
        if self.gap.is_some() || report.written == self.written {
            return Ok(());
        }
        self.written = report.written;
        let queued = self.frames_in(self.recording.readable_bytes());
        self.note_sent(report.read, queued);
        let unsent = report.written.saturating_sub(self.sent);
        let was_full = unsent > self.frames_in(QUEUE_BYTES) * 9 / 10;
        if let Some(opened_ns) = self.opened_ns.take()
            && was_full
        {
            self.timeline.observe(0, opened_ns);
        }
        let verdict = self.timeline.observe(report.written, report.ns);
        session.note_time_error(self.timeline.scatter_ns());
        if let Some(hold) = &mut self.hold {
            hold.looks += 1;
        }
        let is_behind = unsent > self.resolved.format.format.frames_in(BEHIND_NS);
        match verdict {
            Verdict::Follows if !self.timeline.is_settled() => {}
            // Frames that the server has not sent yet may be skipped, or be the last before frames that it dropped.
            Verdict::Follows if is_behind => {
                self.hold = Some(Hold::default());
                self.drain(session, outage, self.sent)?;
            }
            Verdict::Follows => self.hold = None,
            Verdict::Doubtful => self.keep_or_drop_hold(),
            Verdict::Gap(frames) => {
                let at = if is_behind { report.written } else { self.next };
                let loss = Loss::estimated(frames);
                self.gap.get_or_insert(Gap { at, loss });
                self.hold = None;
            }
            Verdict::Back => {
                session.interrupt()?;
                self.hold = None;
            }
        }
        Ok(())
    }

    /// Notes the frames that the server has sent: those that it counts and that did not come were skipped after the
    /// last report.
    fn note_sent(&mut self, read: u64, queued: u64) {
        let skipped = read.saturating_sub(self.next);
        if skipped > 0 {
            self.gap = Some(Gap {
                at: self.sent.max(self.next),
                loss: Loss::exact(skipped),
            });
        }
        self.sent = read + queued;
    }

    /// Holds frames when many may be missing, and releases them if the doubt about few lasts.
    fn keep_or_drop_hold(&mut self) {
        let is_large = self.timeline.doubts_much();
        match self.hold {
            None if is_large => self.hold = Some(Hold::default()),
            Some(hold) if hold.looks > 2 * CLOCK_LOOKS => self.hold = None,
            _ => {}
        }
    }

    fn frames_in(&self, bytes: usize) -> u64 {
        bytes as u64 / u64::from(self.resolved.format.format.frame_bytes())
    }

    /// Delivers frames before the one of number `end`, and wakes the reader once after that.
    fn drain(&mut self, session: &mut Session, outage: &mut Outage, end: u64) -> Result<()> {
        session.hold_wakes();
        let drained = self.drain_held(session, outage, end);
        session.let_wakes();
        drained
    }

    fn drain_held(&mut self, session: &mut Session, outage: &mut Outage, end: u64) -> Result<()> {
        let recording = self.recording.clone();
        let mut left = recording.readable_bytes();
        // A lane keeps the frames that its ring has no room for.
        let is_lane = self.resolved.of_stream.is_some();
        while self.next < end && left > 0 && !(is_lane && session.is_full()) {
            let outcome = RefCell::new(Ok(()));
            let took = recording.next(|fragment| {
                *outcome.borrow_mut() = self.deliver(session, outage, fragment);
                fragment.bytes()
            });
            let took = took.map_err(|fault| self.error(fault))?;
            outcome.into_inner()?;
            left = took.map_or(0, |bytes| left.saturating_sub(bytes));
        }
        self.readable = left;
        Ok(())
    }

    fn deliver(
        &mut self,
        session: &mut Session,
        outage: &mut Outage,
        fragment: Fragment<'_>,
    ) -> Result<()> {
        let format = self.resolved.format.format;
        let Fragment::Bytes(mut bytes) = fragment else {
            let frames = fragment.frames(format);
            self.lose(session, outage, Loss::exact(frames))?;
            self.next += frames;
            return Ok(());
        };
        let frame_bytes = format.frame_bytes() as usize;
        if let Some(gap) = self.gap {
            let before = usize::try_from(gap.at.saturating_sub(self.next)).unwrap_or(usize::MAX);
            if before.saturating_mul(frame_bytes) < bytes.len() {
                let (old, new) = bytes.split_at(before * frame_bytes);
                self.push(session, outage, old)?;
                self.leap(session, outage, gap)?;
                bytes = new;
            }
        }
        self.push(session, outage, bytes)
    }

    fn leap(&mut self, session: &mut Session, outage: &mut Outage, gap: Gap) -> Result<()> {
        self.gap = None;
        self.lose(session, outage, gap.loss)?;
        if gap.loss.is_estimated {
            self.timeline.skip(gap.loss.frames);
        } else {
            self.next += gap.loss.frames;
        }
        Ok(())
    }

    /// Reports frames missing before the next one, after those of an outage before them.
    fn lose(&mut self, session: &mut Session, outage: &mut Outage, loss: Loss) -> Result<()> {
        self.open_account(session, outage)?;
        session.lose(loss)?;
        Ok(())
    }

    /// Reports the gap between the stream before and the next frame, once.
    fn open_account(&mut self, session: &mut Session, outage: &mut Outage) -> Result<()> {
        if let Some(ns) = self.next_ns() {
            outage.close_gap(session, ns)?;
            self.has_account = true;
        }
        Ok(())
    }

    fn push(&mut self, session: &mut Session, outage: &mut Outage, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let data = Data::Bytes(bytes);
        let time = Time {
            ns: self.next_ns().unwrap_or_default(),
            is_estimated: self.is_time_estimated,
        };
        self.open_account(session, outage)?;
        self.next += data.count(self.resolved.format.format);
        session.push(data, time)
    }
}

impl Fragment<'_> {
    fn bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Hole(bytes) => bytes,
        }
    }

    fn frames(self, format: Format) -> u64 {
        self.bytes() as u64 / u64::from(format.frame_bytes())
    }
}
