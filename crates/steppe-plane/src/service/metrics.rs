//! Metrics of the relay, read at each scrape.
//!
//! Invariant: no data of a peer becomes a label. Names of services come from workers, so they are none.

use std::fmt;

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};

use super::PlaneService;
use crate::relay::{RelayReport, WorkerReport};

/// Collector of the plane's metrics.
#[derive(Debug)]
pub struct PlaneCollector(pub(super) PlaneService);

const SERVICES: Family = Family::new("steppe_plane_services", "Services registered by workers");
const WORKERS: Family = Family::new(
    "steppe_plane_workers",
    "Connected workers, counted once for each service",
);
const CALLS: Family = Family::new("steppe_plane_calls", "Calls in progress at workers");
const CALL_BYTES: Family = Family::bytes(
    "steppe_plane_call",
    "Bytes of the bodies of calls in progress at workers, where the length is known",
);
const QUEUE_CALLS: Family = Family::new("steppe_plane_queue_calls", "Calls waiting for a worker");
const QUEUE_BYTES: Family = Family::bytes(
    "steppe_plane_queue",
    "Bytes of the bodies of calls waiting for a worker",
);

const FINISHED: Family = Family::new("steppe_plane_finished_calls", "Completed calls, by status");
const QUEUED: Family = Family::new(
    "steppe_plane_queued_calls",
    "Calls that waited for a worker",
);
const QUEUED_TIME: Family = Family::seconds(
    "steppe_plane_queued",
    "Total time that calls waited for a worker",
);
const ANSWERED: Family = Family::new("steppe_plane_answered_calls", "Calls whose response began");
const FIRST_BYTE: Family = Family::seconds(
    "steppe_plane_first_byte",
    "Total time from a call to the beginning of its response",
);
const BUDGET_WAITS: Family = Family::new(
    "steppe_plane_budget_waits",
    "Bodies that waited for room in the budget",
);

impl Collector for PlaneCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = self.0.report();
        let encoder = &mut encoder;
        let workers = || report.services.iter().flat_map(|service| &service.workers);
        let calls = |worker: &WorkerReport| u64::from(worker.calls);
        SERVICES.gauge(encoder, report.services.len() as u64)?;
        WORKERS.gauge(encoder, workers().count() as u64)?;
        CALLS.gauge(encoder, workers().map(calls).sum::<u64>())?;
        let bytes = workers().map(|worker| worker.bytes);
        CALL_BYTES.gauge(encoder, bytes.sum::<u64>())?;
        QUEUE_CALLS.gauge(encoder, report.queue.calls as u64)?;
        QUEUE_BYTES.gauge(encoder, report.queue.bytes)?;
        let calls = &report.calls;
        let finished = calls.finished.iter();
        let finished = finished.map(|(status, count)| ([("status", status.name())], *count));
        FINISHED.counters(encoder, finished)?;
        QUEUED.counter(encoder, calls.queued.count)?;
        QUEUED_TIME.counter(encoder, calls.queued.total.as_secs_f64())?;
        ANSWERED.counter(encoder, calls.answered.count)?;
        FIRST_BYTE.counter(encoder, calls.answered.total.as_secs_f64())?;
        BUDGET_WAITS.counter(encoder, report.budget_waits)
    }
}

impl PlaneService {
    /// The services and calls of the relay; an empty report without a relay.
    #[must_use]
    pub fn report(&self) -> RelayReport {
        self.relay()
            .map_or_else(RelayReport::default, |relay| relay.report())
    }

    /// A collector of the plane's metrics, for registration.
    #[must_use]
    pub fn collector(&self) -> Box<PlaneCollector> {
        Box::new(PlaneCollector(self.clone()))
    }
}
