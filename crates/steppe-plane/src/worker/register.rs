//! A worker that dials a relay, and stays registered there.
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

/// A worker that is registered with a relay, or tries to be. Where it is dropped, its connection is cut.
#[derive(Debug)]
pub struct Registered {
    orders: watch::Sender<Order>,
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

/// How far a worker is in serving, or in ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerStatus {
    /// It dials, or waits before it dials again.
    Connecting,
    /// The relay knows its services, and passes calls on.
    Serving,
    /// The relay does not let it offer a service that it names. It dials again.
    Denied,
    /// It takes no further calls, and finishes those that are open.
    Draining,
    /// No call is open, and none will be: it is safe to stop.
    Drained,
}

/// What it is to do, and which order that is.
#[derive(Debug, Clone, Copy)]
struct Order {
    number: u64,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    Serve,
    /// Until then, what is open may be finished.
    Drain(Instant),
}

#[derive(Debug, Clone, Copy)]
struct State {
    status: WorkerStatus,
    /// The last order that it has seen.
    order: u64,
    /// Of the last drain: whether what was open was finished.
    is_whole: bool,
}

/// The task of one.
struct Keeper {
    relay: Target,
    orders: watch::Receiver<Order>,
    state: watch::Sender<State>,
    backoff: Backoff,
    /// The one that it serves on, and others that finish what is open.
    connections: Connections,
}

impl WorkerStatus {
    /// Whether the process can be ended without a loss.
    #[must_use]
    pub fn is_safe_to_stop(self) -> bool {
        self == Self::Drained
    }
}

impl Worker {
    /// Dials a relay, names the services there, and serves what it passes on. A connection that can't be
    /// had, or is lost, is dialed again: after [`BACKOFF_FIRST`](crate::limits::BACKOFF_FIRST) at first, and
    /// [`BACKOFF_MAX`](crate::limits::BACKOFF_MAX) at most, both with jitter.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where the services can't be named: one of their names is none, or
    /// they do not fit a frame. [`SERVICES_MAX`](crate::limits::SERVICES_MAX) do, with names of 32 bytes.
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

    /// How far it is.
    #[must_use]
    pub fn status(&self) -> WorkerStatus {
        self.state.borrow().status
    }

    /// Waits until it is in `status`.
    ///
    /// # Cancel safety
    /// It may be dropped.
    pub async fn reaches(&self, status: WorkerStatus) {
        let mut state = self.state.clone();
        // It fails where the task has ended, and then this is over too.
        let _ = state.wait_for(|state| state.status == status).await;
    }

    /// Takes its services back, takes no further calls, and finishes those that are open, for as long as
    /// `patience`; then it resets what is left. Whether all were finished: `false` too where
    /// [`Registered::resume`] came before.
    ///
    /// # Cancel safety
    /// Where it is dropped, the drain goes on.
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

    /// Serves again after [`Registered::drain`], on a new connection. A drain that has not ended goes on
    /// on the one before.
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

    /// Stays registered until a drain is ordered.
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

    /// Serves on one connection, until the relay goes away; its status from then on.
    async fn serve_once(&mut self) -> WorkerStatus {
        let Ok(socket) = self.relay.dial(self.connections.memory()).await else {
            return WorkerStatus::Connecting;
        };
        // From here on it is drained with the others, even where this is dropped.
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

    /// Finishes what is open, and waits until it is to serve again.
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
        // Not before: to close what the relay has not read could cut it.
        self.connections.close();
    }

    /// Says so to whoever orders another drain, until it is to serve again.
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
        // Whoever gives orders is gone, and this task is being aborted.
        std::future::pending::<()>().await;
    }
}
