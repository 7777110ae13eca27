//! A moment at which something ends unless it moves, and the reason that is counted then.

use std::time::{Duration, Instant};

use crate::metrics::CloseReason;

/// A deadline with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// When it passes.
    pub at: Instant,
    /// Counted and logged once it has passed.
    pub reason: CloseReason,
}

impl Due {
    /// The deadline `timeout` after `since`; `None` where no clock can tell that moment.
    #[must_use]
    pub fn after(since: Instant, timeout: Duration, reason: CloseReason) -> Option<Self> {
        let at = since.checked_add(timeout)?;
        Some(Self { at, reason })
    }

    /// The deadline of a whole exchange, where it has one.
    #[must_use]
    pub fn total(at: Option<Instant>) -> Option<Self> {
        let reason = CloseReason::TotalTimeout;
        at.map(|at| Self { at, reason })
    }

    /// The one that passes first; of two at the same moment the first in the list.
    #[must_use]
    pub fn earliest<const COUNT: usize>(dues: [Option<Self>; COUNT]) -> Option<Self> {
        dues.into_iter().flatten().min_by_key(|due| due.at)
    }

    /// True once it has passed.
    #[must_use]
    pub fn has_passed(&self, now: Instant) -> bool {
        self.at <= now
    }
}
