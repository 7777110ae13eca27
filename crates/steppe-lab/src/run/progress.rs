//! Tells whoever waits how far a run is.

use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Who is told. Calls come several times a second.
pub trait Progress {
    /// `done` of `total` points (a point may be half done), and what is under way.
    fn at(&self, done: f64, total: u64, what: &str);
    /// Nothing more comes.
    fn end(&self);
}

/// Tells nobody.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _: f64, _: u64, _: &str) {}
    fn end(&self) {}
}

/// A bar with the time that is left, on a terminal.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Default for Bar {
    fn default() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let template = "{elapsed_precise} {wide_bar:.green} {percent:>3} %, {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn at(&self, done: f64, total: u64, what: &str) {
        self.0.set_length(total * FINE);
        self.0.set_position(fine(done));
        self.0.set_message(what.to_owned());
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
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
        _ = writeln!(io::stderr(), "{share:>3} %, {left} s left: {what}");
    }

    fn end(&self) {}
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few thousand"
)]
fn fine(done: f64) -> u64 {
    (done.max(0.0) * FINE as f64) as u64
}

/// Steps of a bar for each point.
const FINE: u64 = 100;
const LINES_APART: Duration = Duration::from_secs(15);
