//! The worker threads of a running node, from their start to the end of the drain.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use steppe_mem::Budget;
use steppe_mem::pool::Stock;
use steppe_net::{
    Drain, Drained, Heartbeat, Phase, Worker, WorkerPlan, WorkerServices, WorkerThread,
    spawn_worker,
};
use tokio::time::{Instant, sleep};

use crate::allocator;
use crate::cli::announce;
use crate::config::Config;
use crate::memory::StackMark;

/// Running workers, and the channel for their reports after the drain.
pub(super) struct WorkerSet {
    threads: Vec<WorkerThread>,
    drain: Drain,
    drained: mpsc::Receiver<Drained>,
}

/// Divisor of the budget for the idle buffers of all workers together.
const IDLE_SHARE: u64 = 16;

impl WorkerSet {
    /// Starts `count` threads, which run `services`.
    pub(super) fn start(
        count: usize,
        budget: &Budget,
        services: &WorkerServices<Config>,
    ) -> anyhow::Result<Self> {
        let pool = budget.root().child("pool", None);
        let idle_bytes = pool.limit_bytes() / IDLE_SHARE / count as u64;
        let (report, drained) = mpsc::sync_channel(count);
        let drain = Drain::default();
        let start = |index| {
            let plan = WorkerPlan {
                index,
                drain: drain.clone(),
                stock: Stock {
                    lease: pool.lease(),
                    idle_bytes_max: usize::try_from(idle_bytes).unwrap_or(usize::MAX),
                },
                housekeeping: allocator::rest,
                io: Worker::default_io,
            };
            let (services, report) = (services.clone(), report.clone());
            let worker = spawn_worker(plan, move |worker| async move {
                let _stack = StackMark::here();
                let drained = services.serve(worker).await;
                // The node reads the report when it has joined the thread, if it still does.
                let _ = report.send(drained);
            });
            worker.with_context(|| format!("worker {index}"))
        };
        let threads = (0..count).map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self {
            threads,
            drain,
            drained,
        })
    }

    /// The heartbeats by which a watchdog sees whether a worker hangs.
    pub(super) fn heartbeats(&self) -> Vec<Heartbeat> {
        self.threads.iter().map(WorkerThread::heartbeat).collect()
    }

    /// Drains, for as long as `timeout` and until `interrupted`. Returns the sum of the workers'
    /// reports.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a drain took is told to people"
    )]
    pub(super) async fn shut_down(
        self,
        timeout: Duration,
        interrupted: impl Future<Output = ()>,
    ) -> Drained {
        let began_at = Instant::now();
        tracing::info!(timeout_s = timeout.as_secs_f64(), "draining");
        self.drain.enter(Phase::Draining);
        let threads = self.threads;
        let mut joined =
            tokio::task::spawn_blocking(move || threads.into_iter().for_each(WorkerThread::join));
        let is_joined = tokio::select! {
            _ = &mut joined => true,
            () = sleep(timeout) => false,
            () = interrupted => false,
        };
        if !is_joined {
            self.drain.enter(Phase::Stopped);
            let _ = joined.await;
        }
        let drained: Drained = self.drained.try_iter().sum();
        let Drained { open, dropped } = drained;
        let seconds = began_at.elapsed().as_secs_f64();
        announce(&format!(
            "drained: {} of {open} open connections ended by themselves, {dropped} dropped, \
             {seconds:.1} s\n",
            open - dropped
        ));
        drained
    }
}
