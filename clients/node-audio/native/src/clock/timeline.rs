//! Capture times of a stream's frames, and gaps before them.
//!
//! Every source gives its frames' numbers and times to a timeline, which decides: a time that its clock
//! predicted within some ms is jitter, and one that stays late is a gap, whose length in frames is an
//! estimate. Times of sound systems are late at times and hardly ever early, so that the least late of several
//! times counts. **Invariant:** the clock is never set anew without a verdict that reports it.

use crate::clock::device::{DeviceClock, whole};
use crate::format::Format;
use crate::limits::{
    CLOCK_DOUBT_NS, CLOCK_GAP_NS, CLOCK_GAP_NS_MIN, CLOCK_LOOKS, CLOCK_LOOKS_FIRST,
    CLOCK_PATIENCE_MONITOR_NS, CLOCK_PATIENCE_NS,
};

/// Verdict on a time, and on the frames before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No frame is missing.
    Follows,
    /// Undecided: another time has to be observed.
    Doubtful,
    /// This number of frames is missing. The clock goes on as before until [`Timeline::skip`].
    Gap(u64),
    /// More frames than time has passed for: the source gave frames early, or twice.
    Back,
}

/// Quality of a source's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Times of the device itself: one that is far off is a gap.
    Stamped,
    /// Times of a server, which may be late: several have to agree.
    Told,
    /// Times of a sink's monitor by PulseAudio. It passes on what can't be rewound any more, and does not report how much
    /// that delays frames: it changes by some ms with the streams of the sink, and nothing is missing.
    Monitored,
}

/// Times that were off from the predicted ones.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    looks: u32,
    since_ns: u64,
    /// The smallest error.
    least_ns: f64,
}

/// The first times, by which the clock is set. The second smallest error counts: a server that is about to
/// render anew may report a time that is too early.
#[derive(Debug, Clone, Copy)]
struct Settling {
    left: u32,
    /// The two smallest errors against the first time.
    least_ns: [f64; 2],
}

impl Settling {
    const BEGUN: Self = Self {
        left: CLOCK_LOOKS_FIRST - 1,
        least_ns: [0.0, f64::INFINITY],
    };

    fn and(self, error_ns: f64) -> Self {
        let [first, second] = self.least_ns;
        Self {
            left: self.left - 1,
            least_ns: [first.min(error_ns), second.min(first.max(error_ns))],
        }
    }
}

/// The timeline of a stream; see the module.
#[derive(Debug, Clone)]
pub struct Timeline {
    format: Format,
    times: Times,
    clock: DeviceClock,
    settling: Option<Settling>,
    /// True once a time after the first ones was as predicted: the clock is right, and a later time is not its
    /// error.
    is_confirmed: bool,
    doubt: Option<Doubt>,
}

impl Timeline {
    /// A timeline without a time.
    #[must_use]
    pub fn new(format: Format, times: Times) -> Self {
        Self {
            format,
            times,
            clock: DeviceClock::steady(format.rate),
            settling: None,
            is_confirmed: false,
            doubt: None,
        }
    }

    /// Capture time of the frame of this number, in ns. `None` before the first time.
    #[must_use]
    pub fn time_of(&self, frame: u64) -> Option<u64> {
        self.clock.time_of(frame)
    }

    /// A bound of the error of the times, in ns.
    #[must_use]
    pub fn scatter_ns(&self) -> u64 {
        let doubt_ns = self.doubt.map_or(0.0, |doubt| doubt.least_ns.abs());
        self.clock.scatter_ns().max(whole(doubt_ns))
    }

    /// `true` once there are enough times to set that of the first packet.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.clock.is_set() && self.settling.is_none()
    }

    /// Takes note that the frame of this number was captured at this time, and returns the verdict.
    pub fn observe(&mut self, frame: u64, ns: u64) -> Verdict {
        let Some(error_ns) = self.clock.error_of(frame, ns) else {
            self.settling = (self.times != Times::Stamped).then_some(Settling::BEGUN);
            self.clock.observe(frame, ns);
            return Verdict::Follows;
        };
        if let Some(settling) = self.settling
            && error_ns.abs() < CLOCK_GAP_NS
        {
            self.settle(settling.and(error_ns));
            return Verdict::Follows;
        }
        if error_ns.abs() < CLOCK_DOUBT_NS {
            self.doubt = None;
            self.is_confirmed = true;
            self.clock.observe(frame, ns);
            return Verdict::Follows;
        }
        self.judge(ns, error_ns)
    }

    fn settle(&mut self, settling: Settling) {
        self.settling = Some(settling).filter(|settling| settling.left > 0);
        if self.settling.is_none() {
            self.clock.shift(settling.least_ns[1]);
        }
    }

    /// Sets the clock by the first times so far: no more follow.
    pub fn conclude(&mut self) {
        if let Some(Settling { least_ns, .. }) = self.settling.take() {
            let [first, second] = least_ns;
            self.clock
                .shift(if second.is_finite() { second } else { first });
        }
    }

    fn judge(&mut self, ns: u64, error_ns: f64) -> Verdict {
        let mut doubt = match self.doubt {
            Some(doubt) if (doubt.least_ns > 0.0) == (error_ns > 0.0) => doubt,
            _ => Doubt {
                looks: 0,
                since_ns: ns,
                least_ns: error_ns,
            },
        };
        doubt.looks += 1;
        if error_ns.abs() < doubt.least_ns.abs() {
            doubt.least_ns = error_ns;
        }
        self.doubt = Some(doubt);
        let is_large = doubt.least_ns.abs() >= CLOCK_GAP_NS;
        let looks = match self.times {
            Times::Stamped if is_large => 1,
            Times::Stamped | Times::Told | Times::Monitored => CLOCK_LOOKS,
        };
        let patience_ns = match self.times {
            Times::Stamped | Times::Told => CLOCK_PATIENCE_NS,
            Times::Monitored => CLOCK_PATIENCE_MONITOR_NS,
        };
        let is_old = ns.saturating_sub(doubt.since_ns) >= patience_ns;
        if doubt.looks < looks || !(is_large || is_old) {
            return Verdict::Doubtful;
        }
        self.decide(doubt.least_ns)
    }

    fn decide(&mut self, ns: f64) -> Verdict {
        self.doubt = None;
        let is_of_clock = !self.is_confirmed || self.times == Times::Monitored;
        if ns.abs() < CLOCK_GAP_NS_MIN || (is_of_clock && ns.abs() < CLOCK_GAP_NS) {
            self.clock.shift(ns);
            return Verdict::Follows;
        }
        if ns < 0.0 {
            self.clock.shift(ns);
            return Verdict::Back;
        }
        Verdict::Gap(self.format.frames_in(whole(ns)))
    }

    /// Takes note of the first time after frames that are known to be missing.
    pub fn resume(&mut self, frame: u64, ns: u64) -> Verdict {
        self.doubt = None;
        let error_ns = self.clock.error_of(frame, ns).unwrap_or(0.0);
        if error_ns >= CLOCK_DOUBT_NS {
            return Verdict::Gap(self.format.frames_in(whole(error_ns)));
        }
        self.observe(frame, ns)
    }

    /// Moves the times after a gap of this length, for sources that do not count missing frames themselves.
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact to 2^53 ns, which is 104 days"
    )]
    pub fn skip(&mut self, frames: u64) {
        self.clock.shift(self.format.duration_ns(frames) as f64);
    }

    /// `true` while a time that was off is undecided.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// `true` if the undecided error is larger than jitter.
    #[must_use]
    pub fn doubts_much(&self) -> bool {
        self.doubt
            .is_some_and(|doubt| doubt.least_ns.abs() >= CLOCK_GAP_NS)
    }

    /// Forgets the time: the next frames are of another device, or of the same one after a pause. Keeps the
    /// rate.
    pub fn interrupt(&mut self) {
        self.clock.interrupt();
        self.doubt = None;
        self.settling = None;
        self.is_confirmed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sample;

    const FORMAT: Format = Format {
        rate: 48_000,
        channels: 2,
        sample: Sample::S16,
    };
    const MS: u64 = 1_000_000;

    /// A timeline that was given a time every 10 ms for a second, and the number of the next frame.
    fn second(times: Times) -> (Timeline, u64) {
        let mut timeline = Timeline::new(FORMAT, times);
        for step in 0..100 {
            let verdict = timeline.observe(step * 480, (1_000 + step * 10) * MS);
            assert_eq!(verdict, Verdict::Follows);
        }
        (timeline, 48_000)
    }

    /// Observes times that are late by the given error until the timeline has decided; returns the number of
    /// times and the verdict.
    fn decided(
        timeline: &mut Timeline,
        first: u64,
        late_ms: impl Fn(u64) -> i64,
    ) -> (u64, Verdict) {
        for step in 0..2_000 {
            let frame = first + step * 480;
            let due_ns = 1_000 * MS + FORMAT.duration_ns(frame);
            let ns = due_ns.saturating_add_signed(late_ms(step) * 1_000_000);
            let verdict = timeline.observe(frame, ns);
            if verdict != Verdict::Doubtful {
                return (step + 1, verdict);
            }
        }
        panic!("nothing decided");
    }

    #[test]
    fn a_gap_is_the_least_that_several_times_agree_on() {
        let (mut timeline, next) = second(Times::Told);
        let late_ms = |step| 2_500 + [7, 3, 0, 9][usize::try_from(step).unwrap() % 4];
        let (looks, verdict) = decided(&mut timeline, next, late_ms);
        assert_eq!((looks, verdict), (4, Verdict::Gap(120_000)));
        // Frames before the gap keep their times, and frames after it do not.
        assert_eq!(timeline.time_of(next), Some(2_000 * MS));
        timeline.skip(120_000);
        assert_eq!(timeline.time_of(next), Some(4_500 * MS));
        assert_eq!(timeline.observe(next + 480, 4_510 * MS), Verdict::Follows);
    }

    #[test]
    fn what_the_device_stamped_is_decided_at_once() {
        let (mut timeline, next) = second(Times::Stamped);
        let decided = decided(&mut timeline, next, |_| 30);
        assert_eq!(decided, (1, Verdict::Gap(1_440)));
    }

    #[test]
    fn a_late_answer_is_no_gap() {
        let (mut timeline, next) = second(Times::Told);
        for late_ms in [3, 40, 200, 24] {
            let decided = decided(
                &mut timeline,
                next,
                |step| if step < 3 { late_ms } else { 0 },
            );
            assert_eq!(decided, (4, Verdict::Follows), "{late_ms} ms");
            assert_eq!(timeline.time_of(next), Some(2_000 * MS));
        }
    }

    #[test]
    fn a_short_gap_is_one_when_it_lasts() {
        let (mut timeline, next) = second(Times::Told);
        let (looks, verdict) = decided(&mut timeline, next, |_| 5);
        assert_eq!(verdict, Verdict::Gap(240));
        assert!((100..=101).contains(&looks), "after {looks} times");
    }

    /// A monitor is late by some ms for seconds on a busy machine, or from then on.
    #[test]
    fn a_monitor_that_is_some_ms_late_has_lost_nothing() {
        let (mut timeline, next) = second(Times::Monitored);
        let for_seconds = |step: u64| if step < 330 { 6 } else { 0 };
        let decided_after = decided(&mut timeline, next, for_seconds);
        assert_eq!(decided_after, (331, Verdict::Follows));
        assert_eq!(timeline.time_of(next), Some(2_000 * MS));
        let (looks, verdict) = decided(&mut timeline, next, |_| 6);
        assert_eq!(verdict, Verdict::Follows);
        assert!((1_000..=1_001).contains(&looks), "after {looks} times");
        let next = next + looks * 480;
        let (looks, verdict) = decided(&mut timeline, next, |_| 50);
        assert_eq!((looks, verdict), (4, Verdict::Gap(44 * 48)));
    }

    #[test]
    fn frames_before_their_time_are_told() {
        let (mut timeline, next) = second(Times::Told);
        let decided = decided(&mut timeline, next, |_| -1_900);
        assert_eq!(decided, (4, Verdict::Back));
        assert_eq!(timeline.time_of(next), Some(100 * MS));
    }

    #[test]
    fn an_error_of_the_first_times_is_no_gap() {
        let mut timeline = Timeline::new(FORMAT, Times::Told);
        for step in 0..8 {
            // All of these times are too early.
            timeline.observe(step * 480, (981 + step * 10) * MS);
        }
        let (_, verdict) = decided(&mut timeline, 8 * 480, |_| 0);
        assert_eq!(verdict, Verdict::Follows);
        let time_ns = timeline.time_of(0).unwrap();
        assert!(time_ns.abs_diff(1_000 * MS) < 1_000, "{time_ns}");
    }

    #[test]
    fn few_times_are_as_good_as_they_are() {
        for (late_ms, first_ms) in [(&[9][..], 1_009), (&[9, 4], 1_009), (&[9, 0, 4], 1_004)] {
            let mut timeline = Timeline::new(FORMAT, Times::Told);
            for (step, late_ms) in (0_u64..).zip(late_ms) {
                timeline.observe(step * 480, (1_000 + step * 10 + late_ms) * MS);
            }
            timeline.conclude();
            assert!(timeline.is_settled());
            let time_ns = timeline.time_of(0).unwrap();
            assert!(time_ns.abs_diff(first_ms * MS) < 1_000, "{time_ns}");
        }
    }

    #[test]
    fn the_earliest_but_one_of_the_first_times_counts() {
        let mut timeline = Timeline::new(FORMAT, Times::Told);
        for (step, late_ms) in (0_u64..).zip([9, 4, -15, 6, 0, 3, 2, 8]) {
            assert!(!timeline.is_settled());
            let due_ms = 1_000 + step * 10;
            let ms = due_ms.saturating_add_signed(late_ms);
            timeline.observe(step * 480, ms * MS);
        }
        assert!(timeline.is_settled());
        let time_ns = timeline.time_of(0).unwrap();
        assert!(time_ns.abs_diff(1_000 * MS) < 1_000, "{time_ns}");
    }
}
