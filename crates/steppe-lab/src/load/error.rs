//! Errors of a load, at its start and later.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An error for which no load is started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A load with invalid settings.
    #[error("load `{load}`: {reason}")]
    Invalid {
        /// Name of the load.
        load: String,
        /// The mistake, with the value.
        reason: String,
    },
    /// A host name without an address.
    #[error("load `{load}`: can't find `{host}`")]
    Resolve {
        /// Name of the load.
        load: String,
        /// The host of its URL.
        host: String,
        /// Error of the resolver.
        #[source]
        source: io::Error,
    },
    /// More files than this process may open.
    #[error("the loads take {needed} open files, and this process may have {limit}: `ulimit -n`")]
    Files {
        /// Files for all connections, and for the lab itself.
        needed: u64,
        /// The soft limit (RLIMIT_NOFILE).
        limit: u64,
    },
    /// A log of a load that can't be opened.
    #[error("can't write {path}")]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The system refused a thread or a timer.
    #[error("load `{load}`: can't start a generator thread")]
    Thread {
        /// Name of the load.
        load: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// The failure of a load that can't go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFailure {
    /// Name of the load.
    pub load: String,
    /// Time of the failure, since the run's clock started.
    pub at: Duration,
    /// The cause, with a remedy where one is known.
    pub reason: String,
    /// The last lines that its program wrote to stderr.
    pub said: Option<String>,
}

impl LoadFailure {
    pub(super) fn panicked(load: &str, clock: Instant) -> Self {
        Self {
            load: load.to_owned(),
            at: clock.elapsed(),
            reason: "its thread panicked: this is a bug of the lab".to_owned(),
            said: None,
        }
    }
}
