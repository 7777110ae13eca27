//! The tries of one call: which workers refused it, and until when others are waited for.

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
    /// Workers that stay and do not take it. None of them is asked again.
    refused: Vec<Weak<Link>>,
    /// The refusal of one of them.
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

    /// True where a worker has refused the call: a failure from here on may be that worker's.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// The refusal to answer with where nobody else can be asked.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        self.refusal.as_ref()
    }

    pub(super) fn refused(&self) -> &[Weak<Link>] {
        &self.refused
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Notes that `worker` has done nothing for the call; nothing of its body was passed on.
    ///
    /// # Errors
    /// The failure, where another worker could do no more, or where enough were asked.
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
            // The registry may not have heard of it.
            registry.remove(worker);
            return Ok(());
        }
        self.refused.push(Arc::downgrade(worker));
        // A worker that may have room later says more than one that never has.
        let before = self.refusal.as_ref().map(|refusal| refusal.status);
        if before != Some(Status::Overloaded) {
            self.refusal = Some(failure);
        }
        Ok(())
    }
}

/// True where another worker may do the call, which this one did not begin.
pub(super) fn is_elsewhere(failure: &Failure) -> bool {
    let goes_away = matches!(failure.status, Status::Unavailable | Status::Draining);
    failure.processing == Processing::None && (goes_away || is_refusal(failure.status))
}

/// True where a worker has no room for the call.
fn is_refusal(status: Status) -> bool {
    matches!(status, Status::Overloaded | Status::TooLarge)
}
