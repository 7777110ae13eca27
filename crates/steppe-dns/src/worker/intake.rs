//! Where a worker takes everything from.

use std::sync::Arc;

use steppe_mem::{Clients, Lease};
use steppe_net::Change;
use steppe_telemetry::ShardWriter;
use tokio::sync::mpsc;

use crate::metrics::Cells;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::wakes::Wake;

/// What a worker is given.
pub(crate) struct Intake {
    pub(crate) changes: mpsc::Receiver<Change<Snapshot>>,
    /// This and the next until it has a state.
    pub(crate) wakes: Option<mpsc::Receiver<Wake>>,
    pub(crate) metrics: Option<ShardWriter<Cells>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) lease: Lease,
    /// Where connections of clients are entered.
    pub(crate) holders: Clients,
}
