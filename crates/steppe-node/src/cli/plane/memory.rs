//! The memory of a command: a budget, and pooled buffers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use steppe_mem::Budget;
use steppe_mem::pool::{self, Stock};
use steppe_plane::{Caller, Memory, Target};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::allocator;

/// Divisor of a budget for the share of idle buffers.
const IDLE_DIVISOR: u64 = 8;

/// Interval at which unneeded idle buffers go back to the system.
const TRIM_EVERY: Duration = Duration::from_millis(500);

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The memory of a command, and its runtime.
pub(super) struct Held {
    runtime: Runtime,
    memory: Arc<Memory>,
}

impl Held {
    /// A runtime on this thread, and a budget of so many bytes.
    pub(super) fn new(budget_bytes: u64) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let budget = Budget::new(budget_bytes);
        let idle_bytes = budget_bytes / IDLE_DIVISOR;
        pool::install(&Stock {
            lease: budget.root().child("pool", Some(idle_bytes)).lease(),
            idle_bytes_max: usize::try_from(idle_bytes).unwrap_or(usize::MAX),
        });
        Ok(Self {
            runtime: runtime.context("cannot start the runtime")?,
            memory: Arc::new(Memory::new(budget.root())),
        })
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Runs a command's work to its end.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let upkeep = tokio::spawn(async {
                loop {
                    tokio::time::sleep(TRIM_EVERY).await;
                    pool::trim();
                    allocator::rest();
                }
            });
            let done = work.await;
            upkeep.abort();
            done
        })
    }
}

/// Dials a worker or a relay.
pub(super) async fn connect(target: Target, memory: &Arc<Memory>) -> io::Result<Caller> {
    let dialed = timeout(CONNECT_TIMEOUT, Caller::connect(target, memory)).await;
    dialed.unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "no response in time",
        ))
    })
}
