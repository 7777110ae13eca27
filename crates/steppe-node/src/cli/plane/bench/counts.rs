//! The outcomes of the calls, in a fixed amount of memory.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use steppe_plane::{Failure, Status};

/// Longest recorded latency, an hour: longer ones count as this.
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// The outcomes of the calls.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    pub(super) start: Instant,
    /// End of the last call.
    pub(super) end: Instant,
    /// Latencies of answered calls, in microseconds.
    pub(super) answered: Histogram<u64>,
    /// Latencies of calls that were refused for want of room, in microseconds.
    pub(super) refused: Histogram<u64>,
    /// Number of failed calls, by status.
    pub(super) failed: Vec<(Status, u64)>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    /// Messages of all answers.
    pub(super) messages: u64,
    /// Calls of an open loop that were due by now.
    pub(super) due: Option<u64>,
}

/// The size of an answer.
pub(super) struct Answer {
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

impl Counts {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            start: now,
            end: now,
            answered: histogram(),
            refused: histogram(),
            failed: Vec::new(),
            sent_bytes: 0,
            received_bytes: 0,
            messages: 0,
            due: None,
        }
    }

    /// Counts a call with a body of `sent` bytes, from its due time to its end.
    pub(super) fn add(
        &mut self,
        (due, now): (Instant, Instant),
        sent: usize,
        outcome: &Result<Answer, Failure>,
    ) {
        self.end = now;
        let elapsed = self.end.saturating_duration_since(due);
        match outcome {
            Ok(answer) => {
                record(&mut self.answered, elapsed);
                self.sent_bytes += sent as u64;
                self.received_bytes += answer.bytes;
                self.messages += answer.messages;
            }
            Err(failure) if failure.status == Status::Overloaded => {
                record(&mut self.refused, elapsed);
            }
            Err(failure) => self.fail(failure.status),
        }
    }

    fn fail(&mut self, status: Status) {
        match self.failed.iter_mut().find(|(known, _)| *known == status) {
            Some((_, count)) => *count += 1,
            None => self.failed.push((status, 1)),
        }
    }

    /// The number of failed calls.
    pub(super) fn failures(&self) -> u64 {
        self.failed.iter().map(|(_, count)| count).sum()
    }

    /// The time from the first call to the end of the last.
    pub(super) fn length(&self) -> Duration {
        self.end - self.start
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("bounds are in order")
}

fn record(histogram: &mut Histogram<u64>, elapsed: Duration) {
    let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    histogram.saturating_record(us.max(1));
}
