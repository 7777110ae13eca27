//! A worker that dials a relay, and registers its services there.
//!
//! ```text
//!  connecting ─ HELLO ─ serving ─ drain ─ draining ─ nothing is open ─ drained
//!       └────── lost ──────┘                                              │
//!       └─────────────────────────────── resume ──────────────────────────┘
//! ```

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Worker;
use super::connections::Connections;
use crate::connection::Side;
use crate::dial::{Backoff, Target};
use crate::limits::DEADLINE_MAX;

/// A worker that is registered at a relay, or tries to be. Dropping this cuts its connections.
#[derive(Debug)]
pub struct Registered {
    orders: watch::Sender<Order>,
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

/// State of a worker's registration or drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerStatus {
    /// Dials the relay, or waits before it dials again.
    Connecting,
    /// The relay knows the services, and forwards calls.
    Serving,
    /// The relay does not permit one of the services. The worker dials again.
    Denied,
    /// No further calls are accepted; open ones are finished.
    Draining,
    /// No call is open, and none will be accepted: the process can be stopped.
    Drained,
}

/// An order to serve or to drain, with its number.
#[derive(Debug, Clone, Copy)]
struct Order {
    number: u64,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    Serve,
    /// Drain, with the deadline for open calls.
    Drain(Instant),
}

#[derive(Debug, Clone, Copy)]
struct State {
    status: WorkerStatus,
    /// Number of the last order that the task has seen.
    order: u64,
    /// True if the last drain finished all calls.
    is_whole: bool,
}

/// The task of a registered worker.
struct Keeper {
    relay: Target,
    orders: watch::Receiver<Order>,
    state: watch::Sender<State>,
    backoff: Backoff,
    /// The current connection, and earlier ones whose open calls are being finished.
    connections: Connections,
}

impl WorkerStatus {
    /// True if the process can be stopped without losing a call.
    #[must_use]
    pub fn is_safe_to_stop(self) -> bool {
        self == Self::Drained
    }
}

impl Worker {
    /// Dials a relay, registers the services there, and serves the calls that it forwards. After a failed or lost
    /// connection the relay is dialed again: after [`BACKOFF_FIRST`](crate::limits::BACKOFF_FIRST) at first, and
    /// [`BACKOFF_MAX`](crate::limits::BACKOFF_MAX) at most, both with jitter.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the services can't be registered: a name is invalid, or
    /// they do not fit a frame. [`SERVICES_MAX`](crate::limits::SERVICES_MAX) with names of 32 bytes fit.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn register(&self, relay: impl Into<Target>) -> io::Result<Registered> {
        self.check()?;
        Ok(Registered::new(self.clone(), relay.into()))
    }
}

impl Registered {
    fn new(worker: Worker, relay: Target) -> Self {
        let order = Order {
            number: 0,
            wanted: Wanted::Serve,
        };
        let state = State {
            status: WorkerStatus::Connecting,
            order: 0,
            is_whole: true,
        };
        let (orders, ordered) = watch::channel(order);
        let (tells, state) = watch::channel(state);
        let keeper = Keeper {
            relay,
            orders: ordered,
            state: tells,
            backoff: Backoff::new(),
            connections: Connections::new(worker),
        };
        Self {
            orders,
            state,
            task: tokio::spawn(keeper.run()),
        }
    }

    /// The current status.
    #[must_use]
    pub fn status(&self) -> WorkerStatus {
        self.state.borrow().status
    }

    /// Waits until the worker is in `status`.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn reaches(&self, status: WorkerStatus) {
        let mut state = self.state.clone();
        // An error means that the task has ended: no reason to wait any longer.
        let _ = state.wait_for(|state| state.status == status).await;
    }

    /// Withdraws the services, accepts no further calls, and finishes the open ones for up to
    /// `patience`; then resets the rest. True if all calls were finished; false too if
    /// [`Registered::resume`] was called meanwhile.
    ///
    /// # Cancel safety
    /// The drain continues if the future is dropped.
    #[expect(clippy::disallowed_methods, reason = "the time of a drain begins")]
    pub async fn drain(&self, patience: Duration) -> bool {
        let number = self.order(Wanted::Drain(Instant::now() + patience.min(DEADLINE_MAX)));
        let mut state = self.state.clone();
        let is_over = |state: &State| {
            let is_drained = state.status == WorkerStatus::Drained && state.order == number;
            is_drained || state.order > number
        };
        let state = state.wait_for(is_over).await;
        state.is_ok_and(|state| state.status == WorkerStatus::Drained && state.is_whole)
    }

    /// Serves again after [`Registered::drain`], on a new connection. A drain in progress continues on
    /// the previous one.
    pub fn resume(&self) {
        self.order(Wanted::Serve);
    }

    fn order(&self, wanted: Wanted) -> u64 {
        let mut number = 0;
        self.orders.send_modify(|order| {
            number = order.number + 1;
            *order = Order { number, wanted };
        });
        number
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Keeper {
    async fn run(mut self) {
        loop {
            self.serve().await;
            self.drain().await;
        }
    }

    /// Keeps the worker registered, until a drain is ordered.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a connection lasts decides when it is dialed again"
    )]
    async fn serve(&mut self) {
        let mut orders = self.orders.clone();
        loop {
            let attempt = async {
                self.tell(WorkerStatus::Connecting);
                let began = Instant::now();
                let status = self.serve_once().await;
                self.backoff.lasted(began.elapsed());
                self.tell(status);
                sleep(self.backoff.next()).await;
            };
            tokio::select! {
                biased;
                () = ordered(&mut orders, |wanted| matches!(wanted, Wanted::Drain(_))) => return,
                () = attempt => {}
            }
        }
    }

    /// Serves on one connection, until the relay drains or is lost. Returns the status after that.
    async fn serve_once(&mut self) -> WorkerStatus {
        let Ok(socket) = self.relay.dial(self.connections.memory()).await else {
            return WorkerStatus::Connecting;
        };
        // From here on, the connection is drained with the others, even if this future is dropped.
        let Ok(link) = self.connections.serve(socket, Side::Dialer) else {
            return WorkerStatus::Connecting;
        };
        if link.registered().await.is_ok() {
            self.tell(WorkerStatus::Serving);
            link.lost().await;
        }
        match link.is_denied() {
            true => WorkerStatus::Denied,
            false => WorkerStatus::Connecting,
        }
    }

    /// Drains the connections, and waits for an order to serve.
    async fn drain(&mut self) {
        let Wanted::Drain(deadline) = self.orders.borrow_and_update().wanted else {
            return;
        };
        self.tell(WorkerStatus::Draining);
        let mut draining = self.connections.drain(deadline);
        let mut orders = self.orders.clone();
        tokio::select! {
            is_whole = draining.ends() => {
                self.state.send_modify(|state| state.is_whole = is_whole);
                self.stay_drained().await;
            }
            () = ordered(&mut orders, |wanted| matches!(wanted, Wanted::Serve)) => draining.detach(),
        }
        // Not earlier: closing could cut data that the relay has not read.
        self.connections.close();
    }

    /// Reports the drained state to each further order of a drain, until an order to serve.
    async fn stay_drained(&mut self) {
        while matches!(self.orders.borrow_and_update().wanted, Wanted::Drain(_)) {
            self.tell(WorkerStatus::Drained);
            changed(&mut self.orders).await;
        }
    }

    fn tell(&self, status: WorkerStatus) {
        let order = self.orders.borrow().number;
        self.state.send_modify(|state| {
            state.status = status;
            state.order = order;
        });
    }
}

async fn ordered(orders: &mut watch::Receiver<Order>, is_it: impl Fn(Wanted) -> bool) {
    while !is_it(orders.borrow_and_update().wanted) {
        changed(orders).await;
    }
}

async fn changed(orders: &mut watch::Receiver<Order>) {
    if orders.changed().await.is_err() {
        // The sender of orders is gone, and this task is being aborted.
        std::future::pending::<()>().await;
    }
}
