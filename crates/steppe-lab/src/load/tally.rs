//! Counts and latencies of a generator between two reads.
//!
//! A thread owns one tally behind a lock, which the driver takes only for the moment in which it swaps in an
//! empty one. Its size is fixed: two histograms and a bounded map of errors.
//! Only operations that succeeded have a latency: a refused connection is quick, and would make a
//! broken target look fast.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::limits::{ERROR_KINDS_MAX, LATENCY_DIGITS, LATENCY_MAX_US, SAID_LEN_MAX};

/// Kind of a failed operation, as reports name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ErrorKind {
    Known(&'static str),
    Status(u16),
    /// Text of a program or a library, bounded.
    Said(String),
}

/// The failure of an operation.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    /// True if the connection was lost or never opened.
    pub(super) disconnected: bool,
}

/// Counts since the last read.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) errors: u64,
    /// Operations that the target refused as designed: neither a success nor an error.
    pub(super) refused: u64,
    pub(super) kinds: BTreeMap<ErrorKind, u64>,
    /// Arrivals that were due in bursts that are over.
    pub(super) intended: Option<u64>,
    /// Arrivals of these that were never started.
    pub(super) dropped: u64,
    pub(super) service: Histogram<u64>,
    /// Response times of an open loop; in a closed loop they equal the service times.
    pub(super) response: Option<Histogram<u64>>,
}

/// A tally that a generator fills and the driver takes.
pub(super) type Shared = Arc<Mutex<Tally>>;

/// The driver's end of a generator's tally.
#[derive(Debug)]
pub(super) struct Counter {
    tally: Shared,
    /// Tally that is swapped in, empty.
    spare: Tally,
}

impl ErrorKind {
    pub(super) fn label(&self) -> String {
        match self {
            Self::Known(name) => (*name).to_owned(),
            Self::Status(status) => format!("status {status}"),
            Self::Said(text) => text.clone(),
        }
    }
}

impl Failure {
    /// A failure by which the connection was lost, or never opened.
    pub(super) fn lost(kind: &'static str) -> Self {
        Self {
            kind: ErrorKind::Known(kind),
            disconnected: true,
        }
    }

    /// A failure other than a lost connection: an unexpected response, or a timeout.
    pub(super) fn answered(kind: ErrorKind) -> Self {
        Self {
            kind,
            disconnected: false,
        }
    }
}

impl Tally {
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn new(is_open: bool) -> Self {
        Self {
            operations: 0,
            errors: 0,
            refused: 0,
            kinds: BTreeMap::new(),
            intended: None,
            dropped: 0,
            service: histogram(),
            response: is_open.then(histogram),
        }
    }

    pub(super) fn succeed(&mut self, response: Duration, service: Duration) {
        self.operations += 1;
        record(&mut self.service, micros(service), 1);
        if let Some(histogram) = &mut self.response {
            record(histogram, micros(response), 1);
        }
    }

    /// Counts operations that succeeded, with one latency for service and response.
    pub(super) fn succeed_many(&mut self, latency_us: u64, count: u64) {
        self.operations = self.operations.saturating_add(count);
        record(&mut self.service, latency_us, count);
    }

    pub(super) fn fail(&mut self, kind: ErrorKind, count: u64) {
        self.errors = self.errors.saturating_add(count);
        let is_full = self.kinds.len() >= ERROR_KINDS_MAX && !self.kinds.contains_key(&kind);
        let kind = if is_full { OTHER } else { kind };
        let counted = self.kinds.entry(kind).or_default();
        *counted = counted.saturating_add(count);
    }

    pub(super) fn intend(&mut self, count: u64) {
        let intended = self.intended.unwrap_or(0);
        self.intended = Some(intended.saturating_add(count));
    }

    /// Adds the counts of another tally.
    pub(super) fn add(&mut self, other: &Self) {
        self.operations = self.operations.saturating_add(other.operations);
        self.refused = self.refused.saturating_add(other.refused);
        for (kind, count) in &other.kinds {
            self.fail(kind.clone(), *count);
        }
        if let Some(intended) = other.intended {
            self.intend(intended);
        }
        self.dropped += other.dropped;
        self.service += &other.service;
        if let (Some(sum), Some(histogram)) = (&mut self.response, &other.response) {
            *sum += histogram;
        }
    }

    pub(super) fn clear(&mut self) {
        self.operations = 0;
        self.errors = 0;
        self.refused = 0;
        self.kinds.clear();
        self.intended = None;
        self.dropped = 0;
        self.service.reset();
        if let Some(histogram) = &mut self.response {
            histogram.reset();
        }
    }
}

impl Counter {
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    pub(super) fn new(is_open: bool) -> Self {
        Self {
            tally: Arc::new(Mutex::new(Tally::new(is_open))),
            spare: Tally::new(is_open),
        }
    }

    pub(super) fn shared(&self) -> Shared {
        Arc::clone(&self.tally)
    }

    /// The counts since the last call.
    pub(super) fn swap(&mut self) -> &Tally {
        self.spare.clear();
        std::mem::swap(&mut self.spare, &mut *lock(&self.tally));
        &self.spare
    }
}

/// Locks a tally. One whose owner panicked still counts right: each change is that of a whole operation.
pub(super) fn lock(tally: &Shared) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty histogram of latencies in microseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, LATENCY_DIGITS)
        .expect("the bounds are constants, and in order")
}

fn record(histogram: &mut Histogram<u64>, latency_us: u64, count: u64) {
    histogram.saturating_record_n(latency_us.clamp(1, LATENCY_MAX_US), count);
}

fn micros(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)
}

const OTHER: ErrorKind = ErrorKind::Known("other");

/// Foreign text for a report: cut to [`SAID_LEN_MAX`] characters, and escaped.
pub(super) fn said(text: &str) -> String {
    text.chars()
        .take(SAID_LEN_MAX)
        .flat_map(char::escape_debug)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_are_bounded_and_none_is_lost() {
        let mut tally = Tally::new(false);
        for status in 0..1000 {
            tally.fail(ErrorKind::Status(status), 2);
        }
        assert_eq!(tally.kinds.len(), ERROR_KINDS_MAX + 1);
        assert_eq!(tally.errors, 2000);
        assert_eq!(tally.kinds.values().sum::<u64>(), 2000);
        let mut sum = Tally::new(false);
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!(sum.errors, 4000);
        assert!(sum.kinds.len() <= ERROR_KINDS_MAX + 1);
    }

    #[test]
    fn latencies_out_of_range_are_kept_at_its_ends() {
        let mut tally = Tally::new(true);
        tally.succeed(Duration::MAX, Duration::ZERO);
        assert_eq!(tally.service.max(), 1);
        let response = tally.response.as_ref().unwrap();
        assert!(response.max() >= LATENCY_MAX_US);
        tally.clear();
        assert!(tally.service.is_empty() && tally.response.unwrap().is_empty());
    }
}
