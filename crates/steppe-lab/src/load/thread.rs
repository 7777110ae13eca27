//! A generator thread: a runtime of its own, its workers, and the orders that it takes.
//!
//! The thread shares nothing with other threads but its tally, so that the generator scales with its
//! threads, and the kernel's figures on the thread are those of the load.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::Receiver;
use tokio::task::spawn_local;
use tokio::time::{Instant, Sleep};

use super::client::Client;
use super::dns::DnsClient;
use super::http1::Http1Client;
use super::http2::{self, Http2Client};
use super::pacer::{Pacer, Place, Stretch};
use super::plan::Plan;
use super::tally::{ErrorKind, Failure, Shared};
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

/// Order to a generator thread.
pub(super) enum Control {
    Resume(Stretch),
    /// Start no operation anymore, and answer when none is in flight.
    Pause(SyncSender<()>),
    Stop,
}

/// Parameters of a generator thread.
pub(super) struct Work {
    pub(super) plan: Plan,
    pub(super) place: Place,
    pub(super) rate_per_s: Option<f64>,
    pub(super) timeout: Duration,
    pub(super) seed: u64,
    pub(super) tally: Shared,
}

/// Starts a thread, which sends its id to `ready` once it is prepared, or the error.
///
/// # Errors
/// When the system refuses a thread.
pub(super) fn spawn(
    name: &str,
    work: Work,
    orders: Receiver<Control>,
    ready: SyncSender<io::Result<i32>>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&work, orders, &ready))
}

fn run(work: &Work, orders: Receiver<Control>, ready: &SyncSender<io::Result<i32>>) {
    let prepared = Builder::new_current_thread()
        .enable_all()
        // A `LocalSet` would wake the runtime by a system call at each event.
        .build_local(LocalOptions::default())
        .and_then(|runtime| {
            let guard = runtime.enter();
            let pacer = Pacer::new(work.place, work.rate_per_s, Arc::clone(&work.tally))?;
            drop(guard);
            Ok((runtime, pacer))
        });
    let (runtime, pacer) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // The receiver is gone only if the driver is.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(rustix::thread::gettid().as_raw_nonzero().get()));
    let pacer = Rc::new(pacer);
    runtime.block_on(async {
        start_workers(work, &pacer);
        obey(orders, &pacer).await;
    });
}

async fn obey(mut orders: Receiver<Control>, pacer: &Rc<Pacer>) {
    while let Some(order) = orders.recv().await {
        match order {
            Control::Resume(burst) => pacer.resume(burst),
            Control::Pause(quiet) => {
                pacer.pause(Instant::now().into_std());
                let pacer = Rc::clone(pacer);
                spawn_local(async move {
                    pacer.quiet().await;
                    // An error means that the wait took longer than the caller's patience.
                    let _ = quiet.try_send(());
                });
            }
            Control::Stop => return,
        }
    }
}

/// Starts the workers of this thread's share of the connections. Workers are numbered over all threads, so that
/// a ramp starts one on each connection first.
fn start_workers(work: &Work, pacer: &Rc<Pacer>) {
    let place = work.place;
    let step = usize::try_from(place.threads).unwrap_or(usize::MAX);
    for connection in (place.thread..place.connections).step_by(step) {
        let numbers = (0..place.streams).map(|stream| stream * place.connections + connection);
        match &work.plan {
            Plan::Http1(plan) => {
                start_all(work, pacer, numbers, |_| Http1Client::new(Arc::clone(plan)));
            }
            Plan::Http2(plan) => {
                let shared = http2::Shared::new(Arc::clone(plan));
                start_all(work, pacer, numbers, |_| {
                    Http2Client::new(Rc::clone(&shared))
                });
            }
            Plan::Dns(plan) => {
                let client = |random| DnsClient::new(Arc::clone(plan), random);
                start_all(work, pacer, numbers, client);
            }
        }
    }
}

fn start_all<C: Client + 'static>(
    work: &Work,
    pacer: &Rc<Pacer>,
    numbers: impl Iterator<Item = u32>,
    client: impl Fn(Pcg64Mcg) -> C,
) {
    for worker in numbers {
        let random = Pcg64Mcg::seed_from_u64(work.seed ^ (u64::from(worker) << 32));
        let client = client(random.clone());
        let pacer = Rc::clone(pacer);
        spawn_local(drive(client, pacer, worker, work.timeout, random));
    }
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
async fn drive(
    mut client: impl Client,
    pacer: Rc<Pacer>,
    worker: u32,
    timeout: Duration,
    mut random: Pcg64Mcg,
) {
    let mut wait = BACKOFF_MIN;
    let mut patience = Patience::new(timeout);
    loop {
        let ticket = pacer.next(worker).await;
        let outcome = patience.run(client.operate()).await;
        let outcome = outcome.unwrap_or_else(|| Err(Failure::answered(TIMEOUT)));
        let is_disconnected = outcome.as_ref().is_err_and(|e| e.disconnected);
        pacer.finish(&ticket, outcome);
        if is_disconnected {
            // Half to one and a half times the wait, so that connections lost together come back apart.
            let factor = random.random_range(0.5..1.5);
            pacer.back_off(wait.mul_f64(factor)).await;
            wait = (wait * 2).min(BACKOFF_MAX);
        } else {
            wait = BACKOFF_MIN;
        }
    }
}

/// Timeout of an operation.
///
/// The timer is kept from one operation to the next, and reset only when it fires before the end of the
/// present one's time: a reset for each operation would cost the generator a system call.
struct Patience {
    length: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    fn new(length: Duration) -> Self {
        Self {
            length,
            timer: Box::pin(tokio::time::sleep(length)),
        }
    }

    /// Runs an operation; `None` after the timeout.
    async fn run<T>(&mut self, operation: impl Future<Output = T>) -> Option<T> {
        let end = Instant::now() + self.length;
        let mut operation = pin!(operation);
        if self.timer.is_elapsed() {
            self.timer.as_mut().reset(end);
        }
        loop {
            tokio::select! {
                biased;
                outcome = &mut operation => return Some(outcome),
                () = &mut self.timer => {
                    if Instant::now() >= end {
                        return None;
                    }
                    self.timer.as_mut().reset(end);
                }
            }
        }
    }
}

const TIMEOUT: ErrorKind = ErrorKind::Known("timeout");
