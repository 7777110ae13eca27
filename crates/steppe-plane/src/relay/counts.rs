//! Results and times of forwarded calls, counted since the start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::report::{CallReport, TimeReport};
use crate::status::Status;

/// Results and times of calls, counted by the threads that drive them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Ended calls, by the code of their status.
    finished: [AtomicU64; Status::ALL.len()],
    queued: Times,
    answered: Times,
}

/// The number and the total time of some events.
#[derive(Debug, Default)]
struct Times {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Counts {
    /// Counts a call that has ended.
    pub(super) fn finish(&self, status: Status) {
        if let Some(count) = self.finished.get(status.code() as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the wait of a call for a worker, with or without success.
    pub(super) fn queue(&self, time: Duration) {
        self.queued.add(time);
    }

    /// Counts a response that has begun, with the time since its call.
    pub(super) fn answer(&self, time: Duration) {
        self.answered.add(time);
    }

    pub(super) fn report(&self) -> CallReport {
        let finished = Status::ALL.iter().zip(&self.finished);
        CallReport {
            finished: finished
                .map(|(status, count)| (*status, count.load(Ordering::Relaxed)))
                .collect(),
            queued: self.queued.report(),
            answered: self.answered.report(),
        }
    }
}

impl Times {
    fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn report(&self) -> TimeReport {
        TimeReport {
            count: self.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.ns.load(Ordering::Relaxed)),
        }
    }
}
