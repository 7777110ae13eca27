//! Graceful shutdown: a phase that every task can watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The node's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepts connections and serves requests.
    Serving,
    /// Accepts no new connections; exchanges in flight complete.
    Draining,
    /// The drain timeout expired: what is still in flight is dropped.
    Stopped,
}

/// The current phase of the node. Clones share it.
#[derive(Debug, Clone)]
pub struct Drain {
    phase: Arc<watch::Sender<Phase>>,
    draining: Arc<AtomicBool>,
}

impl Default for Drain {
    fn default() -> Self {
        let (phase, _) = watch::channel(Phase::Serving);
        Self {
            phase: Arc::new(phase),
            draining: Arc::default(),
        }
    }
}

impl Drain {
    /// Enters `phase`; an earlier phase than the current one is ignored.
    pub fn enter(&self, phase: Phase) {
        self.draining
            .store(phase > Phase::Serving, Ordering::Release);
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// True once the node has stopped accepting. One atomic load, for hot paths.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Waits until `phase` or a later one was entered.
    ///
    /// # Cancel safety
    /// Safe: it keeps no state, and the next call reads the current phase.
    pub async fn reached(&self, phase: Phase) {
        let mut watched = self.phase.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = watched.wait_for(|now| *now >= phase).await;
    }
}
