//! One worker of the gateway: accepts, and goes down without dropping anybody.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use steppe_mem::{Account, Lease};
use steppe_net::limits::{ACCEPT_BATCH, ACCEPT_PAUSE, BACKLOG};
use steppe_net::{BoundListener, Listener, PeerAddress, Phase, Stream, Worker};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Gateway;
use super::connection::{self, Connection};
use crate::forwarded::Peer;
use crate::h1::{ServerConnection, ServerSettings};
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CloseReason, WorkerMetrics};
use crate::upstream::{Pool, SWEEP_EVERY, UpstreamState};

/// What became of a worker's connections when the node went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Open when the drain began.
    pub open: usize,
    /// Still open when it had to end: dropped.
    pub dropped: usize,
}

/// The gateway as one worker has it.
pub(super) struct WorkerGateway {
    pub(super) gateway: Arc<Gateway>,
    pub(super) worker: Rc<Worker>,
    pub(super) metrics: Rc<WorkerMetrics>,
    /// By upstream; `None` where responses are made here.
    pub(super) pools: Vec<Option<Rc<Pool>>>,
    /// By route.
    pub(super) leases: Vec<Lease>,
    open: Cell<usize>,
    closed: Notify,
}

impl WorkerGateway {
    fn new(gateway: Arc<Gateway>, worker: Rc<Worker>) -> Rc<Self> {
        let metrics = Rc::new(gateway.metrics.worker(worker.index));
        let pool = |(index, upstream): (usize, &Option<Arc<UpstreamState>>)| {
            Some(Rc::new(Pool::new(
                index,
                Arc::clone(upstream.as_ref()?),
                gateway.accounts.upstreams[index].lease(),
                Arc::clone(&gateway.buffers),
                worker.index,
                Rc::clone(&metrics),
            )))
        };
        Rc::new(Self {
            pools: gateway.states.iter().enumerate().map(pool).collect(),
            leases: gateway.accounts.routes.iter().map(Account::lease).collect(),
            worker,
            metrics,
            open: Cell::new(0),
            closed: Notify::new(),
            gateway,
        })
    }
}

pub(super) async fn serve(
    gateway: Arc<Gateway>,
    worker: Rc<Worker>,
    listeners: Vec<BoundListener>,
) -> Drained {
    let this = WorkerGateway::new(gateway, worker);
    spawn_local(sweep_pools(Rc::clone(&this)));
    let accepting: Vec<_> = listeners
        .into_iter()
        .enumerate()
        .map(|(index, bound)| spawn_local(accept(Rc::clone(&this), index, bound)))
        .collect();
    this.worker.drain.reached(Phase::Draining).await;
    for task in accepting {
        // A listener that failed has said so.
        let _ = task.await;
    }
    let open = this.open.get();
    // Connections between two requests end now; the others after their response.
    this.worker.deadlines.wake_all();
    let all_closed = async {
        while this.open.get() > 0 {
            this.closed.notified().await;
        }
    };
    tokio::select! {
        () = all_closed => {}
        () = this.worker.drain.reached(Phase::Stopped) => {}
    }
    let dropped = this.open.get();
    (0..dropped).for_each(|_| this.metrics.closed(CloseReason::Drain));
    Drained { open, dropped }
}

async fn sweep_pools(this: Rc<WorkerGateway>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let now = Instant::now();
        this.pools.iter().flatten().for_each(|pool| pool.sweep(now));
    }
}

/// Accepts connections of one listener until the node drains; those that were
/// queued by then are served, since closing the socket would reset them; but no
/// crowd, and no want of descriptors, keeps a drain waiting at the door.
async fn accept(this: Rc<WorkerGateway>, index: usize, bound: BoundListener) {
    let address = bound.address().clone();
    let listener = match bound.into_listener() {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%address, %error, "cannot listen");
            return;
        }
    };
    let config = &this.gateway.config.listeners[index];
    let settings = Rc::new(ServerSettings {
        limits: config.limits,
        timeouts: config.timeouts,
        lease: this.gateway.accounts.listeners[index].lease(),
        drain: this.worker.drain.clone(),
    });
    let draining = this.worker.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    let mut queued_max = BACKLOG;
    while queued_max > 0 {
        let accepted = tokio::select! {
            biased;
            accepted = accept_one(&listener) => accepted,
            () = &mut draining => return,
        };
        let is_draining = this.worker.drain.is_draining();
        match accepted {
            Ok((stream, peer)) => {
                open(&this, index, &settings, stream, peer);
                queued_max -= i32::from(is_draining);
            }
            Err(error) => {
                tracing::warn!(%address, %error, "cannot accept");
                // Descriptors come free when connections end, which the drain is to see to.
                if is_draining {
                    return;
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        this.yield_after_batch().await;
    }
}

async fn accept_one(listener: &Listener) -> std::io::Result<(Stream, PeerAddress)> {
    poll_fn(|cx| listener.poll_accept(cx)).await
}

impl WorkerGateway {
    /// A crowd at the door must not keep those inside waiting.
    async fn yield_after_batch(&self) {
        if self.open.get().is_multiple_of(ACCEPT_BATCH) {
            let mut has_yielded = false;
            poll_fn(|cx| {
                if has_yielded {
                    return Poll::Ready(());
                }
                has_yielded = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }
}

fn open(
    this: &Rc<WorkerGateway>,
    listener: usize,
    settings: &Rc<ServerSettings>,
    stream: Stream,
    peer: PeerAddress,
) {
    let Some(admitted) = this.gateway.admit(listener) else {
        return turn_away(this, stream, CloseReason::ConnectionLimit);
    };
    let Ok(charge) = settings.lease.try_reserve(CONNECTION_BYTES) else {
        return turn_away(this, stream, CloseReason::OverBudget);
    };
    this.gateway.buffers.fit(&stream);
    let trusted = &this.gateway.config.trusted_proxies;
    let peer = match peer {
        PeerAddress::Ip(_) => Peer::new(peer.ip(), trusted),
        PeerAddress::Local => Peer::unix(trusted),
    };
    let server = ServerConnection::new(
        stream,
        Rc::clone(settings),
        this.worker.deadlines.add(),
        charge,
        Rc::clone(&this.metrics),
    );
    this.open.set(this.open.get() + 1);
    this.metrics.connection_opened(listener);
    let counted = Open {
        this: Rc::clone(this),
        listener,
    };
    let connection = Connection {
        this: Rc::clone(this),
        server,
        peer,
    };
    spawn_local(async move {
        connection::serve(connection).await;
        drop((counted, admitted));
    });
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
    this: Rc<WorkerGateway>,
    listener: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.this.open.set(self.this.open.get() - 1);
        self.this.metrics.connection_closed(self.listener);
        if self.this.open.get() == 0 {
            self.this.closed.notify_one();
        }
    }
}
