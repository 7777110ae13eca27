//! Load generators of a run.
//!
//! [`Driver::start`] prepares the loads of a scenario, [`Driver::resume`] and [`Driver::pause`] begin and end
//! a burst, with a quiet moment between two bursts, and [`Driver::take`] returns the counts and latencies. A
//! pause leaves nothing in flight.
//!
//! An operation has two latencies: the service time counts from its actual start, the response time from its
//! intended start in an open loop, so that a target that stalls is charged with everything that had to wait.
//! No memory grows with the number of operations. The generators measure themselves: [`Interval::saturated`]
//! tells if they, and not the target, were the bottleneck.
//!
//! Leaves out redirects, cookies, HTTP/1.1 pipelining and cached TLS sessions as a choice: for these, a
//! program of its own drives the server as a `command` load (`docs/lab/protocol.md`).

mod client;
mod command;
mod dns;
mod endpoint;
mod error;
mod generated;
mod http1;
mod http2;
mod pacer;
mod plan;
mod request;
mod schedule;
mod source;
mod tally;
mod thread;
mod tls;
mod usage;

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::limits::LEAD_IN;
use crate::scenario::Load;

pub use error::{LoadError, LoadFailure};
pub use usage::GeneratorUse;

pub use plan::check;

use source::Source;
use tally::Tally;

/// The generators of a run, paused or at work.
pub struct Driver {
    sources: Vec<Source>,
    clock: Instant,
    state: Mutex<State>,
}

/// A stretch of load between two quiet moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Planned length, which command loads are given.
    pub length: Duration,
    /// Number of the burst from 0, which command loads are given.
    pub epoch: u32,
    /// True if the burst ends with its command loads ([`Driver::is_done`]); otherwise a pause ends it.
    pub to_end: bool,
}

/// Counts and latencies of one load since the last [`Driver::take`].
#[derive(Clone)]
pub struct Interval {
    /// Name of the load.
    pub name: String,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed; they are in no histogram.
    pub errors: u64,
    /// Operations that the target refused as designed; they are in no histogram either.
    pub refused: u64,
    /// Errors by kind, most frequent first.
    pub error_kinds: Vec<(String, u64)>,
    /// Operations that were due in an open loop, `dropped` included.
    pub intended: Option<u64>,
    /// Operations that were due when a pause came and had not been started: the backlog.
    pub dropped: u64,
    /// Microseconds from the intended start.
    pub response: Histogram<u64>,
    /// Microseconds from the actual start.
    pub service: Histogram<u64>,
    /// CPU use of the load's busiest thread.
    pub generator: GeneratorUse,
    /// Peak RSS of a command load's program, in bytes.
    pub hwm_bytes: Option<u64>,
    /// Reason why the generator, and not the target, was the bottleneck, with a remedy.
    pub saturated: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Start of the present burst; `None` in a pause.
    start: Option<Instant>,
    runs_to_end: bool,
    /// True after the first burst has begun.
    is_warm: bool,
    ramp_is_on: bool,
}

impl Interval {
    /// The interval of a tally.
    fn of(name: &str, sum: &Tally, generator: GeneratorUse) -> Self {
        let mut error_kinds: Vec<_> = sum.kinds.iter().map(|(k, n)| (k.label(), *n)).collect();
        error_kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let response = sum.response.as_ref().unwrap_or(&sum.service).clone();
        Self {
            name: name.to_owned(),
            operations: sum.operations,
            errors: sum.errors,
            refused: sum.refused,
            error_kinds,
            intended: sum.intended,
            dropped: sum.dropped,
            response,
            service: sum.service.clone(),
            generator,
            hwm_bytes: None,
            saturated: None,
        }
    }
}

impl Driver {
    /// Starts the threads of all loads, paused: nothing is sent yet.
    ///
    /// `seed` is mixed into the loads' own seeds, so that runs differ; times of failures count from
    /// `clock`; `log_path` returns the path of a command load's log (its program's stderr), by the
    /// load's name.
    ///
    /// # Errors
    /// When a load is invalid, its host has no address, or the system refuses files, a timer or a
    /// thread.
    pub fn start(
        loads: &[Load],
        seed: u64,
        clock: Instant,
        log_path: impl Fn(&str) -> PathBuf,
    ) -> Result<Self, LoadError> {
        for load in loads {
            check(load)?;
        }
        plan::check_open_files(loads)?;
        let sources = loads
            .iter()
            .map(|load| Source::start(load, (seed, clock), &log_path))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            sources,
            clock,
            state: Mutex::default(),
        })
    }

    /// Begins a burst, unless one is running. The first burst has the loads' ramps.
    pub fn resume(&self, burst: Burst) {
        let mut state = self.state();
        if state.start.is_some() {
            return;
        }
        let start = Instant::now() + LEAD_IN;
        *state = State {
            start: Some(start),
            runs_to_end: burst.to_end,
            is_warm: true,
            ramp_is_on: !state.is_warm,
        };
        for source in &self.sources {
            source.resume(start, state.ramp_is_on, burst);
        }
    }

    /// Ends the burst: starts no operation anymore, and waits until none is in flight.
    ///
    /// False: some were still in flight after `patience`; they are counted when they are over. A
    /// command load that still runs is interrupted, and killed after two seconds.
    pub fn pause(&self, patience: Duration) -> bool {
        let now = Instant::now();
        self.state().start = None;
        let threads: usize = self.sources.iter().map(Source::threads).sum();
        let (quiet, quieted) = sync_channel(threads.max(1));
        for source in &self.sources {
            source.pause(now, &quiet);
        }
        // A thread that has ended drops its sender without an answer, and is not waited for.
        drop(quiet);
        let end = now + patience;
        (0..threads).all(|_| {
            let left = end.saturating_duration_since(Instant::now());
            quieted.recv_timeout(left).is_ok()
        })
    }

    /// True when the command loads of a burst with `to_end` have ended: at once if there are none, and
    /// never in a burst that a pause ends.
    pub fn is_done(&self) -> bool {
        self.state().runs_to_end && self.sources.iter().all(Source::is_over)
    }

    /// True when every command load has ended by itself, in a burst of either kind.
    pub fn has_ended(&self) -> bool {
        self.sources.iter().all(Source::is_over)
    }

    /// The intervals of all loads since the last call, in the order of the scenario.
    pub fn take(&mut self) -> Vec<Interval> {
        let now = Instant::now();
        let State {
            start, ramp_is_on, ..
        } = *self.state();
        let elapsed = start.and_then(|start| now.checked_duration_since(start));
        self.sources
            .iter_mut()
            .map(|source| source.take(now, elapsed, ramp_is_on))
            .collect()
    }

    /// Failures of the loads that can't go on.
    pub fn failures(&self) -> Vec<LoadFailure> {
        self.sources
            .iter()
            .filter_map(|source| source.failure(self.clock))
            .collect()
    }

    /// Stops all loads, with the operations that are in flight.
    pub fn stop(self) {
        drop(self);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Interval {
    /// Prints the maxima of the histograms, and not their thousands of cells.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("name", &self.name)
            .field("operations", &self.operations)
            .field("errors", &self.error_kinds)
            .field("refused", &self.refused)
            .field("intended", &self.intended)
            .field("dropped", &self.dropped)
            .field("response_max_us", &self.response.max())
            .field("service_max_us", &self.service.max())
            .field("generator", &self.generator)
            .field("saturated", &self.saturated)
            .finish_non_exhaustive()
    }
}
