//! What a relay says of itself.

use std::net::SocketAddr;
use std::time::Duration;

use crate::status::Status;

/// What a relay serves, and what waits there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayReport {
    /// By name.
    pub services: Vec<ServiceReport>,
    /// Calls that wait for a worker.
    pub queue: QueueReport,
    /// What became of calls since the start.
    pub calls: CallReport,
    /// How often a body had to wait for room in the budget.
    pub budget_waits: u64,
}

/// What became of the calls that came by connections, and of the gateway's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallReport {
    /// How many ended with each status.
    pub finished: Vec<(Status, u64)>,
    /// Those that waited for a worker, and how long.
    pub queued: TimeReport,
    /// Those whose answer began, and how long after they came.
    pub answered: TimeReport,
}

/// How many times something took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeReport {
    /// How many.
    pub count: u64,
    /// All of the time.
    pub total: Duration,
}

/// A service that somebody serves, or has served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReport {
    /// Its name.
    pub name: String,
    /// Calls that wait for a worker.
    pub waiting: usize,
    /// Who serves it now.
    pub workers: Vec<WorkerReport>,
}

/// A worker of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerReport {
    /// Where it connected from.
    pub address: SocketAddr,
    /// Calls that it has now.
    pub calls: u32,
    /// Calls that it takes at once; `None`: any number.
    pub calls_max: Option<u32>,
    /// Bytes of the bodies of these calls, where they are known.
    pub bytes: u64,
}

/// Calls that wait for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueReport {
    /// How many.
    pub calls: usize,
    /// Bytes of their bodies that may have been received.
    pub bytes: u64,
}
