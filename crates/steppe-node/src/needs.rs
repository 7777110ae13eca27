//! Bytes that a node reserves of its memory budget before it serves, by their keys.
//!
//! Invariant: `steppe check` and `steppe run` use the same sums. Left out: reservations while a node serves, which wait
//! or are refused at the limit, and tables of filters, which shrink to the free bytes.

use std::fmt;

use steppe_dns::{FilesBytes, FixedBytes};
use steppe_telemetry::limits::SPANS_HELD_BYTES;

use crate::admin;
use crate::config::{Config, Workers};

/// Bytes that are reserved for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The key, and the purpose of the reservation.
    pub what: String,
    /// The bytes.
    pub bytes: u64,
}

/// Everything that a node reserves before it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    rows: Vec<Need>,
    budget_bytes: u64,
    workers: usize,
}

/// Bytes of the budget for each worker besides the reserved ones, if `workers` is "auto": a portion of 64 KiB of each
/// account that it uses, and some buffers.
pub const WORKER_ROOM_BYTES: u64 = 1 << 20;

impl Needs {
    /// The sums that do not depend on the contents of files.
    #[must_use]
    pub fn fixed(config: &Config, budget_bytes: u64, workers: usize) -> Self {
        let mut needs = Self {
            rows: Vec::new(),
            budget_bytes,
            workers,
        };
        if config.admin.is_some() {
            needs.add("admin: history and last errors", admin::FIXED_BYTES);
        }
        if config.trace.is_some() {
            needs.add("trace: spans that wait for the collector", SPANS_HELD_BYTES);
        }
        let dns = FixedBytes::of(&config.dns, workers, budget_bytes);
        needs.add("dns.cache.bytes", dns.cache);
        needs.add("dns: tables that all workers share", dns.shared);
        let of_workers = |bytes: usize| (workers * bytes, shown(bytes as u64));
        let (bytes, each) = of_workers(dns.worker);
        needs.add(&format!("dns: tables of workers, {each} each"), bytes);
        let (bytes, each) = of_workers(dns.worker_listeners);
        needs.add(
            &format!("dns.listener: buffers of workers, {each} each"),
            bytes,
        );
        needs
    }

    /// Adds the memory for files of lists and hosts, while they are read.
    #[must_use]
    pub fn with_files(mut self, files: &FilesBytes) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.add("dns.hosts: while the files are read", bytes(files.hosts));
        self.add("dns.list: while the files are read", bytes(files.lists));
        self
    }

    fn add(&mut self, what: &str, bytes: usize) {
        if bytes > 0 {
            self.rows.push(Need {
                what: what.to_owned(),
                bytes: bytes as u64,
            });
        }
    }

    /// The budget in bytes.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// The sum of all reservations, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    /// Checks that the budget has room for the sum.
    ///
    /// # Errors
    /// [`NotEnough`], with the sum by line.
    pub fn fit(self) -> Result<Self, NotEnough> {
        match self.bytes() <= self.budget_bytes {
            true => Ok(self),
            false => Err(self.refused()),
        }
    }

    /// The error for a reservation that failed, whatever the sum: there was no room for it.
    #[must_use]
    pub fn refused(self) -> NotEnough {
        NotEnough { needs: self }
    }
}

impl NotEnough {
    /// The error as a message and a help text.
    #[must_use]
    pub fn message_and_help(&self) -> (String, String) {
        let (budget, workers) = (shown(self.needs.budget_bytes), count(self.needs.workers));
        (
            format!("`memory_budget`: {budget} is too little to start with {workers}"),
            format!("{HELP}\n{}", self.needs),
        )
    }
}

const HELP: &str = "raise the budget, or lower `node.workers`, `dns.cache.bytes` or the number of \
                    list rules";

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{:>12}  {}", shown(row.bytes), row.what)?;
        }
        let (workers, budget) = (count(self.workers), shown(self.budget_bytes));
        write!(
            f,
            "{:>12}  of {budget} is reserved before the node serves, with {workers}",
            shown(self.bytes())
        )
    }
}

/// The error of a budget without room for the reservations before the node serves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node.memory_budget: {} is too little to start with {}\n{needs}\n  help: {HELP}",
    shown(.needs.budget_bytes), count(.needs.workers)
)]
pub struct NotEnough {
    needs: Needs,
}

/// The number of workers that a node starts: the configured one, or one for each CPU, unless the budget carries fewer.
#[must_use]
pub fn workers(config: &Config, budget_bytes: u64, cpus: usize) -> usize {
    let carries = |workers: usize| {
        let fixed = Needs::fixed(config, budget_bytes, workers).bytes();
        fixed + workers as u64 * WORKER_ROOM_BYTES <= budget_bytes
    };
    match config.node.workers {
        Workers::Count(count) => count.get(),
        Workers::Auto => (1..=cpus).rev().find(|cpus| carries(*cpus)).unwrap_or(1),
    }
}

/// CPUs that the affinity and the CPU quota of control groups allow.
#[must_use]
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn count(workers: usize) -> String {
    match workers {
        1 => "1 worker".to_owned(),
        _ => format!("{workers} workers"),
    }
}

/// A size with a unit, to about three digits.
fn shown(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "it is rounded")]
    let scaled = |unit: u32| bytes as f64 / f64::from(unit);
    match bytes {
        0..=0xf_ffff => format!("{:.0} KiB", scaled(1 << 10).max(1.0)),
        0x10_0000..=0x3fff_ffff => format!("{:.1} MiB", scaled(1 << 20)),
        _ => format!("{:.2} GiB", scaled(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config;

    fn config(text: &str) -> Config {
        config::parse("a.toml", text).expect("valid")
    }

    const FORWARDER: &str = r#"
        [admin]
        listen = "127.0.0.1:9900"
        [[dns.listener]]
        listen = "127.0.0.1:5300"
        [dns.upstream.a]
        servers = ["udp://9.9.9.9"]
        [[dns.rule]]
        forward = "a"
    "#;

    #[test]
    fn a_sum_is_told_by_line() {
        let needs = Needs::fixed(&config(FORWARDER), 16 << 20, 4);
        let refused = needs.fit().expect_err("the cache alone takes all of it");
        expect![[r#"
            node.memory_budget: 16.0 MiB is too little to start with 4 workers
                  52 KiB  admin: history and last errors
                16.0 MiB  dns.cache.bytes
                 705 KiB  dns: tables that all workers share
                 3.2 MiB  dns: tables of workers, 813 KiB each
                 616 KiB  dns.listener: buffers of workers, 154 KiB each
                20.5 MiB  of 16.0 MiB is reserved before the node serves, with 4 workers
              help: raise the budget, or lower `node.workers`, `dns.cache.bytes` or the number of list rules"#]].assert_eq(&refused.to_string());
    }

    #[test]
    fn auto_takes_what_the_budget_carries() {
        let config = config(FORWARDER);
        let of = |mib: u64, cpus| workers(&config, mib << 20, cpus);
        assert_eq!(of(1024, 64), 64);
        assert_eq!((of(64, 2), of(16, 2)), (2, 1));
        let some = of(64, 64);
        assert!((16..64).contains(&some), "{some} workers");
        let needs = Needs::fixed(&config, 64 << 20, some);
        assert!(needs.fit().is_ok());
    }
}
