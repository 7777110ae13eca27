//! Worker threads: one a core, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use steppe_mem::pool::{self, Stock};
use tokio::runtime::{Builder, LocalOptions};

use crate::deadline::Deadlines;
use crate::drain::Drain;
use crate::limits::DEADLINE_TICK;

/// What every task of a worker can reach.
#[derive(Debug)]
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// Deadlines of its connections.
    pub deadlines: Deadlines,
    /// The node's phase.
    pub drain: Drain,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerThread(JoinHandle<()>);

/// Pool stocks are trimmed this often.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// Starts worker `index`, whose tasks `serve` spawns; it ends when `serve` does.
///
/// `stock` is what its pool may keep.
///
/// # Errors
/// When the system has no thread or no epoll to give.
pub fn spawn_worker<S, F>(
    index: usize,
    drain: Drain,
    stock: Stock,
    serve: S,
) -> io::Result<WorkerThread>
where
    S: FnOnce(Rc<Worker>) -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let runtime = Builder::new_current_thread();
    let name = format!("worker-{index}");
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let mut runtime = runtime;
        let runtime = match runtime.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, worker = index, "no runtime");
                return;
            }
        };
        runtime.block_on(async move {
            pool::install(&stock);
            let worker = Rc::new(Worker {
                index,
                deadlines: Deadlines::default(),
                drain,
            });
            let deadlines = worker.deadlines.clone();
            tokio::task::spawn_local(async move { deadlines.run().await });
            tokio::task::spawn_local(keep_house(stock));
            serve(worker).await;
        });
    })?;
    Ok(WorkerThread(thread))
}

/// Trims the pool, and wakes tasks that wait for budget where a wake-up was lost.
async fn keep_house(stock: Stock) {
    let mut until_trim = TRIM_EVERY;
    loop {
        // Ticking is only worth its wake-ups while somebody waits.
        let pause = if stock.lease.root().waiting() > 0 {
            DEADLINE_TICK
        } else {
            TRIM_EVERY
        };
        tokio::time::sleep(pause).await;
        stock.lease.root().wake_waiting();
        until_trim = until_trim.saturating_sub(pause);
        if until_trim.is_zero() {
            pool::trim();
            until_trim = TRIM_EVERY;
        }
    }
}

impl WorkerThread {
    /// Waits until it has ended.
    pub fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("a worker panicked");
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}
