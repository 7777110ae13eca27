//! Schedule of an open loop: the times at which its operations are due.
//!
//! Arrivals are evenly spaced: arrival `i` is due `i / rate` after the start of a burst. While the
//! rate rises linearly from nothing over a ramp `R`, `N(t) = rate · t² / 2R` arrivals are due by
//! `t`, so that arrival `i` is due at `√(2R · i / rate)`. The schedule knows nothing of the target:
//! a late arrival stays due.
//!
//! Leaves out random spacing: a fixed schedule can be run again, and the target causes any delay of an
//! arrival.

use std::time::Duration;

/// Arrivals of one load within one burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Schedule {
    pub(super) rate_per_s: f64,
    pub(super) ramp: Duration,
}

/// The arrivals of one thread: every `threads`-th, from `thread` on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    pub(super) schedule: Schedule,
    pub(super) thread: u32,
    pub(super) threads: u32,
}

impl Schedule {
    /// Time from the start of the burst until arrival `index` is due.
    #[expect(
        clippy::cast_precision_loss,
        reason = "arrivals of a burst are below 2^53"
    )]
    fn due(&self, index: u64) -> Duration {
        let index = index as f64;
        let ramp_s = self.ramp.as_secs_f64();
        let in_ramp = self.rate_per_s * ramp_s / 2.0;
        let due_s = if index < in_ramp {
            (2.0 * ramp_s * index / self.rate_per_s).sqrt()
        } else {
            ramp_s + (index - in_ramp) / self.rate_per_s
        };
        Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX)
    }

    /// Number of arrivals that are due when `elapsed` has passed since the start of the burst.
    pub(super) fn due_by(&self, elapsed: Duration) -> u64 {
        let ramp_s = self.ramp.as_secs_f64();
        let elapsed_s = elapsed.as_secs_f64();
        let estimate = if elapsed_s < ramp_s {
            self.rate_per_s * elapsed_s * elapsed_s / (2.0 * ramp_s)
        } else {
            self.rate_per_s * (elapsed_s - ramp_s / 2.0)
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a cast of a float saturates"
        )]
        let mut count = estimate as u64;
        // Both formulas round: the count is made to agree with `due`.
        while count > 0 && self.due(count - 1) > elapsed {
            count -= 1;
        }
        while self.due(count) <= elapsed {
            count += 1;
        }
        count
    }
}

impl Share {
    /// Time from the start of the burst until arrival `index` of this thread is due.
    pub(super) fn due(&self, index: u64) -> Duration {
        let all = index * u64::from(self.threads) + u64::from(self.thread);
        self.schedule.due(all)
    }

    /// Number of this thread's arrivals that are due when `elapsed` has passed since the start of the burst.
    pub(super) fn due_by(&self, elapsed: Duration) -> u64 {
        let all = self.schedule.due_by(elapsed);
        all.saturating_sub(u64::from(self.thread))
            .div_ceil(u64::from(self.threads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate_per_s: f64, ramp_ms: u64) -> Schedule {
        Schedule {
            rate_per_s,
            ramp: Duration::from_millis(ramp_ms),
        }
    }

    #[test]
    fn arrivals_are_evenly_spaced() {
        let steady = schedule(100.0, 0);
        assert_eq!(steady.due(0), Duration::ZERO);
        assert_eq!(steady.due(7), Duration::from_millis(70));
        assert_eq!(steady.due_by(Duration::ZERO), 1);
        assert_eq!(steady.due_by(Duration::from_millis(995)), 100);
        assert_eq!(steady.due_by(Duration::from_secs(1)), 101);
    }

    #[test]
    fn a_ramp_rises_linearly_and_goes_on_at_the_rate() {
        let rising = schedule(100.0, 2000);
        // Of the arrivals at the full rate, half are due by the end of the ramp, a quarter of these by its middle.
        assert_eq!(rising.due_by(Duration::from_millis(1000)), 26);
        assert_eq!(rising.due_by(Duration::from_millis(2000)), 101);
        assert_eq!(rising.due_by(Duration::from_millis(3000)), 201);
        let gaps: Vec<_> = (0..99).map(|i| rising.due(i + 1) - rising.due(i)).collect();
        assert!(gaps.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn what_is_due_agrees_with_when_it_is_due() {
        for (rate_per_s, ramp_ms) in [(3.0, 0), (33_333.3, 0), (0.7, 5000), (9_999.9, 1234)] {
            let schedule = schedule(rate_per_s, ramp_ms);
            for index in [0, 1, 2, 999, 1_000_003] {
                let due = schedule.due(index);
                assert!(schedule.due_by(due) > index, "{rate_per_s} {index}");
                let before = due.saturating_sub(Duration::from_nanos(1));
                assert!(before == due || schedule.due_by(before) <= index);
            }
        }
    }

    #[test]
    fn threads_share_every_arrival() {
        let schedule = schedule(1000.0, 300);
        for elapsed_ms in [0, 1, 17, 300, 1001] {
            let elapsed = Duration::from_millis(elapsed_ms);
            let of = |thread| Share {
                schedule,
                thread,
                threads: 3,
            };
            let shared: u64 = (0..3).map(|thread| of(thread).due_by(elapsed)).sum();
            assert_eq!(shared, schedule.due_by(elapsed));
        }
    }
}
