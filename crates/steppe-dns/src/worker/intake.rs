//! Channels and memory that a worker is given at its start.

use std::sync::Arc;

use steppe_mem::{Clients, Lease};
use steppe_net::Change;
use steppe_telemetry::ShardWriter;
use tokio::sync::mpsc;

use crate::metrics::Cells;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::wakes::Wake;

/// The channels, memory and shared state that a worker is given.
pub(crate) struct Intake {
    pub(crate) changes: mpsc::Receiver<Change<Snapshot>>,
    /// Wakes from other workers; `None`, like `metrics`, once the worker has a state.
    pub(crate) wakes: Option<mpsc::Receiver<Wake>>,
    pub(crate) metrics: Option<ShardWriter<Cells>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) lease: Lease,
    /// Table of clients, in which their connections are entered.
    pub(crate) holders: Clients,
}
