//! Sizes of a worker's tables, reduced for a small budget or many workers.

use crate::limits::{
    ATTEMPTS_PER_WORKER, EXCHANGES_PER_WORKER, TABLES_SHARE, WAITING_PER_WORKER,
    WAITING_PER_WORKER_MIN,
};

/// Sizes of the tables of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableSizes {
    /// Clients that wait for responses.
    pub(crate) waiting: u32,
    /// Questions in flight.
    pub(crate) exchanges: u32,
    /// Queries in flight for these questions.
    pub(crate) attempts: u32,
}

/// Bytes of all tables for each waiting client: its entry, half of an exchange, an attempt, and its part of the table
/// that workers share.
const BYTES_PER_CLIENT: u64 = 1536;

impl TableSizes {
    /// Sizes for this number of workers and budget: all tables together take a [`TABLES_SHARE`]th of it, for between
    /// [`WAITING_PER_WORKER_MIN`] and [`WAITING_PER_WORKER`] clients of each worker.
    pub(crate) fn of(workers: usize, budget_bytes: u64) -> Self {
        let of_worker = budget_bytes / TABLES_SHARE / workers.max(1) as u64;
        let room = u32::try_from(of_worker / BYTES_PER_CLIENT).unwrap_or(u32::MAX);
        let waiting = room.clamp(WAITING_PER_WORKER_MIN, WAITING_PER_WORKER);
        let part = |most: u32| waiting * (most / 64) / (WAITING_PER_WORKER / 64);
        Self {
            waiting,
            exchanges: part(EXCHANGES_PER_WORKER),
            attempts: part(ATTEMPTS_PER_WORKER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::Coalescer;
    use crate::worker::WorkerState;

    #[test]
    fn tables_follow_the_budget_and_the_number_of_workers() {
        let of = |workers, mib: u64| {
            let sizes = TableSizes::of(workers, mib << 20);
            (sizes.waiting, sizes.exchanges, sizes.attempts)
        };
        assert_eq!(of(1, 1024), (4096, 2048, 4096));
        assert_eq!(of(2, 96), (4096, 2048, 4096));
        assert_eq!(of(1, 24), (2048, 1024, 2048));
        assert_eq!(of(64, 64), (256, 128, 256));
        assert_eq!(of(1, 8), (682, 341, 682));
    }

    /// Table bytes for each client are within the estimate.
    #[test]
    fn a_client_takes_no_more_than_its_part() {
        let bytes = |waiting, exchanges| {
            let sizes = TableSizes {
                waiting,
                exchanges,
                attempts: waiting,
            };
            let shared = Coalescer::bytes_of(exchanges as usize, (exchanges + waiting) as usize);
            (WorkerState::bytes(sizes) + shared) as u64
        };
        let of_clients = bytes(4096, 2048) - bytes(1024, 512);
        assert!(
            of_clients <= 3072 * BYTES_PER_CLIENT,
            "{}",
            of_clients / 3072
        );
    }
}
