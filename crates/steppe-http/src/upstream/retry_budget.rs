//! The retry budget: retries are limited to a share of the requests of the last seconds.
//!
//! Invariant: in any window, retries never exceed that share of its requests or a small
//! minimum, whichever is more. Counting a request is one atomic operation; only a retry takes
//! a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::uptime::millis;
use crate::limits::{RETRIES_MIN_PER_SECOND, RETRY_WINDOW_S};

const SLOTS: usize = 10;
const _: () = assert!(SLOTS as u64 == RETRY_WINDOW_S);

/// Requests and retries of one upstream, of all workers.
#[derive(Debug, Default)]
pub(super) struct RetryBudget {
    /// By second: the second above [`COUNT_BITS`], its requests below.
    requests: [AtomicU64; SLOTS],
    /// By second: the second, and its retries.
    retries: Mutex<[(u64, u64); SLOTS]>,
    tried: AtomicU64,
    denied: AtomicU64,
}

/// Low bits of a word that count the requests of a second: up to 2^32.
const COUNT_BITS: u32 = 32;

impl RetryBudget {
    /// Counts a request.
    pub(super) fn count(&self, now: Instant) {
        let second = second(now);
        let slot = &self.requests[slot(second)];
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let is_current = word >> COUNT_BITS == second;
            Some(
                if is_current {
                    word
                } else {
                    second << COUNT_BITS
                } + 1,
            )
        });
    }

    /// True when another retry is allowed now, at `share` of the requests.
    pub(super) fn allows(&self, share: f64, now: Instant) -> bool {
        let second = second(now);
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: u64| at + RETRY_WINDOW_S > second;
        let used: u64 = retries
            .iter()
            .filter(|(at, _)| is_recent(*at))
            .map(|(_, count)| count)
            .sum();
        let words = self
            .requests
            .iter()
            .map(|word| word.load(Ordering::Relaxed));
        let requests: u64 = words
            .filter(|word| is_recent(word >> COUNT_BITS))
            .map(|word| word & ((1 << COUNT_BITS) - 1))
            .sum();
        let is_allowed = used < allowed(share, requests);
        if is_allowed {
            let current = &mut retries[slot(second)];
            let count = if current.0 == second { current.1 } else { 0 };
            *current = (second, count + 1);
        }
        let total = if is_allowed {
            &self.tried
        } else {
            &self.denied
        };
        total.fetch_add(1, Ordering::Relaxed);
        is_allowed
    }

    /// Retries allowed and denied so far.
    pub(super) fn totals(&self) -> (u64, u64) {
        let load = |total: &AtomicU64| total.load(Ordering::Relaxed);
        (load(&self.tried), load(&self.denied))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count far below 2^53"
)]
fn allowed(share: f64, requests: u64) -> u64 {
    let of_requests = (share * requests as f64) as u64;
    of_requests.max(RETRIES_MIN_PER_SECOND * RETRY_WINDOW_S)
}

/// The second of `now`, never 0: an empty slot has second 0.
fn second(now: Instant) -> u64 {
    millis(now) / 1000 + RETRY_WINDOW_S
}

fn slot(second: u64) -> usize {
    usize::try_from(second % RETRY_WINDOW_S).expect("below the window")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MIN: u64 = RETRIES_MIN_PER_SECOND * RETRY_WINDOW_S;

    fn granted(budget: &RetryBudget, asked: u64, now: Instant) -> u64 {
        let granted = (0..asked).filter(|_| budget.allows(0.2, now)).count();
        granted as u64
    }

    #[test]
    fn few_requests_have_a_few_retries() {
        let (budget, now) = (RetryBudget::default(), Instant::now());
        (0..10).for_each(|_| budget.count(now));
        assert_eq!(granted(&budget, 100, now), MIN);
        assert_eq!(budget.totals(), (MIN, 100 - MIN));
    }

    #[test]
    fn many_requests_have_their_share_of_each_window() {
        let (budget, start) = (RetryBudget::default(), Instant::now());
        let mut total = 0;
        for second in 0..40 {
            let now = start + Duration::from_secs(second);
            (0..1000).for_each(|_| budget.count(now));
            total += granted(&budget, 1000, now);
        }
        // Four windows of 10,000 requests.
        assert!((7_000..=8_000).contains(&total), "{total}");
    }

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let (budget, start) = (RetryBudget::default(), Instant::now());
        (0..10_000).for_each(|_| budget.count(start));
        assert_eq!(granted(&budget, 5_000, start), 2_000);
        let later = start + Duration::from_secs(RETRY_WINDOW_S + 1);
        assert_eq!(granted(&budget, 5_000, later), MIN);
    }
}
