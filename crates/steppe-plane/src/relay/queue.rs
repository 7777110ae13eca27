//! What waits in a relay for a worker: how many calls, and how many bytes of them were received.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::report::QueueReport;
use crate::frame::Queueing;
use crate::io::Failure;
use crate::limits::{GRANT_WAIT, WAITING_MAX};
use crate::status::Status;

/// What a relay lets wait and pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayConfig {
    /// Bytes of bodies that were received and wait for a worker, in all.
    pub queue_bytes: u64,
    /// How long a call may wait for a worker, or for the first credit of its request; zero: none waits, and the
    /// worker is asked not to have it wait.
    pub queue_wait: Duration,
    /// Bytes that the body of a request may have.
    pub payload_bytes_max: u64,
}

impl RelayConfig {
    /// Whether a call waits that wants to be treated as `asked`: where none does, its worker is told.
    pub(super) fn queueing(&self, asked: Queueing) -> Queueing {
        match self.queue_wait.is_zero() {
            true => Queueing::Never,
            false => asked,
        }
    }

    /// How long the first credit of a request may take.
    #[must_use]
    pub fn grant_wait(&self) -> Duration {
        match self.queue_wait.is_zero() {
            true => GRANT_WAIT,
            false => self.queue_wait,
        }
    }
}

/// Calls that wait, counted.
#[derive(Debug, Default)]
pub(super) struct Queue {
    calls: AtomicUsize,
    bytes: AtomicU64,
}

/// A call that waits, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Queued<'a> {
    queue: &'a Queue,
    bytes: u64,
}

impl Queue {
    /// Lets a call wait of which `bytes` may have been received.
    ///
    /// # Errors
    /// Too many wait, or too many bytes.
    pub(super) fn enter(&self, bytes: u64, bytes_max: u64) -> Result<Queued<'_>, Failure> {
        let queued = Queued { queue: self, bytes };
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let detail = if calls >= WAITING_MAX {
            format!("{WAITING_MAX} calls already wait")
        } else if before + bytes > bytes_max {
            format!("bodies of {before} bytes already wait, at most {bytes_max} are allowed")
        } else {
            return Ok(queued);
        };
        Err(Failure::unprocessed(Status::Overloaded, detail))
    }

    pub(super) fn report(&self) -> QueueReport {
        QueueReport {
            calls: self.calls.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.queue.calls.fetch_sub(1, Ordering::Relaxed);
        self.queue.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
