//! Drives a server: the generators of a run.
//!
//! [`Driver::start`] makes a scenario's loads ready, [`Driver::resume`] and [`Driver::pause`] bound
//! the bursts between which the target is looked at in quiet, and [`Driver::take`] says what came of
//! them. A pause leaves nothing in flight.
//!
//! Times are told twice: the service time counts from the actual start of an operation, the response
//! time from the one that an open loop owed it, so that a target that stalls is charged with
//! everything that had to wait. Nothing grows with the number of operations. The generators watch
//! themselves: an interval whose pace they set, and not the target, says so.
//!
//! Leaves out redirects, cookies, HTTP/1.1 pipelining and cached TLS sessions as a choice: what needs
//! them drives the server by a program of its own (`docs/lab/protocol.md`).

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
    /// How long it will last, as command loads are told.
    pub length: Duration,
    /// From 0, as command loads are told.
    pub epoch: u32,
    /// It is over when the command loads are ([`Driver::is_done`]); else when it is paused.
    pub to_end: bool,
}

/// What one load did since the last look.
#[derive(Clone)]
pub struct Interval {
    /// Of the load.
    pub name: String,
    /// That succeeded.
    pub operations: u64,
    /// Operations that failed; they are in no histogram.
    pub errors: u64,
    /// Operations that were refused as agreed; they are in no histogram either.
    pub refused: u64,
    /// Errors by kind, most frequent first.
    pub error_kinds: Vec<(String, u64)>,
    /// Operations that an open loop owed, `dropped` included.
    pub intended: Option<u64>,
    /// Operations that were due when a pause came and had not been started: the backlog.
    pub dropped: u64,
    /// Microseconds from the intended start.
    pub response: Histogram<u64>,
    /// Microseconds from the actual start.
    pub service: Histogram<u64>,
    /// The busiest thread.
    pub generator: GeneratorUse,
    /// Of a command: the most that its program was resident.
    pub hwm_bytes: Option<u64>,
    /// Why the generator and not the target set the pace, and what to do.
    pub saturated: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// When the burst began that is on.
    start: Option<Instant>,
    runs_to_end: bool,
    /// There was a burst.
    is_warm: bool,
    ramp_is_on: bool,
}

impl Interval {
    /// What a tally comes to.
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
    /// `seed` stirs the loads' own seeds, so that runs differ; times of failures count from
    /// `clock`; `log_path` says where the program of a command load writes its stderr to, by the
    /// load's name.
    ///
    /// # Errors
    /// When a load can't be as it is described, or the system has no room for it.
    pub fn start(
        loads: &[Load],
        seed: u64,
        clock: Instant,
        log_path: impl Fn(&str) -> PathBuf,
    ) -> Result<Self, LoadError> {
        for load in loads {
            check(load)?;
        }
        plan::reserve_files(loads)?;
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

    /// Lets load run; it does already when a burst is on. The first burst has the loads' ramps.
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

    /// Starts nothing anymore, and waits until nothing is in flight.
    ///
    /// False: something still was after `patience`; it is counted when it is over. A command load
    /// that still runs is interrupted, and killed after two seconds.
    pub fn pause(&self, patience: Duration) -> bool {
        let now = Instant::now();
        self.state().start = None;
        let threads: usize = self.sources.iter().map(Source::threads).sum();
        let (quiet, quieted) = sync_channel(threads.max(1));
        for source in &self.sources {
            source.pause(now, &quiet);
        }
        // A thread that is gone drops its end unanswered, and is not waited for.
        drop(quiet);
        let end = now + patience;
        (0..threads).all(|_| {
            let left = end.saturating_duration_since(Instant::now());
            quieted.recv_timeout(left).is_ok()
        })
    }

    /// Whether the command loads of a burst that runs to their end are over: at once where there is
    /// none, and never in a burst that a pause ends.
    pub fn is_done(&self) -> bool {
        self.state().runs_to_end && self.sources.iter().all(Source::is_over)
    }

    /// Whether every command load has ended by itself, in whatever burst.
    pub fn has_ended(&self) -> bool {
        self.sources.iter().all(Source::is_over)
    }

    /// What each load did since the last time, in the order of the scenario.
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

    /// Loads that can't go on.
    pub fn failures(&self) -> Vec<LoadFailure> {
        self.sources
            .iter()
            .filter_map(|source| source.failure(self.clock))
            .collect()
    }

    /// Ends everything, whatever is in flight.
    pub fn stop(self) {
        drop(self);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Interval {
    /// Without the thousands of cells of its histograms.
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
