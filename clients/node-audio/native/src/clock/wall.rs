//! The wall clock beside the monotonic one: the offset from a packet's time to the time of day.
//!
//! Both clocks are read for each packet, the wall clock between two readings of the monotonic one, which bound
//! the error. On Linux their difference changes only when the wall clock is set: a thread that was preempted
//! between the readings is no change. **Invariant:** nothing is allocated, and no system call made where the
//! clocks are read without one.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits::{WALL_READINGS_MAX, WALL_STEP_NS, WALL_WIDTH_NS};

/// The wall clock, read between two readings of the monotonic one; all in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The monotonic clock before the wall clock.
    pub before: u64,
    /// Time since 1970.
    pub wall: i64,
    /// The monotonic clock after the wall clock.
    pub after: u64,
}

impl Reading {
    /// Reads both clocks, again if the thread was preempted.
    #[must_use]
    pub fn now() -> Self {
        let mut best = Self::once();
        for _ in 1..WALL_READINGS_MAX {
            if best.width() <= WALL_WIDTH_NS {
                break;
            }
            let next = Self::once();
            if next.width() < best.width() {
                best = next;
            }
        }
        best
    }

    fn once() -> Self {
        let before = super::now_ns();
        let wall = wall_ns();
        let after = super::now_ns();
        Self {
            before,
            wall,
            after,
        }
    }

    fn width(self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The offset to add to the monotonic clock.
    fn offset(self) -> Offset {
        let middle = self.before + self.width() / 2;
        Offset {
            ns: self
                .wall
                .saturating_sub(i64::try_from(middle).unwrap_or(i64::MAX)),
            error_ns: self.width().div_ceil(2),
        }
    }
}

/// Time since 1970, in ns; negative before.
#[expect(
    clippy::disallowed_methods,
    reason = "the time of day is what is asked for"
)]
fn wall_ns() -> i64 {
    let now = SystemTime::now();
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}

/// Offset from the monotonic clock to the time of day, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Offset in ns.
    pub ns: i64,
    /// Bound of its error.
    pub error_ns: u64,
}

/// Follows the wall clock; see the module.
#[derive(Debug, Default)]
pub struct WallClock {
    offset: Option<Offset>,
    steps: u64,
}

impl WallClock {
    /// Takes note of a reading, and returns the valid offset: the former one where the reading agrees with it
    /// and is less exact.
    pub fn observe(&mut self, reading: Reading) -> Offset {
        let measured = reading.offset();
        let Some(kept) = self.offset else {
            self.offset = Some(measured);
            return measured;
        };
        let apart = measured.ns.abs_diff(kept.ns);
        let error_ns = measured.error_ns + kept.error_ns;
        let agrees = apart <= error_ns;
        if agrees && measured.error_ns >= kept.error_ns {
            return kept;
        }
        self.steps += u64::from(apart > error_ns + WALL_STEP_NS);
        self.offset = Some(measured);
        measured
    }

    /// Number of times that the wall clock was set.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn reading(before: u64, wall: i64, width: u64) -> Reading {
        Reading {
            before,
            wall,
            after: before + width,
        }
    }

    #[test]
    fn the_most_exact_reading_counts() {
        let mut clock = WallClock::default();
        let first = clock.observe(reading(1_000, HOUR + 1_050, 100));
        assert_eq!((first.ns, first.error_ns), (HOUR, 50));
        // Preempted before, then after the wall clock was read: 4 ms.
        for wall in [HOUR + 2_000, HOUR + 4_002_000] {
            assert_eq!(clock.observe(reading(2_000, wall, 4_000_000)), first);
        }
        let better = clock.observe(reading(5_000, HOUR + 5_020, 40));
        assert_eq!((better.ns, better.error_ns), (HOUR, 20));
        assert_eq!(clock.steps(), 0);
    }

    #[test]
    fn a_clock_that_is_set_is_seen_at_once_and_one_that_drifts_is_followed() {
        let mut clock = WallClock::default();
        clock.observe(reading(1_000, HOUR, 100));
        let set = clock.observe(reading(2_000, HOUR + 2_000_000_000, 100));
        assert_eq!(set.ns, HOUR + 2_000_000_000 - 2_050);
        assert_eq!(clock.steps(), 1);
        clock.observe(reading(3_000, HOUR, 100));
        assert_eq!(clock.steps(), 2);
        let drifted = clock.observe(reading(4_000, HOUR + 1_000 + 300, 100));
        assert_eq!(drifted.ns, HOUR + 1_300 - 4_050);
        assert_eq!(clock.steps(), 2);
    }

    #[test]
    fn a_reading_lies_between_two_of_the_monotonic_clock() {
        let reading = Reading::now();
        assert!(reading.before <= reading.after);
        assert!(reading.wall > 0);
    }
}
