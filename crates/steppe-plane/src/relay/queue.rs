//! Calls that wait for a worker: their number, and the bytes of them that were received.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::report::QueueReport;
use crate::frame::Queueing;
use crate::io::Failure;
use crate::limits::{GRANT_WAIT, WAITING_MAX};
use crate::status::Status;

/// Limits of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayConfig {
    /// Bytes of bodies that were received and wait for a worker, together.
    pub queue_bytes: u64,
    /// Longest wait of a call for a worker, and for the first credit of its request; zero: calls do not wait, and the
    /// worker is asked to refuse rather than queue them.
    pub queue_wait: Duration,
    /// Maximum of a request's body in bytes.
    pub payload_bytes_max: u64,
}

impl RelayConfig {
    /// The queueing of a call that asks for `asked`: never, if calls do not wait.
    pub(super) fn queueing(&self, asked: Queueing) -> Queueing {
        match self.queue_wait.is_zero() {
            true => Queueing::Never,
            false => asked,
        }
    }

    /// Time limit of the first credit of a request.
    #[must_use]
    pub fn grant_wait(&self) -> Duration {
        match self.queue_wait.is_zero() {
            true => GRANT_WAIT,
            false => self.queue_wait,
        }
    }
}

/// Counts of the calls that wait for a worker.
#[derive(Debug, Default)]
pub(super) struct Queue {
    calls: AtomicUsize,
    bytes: AtomicU64,
}

/// A waiting call, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Queued<'a> {
    queue: &'a Queue,
    bytes: u64,
}

impl Queue {
    /// Counts a waiting call, of which `bytes` may have been received.
    ///
    /// # Errors
    /// If too many calls wait, or too many bytes.
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
