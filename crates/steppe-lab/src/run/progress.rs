//! Reports the progress of a run.

use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::record::Epoch;
use crate::report::escape;

/// A receiver of progress. Calls come several times a second.
pub trait Progress {
    /// Reports `done` of `total` points (a point may be half done), and the current work.
    fn at(&self, done: f64, total: u64, what: &str);
    /// Reports that another epoch is over.
    fn epoch(&self, _: &SoFar<'_>) {}
    /// Ends the reports.
    fn end(&self);
}

/// A process's figures while it is soaked.
#[derive(Debug, Clone, Copy)]
pub struct SoFar<'a> {
    /// The epochs of the process, warm-up included; at least one.
    pub epochs: &'a [Epoch],
    /// Growth that the budget allows memory at rest, in MiB a day.
    pub allowed_mib_per_day: Option<f64>,
    /// Operations that may fail; `None`: no limit is set.
    pub errors_max: Option<u64>,
}

/// Reports nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _: f64, _: u64, _: &str) {}
    fn end(&self) {}
}

/// A line now and then, where there is no terminal: a CI's log.
#[derive(Debug)]
pub struct Lines {
    start: Instant,
    next: Cell<Duration>,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            next: Cell::new(LINES_APART),
        }
    }
}

impl Progress for Lines {
    fn at(&self, done: f64, total: u64, what: &str) {
        let elapsed = self.start.elapsed();
        if elapsed < self.next.get() {
            return;
        }
        self.next.set(elapsed + LINES_APART);
        let share = fine(done) * 100 / (total * FINE).max(1);
        let left =
            elapsed.mul_f64((100.0 / f64::from(u32::try_from(share.max(1)).unwrap_or(1))) - 1.0);
        let left = left.as_secs();
        let what = escape::terminal(what);
        _ = writeln!(io::stderr(), "{share:>3} %, {left} s left: {what}");
    }

    fn end(&self) {}
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few thousand"
)]
pub(super) fn fine(done: f64) -> u64 {
    (done.max(0.0) * FINE as f64) as u64
}

/// Steps of a bar for each point.
pub(super) const FINE: u64 = 100;
const LINES_APART: Duration = Duration::from_secs(15);
