//! Bytes that a forwarder reserves of the budget before it serves: the same sums for a node that starts and for one
//! whose configuration is checked.

use std::path::PathBuf;

use steppe_mem::{Account, Budget};

use crate::config::Forwarder;
use crate::files::{FilesError, HostsInForce, ListsInForce, Reading, WhyLeftOut};
use crate::in_flight::Coalescer;
use crate::rate_limit::RateLimiter;
use crate::shared::Shared;
use crate::siphash::SipKey;
use crate::sizes::TableSizes;
use crate::worker::{DatagramListener, WorkerState};

/// Bytes that do not depend on the contents of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedBytes {
    /// The cache, `dns.cache.bytes`.
    pub cache: usize,
    /// Tables of a worker: clients that wait, questions and queries in flight, sockets and buffers.
    pub worker: usize,
    /// Buffers of a worker for the datagrams of all listeners.
    pub worker_listeners: usize,
    /// Tables that all workers share: questions in flight, and buckets of rate limits.
    pub shared: usize,
}

/// Bytes of the contents of files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilesBytes {
    /// Domain lists, while they are read.
    pub lists: u64,
    /// Hosts files and records, while they are read.
    pub hosts: u64,
    /// Fetched files that a start leaves out: list, file, and reason.
    pub left_out: Vec<(String, PathBuf, WhyLeftOut)>,
}

/// Bytes of the cache of a forwarder without clients.
const CACHE_BYTES_IDLE: usize = 0;

impl FixedBytes {
    /// The bytes of a configuration, for so many workers and this budget.
    #[must_use]
    pub fn of(config: &Forwarder, workers: usize, budget_bytes: u64) -> Self {
        if !config.is_asked() {
            return Self {
                cache: CACHE_BYTES_IDLE,
                ..Self::default()
            };
        }
        let sizes = TableSizes::of(workers, budget_bytes);
        let (questions, waiters) = Shared::questions(workers, sizes);
        let datagrams = config.listeners.iter().filter(|it| it.has_datagrams());
        Self {
            cache: config.cache.bytes,
            worker: WorkerState::bytes(sizes),
            worker_listeners: datagrams.count() * DatagramListener::BYTES,
            shared: Coalescer::bytes_of(questions, waiters) + RateLimiter::BYTES,
        }
    }

    /// Bytes of the tables of so many workers, shared ones included.
    #[must_use]
    pub fn tables(&self, workers: usize) -> usize {
        workers * self.worker + self.shared
    }
}

/// Reads the files of a configuration as a start does, charged to `account`: broken lines are logged.
///
/// # Errors
/// The error, and the key of the configuration that it belongs to.
pub fn check_files(
    config: &Forwarder,
    account: &Account,
) -> Result<FilesBytes, (&'static str, FilesError)> {
    let key = SipKey([0, 0]);
    let lease = account.lease();
    let hosts = HostsInForce::load(&config.hosts, key, &lease);
    let hosts = hosts.map_err(|error| ("dns.hosts", error))?;
    let reading = Reading {
        key,
        lease: &lease,
        kept: &[],
        draft: None,
    };
    let lists = ListsInForce::load(&config.lists, &reading);
    let lists = lists.map_err(|error| ("dns.list", error))?;
    let left_out = lists.left_out.iter();
    let left_out = left_out.filter_map(|left| {
        let list = config.lists.get(left.list)?;
        Some((list.name.clone(), left.file.clone(), left.why))
    });
    Ok(FilesBytes {
        lists: lists.peak_bytes(),
        hosts: hosts.peak_bytes(),
        left_out: left_out.collect(),
    })
}

/// Bytes that files would take if there were room for all of them.
///
/// # Errors
/// As [`check_files`], but for memory.
pub fn measure_files(config: &Forwarder) -> Result<FilesBytes, (&'static str, FilesError)> {
    check_files(config, Budget::new(u64::MAX).root())
}
