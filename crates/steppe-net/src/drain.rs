//! Graceful shutdown: a phase of the node that every task can watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether a node serves, drains or has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepts and serves.
    Serving,
    /// Accepts nothing new; what is in flight goes on.
    Draining,
    /// The drain timed out: what is still in flight is dropped.
    Stopped,
}

/// The node's phase. Clones watch the same one.
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
    /// Enters `phase`, unless it has passed.
    pub fn enter(&self, phase: Phase) {
        self.draining
            .store(phase > Phase::Serving, Ordering::Release);
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// Whether the node no longer accepts. One load, for hot paths.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Waits until `phase` was entered.
    ///
    /// # Cancel safety
    /// Safe: a later call sees the phase that is.
    pub async fn reached(&self, phase: Phase) {
        let mut watched = self.phase.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = watched.wait_for(|now| *now >= phase).await;
    }
}
