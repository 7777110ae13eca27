//! Budget, pool, allocator and process as metrics.
//!
//! Cheap enough for a scrape every second: mappings and sockets are not walked, unlike for
//! `/memory`.

use std::fmt;
use std::sync::Arc;

use procfs::process::Process;
use steppe_mem::{AccountReport, Budget, pool};
use steppe_telemetry::encode::Family;
use steppe_telemetry::{Collector, DescriptorEncoder};

use super::uncharged::UnchargedFigures;
use crate::allocator::{self, Figures};

/// Encodes the metrics of memory and process.
#[derive(Debug)]
pub struct MemoryCollector {
    budget: Budget,
    figures: Arc<UnchargedFigures>,
}

const LIMIT: Family = Family::new("steppe_budget_limit_bytes", "Limit of an account");
const RESERVED: Family = Family::new(
    "steppe_budget_reserved_bytes",
    "Bytes reserved in an account and below it",
);
const PEAK: Family = Family::new(
    "steppe_budget_peak_bytes",
    "Peak of the bytes drawn at once",
);
const REFUSED: Family = Family::new("steppe_budget_refused", "Refused reservations");
const BASELINE: Family = Family::new(
    "steppe_memory_baseline_bytes",
    "Memory of the program itself, outside of the budget",
);
const DEBT: Family = Family::new(
    "steppe_budget_debt_bytes",
    "Bytes by which uncharged memory exceeds the budget",
);
const DEBTS: Family = Family::new(
    "steppe_budget_debts",
    "Times that the budget came into debt",
);
const SHED: Family = Family::new(
    "steppe_budget_shed_connections",
    "Connections closed to pay a debt of the budget",
);
const HELD_BACK: Family = Family::new(
    "steppe_budget_client_held_back",
    "Reservations that waited or were refused, since their client held its share",
);
const POOL: Family = Family::new("steppe_pool_bytes", "Bytes of pooled buffers");
const LIVE: Family = Family::new(
    "steppe_allocator_live_bytes",
    "Bytes allocated and not freed",
);
const HELD: Family = Family::new(
    "steppe_allocator_bytes",
    "Memory of the allocator, by its own statistics",
);
const PURGED: Family = Family::new(
    "steppe_allocator_purged_bytes",
    "Bytes that the allocator returned to the system",
);
const RSS: Family = Family::new("process_resident_memory_bytes", "Resident memory");
const CPU: Family = Family::seconds("process_cpu", "User and system CPU time");
const START: Family = Family::new(
    "process_start_time_seconds",
    "Start time of the process since the Unix epoch",
);
const DESCRIPTORS: Family = Family::new("process_open_fds", "Open file descriptors");
const THREADS: Family = Family::new("process_threads", "Threads");

impl MemoryCollector {
    /// A collector for registration.
    #[must_use]
    pub fn new(budget: Budget, figures: Arc<UnchargedFigures>) -> Box<Self> {
        Box::new(Self { budget, figures })
    }
}

impl Collector for MemoryCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        accounts(&mut encoder, &self.budget.report())?;
        self.beyond(&mut encoder)?;
        pooled(&mut encoder)?;
        LIVE.gauge(&mut encoder, steppe_mem::alloc::live_bytes())?;
        if let Some(figures) = allocator::figures() {
            held(&mut encoder, figures)?;
        }
        match ProcessFigures::now() {
            Ok(figures) => figures.encode(&mut encoder),
            // A scrape without these figures is better than none.
            Err(error) => {
                tracing::debug!(%error, "cannot read the figures of the process");
                Ok(())
            }
        }
    }
}

impl MemoryCollector {
    /// Encodes resident memory that no reservation covers, debts, and the clients shed and held
    /// back for them.
    fn beyond(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        BASELINE.gauge(encoder, self.figures.baseline_bytes())?;
        DEBT.gauge(encoder, self.budget.debt_bytes())?;
        DEBTS.counter(encoder, self.figures.debts())?;
        let clients = self.budget.clients();
        SHED.counter(encoder, clients.shed_total())?;
        HELD_BACK.counter(encoder, clients.held_back_total())
    }
}

fn accounts(encoder: &mut DescriptorEncoder<'_>, root: &AccountReport) -> fmt::Result {
    let mut rows = Vec::new();
    flatten(root, "", &mut rows);
    let limits = rows
        .iter()
        .filter_map(|(path, account)| Some((path, account.limit_bytes?)));
    LIMIT.gauges(
        encoder,
        limits.map(|(path, limit)| ([("account", path.as_str())], limit)),
    )?;
    let each = |value: fn(&AccountReport) -> u64| {
        rows.iter()
            .map(move |(path, account)| ([("account", path.as_str())], value(account)))
            .collect::<Vec<_>>()
    };
    RESERVED.gauges(encoder, each(|account| account.reserved_bytes))?;
    PEAK.gauges(encoder, each(|account| account.peak_bytes))?;
    REFUSED.counters(encoder, each(|account| account.refused))
}

/// Every account under its path: `node/http/…`.
fn flatten<'a>(
    account: &'a AccountReport,
    above: &str,
    rows: &mut Vec<(String, &'a AccountReport)>,
) {
    let path = match above {
        "" => account.name.clone(),
        above => format!("{above}/{}", account.name),
    };
    rows.push((path.clone(), account));
    for child in &account.children {
        flatten(child, &path, rows);
    }
}

fn pooled(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let classes = pool::report().classes;
    let bytes = |count: fn(&pool::ClassReport) -> usize| {
        classes
            .iter()
            .map(|class| (class.class_bytes * count(class)) as u64)
            .sum::<u64>()
    };
    let samples = [
        ([("state", "in_use")], bytes(|class| class.in_use_count)),
        ([("state", "idle")], bytes(|class| class.idle_count)),
    ];
    POOL.gauges(encoder, samples)
}

fn held(encoder: &mut DescriptorEncoder<'_>, figures: Figures) -> fmt::Result {
    let samples = [
        ([("state", "live")], figures.live_bytes),
        ([("state", "retained")], figures.retained_bytes),
        ([("state", "dirty")], figures.dirty_bytes),
        ([("state", "meta")], figures.meta_bytes),
    ];
    HELD.gauges(encoder, samples)?;
    PURGED.counter(encoder, figures.purged_bytes)
}

#[derive(Debug)]
struct ProcessFigures {
    rss_bytes: u64,
    cpu_seconds: f64,
    start_seconds: f64,
    descriptors: u64,
    threads: u64,
}

impl ProcessFigures {
    #[expect(clippy::cast_precision_loss, reason = "ticks are read as seconds")]
    fn now() -> procfs::ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks_a_second = procfs::ticks_per_second() as f64;
        let boot_seconds = procfs::boot_time_secs()? as f64;
        Ok(Self {
            rss_bytes: stat.rss * procfs::page_size(),
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks_a_second,
            start_seconds: boot_seconds + stat.starttime as f64 / ticks_a_second,
            descriptors: process.fd_count()? as u64,
            threads: u64::try_from(stat.num_threads).unwrap_or(0),
        })
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        RSS.gauge(encoder, self.rss_bytes)?;
        CPU.counter(encoder, self.cpu_seconds)?;
        START.gauge(encoder, self.start_seconds)?;
        DESCRIPTORS.gauge(encoder, self.descriptors)?;
        THREADS.gauge(encoder, self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_named_by_their_path() {
        let budget = Budget::new(64 << 20);
        let http = budget.root().child("http", None);
        let api = http.child("route api", Some(16 << 20));
        let held = api.lease().try_reserve(12_345).expect("there is room");
        let mut registry = steppe_telemetry::Registry::default();
        registry.register_collector(MemoryCollector::new(budget, Arc::default()));
        let text = steppe_telemetry::encode::exposition(&registry).expect("a string takes it");
        for line in [
            "steppe_budget_limit_bytes{account=\"node\"} 67108864",
            "steppe_budget_limit_bytes{account=\"node/http/route api\"} 16777216",
            "steppe_budget_reserved_bytes{account=\"node/http/route api\"} 12345",
            "steppe_budget_refused_total{account=\"node/http\"} 0",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in {text}");
        }
        assert!(!text.contains("steppe_budget_limit_bytes{account=\"node/http\"}"));
        for name in [
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(name)),
                "{name} in {text}"
            );
        }
        drop(held);
    }
}
