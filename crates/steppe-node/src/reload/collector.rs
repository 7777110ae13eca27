//! Reloads as metrics.

use std::fmt;

use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};

use super::Status;

/// Encodes the results of reloads.
#[derive(Debug)]
pub struct ReloadCollector(Status);

const GENERATION: Family = Family::new(
    "steppe_config_generation",
    "Configurations loaded so far, the current one included",
);
const RELOADS: Family = Family::new("steppe_config_reloads", "Reloads, by result");
const GOOD: Family = Family::new(
    "steppe_config_last_reload_successful",
    "1 while the last file that was read is in force, else 0",
);

impl ReloadCollector {
    /// A collector for registration.
    #[must_use]
    pub fn new(status: Status) -> Box<Self> {
        Box::new(Self(status))
    }
}

impl Collector for ReloadCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let known = self.0.known();
        GENERATION.gauge(&mut encoder, known.generation)?;
        let results = [("loaded", known.generation - 1), ("refused", known.failed)];
        let rows = results.map(|(result, count)| ([("result", result)], count));
        RELOADS.counters(&mut encoder, rows)?;
        GOOD.gauge(&mut encoder, u64::from(known.last_error.is_none()))
    }
}
