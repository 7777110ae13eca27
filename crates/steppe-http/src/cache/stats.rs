//! Counts of one cache: requests by result, responses that were stored and evicted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The origin of a response that the `cache` filter serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedFrom {
    /// A fresh stored response.
    Hit,
    /// A stale stored response.
    Stale,
    /// A stored response that its origin server validated for this request.
    Revalidated,
    /// The origin server.
    Miss,
}

/// Results of requests, as the metrics have them: those of [`ServedFrom`], and requests that the cache forwarded
/// unchanged.
pub(super) const RESULTS: [&str; 5] = ["hit", "stale", "revalidated", "miss", "bypass"];

const BYPASS: usize = RESULTS.len() - 1;

impl ServedFrom {
    /// The value of this in the access log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        RESULTS[self as usize]
    }
}

/// Counts of one cache. A worker writes cells that no other writes, as long as there are few.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    requests: [Cells; STRIPES],
    stored: AtomicU64,
    evicted: AtomicU64,
}

const STRIPES: usize = 8;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Cells([AtomicU64; RESULTS.len()]);

thread_local! {
    static STRIPE: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES)
    };
}

impl Stats {
    /// Counts a request that was answered from the cache or by a fetch of its own.
    pub(crate) fn count_served(&self, from: ServedFrom) {
        self.count(from as usize);
    }

    /// Counts a request that the cache forwarded unchanged.
    pub(crate) fn count_bypass(&self) {
        self.count(BYPASS);
    }

    fn count(&self, result: usize) {
        self.requests[STRIPE.get()].0[result].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_stored(&self) {
        self.stored.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests by [`RESULTS`].
    pub(super) fn requests(&self) -> [u64; RESULTS.len()] {
        std::array::from_fn(|result| {
            let cells = self.requests.iter();
            cells
                .map(|cells| cells.0[result].load(Ordering::Relaxed))
                .sum()
        })
    }

    pub(super) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}
