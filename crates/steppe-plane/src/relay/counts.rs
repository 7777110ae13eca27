//! What became of the calls that were passed on, counted since the start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::report::{CallReport, TimeReport};
use crate::status::Status;

/// What became of calls. Whichever thread drives one counts it.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By the number of the status.
    finished: [AtomicU64; Status::ALL.len()],
    queued: Times,
    answered: Times,
}

/// How many times something took time, and how much.
#[derive(Debug, Default)]
struct Times {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Counts {
    /// A call ended.
    pub(super) fn finish(&self, status: Status) {
        if let Some(count) = self.finished.get(status.code() as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call waited for a worker, whether it got one or not.
    pub(super) fn queue(&self, time: Duration) {
        self.queued.add(time);
    }

    /// An answer began, so long after its call.
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
