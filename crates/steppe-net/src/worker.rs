//! Worker threads: one a core, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use steppe_mem::pool::{self, Stock};
use tokio::runtime::{Builder, LocalOptions};

use crate::deadline::Deadlines;
use crate::drain::Drain;
use crate::io::{Io, Readiness};
use crate::limits::BLOCKING_THREADS_MAX;

/// A worker, as its tasks see it.
#[derive(Debug)]
pub struct Worker {
    /// Number of the worker, from 0.
    pub index: usize,
    /// Deadlines of the worker's connections.
    pub deadlines: Deadlines,
    /// The node's phase.
    pub drain: Drain,
    /// Drivers of its sockets.
    pub io: Rc<dyn Io>,
}

/// Settings of a worker that starts.
#[derive(Debug)]
pub struct WorkerPlan {
    /// Number of the worker, from 0.
    pub index: usize,
    /// The node's phase.
    pub drain: Drain,
    /// Most memory that its pool keeps.
    pub stock: Stock,
    /// Called on its thread every half second, after its pool was trimmed.
    pub housekeeping: fn(),
    /// Chooses the drivers of its sockets, on its thread.
    pub io: fn() -> Rc<dyn Io>,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerThread {
    handle: JoinHandle<()>,
    heartbeat: Heartbeat,
}

/// Count of a worker's beats, which go on while it polls its tasks. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Heartbeat(Arc<AtomicU64>);

/// The count of a worker that has ended by itself.
const ENDED: u64 = u64::MAX;

/// Interval at which pool stocks are trimmed and the other housekeeping is done. Memory that a load leaves is freed
/// in the second turn after it, and the allocator gives it back a second later.
const TRIM_EVERY: Duration = Duration::from_millis(500);

/// Starts a worker, whose tasks `serve` spawns; it ends when `serve` does.
///
/// # Errors
/// When the system has no thread or no epoll to give.
pub fn spawn_worker<S, F>(plan: WorkerPlan, serve: S) -> io::Result<WorkerThread>
where
    S: FnOnce(Rc<Worker>) -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let index = plan.index;
    let mut runtime = Builder::new_current_thread();
    runtime.max_blocking_threads(BLOCKING_THREADS_MAX);
    let name = format!("worker-{index}");
    let heartbeat = Heartbeat::default();
    let beating = heartbeat.clone();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let mut runtime = runtime;
        let runtime = match runtime.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, worker = index, "cannot start the runtime of a worker");
                return;
            }
        };
        runtime.block_on(async move {
            pool::install(&plan.stock);
            let worker = Rc::new(Worker {
                index,
                deadlines: Deadlines::default(),
                drain: plan.drain,
                io: (plan.io)(),
            });
            let deadlines = worker.deadlines.clone();
            tokio::task::spawn_local(async move { deadlines.run().await });
            tokio::task::spawn_local(housekeeping(plan.housekeeping, beating.clone()));
            serve(worker).await;
            beating.end();
        });
        // What still waits for a disk may do so for ever.
        runtime.shutdown_background();
    })?;
    Ok(WorkerThread {
        handle: thread,
        heartbeat,
    })
}

/// Trims the pool, and does the other housekeeping.
async fn housekeeping(other: fn(), heartbeat: Heartbeat) {
    loop {
        tokio::time::sleep(TRIM_EVERY).await;
        heartbeat.beat();
        pool::trim();
        other();
    }
}

impl Worker {
    /// The drivers of a worker that asks for no others: sockets that the runtime polls for readiness.
    #[must_use]
    pub fn default_io() -> Rc<dyn Io> {
        Rc::new(Readiness)
    }
}

impl WorkerThread {
    /// Waits until it has ended.
    pub fn join(self) {
        if self.handle.join().is_err() {
            tracing::error!("a worker panicked");
        }
    }

    /// The worker's heartbeat, which stops where it hangs.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// True once it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl Heartbeat {
    /// Number of beats: one a second at least, while the worker polls its tasks.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// True if there are more than `before` beats, or the worker has ended and need not beat.
    #[must_use]
    pub fn is_alive_since(&self, before: u64) -> bool {
        let now = self.beats();
        now != before || now == ENDED
    }

    fn end(&self) {
        self.0.store(ENDED, Ordering::Relaxed);
    }

    fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_tells_a_hung_worker_from_one_that_ended() {
        let heartbeat = Heartbeat::default();
        let before = heartbeat.beats();
        assert!(!heartbeat.is_alive_since(before));
        heartbeat.beat();
        assert!(heartbeat.is_alive_since(before));
        heartbeat.end();
        assert!(heartbeat.is_alive_since(heartbeat.beats()));
    }
}
