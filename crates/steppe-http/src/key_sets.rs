//! Sets of keys that `jwt` filters have by URL: kept current beside the workers, and counted.
//!
//! Invariant: a set that a new configuration has too is fetched on as if nothing had happened.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};
use tokio::task::{AbortHandle, JoinSet};

use crate::filter::{FetchKeys, RemoteKeys};

/// The sets of the configuration in force.
pub struct KeySets {
    fetch: Arc<dyn FetchKeys>,
    kept: Mutex<KeptSets>,
}

#[derive(Debug, Default)]
struct KeptSets {
    sets: Vec<(Arc<RemoteKeys>, AbortHandle)>,
    tasks: JoinSet<()>,
}

/// Encodes the metrics of sets.
#[derive(Debug)]
pub struct KeySetsCollector(Arc<KeySets>);

const FETCHES: Family = Family::new(
    "steppe_http_jwks_fetches",
    "Fetches of a filter's key set, by result",
);
const KEYS: Family = Family::new(
    "steppe_http_jwks_keys",
    "Keys in a filter's key set; 0 before the first successful fetch",
);
const WAITING: Family = Family::new(
    "steppe_http_jwks_waiting",
    "Requests waiting for a fetch of a filter's key set",
);

impl KeySets {
    /// None yet; `fetch` gets them.
    #[must_use]
    pub fn new(fetch: Arc<dyn FetchKeys>) -> Self {
        Self {
            fetch,
            kept: Mutex::default(),
        }
    }

    /// A collector of their metrics, for registration.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<KeySetsCollector> {
        Box::new(KeySetsCollector(Arc::clone(self)))
    }

    /// These are kept current from now on, and no others. Must be called within a runtime that spawns local
    /// tasks, the control thread's.
    pub(crate) fn replace(&self, wanted: &[Arc<RemoteKeys>]) {
        let mut kept = self.kept();
        let KeptSets { sets, tasks } = &mut *kept;
        sets.retain(|(set, task)| {
            let is_wanted = wanted.iter().any(|wanted| Arc::ptr_eq(wanted, set));
            if !is_wanted {
                task.abort();
                set.end();
            }
            is_wanted
        });
        // An aborted task has no result.
        while tasks.try_join_next().is_some() {}
        for set in wanted {
            if !sets.iter().any(|(known, _)| Arc::ptr_eq(known, set)) {
                let task = Arc::clone(set).keep_current(Arc::clone(&self.fetch));
                sets.push((Arc::clone(set), tasks.spawn_local(task)));
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptSets> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KeySets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySets").field(&self.kept().sets).finish()
    }
}

impl Collector for KeySetsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kept = self.0.kept();
        let reports: Vec<_> = kept
            .sets
            .iter()
            .map(|(set, _)| (set.filter(), set.report()))
            .collect();
        let fetches = reports.iter().flat_map(|(filter, report)| {
            let counts = [
                ("changed", report.changed),
                ("unchanged", report.unchanged),
                ("failed", report.failed),
            ];
            counts.map(|(result, count)| ([("filter", *filter), ("result", result)], count))
        });
        FETCHES.counters(&mut encoder, fetches)?;
        let keys = reports
            .iter()
            .map(|(filter, report)| ([("filter", *filter)], report.keys as u64));
        KEYS.gauges(&mut encoder, keys)?;
        let waiting = reports
            .iter()
            .map(|(filter, report)| ([("filter", *filter)], report.waiting as u64));
        WAITING.gauges(&mut encoder, waiting)
    }
}
