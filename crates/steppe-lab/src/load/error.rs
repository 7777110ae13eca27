//! Why a load can't be started, and why one can't go on.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Why no load was started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A load that can't be as it is described.
    #[error("load `{load}`: {reason}")]
    Invalid {
        /// Its name.
        load: String,
        /// What is wrong, with the value.
        reason: String,
    },
    /// A name without an address.
    #[error("load `{load}`: can't find `{host}`")]
    Resolve {
        /// Its name.
        load: String,
        /// The host of its URL.
        host: String,
        /// What the resolver says.
        #[source]
        source: io::Error,
    },
    /// Connections that this process may not open.
    #[error("the loads take {needed} open files, and this process may have {limit}: `ulimit -n`")]
    Files {
        /// With what the lab needs itself.
        needed: u64,
        /// The soft limit.
        limit: u64,
    },
    /// A load's log.
    #[error("can't write {path}")]
    Log {
        /// Of the log.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system refused a thread or a timer.
    #[error("load `{load}`: can't start a generator thread")]
    Thread {
        /// Its name.
        load: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// A load that can't go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFailure {
    /// Its name.
    pub load: String,
    /// Since the run's clock started.
    pub at: Duration,
    /// What happened, and what to do where that is known.
    pub reason: String,
    /// The last lines that it wrote to stderr.
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
