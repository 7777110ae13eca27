//! A generator thread: a runtime of its own, its workers, and the orders that it takes.
//!
//! It shares nothing with other threads but its tally, so that the generator scales with its
//! threads and a kernel's figures about the thread are about the load.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::runtime::Builder;
use tokio::sync::mpsc::Receiver;
use tokio::task::LocalSet;

use super::http1::Http1Client;
use super::pacer::{Pacer, Place, Stretch};
use super::plan::Plan;
use super::tally::{ErrorKind, Failure, Shared};
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

/// What a thread is told.
pub(super) enum Order {
    Resume(Stretch),
    /// Start nothing anymore, and say when nothing is in flight.
    Pause(SyncSender<()>),
    Stop,
}

/// What a thread does.
pub(super) struct Work {
    pub(super) plan: Plan,
    pub(super) place: Place,
    pub(super) rate_per_s: Option<f64>,
    pub(super) timeout: Duration,
    pub(super) seed: u64,
    pub(super) tally: Shared,
}

/// One worker's way to do operations, one at a time.
///
/// An operation that is dropped half way (it took too long) leaves nothing behind that the next one
/// could take for its own.
pub(super) trait Client {
    async fn operate(&mut self) -> Result<(), Failure>;
}

/// Starts a thread; it says its id once it waits for orders.
///
/// # Errors
/// When the system has no thread left.
pub(super) fn spawn(
    name: &str,
    work: Work,
    orders: Receiver<Order>,
    ready: SyncSender<io::Result<i32>>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&work, orders, &ready))
}

fn run(work: &Work, orders: Receiver<Order>, ready: &SyncSender<io::Result<i32>>) {
    let prepared = Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| {
            let guard = runtime.enter();
            let pacer = Pacer::new(work.place, work.rate_per_s, Arc::clone(&work.tally))?;
            drop(guard);
            Ok((runtime, pacer))
        });
    let (runtime, pacer) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // Whoever waits for it is gone only when the driver is.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(rustix::thread::gettid().as_raw_nonzero().get()));
    let pacer = Rc::new(pacer);
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        start_workers(work, &pacer);
        obey(orders, &pacer).await;
    });
}

async fn obey(mut orders: Receiver<Order>, pacer: &Rc<Pacer>) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Resume(burst) => pacer.resume(burst),
            Order::Pause(quiet) => {
                pacer.pause(Instant::now());
                let pacer = Rc::clone(pacer);
                tokio::task::spawn_local(async move {
                    pacer.quiet().await;
                    // Nobody waits for it anymore: it took longer than the caller's patience.
                    let _ = quiet.try_send(());
                });
            }
            Order::Stop => return,
        }
    }
}

/// Workers are numbered over all threads, so that a ramp starts them evenly.
fn start_workers(work: &Work, pacer: &Rc<Pacer>) {
    let Place {
        thread,
        threads,
        workers,
    } = work.place;
    let step = usize::try_from(threads).unwrap_or(usize::MAX);
    for worker in (thread..workers).step_by(step) {
        let random = Pcg64Mcg::seed_from_u64(work.seed ^ (u64::from(worker) << 32));
        let pace = Rc::clone(pacer);
        match &work.plan {
            Plan::Http1(plan) => {
                let client = Http1Client::new(Arc::clone(plan));
                tokio::task::spawn_local(drive(client, pace, worker, work.timeout, random));
            }
        }
    }
}

async fn drive(
    mut client: impl Client,
    pacer: Rc<Pacer>,
    worker: u32,
    timeout: Duration,
    mut random: Pcg64Mcg,
) {
    let mut wait = BACKOFF_MIN;
    loop {
        let ticket = pacer.next(worker).await;
        let outcome = tokio::time::timeout(timeout, client.operate()).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failure::answered(TIMEOUT)));
        let is_disconnected = outcome.as_ref().is_err_and(|e| e.disconnected);
        pacer.finish(&ticket, outcome);
        if is_disconnected {
            // Half to one and a half times, so that connections lost together come back apart.
            pacer
                .back_off(wait.mul_f64(random.random_range(0.5..1.5)))
                .await;
            wait = (wait * 2).min(BACKOFF_MAX);
        } else {
            wait = BACKOFF_MIN;
        }
    }
}

const TIMEOUT: ErrorKind = ErrorKind::Known("timeout");
