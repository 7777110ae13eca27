//! A device's clock against the monotonic one: the capture time of each frame.
//!
//! A sound system's time of a frame jitters by some ms, and the device's rate is off by up to some hundred parts
//! per million. A delay-locked loop of second order (F. Adriaensen, "Using a DLL to filter time", LAC 2005) follows
//! both: it predicts a frame's time from the last one's and the length of a frame, and corrects both by a part of
//! the error.

use std::f64::consts::{SQRT_2, TAU};

use crate::limits::{CLOCK_GAP_NS_MIN, CLOCK_JUMP_NS, CLOCK_PPM_MAX, SCATTER_SECONDS};

/// Bandwidths of the loop, in Hz: the lower, the less jitter passes.
#[derive(Debug, Clone, Copy)]
struct Bandwidth {
    /// Bandwidth for the first [`SETTLING`] seconds.
    first: f64,
    /// Bandwidth after that.
    settled: f64,
}

/// Finds the time within some seconds, however wrong the first one was.
const QUICK: Bandwidth = Bandwidth {
    first: 1.0,
    settled: 0.05,
};
/// Takes the time as right from the start, and learns the rate alone: extrapolation over a gap of many seconds is
/// as good as the rate.
const STEADY: Bandwidth = Bandwidth {
    first: 0.02,
    settled: 0.02,
};
/// Duration of the first bandwidth, in s.
const SETTLING: f64 = 8.0;

/// The clock of a device; see the module.
#[derive(Debug, Clone)]
pub struct DeviceClock {
    rate: u32,
    bandwidth: Bandwidth,
    /// Length of a frame at the device's nominal rate, in ns.
    nominal_ns: f64,
    frame_ns: f64,
    /// A frame and its time; none before the first observation.
    anchor: Option<(u64, f64)>,
    /// Length of the observed stream, in s.
    observed: f64,
    /// The largest recent error, in ns, decaying; at first the possible error of the first times.
    scatter_ns: f64,
}

impl DeviceClock {
    /// A clock without observations.
    #[must_use]
    pub fn new(rate: u32) -> Self {
        let nominal_ns = 1e9 / f64::from(rate);
        Self {
            rate,
            bandwidth: QUICK,
            nominal_ns,
            frame_ns: nominal_ns,
            anchor: None,
            observed: 0.0,
            scatter_ns: CLOCK_GAP_NS_MIN,
        }
    }

    /// A clock whose first times are known to be good.
    #[must_use]
    pub fn steady(rate: u32) -> Self {
        Self {
            bandwidth: STEADY,
            ..Self::new(rate)
        }
    }

    /// Nominal rate, in frames a second.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Takes note that the frame of this number was captured at this time. Frame numbers must not fall.
    pub fn observe(&mut self, frame: u64, ns: u64) {
        let ns = of_ns(ns);
        let Some(predicted) = self.exact_time_of_frame(frame) else {
            self.anchor = Some((frame, ns));
            return;
        };
        let error = ns - predicted;
        if error.abs() > CLOCK_JUMP_NS {
            self.anchor = Some((frame, ns));
            return;
        }
        self.correct(frame, predicted, error);
    }

    /// `true` after the first observation.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.anchor.is_some()
    }

    /// Error of a time: captured that much later than predicted, in ns.
    #[must_use]
    pub fn error_of(&self, frame: u64, ns: u64) -> Option<f64> {
        Some(of_ns(ns) - self.exact_time_of_frame(frame)?)
    }

    /// Moves all times by `ns`; keeps the rate.
    pub fn shift(&mut self, ns: f64) {
        if let Some((_, time)) = &mut self.anchor {
            *time += ns;
        }
    }

    fn correct(&mut self, frame: u64, predicted: f64, error: f64) {
        let (last, _) = self.anchor.unwrap_or((frame, predicted));
        let elapsed_ns = of_ns(frame.saturating_sub(last)) * self.frame_ns;
        let bandwidth = if self.observed < SETTLING {
            self.bandwidth.first
        } else {
            self.bandwidth.settled
        };
        self.observed += elapsed_ns / 1e9;
        let forgotten = (-elapsed_ns / 1e9 / SCATTER_SECONDS).exp();
        self.scatter_ns = error.abs().max(self.scatter_ns * forgotten);
        let omega = (TAU * bandwidth * elapsed_ns / 1e9).min(0.5);
        self.anchor = Some((frame, predicted + SQRT_2 * omega * error));
        if elapsed_ns > 0.0 {
            let factor = 1.0 + omega * omega * error / elapsed_ns;
            let limit = CLOCK_PPM_MAX / 1e6;
            let ratio = (self.frame_ns * factor / self.nominal_ns).clamp(1.0 - limit, 1.0 + limit);
            self.frame_ns = self.nominal_ns * ratio;
        }
    }

    /// Capture time of the frame of this number, in ns. `None` before the first observation.
    #[must_use]
    pub fn time_of(&self, frame: u64) -> Option<u64> {
        self.exact_time_of_frame(frame).map(whole)
    }

    /// Like [`time_of`](Self::time_of), as a fraction.
    #[must_use]
    pub fn exact_time_of_frame(&self, frame: u64) -> Option<f64> {
        self.exact_time_of(of_ns(frame))
    }

    /// Capture time in ns of the point `position` frames after the start of the stream.
    #[must_use]
    pub fn exact_time_of(&self, position: f64) -> Option<f64> {
        let (anchor, ns) = self.anchor?;
        Some(ns + (position - of_ns(anchor)) * self.frame_ns)
    }

    /// The largest recent difference of an observed time from the predicted one: a bound of the clock's error, in
    /// ns.
    #[must_use]
    pub fn scatter_ns(&self) -> u64 {
        whole(self.scatter_ns.ceil())
    }

    /// Measured length of a frame over its nominal length.
    #[must_use]
    pub fn frame_ratio(&self) -> f64 {
        self.frame_ns / self.nominal_ns
    }

    /// Forgets the time, as after a gap; keeps the rate.
    pub fn interrupt(&mut self) {
        self.anchor = None;
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to 2^53, which is 104 days"
)]
fn of_ns(ns: u64) -> f64 {
    ns as f64
}

/// Whole nanoseconds; 0 for negative values, since a time can't be before 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
pub(super) fn whole(ns: f64) -> u64 {
    ns as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that runs `ppm` fast, observed every `period` frames for `seconds`, with `jitter` ns (a saw tooth).
    /// Returns the largest error of the last second in ns.
    fn error_after(seconds: u64, ppm: f64, jitter: f64) -> (f64, f64) {
        let mut clock = DeviceClock::new(48_000);
        let frame_ns = 1e9 / (48_000.0 * (1.0 + ppm / 1e6));
        let mut worst = 0.0_f64;
        for step in 0..seconds * 100 {
            let frame = step * 480;
            let truth = 1e9 + of_ns(frame) * frame_ns;
            let noise = jitter * (of_ns(step * 7 % 13) / 12.0 - 0.5);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive"
            )]
            clock.observe(frame, (truth + noise) as u64);
            if step >= (seconds - 1) * 100 {
                worst = worst.max((of_ns(clock.time_of(frame).unwrap()) - truth).abs());
            }
        }
        (worst, (clock.frame_ratio() - 1.0) * -1e6)
    }

    #[test]
    fn jitter_of_milliseconds_is_filtered_and_drift_followed() {
        for ppm in [0.0, 100.0, -300.0] {
            let (worst_ns, found_ppm) = error_after(60, ppm, 4e6);
            assert!(worst_ns < 200_000.0, "{ppm} ppm: {worst_ns} ns");
            assert!(
                (found_ppm - ppm).abs() < 20.0,
                "{ppm} ppm: found {found_ppm}"
            );
        }
    }

    #[test]
    fn a_jump_is_followed_at_once() {
        let mut clock = DeviceClock::new(48_000);
        (0..10).for_each(|step| clock.observe(step * 480, 1_000_000_000 + step * 10_000_000));
        assert_eq!(clock.time_of(4_800), Some(1_100_000_000));
        clock.observe(4_800, 3_100_000_000);
        assert_eq!(clock.time_of(4_800), Some(3_100_000_000));
        clock.interrupt();
        assert_eq!(clock.time_of(4_800), None);
    }
}
