//! Fetches of a cache that no client waits for, and their bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::CACHE_BACKGROUND_FETCHES_MAX;

/// Numbers of background fetches of one cache, by [`Reason`].
#[derive(Debug, Default)]
pub(crate) struct BackgroundFetches([AtomicUsize; 2]);

/// One background fetch, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundFetch {
    fetches: Arc<BackgroundFetches>,
    reason: Reason,
}

/// The reason why no client waits for a fetch. Each is bounded by itself, so that clients that leave keep no stale
/// response from being revalidated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reason {
    /// All clients that waited have left.
    ClientsLeft,
    /// A stale response was served meanwhile (RFC 5861 §3).
    Revalidation,
}

impl BackgroundFetch {
    /// Counts a fetch; `None` where there are [`CACHE_BACKGROUND_FETCHES_MAX`] for this reason already.
    pub(crate) fn begin(fetches: &Arc<BackgroundFetches>, reason: Reason) -> Option<Self> {
        let fetch = Self {
            fetches: Arc::clone(fetches),
            reason,
        };
        let before = fetch.count().fetch_add(1, Ordering::Relaxed);
        (before < CACHE_BACKGROUND_FETCHES_MAX).then_some(fetch)
    }

    fn count(&self) -> &AtomicUsize {
        &self.fetches.0[self.reason as usize]
    }
}

impl Drop for BackgroundFetch {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}
