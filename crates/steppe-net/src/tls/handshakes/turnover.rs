//! The number of handshakes of a source that are completed in a second.
//!
//! Counted in seconds that begin with the first of them: a figure is that of one to two seconds, and of none once two
//! have passed without one.

use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Handshakes that were completed.
#[derive(Debug, Default)]
pub(super) struct Turnover {
    /// When the second that is counted began; `None`: none was completed yet.
    began_at: Option<Instant>,
    counted: usize,
    /// Count of the second before.
    before: usize,
}

impl Turnover {
    /// One was completed `now`.
    pub(super) fn count(&mut self, now: Instant) {
        let began_at = *self.began_at.get_or_insert(now);
        let since = now.saturating_duration_since(began_at);
        if since >= SECOND {
            self.before = if since < 2 * SECOND { self.counted } else { 0 };
            (self.began_at, self.counted) = (Some(now), 0);
        }
        self.counted += 1;
    }

    /// Number that was completed in the last second, or a little more.
    pub(super) fn within_second(&self, now: Instant) -> usize {
        let since = |began_at| now.saturating_duration_since(began_at);
        match self.began_at.map(since) {
            Some(since) if since < SECOND => self.counted + self.before,
            Some(since) if since < 2 * SECOND => self.counted,
            _ => 0,
        }
    }
}
