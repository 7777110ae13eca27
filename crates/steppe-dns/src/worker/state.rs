//! The state of a worker, on which its tasks work one at a time.
//!
//! Invariant: responses that a turn has written are sent by its end, and a timer runs while a question is in flight.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use steppe_mem::Lease;
use steppe_net::DatagramBatch;
use steppe_telemetry::ShardWriter;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use super::askers::{Askers, Response, Unanswered};
use super::carriers::Carriers;
use super::clients::{Clients, Destination};
use super::connections::Connections;
use super::exchanges::{Current, Exchanges};
use super::intake::Intake;
use super::log::WorkerLog;
use super::upstream::Upstream;
use crate::in_flight::{Attempts, Sizes, Waiter};
use crate::limits::{
    ATTEMPT_BYTES, ATTEMPTS_EXCHANGE_BYTES, DATAGRAMS_PER_BATCH, MESSAGE_BYTES_MAX,
    UDP_PAYLOAD_BYTES, UPSTREAM_DATAGRAM_BYTES, UPSTREAM_SOCKETS_PER_WORKER,
    WAITERS_PER_QUESTION_MAX,
};
use crate::manner::Cookies;
use crate::metrics::Cells;
use crate::servers::ServerBoard;
use crate::shared::Shared;
use crate::sizes::TableSizes;
use crate::snapshot::Snapshot;

/// A worker's state, which its tasks share.
pub(super) type Handle = Rc<RefCell<WorkerState>>;

/// The state of a worker.
pub(crate) struct WorkerState {
    pub(super) index: u16,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: ShardWriter<Cells>,
    pub(super) lease: Lease,
    /// Table of clients, in which their connections are entered.
    pub(super) holders: steppe_mem::Clients,
    pub(super) current: Rc<Current>,
    pub(super) clients: Clients,
    pub(super) exchanges: Exchanges,
    pub(super) attempts: Attempts,
    pub(super) carriers: Carriers,
    pub(super) connections: Connections,
    pub(super) cookies: Cookies,
    pub(super) askers: Askers,
    /// UDP listeners by number. Numbers of listeners that were closed are used again.
    pub(super) listeners: Vec<Option<Rc<DatagramListener>>>,
    pub(super) rng: StdRng,
    /// Query log. `None`: it is off.
    pub(super) log: Option<WorkerLog>,
    /// Buffer for a response in its cached form.
    pub(super) body: Box<[u8]>,
    /// Buffer for a response to a client.
    pub(super) reply: Box<[u8]>,
    /// Buffers for datagrams of servers. `None` while these are handled.
    pub(super) received: Option<DatagramBatch>,
    pub(super) woken: Vec<Waiter>,
    pub(super) timer: Rc<Timer>,
    pub(super) start: Instant,
    /// Time at which the current turn began, or the last one.
    pub(super) turn_at: Instant,
    pub(super) me: Weak<RefCell<WorkerState>>,
}

/// A UDP socket that clients send queries to.
#[derive(Debug)]
pub(crate) struct DatagramListener {
    /// Address in the configuration.
    pub(super) address: SocketAddr,
    pub(super) socket: UdpSocket,
    /// Responses that are about to be sent.
    pub(super) outgoing: RefCell<DatagramBatch>,
}

/// The state of the timer task, by which it is woken.
#[derive(Debug, Default)]
pub(super) struct Timer {
    pub(super) sleeps: std::cell::Cell<bool>,
    pub(super) needed: Notify,
}

impl WorkerState {
    /// Bytes of a worker's tables and buffers.
    pub(crate) fn bytes(sizes: TableSizes) -> usize {
        sizes.waiting as usize * Clients::BYTES_EACH
            + sizes.exchanges as usize * (Exchanges::BYTES_EACH + ATTEMPTS_EXCHANGE_BYTES)
            + sizes.attempts as usize * ATTEMPT_BYTES
            + UPSTREAM_SOCKETS_PER_WORKER as usize * Carriers::BYTES_EACH
            + 2 * MESSAGE_BYTES_MAX
            + DATAGRAMS_PER_BATCH * UPSTREAM_DATAGRAM_BYTES
    }

    /// The state of a worker that serves `snapshot`, and has no listener yet.
    #[expect(clippy::disallowed_methods, reason = "a worker's time begins")]
    pub(super) fn new(
        index: usize,
        snapshot: Arc<Snapshot>,
        intake: &mut Intake,
    ) -> Option<Handle> {
        let now = Instant::now();
        let tables = intake.shared.sizes;
        let sizes = Sizes {
            exchanges: tables.exchanges,
            attempts: tables.attempts,
            sockets: UPSTREAM_SOCKETS_PER_WORKER,
        };
        let current = Current::new(snapshot, None, &intake.shared.servers);
        let rng = crate::shared::rng()
            .inspect_err(|error| tracing::error!(%error, "no random numbers from the system"))
            .ok()?;
        let metrics = intake.metrics.take()?;
        let log = current.snapshot.query_log.as_ref();
        let log = log.and_then(|log| WorkerLog::new(log, &intake.lease, intake.shared.sizes));
        Some(Rc::new_cyclic(|me| {
            RefCell::new(Self {
                index: u16::try_from(index).unwrap_or(u16::MAX),
                shared: Arc::clone(&intake.shared),
                metrics,
                lease: intake.lease.account().lease(),
                holders: intake.holders.clone(),
                current: Rc::new(current),
                clients: Clients::new(tables.waiting),
                exchanges: Exchanges::new(tables.exchanges),
                attempts: Attempts::new(sizes, now),
                carriers: Carriers::new(UPSTREAM_SOCKETS_PER_WORKER),
                connections: Connections::default(),
                askers: Askers::default(),
                cookies: Cookies::new(intake.shared.cookie_seed(), now, unix_seconds()),
                listeners: Vec::new(),
                rng,
                log,
                body: vec![0; MESSAGE_BYTES_MAX].into_boxed_slice(),
                reply: vec![0; MESSAGE_BYTES_MAX].into_boxed_slice(),
                received: Some(DatagramBatch::new(
                    DATAGRAMS_PER_BATCH,
                    UPSTREAM_DATAGRAM_BYTES,
                )),
                woken: Vec::with_capacity(WAITERS_PER_QUESTION_MAX as usize),
                timer: Rc::default(),
                start: now,
                turn_at: now,
                me: me.clone(),
            })
        }))
    }

    /// Adds a listener, and returns its number.
    pub(super) fn add_listener(&mut self, listener: &Rc<DatagramListener>) -> u32 {
        let vacant = self.listeners.iter().position(Option::is_none);
        let at = vacant.unwrap_or_else(|| {
            self.listeners.push(None);
            self.listeners.len() - 1
        });
        self.listeners[at] = Some(Rc::clone(listener));
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Serves another snapshot from now on; questions in flight go on as they began.
    pub(super) fn set_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.current = Rc::new(Current::new(
            snapshot,
            Some(&self.current),
            &self.shared.servers,
        ));
        let log = self.current.snapshot.query_log.as_ref();
        let is_same = match (&self.log, log) {
            (None, None) => true,
            (Some(open), Some(log)) => std::sync::Arc::ptr_eq(&open.log, log),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_same {
            self.log = log.and_then(|log| WorkerLog::new(log, &self.lease, self.shared.sizes));
        }
    }

    /// Delivers the response in `reply` to its destination.
    pub(super) fn deliver(&mut self, destination: Destination, len: usize) {
        match destination {
            Destination::Datagram {
                listener,
                peer,
                local,
            } => {
                let Some(len) = self.restrain(peer.ip(), len) else {
                    return;
                };
                let response = &self.reply[..len];
                let listener = self.listeners.get(listener as usize);
                let Some(listener) = listener.and_then(Option::as_ref) else {
                    return;
                };
                let mut outgoing = listener.outgoing.borrow_mut();
                outgoing.push(peer, local, |room| {
                    room[..len].copy_from_slice(response);
                    len
                });
                if outgoing.is_full() {
                    send(&self.metrics, &mut outgoing, &listener.socket);
                }
            }
            Destination::Stream { connection, .. } => {
                let response = &self.reply[..len];
                // A client that has disconnected does not need it.
                if let Some(connection) = self.connections.get(connection) {
                    connection.answered();
                    connection.push(response);
                }
            }
            Destination::InProcess { asker } => {
                let response = &self.reply[..len];
                let Some(place) = self.askers.get(asker) else {
                    return;
                };
                place.respond(match self.lease.try_reserve(len) {
                    Ok(charge) => Response::There(response.to_vec(), charge),
                    Err(_) => Response::Never(Unanswered::Unavailable),
                });
            }
        }
    }

    /// Ends a turn: sends responses, and wakes the timer if it is needed.
    fn flush(&mut self) {
        for listener in self.listeners.iter().flatten() {
            let mut outgoing = listener.outgoing.borrow_mut();
            if !outgoing.is_empty() {
                send(&self.metrics, &mut outgoing, &listener.socket);
            }
        }
        let has_lines = self.log.as_ref().is_some_and(WorkerLog::has_lines);
        if self.timer.sleeps.get() && (self.exchanges.len() > 0 || has_lines) {
            self.timer.sleeps.set(false);
            self.timer.needed.notify_one();
        }
    }

    /// The number of clients that wait for an answer.
    pub(super) fn in_flight(&self) -> usize {
        self.clients.waiting()
    }

    /// Microseconds since the start, which wrap.
    pub(super) fn elapsed_us(&self, now: Instant) -> u32 {
        let elapsed: Duration = now.saturating_duration_since(self.start);
        // Differences of two are right as long as less than an hour lies between them.
        u32::try_from(elapsed.as_micros() & u128::from(u32::MAX)).unwrap_or_default()
    }
}

/// The time of day in seconds since 1970, the lower 32 bits.
#[expect(
    clippy::disallowed_methods,
    reason = "cookies have the time of day in them, which servers of one address agree on"
)]
fn unix_seconds() -> u32 {
    let now = std::time::SystemTime::now();
    let since = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_secs() & u64::from(u32::MAX)).unwrap_or_default()
}

fn send(metrics: &Cells, outgoing: &mut DatagramBatch, socket: &UdpSocket) {
    let sent = outgoing.send(socket);
    let lost = sent.refused + sent.dropped;
    if lost > 0 {
        metrics.unsent.add(lost as u64);
    }
}

/// Runs one turn of a task on the state, and sends the responses of it.
#[expect(
    clippy::disallowed_methods,
    reason = "once a turn: a batch of datagrams has one time"
)]
pub(super) fn turn<R>(state: &Handle, run: impl FnOnce(&mut WorkerState, Instant) -> R) -> R {
    let mut state = state.borrow_mut();
    state.turn_at = Instant::now();
    let now = state.turn_at;
    let result = run(&mut state, now);
    state.flush();
    result
}

impl DatagramListener {
    /// Bytes of a listener's buffers, for datagrams in both directions.
    pub(crate) const BYTES: usize = 2 * DATAGRAMS_PER_BATCH * UDP_PAYLOAD_BYTES;

    pub(super) fn new(address: SocketAddr, socket: UdpSocket) -> Self {
        Self {
            address,
            socket,
            outgoing: RefCell::new(DatagramBatch::new(DATAGRAMS_PER_BATCH, UDP_PAYLOAD_BYTES)),
        }
    }
}

impl Current {
    fn new(snapshot: Arc<Snapshot>, last: Option<&Self>, board: &ServerBoard) -> Self {
        let upstreams = last.into_iter().flat_map(|last| &last.upstreams);
        let mut known: Vec<_> = upstreams
            .flat_map(|upstream| upstream.servers.iter().cloned())
            .collect();
        let sessions = snapshot.plans.usual().zip(&snapshot.sessions);
        let configs = snapshot.config.upstreams.iter().zip(sessions);
        let mut upstreams = Vec::with_capacity(snapshot.config.upstreams.len());
        for (config, told) in configs {
            let upstream = Upstream::new(config, told, (&known, board));
            // Two upstreams may name one server.
            known.extend(upstream.servers.iter().cloned());
            upstreams.push(Rc::new(upstream));
        }
        Self {
            snapshot,
            upstreams,
        }
    }
}
