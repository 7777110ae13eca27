//! Counts of an upstream's lines of the error log: how many of each reason are written in a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::uptime::millis;
use crate::limits::ERROR_LINES_A_SECOND;
use crate::metrics::CloseReason;

/// Counts for each reason.
#[derive(Debug)]
pub(crate) struct ErrorLines([AtomicU64; CloseReason::ALL.len()]);

impl ErrorLines {
    /// Counts a line of `reason`. Returns the number that was left out in the last second that had any; `None`: it is
    /// left out itself.
    pub(crate) fn admit(&self, reason: CloseReason, now: Instant) -> Option<u64> {
        // The second above, the count below.
        const COUNT: u64 = u32::MAX as u64;
        let second = (millis(now) / 1000) & COUNT;
        let mut admitted = None;
        let cell = &self.0[reason.index()];
        // It always has a next value.
        let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |packed| {
            let count = packed & COUNT;
            let is_same = packed >> 32 == second;
            admitted = match is_same {
                true => (count < ERROR_LINES_A_SECOND).then_some(0),
                false => Some(count.saturating_sub(ERROR_LINES_A_SECOND)),
            };
            let next = if is_same { (count + 1).min(COUNT) } else { 1 };
            Some(second << 32 | next)
        });
        admitted
    }
}

impl Default for ErrorLines {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; CloseReason::ALL.len()])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the first instant of a test")]
    fn five_lines_a_second_are_written_and_the_others_counted() {
        let (counts, now) = (ErrorLines::default(), Instant::now());
        let reset = |now| counts.admit(CloseReason::UpstreamReset, now);
        let written = (0..100).filter_map(|_| reset(now)).count();
        assert!(
            (5..=10).contains(&written),
            "{written}: a second may have ended"
        );
        let next = now + Duration::from_secs(2);
        assert_eq!(
            counts.admit(CloseReason::BadResponse, now),
            Some(0),
            "another kind"
        );
        let omitted = reset(next).expect("another second");
        assert!((85..=95).contains(&omitted), "{omitted}");
        assert_eq!(reset(next), Some(0));
    }
}
