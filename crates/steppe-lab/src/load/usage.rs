//! CPU use of a generator thread, from `/proc/self/task/TID/schedstat`.
//!
//! The file holds the nanoseconds on a CPU, the nanoseconds in which the thread could have run and
//! had to wait, and the number of time slices. The rest of the wall time is idle: the thread waited
//! for the target. Kernels without `CONFIG_SCHED_INFO` have no such file, and containers may hide it:
//! the use is then unknown.

use std::fs;
use std::time::{Duration, Instant};

/// CPU use of the busiest thread of a load while load ran, in shares of 0 to 1.
///
/// `None`: the kernel has no such figures, the load has no thread of its own, or no load ran.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GeneratorUse {
    /// Share of the time on a CPU.
    pub on_cpu: Option<f64>,
    /// Share of the time in which the thread was ready to run, and waited for a CPU.
    pub waiting: Option<f64>,
}

impl GeneratorUse {
    /// Share of the time on a CPU or waiting for one: all but the idle time.
    #[must_use]
    pub fn busy(&self) -> Option<f64> {
        Some((self.on_cpu? + self.waiting?).min(1.0))
    }

    /// The busier of two threads.
    pub(super) fn busier(self, other: Self) -> Self {
        if other.busy() > self.busy() {
            other
        } else {
            self
        }
    }
}

/// Sums up the CPU use of a thread over the time in which load ran.
#[derive(Debug, Default)]
pub(super) struct Meter {
    thread_id: i32,
    /// Start of the stretch that is not added up yet, with the thread's use until then.
    since: Option<(Instant, Option<Spent>)>,
    elapsed: Duration,
    spent: Option<Spent>,
}

/// Nanoseconds since the thread was started, or within a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spent {
    on_cpu_ns: u64,
    waiting_ns: u64,
}

impl Meter {
    pub(super) fn new(thread_id: i32) -> Self {
        Self {
            thread_id,
            ..Self::default()
        }
    }

    /// Begins a stretch of load.
    pub(super) fn start(&mut self, now: Instant) {
        self.since = Some((now, read(self.thread_id)));
    }

    /// Ends a stretch of load, and adds it up.
    pub(super) fn stop(&mut self, now: Instant) {
        let Some((began, before)) = self.since.take() else {
            return;
        };
        self.elapsed += now.duration_since(began);
        let within = match (before, read(self.thread_id)) {
            (Some(before), Some(after)) => Some(after.since(before)),
            _ => None,
        };
        self.spent = match (self.spent, within) {
            (Some(sum), Some(within)) => Some(sum.plus(within)),
            (None, within) => within,
            (sum, None) => sum,
        };
    }

    /// CPU use since the last call, with the time in which load ran; a stretch that has begun goes on.
    pub(super) fn take(&mut self, now: Instant) -> (GeneratorUse, Duration) {
        let is_running = self.since.is_some();
        self.stop(now);
        let elapsed = std::mem::take(&mut self.elapsed);
        let spent = self.spent.take();
        if is_running {
            self.start(now);
        }
        let share = |ns: u64| Duration::from_nanos(ns).div_duration_f64(elapsed).min(1.0);
        let used = match spent {
            Some(spent) if !elapsed.is_zero() => GeneratorUse {
                on_cpu: Some(share(spent.on_cpu_ns)),
                waiting: Some(share(spent.waiting_ns)),
            },
            _ => GeneratorUse::default(),
        };
        (used, elapsed)
    }
}

impl Spent {
    fn since(self, earlier: Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            waiting_ns: self.waiting_ns.saturating_sub(earlier.waiting_ns),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns + other.on_cpu_ns,
            waiting_ns: self.waiting_ns + other.waiting_ns,
        }
    }
}

fn read(thread_id: i32) -> Option<Spent> {
    parse(&fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?)
}

fn parse(text: &str) -> Option<Spent> {
    let mut figures = text.split_whitespace().map(str::parse);
    Some(Spent {
        on_cpu_ns: figures.next()?.ok()?,
        waiting_ns: figures.next()?.ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("12"), None);
        assert_eq!(parse("12 x 3"), None);
        let spent = Spent {
            on_cpu_ns: 12,
            waiting_ns: 34,
        };
        assert_eq!(parse("12 34 5\n"), Some(spent));
        let mut meter = Meter::new(0);
        assert_eq!(meter.take(Instant::now()).0, GeneratorUse::default());
        assert_eq!(GeneratorUse::default().busy(), None);
    }

    #[test]
    fn a_thread_that_works_is_busier_than_one_that_sleeps() {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        // On a busy machine a thread may wait for a processor after its sleep, which counts as well.
        let once = || {
            let mut meter = Meter::new(thread_id);
            let now = Instant::now();
            meter.start(now);
            while now.elapsed() < Duration::from_millis(30) {}
            let (working, _) = meter.take(Instant::now());
            std::thread::sleep(Duration::from_millis(30));
            let (sleeping, _) = meter.take(Instant::now());
            (working.busy() > sleeping.busy()).then_some((working, sleeping))
        };
        let told = (0..100).find_map(|_| once());
        let (working, sleeping) = told.expect("one time of a hundred nobody is in the way");
        assert_eq!(working.busier(sleeping), working);
        assert_eq!(sleeping.busier(working), working);
    }
}
