//! One worker of the gateway: opens connections, changes configurations, and
//! goes down without dropping anybody.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use steppe_mem::{Account, Lease};
use steppe_net::{
    BoundSockets, Change, Drain, Drained, ListenAddress, PeerAddress, Phase, Stream, Worker,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;

use super::Gateway;
use super::connection::{self, Connection, Notes};
use super::listening::{Door, Doorkeeper};
use crate::access::WorkerAccess;
use crate::config::{Route, Target, Upstream};
use crate::files::Served;
use crate::forwarded::Peer;
use crate::h1::{ServerConnection, ServerSettings};
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CloseReason, WorkerMetrics};
use crate::upstream::{Pool, SWEEP_EVERY};

/// A snapshot as one worker has it.
pub(super) struct WorkerGateway {
    pub(super) gateway: Arc<Gateway>,
    pub(super) metrics: Rc<WorkerMetrics>,
    /// By upstream; `None` where responses are made here.
    pub(super) pools: Vec<Option<Rc<Pool>>>,
    /// By route.
    pub(super) leases: Vec<Lease>,
    /// `None`: off.
    pub(super) access: Option<Rc<WorkerAccess>>,
    /// By route; `None` where it has an upstream.
    pub(super) served: Vec<Option<Served>>,
}

/// What a worker has whatever the configuration.
pub(super) struct WorkerState {
    worker: Rc<Worker>,
    current: RefCell<Rc<WorkerGateway>>,
    open: Cell<usize>,
    closed: Notify,
}

impl WorkerGateway {
    fn new(gateway: Arc<Gateway>, worker: &Worker, last: Option<&Self>) -> Rc<Self> {
        let metrics = Rc::new(gateway.metrics.worker(worker.index));
        let upstreams = gateway.config.upstreams.iter().zip(&gateway.states);
        let pool = |(index, (upstream, state)): (usize, (&Upstream, &Option<_>))| {
            let last = last.and_then(|last| last.pool_of(upstream));
            Some(Rc::new(Pool::new(
                index,
                Arc::clone(state.as_ref()?),
                gateway.accounts.upstreams[index].lease(),
                Arc::clone(&gateway.ground.buffers),
                worker.index,
                Rc::clone(&metrics),
                last.map(|last| &**last),
            )))
        };
        let log = gateway.ground.access.as_ref();
        let access = match last {
            Some(last) => last.access.clone(),
            None => log.map(|log| Rc::new(log.worker(&gateway.accounts.access.lease()))),
        };
        let served = |route: &Route| match &route.target {
            Target::Files(files) => Some(Served::new(files, &route.path)),
            Target::Upstream(_) => None,
        };
        Rc::new(Self {
            access,
            served: gateway.config.routes.iter().map(served).collect(),
            pools: upstreams.enumerate().map(pool).collect(),
            leases: gateway.accounts.routes.iter().map(Account::lease).collect(),
            metrics,
            gateway,
        })
    }

    /// The pool of an upstream that was just like `upstream`.
    fn pool_of(&self, upstream: &Upstream) -> Option<&Rc<Pool>> {
        let known = &self.gateway.config.upstreams;
        let at = known.iter().position(|known| known == upstream)?;
        self.pools[at].as_ref()
    }

    fn listener_settings(&self, index: usize, drain: Drain) -> ServerSettings {
        let config = &self.gateway.config.listeners[index];
        ServerSettings {
            limits: config.limits,
            timeouts: config.timeouts,
            proxy_protocol: config.proxy_protocol,
            underscores: config.underscores,
            capture: self.access.as_ref().map(|access| access.capture()),
            lease: self.gateway.accounts.listeners[index].lease(),
            drain,
        }
    }
}

impl WorkerState {
    /// The snapshot that a request which begins now is served by.
    pub(super) fn current(&self) -> Rc<WorkerGateway> {
        Rc::clone(&self.current.borrow())
    }

    /// Whether `snapshot` is the present one. For hot paths: it counts nothing.
    pub(super) fn is_current(&self, snapshot: &Rc<WorkerGateway>) -> bool {
        Rc::ptr_eq(&self.current.borrow(), snapshot)
    }

    /// Connections open now.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }
}

pub(super) async fn serve(
    gateway: Arc<Gateway>,
    worker: Rc<Worker>,
    sockets: BoundSockets,
    mut changes: mpsc::Receiver<Change<Gateway>>,
) -> Drained {
    let current = WorkerGateway::new(gateway, &worker, None);
    let state = Rc::new(WorkerState {
        worker,
        current: RefCell::new(Rc::clone(&current)),
        open: Cell::new(0),
        closed: Notify::new(),
    });
    spawn_local(sweep_pools(Rc::clone(&state)));
    let mut doors = Vec::new();
    open_doors(&state, &mut doors, &current, sockets);
    drop(current);
    let draining = state.worker.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    loop {
        tokio::select! {
            () = &mut draining => break,
            Some(change) = changes.recv() => change_over(&state, &mut doors, change).await,
        }
    }
    go_down(&state, doors).await
}

/// Serves what begins from now on as the next snapshot says.
async fn change_over(
    state: &Rc<WorkerState>,
    doors: &mut Vec<Doorkeeper>,
    change: Change<Gateway>,
) {
    let last = state.current();
    let next = WorkerGateway::new(change.next, &state.worker, Some(&last));
    *state.current.borrow_mut() = Rc::clone(&next);
    let listeners = &next.gateway.config.listeners;
    let index_of = |address: &ListenAddress| {
        let mut known = listeners.iter();
        known.position(|listener| listener.address == *address)
    };
    let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(doors)
        .into_iter()
        .partition(|keeper| index_of(&keeper.door.address).is_some());
    *doors = stay;
    for Doorkeeper { door, .. } in &*doors {
        let index = index_of(&door.address).expect("it stays");
        door.set_settings(next.listener_settings(index, door.drain.clone()));
    }
    open_doors(state, doors, &next, change.sockets);
    go.iter().for_each(Doorkeeper::close);
    // Connections that wait for a request look who they belong to now.
    state.worker.deadlines.wake_all();
    for keeper in go {
        keeper.closed().await;
    }
    // Idle connections of upstreams that went are of no use to anybody.
    last.pools
        .iter()
        .flatten()
        .filter(|pool| {
            !next
                .pools
                .iter()
                .flatten()
                .any(|next| next.shares_idle(pool))
        })
        .for_each(|pool| pool.retire());
    // Who asked may have stopped waiting.
    let _ = change.done.send(());
}

/// Opens the listeners of a snapshot that `sockets` has a socket for.
fn open_doors(
    state: &Rc<WorkerState>,
    doors: &mut Vec<Doorkeeper>,
    snapshot: &WorkerGateway,
    mut sockets: BoundSockets,
) {
    for (index, listener) in snapshot.gateway.config.listeners.iter().enumerate() {
        if let Some(bound) = sockets.take_listener(&listener.address) {
            let settings = |drain| snapshot.listener_settings(index, drain);
            let address = listener.address.clone();
            doors.push(Doorkeeper::open(state, address, bound, settings));
        }
    }
}

async fn go_down(state: &Rc<WorkerState>, doors: Vec<Doorkeeper>) -> Drained {
    doors.iter().for_each(Doorkeeper::close);
    for keeper in doors {
        keeper.closed().await;
    }
    let open = state.open.get();
    // Connections between two requests end now; the others after their response.
    state.worker.deadlines.wake_all();
    let all_closed = async {
        while state.open.get() > 0 {
            state.closed.notified().await;
        }
    };
    tokio::select! {
        () = all_closed => {}
        () = state.worker.drain.reached(Phase::Stopped) => {}
    }
    let dropped = state.open.get();
    let metrics = &state.current().metrics;
    (0..dropped).for_each(|_| metrics.closed(CloseReason::Drain));
    Drained { open, dropped }
}

async fn sweep_pools(state: Rc<WorkerState>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let now = Instant::now();
        let current = state.current();
        current
            .pools
            .iter()
            .flatten()
            .for_each(|pool| pool.sweep(now));
        if let Some(access) = &current.access {
            access.flush();
        }
    }
}

/// Starts a connection that came through `door`.
pub(super) fn open(state: &Rc<WorkerState>, door: &Rc<Door>, stream: Stream, peer: PeerAddress) {
    let this = state.current();
    let gateway = &this.gateway;
    // What was queued at a door that closes belongs to no listener, and is not counted.
    let known = gateway.listener(&door.address);
    let index = known.map(|(index, _)| index);
    let admitted = index.map(|index| gateway.admit(index));
    if let Some(None) = admitted {
        return turn_away(&this, stream, CloseReason::ConnectionLimit);
    }
    let settings = door.settings();
    let Ok(charge) = settings.lease.try_reserve(CONNECTION_BYTES) else {
        return turn_away(&this, stream, CloseReason::OverBudget);
    };
    gateway.ground.buffers.fit(&stream);
    let server = ServerConnection::new(
        stream,
        settings,
        state.worker.deadlines.add(),
        charge,
        Rc::clone(&this.metrics),
    );
    state.open.set(state.open.get() + 1);
    if let Some(listener) = index {
        this.metrics.connection_opened(listener);
    }
    let counted = Open {
        state: Rc::clone(state),
        metrics: Rc::clone(&this.metrics),
        listener: index,
    };
    let mut connection = Connection {
        peer: peer_of(&this.gateway, peer),
        address: peer,
        destination: None,
        notes: Notes::default(),
        state: Rc::clone(state),
        door: Rc::clone(door),
        this,
        server,
    };
    let task = async move {
        connection::serve(&mut connection).await;
        drop((connection, counted, admitted));
    };
    debug_assert!(
        size_of_val(&task) <= CONNECTION_BYTES,
        "it is charged with less than it takes"
    );
    spawn_local(task);
}

/// Who a peer is to a snapshot, which says whom to believe.
pub(super) fn peer_of(gateway: &Gateway, address: PeerAddress) -> Peer {
    let trusted = &gateway.config.trusted_proxies;
    match address {
        PeerAddress::Ip(_) => Peer::new(address.ip(), trusted),
        PeerAddress::Local => Peer::unix(trusted),
    }
}

/// Says that there is no room, as far as one write gets, and closes.
fn turn_away(this: &WorkerGateway, mut stream: Stream, reason: CloseReason) {
    const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
        content-length: 0\r\nconnection: close\r\n\r\n";
    this.metrics.closed(reason);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = stream.poll_write(&mut cx, NO_ROOM);
    let _ = stream.poll_shutdown(&mut cx);
}

/// Counts a connection for as long as its task lives.
struct Open {
    state: Rc<WorkerState>,
    metrics: Rc<WorkerMetrics>,
    listener: Option<usize>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let open = self.state.open.get() - 1;
        self.state.open.set(open);
        if let Some(listener) = self.listener {
            self.metrics.connection_closed(listener);
        }
        if open == 0 {
            self.state.closed.notify_one();
        }
    }
}
