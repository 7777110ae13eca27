//! The tries of one call: workers that refused it, and the deadline for another worker.

use std::sync::{Arc, Weak};
use std::time::Instant;

use super::registry::Registry;
use crate::connection::Processing;
use crate::io::{Failure, Link};
use crate::limits::RELAY_TRIES_MAX;
use crate::status::Status;

/// The tries of one call of a relay.
#[derive(Debug)]
pub struct Tries {
    /// Connected workers that have refused the call. They are not tried again.
    refused: Vec<Weak<Link>>,
    /// The most useful refusal so far.
    refusal: Option<Failure>,
    until: Instant,
    count: usize,
}

impl Tries {
    /// The tries of a call that waits for a worker until `until`.
    pub(super) fn new(until: Instant) -> Self {
        Self {
            refused: Vec::new(),
            refusal: None,
            until,
            count: 0,
        }
    }

    /// True if a worker has refused the call: later failures may repeat its refusal.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// The refusal to answer with if no other worker can be tried.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        self.refusal.as_ref()
    }

    pub(super) fn refused(&self) -> &[Weak<Link>] {
        &self.refused
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Notes that `worker` did not process the call, and that no part of its body was passed on.
    ///
    /// # Errors
    /// The failure, if other workers would fail too, or if enough workers were tried.
    pub(super) fn note(
        &mut self,
        registry: &Registry,
        worker: &Arc<Link>,
        failure: Failure,
    ) -> Result<(), Failure> {
        self.count += 1;
        if !is_elsewhere(&failure) || self.count == RELAY_TRIES_MAX {
            return Err(failure);
        }
        if !is_refusal(failure.status) && worker.is_leaving() {
            // The registry may not know yet that the worker goes away.
            registry.remove(worker);
            return Ok(());
        }
        self.refused.push(Arc::downgrade(worker));
        // *Overloaded* is kept over *too large*: a retry may succeed.
        let before = self.refusal.as_ref().map(|refusal| refusal.status);
        if before != Some(Status::Overloaded) {
            self.refusal = Some(failure);
        }
        Ok(())
    }
}

/// True if the worker did not process the call, and another one may.
pub(super) fn is_elsewhere(failure: &Failure) -> bool {
    let goes_away = matches!(failure.status, Status::Unavailable | Status::Draining);
    failure.processing == Processing::None && (goes_away || is_refusal(failure.status))
}

/// True if a worker has no room for the call.
fn is_refusal(status: Status) -> bool {
    matches!(status, Status::Overloaded | Status::TooLarge)
}
