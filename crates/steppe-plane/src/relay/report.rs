//! The report of a relay, for `/plane` and the metrics.

use std::net::SocketAddr;
use std::time::Duration;

use crate::status::Status;

/// The services and calls of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayReport {
    /// Services, sorted by name.
    pub services: Vec<ServiceReport>,
    /// Calls that wait for a worker.
    pub queue: QueueReport,
    /// Results of calls since the start.
    pub calls: CallReport,
    /// Bodies that had to wait for room in the budget, since the start.
    pub budget_waits: u64,
}

/// Results of calls: those of connected peers, and those of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallReport {
    /// Ended calls, by status.
    pub finished: Vec<(Status, u64)>,
    /// Calls that waited for a worker, and their total wait.
    pub queued: TimeReport,
    /// Calls whose response has begun, and the total time until then.
    pub answered: TimeReport,
}

/// The number and the total time of some events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeReport {
    /// Number of events.
    pub count: u64,
    /// Total time of the events.
    pub total: Duration,
}

/// A service that has, or had, a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReport {
    /// Name of the service.
    pub name: String,
    /// Calls that wait for a worker.
    pub waiting: usize,
    /// Connected workers of the service.
    pub workers: Vec<WorkerReport>,
}

/// A worker of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerReport {
    /// Address of the worker's end of the connection.
    pub address: SocketAddr,
    /// Open calls at the worker.
    pub calls: u32,
    /// Maximum of concurrent calls; `None` if unlimited.
    pub calls_max: Option<u32>,
    /// Known lengths of the bodies of these calls, in bytes.
    pub bytes: u64,
}

/// Calls that wait for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueReport {
    /// Number of waiting calls.
    pub calls: usize,
    /// Bytes of their bodies that may have been received.
    pub bytes: u64,
}
