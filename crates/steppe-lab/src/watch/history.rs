//! Looks so far, in bounded memory, and rates and slopes over them.
//!
//! When the history is full, every other look is dropped and from then on only every other one is
//! kept, so that the window always reaches back to its start.

use std::time::Duration;

use super::units::as_f64;
use crate::limits::{SLOPE_POINTS_MAX, SLOPE_POINTS_MIN, WATCH_LOOKS_MAX};
use crate::observe::{Slow, TcpState};

/// One look at the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Look {
    /// Time since the process was attached to.
    pub(super) at: Duration,
    pub(super) slow: Slow,
    /// PSS when it was last read.
    pub(super) pss_bytes: Option<u64>,
}

/// Looks since the window began.
#[derive(Debug, Default)]
pub(super) struct History {
    looks: Vec<Look>,
    /// The look before the newest: two in a row are needed for rates, whatever is dropped.
    previous: Option<Look>,
    newest: Option<Look>,
    /// The very first look, whatever the window.
    first: Option<Look>,
    close_wait_max: Option<u64>,
    /// Power of two: one look in that many is kept.
    doublings: u32,
    seen: u64,
}

impl History {
    pub(super) fn push(&mut self, look: Look) {
        self.first.get_or_insert(look);
        self.previous = self.newest.replace(look);
        let close_wait = look.slow.sockets.map(|it| it.count(TcpState::CloseWait));
        self.close_wait_max = self.close_wait_max.max(close_wait);
        if self.seen.is_multiple_of(1 << self.doublings) {
            if self.looks.len() >= WATCH_LOOKS_MAX {
                let mut index = 0;
                self.looks.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.doublings += 1;
            }
            self.looks.push(look);
        }
        self.seen += 1;
    }

    /// Begins a new window with the newest look.
    pub(super) fn restart(&mut self) {
        self.looks.clear();
        self.looks.extend(self.newest);
        self.doublings = 0;
        self.seen = 1;
    }

    pub(super) fn looks(&self) -> &[Look] {
        &self.looks
    }

    pub(super) fn first(&self) -> Option<&Look> {
        self.first.as_ref()
    }

    pub(super) fn last(&self) -> Option<&Look> {
        self.newest.as_ref()
    }

    /// Most sockets in CLOSE-WAIT at any look.
    pub(super) fn close_wait_max(&self) -> Option<u64> {
        self.close_wait_max
    }

    /// Growth of a counter a second, between the last two looks.
    pub(super) fn rate(&self, of: impl Fn(&Slow) -> Option<u64>) -> Option<f64> {
        rate(self.previous.as_ref()?, self.newest.as_ref()?, of)
    }

    /// Growth of a counter a second, since the process was attached to.
    pub(super) fn mean_rate(&self, of: impl Fn(&Slow) -> Option<u64>) -> Option<f64> {
        rate(self.first.as_ref()?, self.newest.as_ref()?, of)
    }

    /// Theil–Sen slope of memory in the window: anonymous where it is seen, else resident.
    pub(super) fn slope_kib_per_min(&self) -> Option<f64> {
        if self.looks.len() < SLOPE_POINTS_MIN {
            return None;
        }
        let step = self.looks.len().div_ceil(SLOPE_POINTS_MAX);
        let points: Vec<(f64, f64)> = self
            .looks
            .iter()
            .step_by(step)
            .filter_map(|look| {
                let bytes = look.slow.anonymous_bytes.or(look.slow.rss_bytes)?;
                Some((look.at.as_secs_f64() / 60.0, as_f64(bytes) / 1024.0))
            })
            .collect();
        median_slope(&points)
    }
}

fn rate(from: &Look, to: &Look, of: impl Fn(&Slow) -> Option<u64>) -> Option<f64> {
    let seconds = to.at.saturating_sub(from.at).as_secs_f64();
    let grown = of(&to.slow)?.checked_sub(of(&from.slow)?)?;
    (seconds > 0.0).then(|| as_f64(grown) / seconds)
}

/// The median of the slopes between all pairs of points.
fn median_slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes: Vec<f64> = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        for (later_x, later_y) in &points[index + 1..] {
            if later_x > x {
                slopes.push((later_y - y) / (later_x - x));
            }
        }
    }
    if slopes.is_empty() {
        return None;
    }
    let middle = slopes.len() / 2;
    let (_, median, _) = slopes.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(second: u64, anonymous_bytes: u64) -> Look {
        Look {
            at: Duration::from_secs(second),
            slow: Slow {
                anonymous_bytes: Some(anonymous_bytes),
                cpu_us: Some(second * 250_000),
                ..Slow::default()
            },
            pss_bytes: None,
        }
    }

    fn near(left: Option<f64>, right: f64) -> bool {
        left.is_some_and(|left| (left - right).abs() < 1e-6)
    }

    #[test]
    fn a_slope_is_robust_against_a_spike() {
        let mut history = History::default();
        for second in 0..60 {
            let spike = if second % 9 == 4 { 1 << 30 } else { 0 };
            history.push(look(second, (1 << 20) + second * 1024 + spike));
        }
        assert!(near(history.slope_kib_per_min(), 60.0));
    }

    #[test]
    fn too_few_looks_have_no_slope() {
        let mut history = History::default();
        assert_eq!(history.slope_kib_per_min(), None);
        for second in 0..9 {
            history.push(look(second, second));
        }
        assert_eq!(history.slope_kib_per_min(), None);
    }

    #[test]
    fn a_long_window_is_thinned_and_keeps_its_start() {
        let mut history = History::default();
        let count = u64::try_from(WATCH_LOOKS_MAX).unwrap() * 5;
        for second in 0..count {
            history.push(look(second, second * 2048));
        }
        assert!(history.looks().len() <= WATCH_LOOKS_MAX);
        assert_eq!(history.looks()[0].at, Duration::ZERO);
        let gaps: Vec<Duration> = history
            .looks()
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect();
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{gaps:?}");
        assert!(near(history.slope_kib_per_min(), 120.0));
        assert!(near(history.rate(|slow| slow.cpu_us), 250_000.0));
    }

    #[test]
    fn a_new_window_starts_with_the_newest_look() {
        let mut history = History::default();
        for second in 0..5 {
            history.push(look(second, second));
        }
        history.restart();
        assert_eq!(history.looks(), [look(4, 4)]);
        assert_eq!(history.first(), Some(&look(0, 0)));
        history.push(look(5, 5));
        assert_eq!(history.looks().len(), 2);
    }

    #[test]
    fn what_was_not_seen_has_no_rate() {
        let mut history = History::default();
        assert_eq!(history.rate(|slow| slow.cpu_us), None);
        history.push(look(0, 0));
        history.push(look(1, 0));
        assert_eq!(history.rate(|slow| slow.syscalls), None);
        assert!(near(history.mean_rate(|slow| slow.cpu_us), 250_000.0));
    }
}
