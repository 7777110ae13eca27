//! Retry budget of a balancer: limits retries while peers fail.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::limits::{RETRIES_SAVED_MAX, RETRY_SHARE_DIVISOR};

/// The retries that are left: [`RETRIES_SAVED_MAX`] at first, and one more for every
/// [`RETRY_SHARE_DIVISOR`] calls that succeed.
#[derive(Debug)]
pub(super) struct Retries {
    /// In units of 1/[`RETRY_SHARE_DIVISOR`] of a retry.
    saved: AtomicU32,
}

const FULL: u32 = RETRIES_SAVED_MAX * RETRY_SHARE_DIVISOR;

impl Retries {
    pub(super) fn new() -> Self {
        Self {
            saved: AtomicU32::new(FULL),
        }
    }

    /// Adds a successful call to the budget.
    pub(super) fn earn(&self) {
        // Checked first: a full budget is not written to, so its cache line stays shared.
        if self.saved.load(Ordering::Relaxed) < FULL {
            let more = |saved| (saved < FULL).then_some(saved + 1);
            let _ = self
                .saved
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    /// Takes one retry from the budget; false if none is left.
    pub(super) fn spend(&self) -> bool {
        let less = |saved: u32| saved.checked_sub(RETRY_SHARE_DIVISOR);
        let taken = self
            .saved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_share_of_what_succeeds() {
        let retries = Retries::new();
        for _ in 0..RETRIES_SAVED_MAX {
            assert!(retries.spend());
        }
        assert!(!retries.spend());
        for _ in 1..RETRY_SHARE_DIVISOR {
            retries.earn();
            assert!(!retries.spend());
        }
        retries.earn();
        assert!(retries.spend());
        assert!(!retries.spend());
        for _ in 0..2 * FULL {
            retries.earn();
        }
        assert_eq!(
            (0..2 * FULL).filter(|_| retries.spend()).count(),
            RETRIES_SAVED_MAX as usize
        );
    }
}
