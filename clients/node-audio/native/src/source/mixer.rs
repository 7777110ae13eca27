//! Streams that come and go, mixed on one timeline.
//!
//! A stream has a place on the timeline by the time of its first frame, and its frames follow each other from there on.
//! Frames go out as far as every playing stream has delivered; a stream that stays behind the others does not hold them
//! up, and goes on later. While none plays, silence goes out by the clock. **Invariants:** no frame of a stream is left
//! out. Frames that a stream lost count as lost if no other stream has sound then; else they are silence, counted as
//! filled. Frames of a stream that was behind, whose time had gone out when they were found to be lost, are filled as
//! well, unless that time went out as lost.

use std::collections::VecDeque;

use crate::format::Format;
use crate::limits::{MIX_AHEAD_NS, MIX_IDLE_MARGIN_NS, MIX_LAG_NS};
use crate::packetizer::{Loss, Time};

/// Consecutive frames of a stream.
#[derive(Debug, Clone, Copy)]
struct Span {
    kind: Kind,
    frames: u64,
    /// Time of the first frame.
    time: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sound,
    /// Frames that were lost, counted or estimated.
    Hole(Loss),
    /// Time in which the stream did not play.
    Pause,
}

/// State of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The stream plays: more frames come.
    Playing,
    /// The stream is paused.
    Paused,
    /// The stream has ended: no frame follows.
    Ended,
}

#[derive(Debug)]
struct Lane {
    id: u32,
    activity: Activity,
    /// Time since which its activity holds, in ns.
    since_ns: u64,
    /// True once a frame of it has come.
    is_heard: bool,
    /// True if the next frame is placed by its timestamp: it is the first one, or the first after a pause.
    is_free: bool,
    /// True once it was paused, so that a reported loss may be the pause.
    was_paused: bool,
    /// Place of the first span on the timeline.
    start: u64,
    spans: VecDeque<Span>,
    /// Samples of the spans of sound.
    samples: VecDeque<f32>,
}

impl Lane {
    fn end(&self) -> u64 {
        let frames: u64 = self.spans.iter().map(|span| span.frames).sum();
        self.start + frames
    }

    fn append(&mut self, kind: Kind, frames: u64, time: Time) {
        if frames > 0 {
            self.spans.push_back(Span { kind, frames, time });
        }
    }

    /// Drops the part of the spans before the next frame that goes out, and returns the number of its lost frames that
    /// were not reported yet.
    fn catch_up(&mut self, next: u64, told: &Told) -> u64 {
        let mut lost = 0;
        while self.start < next
            && let Some(span) = self.spans.front_mut()
        {
            let passed = span.frames.min(next - self.start);
            span.frames -= passed;
            self.start += passed;
            if let Kind::Hole(_) = span.kind {
                lost += passed - told.frames_within(self.start - passed, self.start);
            }
            if span.frames == 0 {
                self.spans.pop_front();
            }
        }
        self.start = self.start.max(next);
        lost
    }

    /// The losses to count: frames that a paused stream did not play are not lost.
    fn losses(&self, account: [Loss; 2]) -> [Loss; 2] {
        let is_pause = self.is_free && self.was_paused;
        account.map(|lost| Loss {
            frames: if is_pause { 0 } else { lost.frames },
            ..lost
        })
    }

    /// The first span, and the place at which it ends.
    fn first(&self) -> (Option<Span>, u64) {
        match self.spans.front() {
            Some(span) => (Some(*span), self.start + span.frames),
            None => (None, u64::MAX),
        }
    }

    /// Removes the first `frames` frames of the first span.
    fn advance(&mut self, frames: u64, format: Format) {
        let Some(span) = self.spans.front_mut() else {
            return;
        };
        span.frames -= frames;
        span.time = span.time.plus(format.duration_ns(frames));
        self.start += frames;
        if span.frames == 0 {
            self.spans.pop_front();
        }
    }
}

/// The last ranges of places that went out as lost.
#[derive(Debug, Default)]
struct Told(VecDeque<(u64, u64)>);

/// Ranges that are remembered: a stream that is behind has lost its frames in one of the last.
const TOLD_RANGES_MAX: usize = 64;

impl Told {
    fn add(&mut self, start: u64, end: u64) {
        match self.0.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.0.push_back((start, end)),
        }
        if self.0.len() > TOLD_RANGES_MAX {
            self.0.pop_front();
        }
    }

    /// Frames from `start` up to `end` that went out as lost.
    fn frames_within(&self, start: u64, end: u64) -> u64 {
        let ranges = self.0.iter();
        ranges
            .map(|range| end.min(range.1).saturating_sub(start.max(range.0)))
            .sum()
    }
}

/// Times and losses of samples that have come.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Frames lost before the samples: counted ones and estimated ones.
    pub lost: [Loss; 2],
    /// Time of the first sample.
    pub time: Time,
}

/// Output of the mixer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mixed<'a> {
    /// Interleaved samples, their time, and whether a stream had lost some of its part.
    Sound(&'a [f32], Time, bool),
    /// Silence while no stream plays, with its time.
    Silence(u64, Time),
    /// Frames that every stream has lost, with the time of the first of them.
    Lost(Loss, Time),
    /// Frames that one stream has lost, and whose time had gone out already.
    Filled(u64),
}

/// Mixes streams; see the module.
#[derive(Debug)]
pub struct Mixer {
    format: Format,
    lanes: Vec<Lane>,
    /// Number of frames that went out.
    next: u64,
    /// A place on the timeline, and its time in ns.
    anchor: (u64, u64),
    /// The stream that gives the times.
    master: Option<u32>,
    mix: Vec<f32>,
    /// Lost frames of streams whose time had gone out, and that were not reported yet.
    late: u64,
    /// Places that were reported as lost.
    told: Told,
    /// Time of the first frame that came or went out, in ns.
    began_ns: Option<u64>,
    /// Most frames that streams may have played before their first frame, or after their last one.
    unheard: u64,
}

impl Mixer {
    /// A mixer whose timeline begins now.
    #[must_use]
    pub fn new(format: Format, now_ns: u64) -> Self {
        Self {
            format,
            lanes: Vec::new(),
            next: 0,
            anchor: (0, now_ns),
            master: None,
            mix: Vec::new(),
            late: 0,
            told: Told::default(),
            began_ns: None,
            unheard: 0,
        }
    }

    /// Sets the activity of a stream, which may be a new one, at this time.
    pub fn set(&mut self, id: u32, activity: Activity, now_ns: u64) {
        if activity == Activity::Ended {
            self.note_heard(id, now_ns);
        }
        match self.lanes.iter_mut().find(|lane| lane.id == id) {
            Some(lane) => {
                if lane.activity != activity {
                    lane.since_ns = now_ns;
                }
                lane.activity = activity;
                let is_paused = activity == Activity::Paused;
                lane.is_free |= is_paused;
                lane.was_paused |= is_paused;
            }
            None => self.lanes.push(Lane {
                id,
                activity,
                since_ns: now_ns,
                is_heard: false,
                is_free: true,
                was_paused: activity == Activity::Paused,
                start: self.next,
                spans: VecDeque::new(),
                samples: VecDeque::new(),
            }),
        }
    }

    /// Adds to the most frames that a stream may have played and that never came.
    pub fn miss(&mut self, frames: u64) {
        self.unheard += frames;
    }

    /// Frames that may be missing of streams since the last call.
    pub fn take_unheard(&mut self) -> u64 {
        std::mem::take(&mut self.unheard)
    }

    /// Notes the time of a stream's first frame, or of its end without one: it may have played since the server
    /// announced it, or since the mix began.
    fn note_heard(&mut self, id: u32, ns: u64) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) else {
            return;
        };
        if std::mem::replace(&mut lane.is_heard, true) || lane.activity == Activity::Paused {
            return;
        }
        if let Some(began_ns) = self.began_ns {
            let since_ns = lane.since_ns.max(began_ns);
            self.unheard += self.format.frames_in(ns.saturating_sub(since_ns));
        }
    }

    /// Takes note of lost frames of a stream that no samples follow.
    pub fn lose(&mut self, id: u32, lost: [Loss; 2]) {
        if lost.iter().all(|lost| lost.frames == 0) {
            return;
        }
        let (next, time) = (self.next, self.silent_time());
        self.note_heard(id, time.ns);
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) else {
            return;
        };
        for lost in lane.losses(lost) {
            lane.append(Kind::Hole(lost), lost.frames, time);
        }
        self.late += lane.catch_up(next, &self.told);
    }

    /// Takes samples of a stream, with their times and losses.
    pub fn push(&mut self, id: u32, samples: impl Iterator<Item = f32>, stamp: Stamp) {
        let Stamp { lost, time } = stamp;
        let lost_frames: u64 = lost.iter().map(|lost| lost.frames).sum();
        let lost_ns = self.format.duration_ns(lost_frames);
        self.note_heard(id, time.ns.saturating_sub(lost_ns));
        self.began_ns.get_or_insert(time.ns);
        let place = self.place_of(time.ns);
        let (next, channels) = (self.next, self.format.channels as usize);
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) else {
            return;
        };
        let lost = lane.losses(lost);
        if std::mem::take(&mut lane.is_free) {
            let lost_frames: u64 = lost.iter().map(|lost| lost.frames).sum();
            let place = place.saturating_sub(lost_frames);
            if lane.spans.is_empty() {
                lane.start = lane.start.min(place);
            }
            let pause = place.saturating_sub(lane.end());
            lane.append(Kind::Pause, pause, time);
        }
        for lost in lost {
            lane.append(Kind::Hole(lost), lost.frames, time);
        }
        self.late += lane.catch_up(next, &self.told);
        let before = lane.samples.len();
        lane.samples.extend(samples);
        let frames = (lane.samples.len() - before) / channels;
        lane.append(Kind::Sound, frames as u64, time);
    }

    /// The place of a frame of this time; not before frames that went out, nor far after them.
    fn place_of(&self, ns: u64) -> u64 {
        let (place, anchor_ns) = self.anchor;
        let limit = self.next + self.format.frames_in(MIX_AHEAD_NS);
        let after = place + self.format.frames_in(ns.saturating_sub(anchor_ns));
        after.clamp(self.next, limit)
    }

    fn time_of(&self, place: u64) -> u64 {
        let (anchor, ns) = self.anchor;
        ns + self.format.duration_ns(place.saturating_sub(anchor))
    }

    /// True if no stream plays, so that silence is due by the clock.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let plays = |lane: &Lane| lane.activity == Activity::Playing;
        !self.lanes.iter().any(plays)
    }

    /// Delivers the frames that are due.
    ///
    /// # Errors
    /// Those of `deliver`.
    pub fn pull<E>(
        &mut self,
        now_ns: u64,
        mut deliver: impl FnMut(Mixed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let late = std::mem::take(&mut self.late);
        if late > 0 {
            deliver(Mixed::Filled(late))?;
        }
        let limit = self.limit(now_ns);
        while self.next < limit {
            self.deliver_piece(limit, &mut deliver)?;
        }
        let is_drained = |lane: &Lane| lane.activity == Activity::Ended && lane.spans.is_empty();
        self.lanes.retain(|lane| !is_drained(lane));
        if !self.is_idle() {
            return Ok(());
        }
        let due = self.place_of(now_ns.saturating_sub(MIX_IDLE_MARGIN_NS));
        self.silence(due, &mut deliver)
    }

    /// The place up to which frames go out.
    fn limit(&self, now_ns: u64) -> u64 {
        let furthest = self.lanes.iter().map(Lane::end).max().unwrap_or(0);
        let lag = self.format.frames_in(MIX_LAG_NS);
        let plays = |lane: &&Lane| lane.activity == Activity::Playing;
        let ends = self.lanes.iter().filter(plays).filter_map(|lane| {
            let is_new = lane.is_free && lane.spans.is_empty();
            if is_new {
                // The first frames of a new stream are late, and belong beside the next ones of the others.
                let is_due = now_ns.saturating_sub(lane.since_ns) < MIX_LAG_NS;
                return is_due.then_some(self.next);
            }
            (furthest - lane.end() <= lag).then(|| lane.end())
        });
        ends.min().unwrap_or(furthest)
    }

    /// Delivers frames up to the next place at which a stream changes.
    fn deliver_piece<E>(
        &mut self,
        limit: u64,
        deliver: &mut impl FnMut(Mixed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = self.next;
        let now = || self.lanes.iter().map(Lane::first);
        let end = now().map(|(_, end)| end).fold(limit, u64::min);
        let spans = || now().filter_map(|(span, _)| span);
        let has_sound = spans().any(|span| span.kind == Kind::Sound);
        let hole = spans().find_map(|span| match span.kind {
            Kind::Hole(loss) => Some(loss),
            Kind::Sound | Kind::Pause => None,
        });
        let frames = end - next;
        if !has_sound {
            let Some(loss) = hole else {
                return self.silence(end, deliver);
            };
            let time = self.silent_time();
            self.told.add(next, end);
            self.skip(frames);
            return deliver(Mixed::Lost(Loss { frames, ..loss }, time));
        }
        let time = self.sound_time();
        self.mix_frames(frames);
        self.skip(frames);
        deliver(Mixed::Sound(&self.mix, time, hole.is_some()))
    }

    /// Time of the next frame, by the stream that gives the times: those of others differ by some ms.
    fn sound_time(&mut self) -> Time {
        let has_sound = |lane: &&Lane| {
            let (span, _) = lane.first();
            span.is_some_and(|span| span.kind == Kind::Sound)
        };
        let master = self.lanes.iter().find(|lane| Some(lane.id) == self.master);
        let master = match master.filter(|lane| lane.activity == Activity::Playing) {
            None => self.lanes.iter().find(has_sound),
            playing => playing,
        };
        self.master = master.map(|lane| lane.id);
        if let Some((Some(span), _)) = master.filter(has_sound).map(Lane::first) {
            self.anchor = (self.next, span.time.ns);
            return span.time;
        }
        self.silent_time()
    }

    /// Time of the next frame if no stream gives one.
    fn silent_time(&self) -> Time {
        Time {
            ns: self.time_of(self.next),
            is_estimated: true,
        }
    }

    /// Mixes the samples of the streams that have sound.
    fn mix_frames(&mut self, frames: u64) {
        let count = usize::try_from(frames).unwrap_or(0) * self.format.channels as usize;
        self.mix.clear();
        self.mix.resize(count, 0.0);
        for lane in &mut self.lanes {
            let (span, _) = lane.first();
            if span.is_some_and(|span| span.kind == Kind::Sound) {
                let samples = lane.samples.drain(..count);
                self.mix
                    .iter_mut()
                    .zip(samples)
                    .for_each(|(sum, sample)| *sum += sample);
            }
        }
    }

    fn skip(&mut self, frames: u64) {
        let (next, format) = (self.next, self.format);
        for lane in self.lanes.iter_mut().filter(|lane| lane.start == next) {
            lane.advance(frames, format);
        }
        self.next += frames;
    }

    fn silence<E>(
        &mut self,
        end: u64,
        deliver: &mut impl FnMut(Mixed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let frames = end.saturating_sub(self.next);
        if frames == 0 {
            return Ok(());
        }
        let time = self.silent_time();
        self.began_ns.get_or_insert(time.ns);
        self.skip(frames);
        deliver(Mixed::Silence(frames, time))
    }
}

#[cfg(test)]
mod tests;
