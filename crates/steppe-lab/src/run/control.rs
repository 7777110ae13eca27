//! The machine's speed while it measures: a fixed piece of work, and stolen CPU time.
//!
//! CPU time and latency of a target change when the clock of the CPU does, or when a neighbor takes
//! its time. The control does the same work all the time, so that any change it shows is the
//! machine's. The work is timed by its own CPU time: a target that takes more of the CPU does not
//! change it by that.

use std::fs;
use std::hint::black_box;

use crate::limits::{CONTROL_STEPS, CONTROL_TIMINGS_MAX};
use crate::observe::thread_cpu_time;

/// The machine between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Machine {
    /// CPU time of the work, the median.
    pub(super) control_ns: Option<u64>,
    /// Share of all CPU time, 0 to 1.
    pub(super) steal: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Control {
    timings_ns: Vec<u64>,
    /// Stolen and total ticks when the last stretch began.
    since: Option<(u64, u64)>,
}

impl Control {
    /// Begins a stretch.
    pub(super) fn begin(&mut self) {
        self.timings_ns.clear();
        self.since = ticks();
    }

    /// Does the work once: a tenth of a millisecond or so.
    pub(super) fn work(&mut self) {
        if self.timings_ns.len() >= CONTROL_TIMINGS_MAX {
            return;
        }
        let start = thread_cpu_time();
        let mut state: u64 = 1;
        for step in 0..CONTROL_STEPS {
            state = black_box(state.wrapping_mul(MULTIPLIER) ^ u64::from(step));
        }
        black_box(state);
        let took = thread_cpu_time().saturating_sub(start);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.timings_ns.push(took);
    }

    /// The figures since the stretch began.
    pub(super) fn seen(&mut self) -> Machine {
        self.timings_ns.sort_unstable();
        let control_ns = self.timings_ns.get(self.timings_ns.len() / 2).copied();
        let steal = self.since.zip(ticks()).and_then(|(before, now)| {
            let (stolen, all) = (now.0.checked_sub(before.0)?, now.1.checked_sub(before.1)?);
            let share = |ticks: u64| u32::try_from(ticks).ok().map(f64::from);
            Some(share(stolen)? / share(all).filter(|all| *all > 0.0)?)
        });
        Machine { control_ns, steal }
    }
}

/// Stolen ticks and all ticks of all CPUs, from the first line of `/proc/stat` (proc_stat(5)).
fn ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    parse(text.lines().next()?)
}

fn parse(line: &str) -> Option<(u64, u64)> {
    let ticks: Option<Vec<u64>> = line
        .strip_prefix("cpu ")?
        .split_whitespace()
        // Fields after steal are contained in user time.
        .take(STEAL + 1)
        .map(|word| word.parse().ok())
        .collect();
    let ticks = ticks?;
    let all = ticks
        .iter()
        .fold(0, |sum: u64, tick| sum.saturating_add(*tick));
    Some((*ticks.get(STEAL)?, all))
}

/// Index of steal in: user, nice, system, idle, iowait, irq, softirq, steal.
const STEAL: usize = 7;
/// Knuth's, for linear congruential generators.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_of_the_ticks() {
        let line = "cpu  10 20 30 40 50 60 70 80 90 100";
        assert_eq!(parse(line), Some((80, 360)));
        assert_eq!(parse("cpu 1 2 3"), None);
        assert_eq!(parse("cpu0 1 2 3 4 5 6 7 8"), None);
    }

    #[test]
    fn the_median_of_the_work_is_told() {
        let mut control = Control::default();
        control.begin();
        assert_eq!(control.seen().control_ns, None);
        for _ in 0..5 {
            control.work();
        }
        assert!(control.seen().control_ns.is_some_and(|ns| ns > 0));
    }
}
