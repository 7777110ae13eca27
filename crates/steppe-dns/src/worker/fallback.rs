//! A feature that a server lacks, as its answers show: it is asked without the feature for a while.

use std::cell::Cell;
use std::time::Instant;

use crate::limits::{FALLBACK_AFTER, FALLBACK_TIME};

/// A feature that a server may be asked without for a while.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// Answers in a row that showed that the server lacks the feature.
    seen: Cell<u32>,
    until: Cell<Option<Instant>>,
}

/// The effect of another answer that shows that the server lacks the feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// No effect yet.
    Seldom,
    /// The server is asked without the feature from now on.
    TooOften,
}

impl Fallback {
    /// True while the server is asked without the feature.
    pub(super) fn is_in_force(&self, now: Instant) -> bool {
        self.until.get().is_some_and(|until| now < until)
    }

    /// Counts an answer that shows that the server lacks the feature.
    pub(super) fn see(&self, now: Instant) -> Seen {
        let seen = self.seen.get() + 1;
        if seen < FALLBACK_AFTER {
            self.seen.set(seen);
            return Seen::Seldom;
        }
        self.seen.set(0);
        self.until.set(Some(now + FALLBACK_TIME));
        Seen::TooOften
    }

    /// Ends the row of such answers, after one that shows that the server has the feature.
    pub(super) fn break_row(&self) {
        self.seen.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fallback_is_in_force_after_two_answers_in_a_row_and_for_its_time() {
        let (fallback, now) = (Fallback::default(), Instant::now());
        assert_eq!(fallback.see(now), Seen::Seldom);
        fallback.break_row();
        assert_eq!(fallback.see(now), Seen::Seldom);
        assert!(!fallback.is_in_force(now));
        assert_eq!(fallback.see(now), Seen::TooOften);
        assert!(fallback.is_in_force(now + FALLBACK_TIME / 2));
        let later = now + FALLBACK_TIME;
        assert!(!fallback.is_in_force(later), "it is tried again");
        assert_eq!(fallback.see(later), Seen::Seldom);
        assert_eq!(fallback.see(later), Seen::TooOften);
        assert!(fallback.is_in_force(later));
    }
}
