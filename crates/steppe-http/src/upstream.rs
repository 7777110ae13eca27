//! Connections to the servers of one upstream, of one worker.
//!
//! Invariant: a connection is in the pool only while nothing is under way on
//! it, and one that the runtime knows to be closed is never handed out. A
//! checkout makes no system call.
//!
//! Leaves out: health, weights and policies other than round-robin.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_mem::{Lease, Reservation};
use steppe_net::{Endpoints, ServerAddress, Stream};
use tokio::time::timeout;

use crate::config::Servers;
use crate::error::GatewayError;
use crate::h1::ClientConnection;
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CloseReason, WorkerMetrics};
use crate::socket_buffers::SocketBuffers;

/// How often idle connections are looked through, and names are.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How often a request looks whether the first lookup of a name has ended.
const NAMES_PAUSE: Duration = Duration::from_millis(20);

/// One upstream, as a worker sees it.
#[derive(Debug)]
pub struct Pool {
    index: usize,
    settings: Servers,
    endpoints: Vec<Endpoints>,
    /// What `endpoints` came to when they were looked at last.
    targets: RefCell<Vec<Target>>,
    next: Cell<usize>,
    idle: RefCell<Vec<Idle>>,
    lease: Lease,
    buffers: Arc<SocketBuffers>,
    metrics: Rc<WorkerMetrics>,
}

/// A server at one of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    server: usize,
    ip: IpAddr,
}

/// A connection that an exchange may use.
#[derive(Debug)]
pub struct Connected {
    /// The connection itself.
    pub connection: ClientConnection,
    target: Target,
    _open: Open,
}

#[derive(Debug)]
struct Idle {
    connected: Box<Connected>,
    since: Instant,
}

/// Counts a connection for as long as it lives.
#[derive(Debug)]
struct Open {
    index: usize,
    metrics: Rc<WorkerMetrics>,
    _charge: Reservation,
}

impl Pool {
    /// Upstream `index`, whose servers are at `endpoints`; `first` has the first turn, so
    /// that workers start at different ones.
    #[must_use]
    pub fn new(
        index: usize,
        settings: Servers,
        endpoints: Vec<Endpoints>,
        lease: Lease,
        buffers: Arc<SocketBuffers>,
        first: usize,
        metrics: Rc<WorkerMetrics>,
    ) -> Self {
        let pool = Self {
            index,
            settings,
            endpoints,
            targets: RefCell::default(),
            next: Cell::new(first),
            idle: RefCell::default(),
            lease,
            buffers,
            metrics,
        };
        pool.refresh_targets();
        pool
    }

    /// How long its servers may take.
    #[must_use]
    pub fn settings(&self) -> &Servers {
        &self.settings
    }

    /// How a server is named where a request names no host.
    #[must_use]
    pub fn authority(&self, connected: &Connected) -> String {
        self.endpoints[connected.target.server].server().to_string()
    }

    /// A connection for the next request: an idle one where there is one.
    ///
    /// # Errors
    /// Where no server can be reached in time: 502, 504.
    pub async fn checkout(&self) -> Result<Box<Connected>, GatewayError> {
        if self.targets.borrow().is_empty() {
            self.wait_for_names().await?;
        }
        // A server that takes no connection has seen nothing of the request: the
        // next one is asked, each once.
        let mut others = self.targets.borrow().len() - 1;
        loop {
            let target = self.turn();
            if let Some(connected) = self.take_idle(target) {
                return Ok(connected);
            }
            match self.connect(target).await {
                Err(error) if others > 0 && error.reason != CloseReason::OverBudget => others -= 1,
                connected => return connected,
            }
        }
    }

    /// A new connection, to the server that `connected` went to.
    ///
    /// # Errors
    /// As [`Pool::checkout`].
    pub async fn reconnect(&self, connected: &Connected) -> Result<Box<Connected>, GatewayError> {
        self.metrics.upstream_replayed(self.index);
        self.connect(connected.target).await
    }

    /// Takes a connection back; one that can't be used again is closed.
    pub fn put_back(&self, connected: Box<Connected>, now: Instant) {
        if self.settings.keepalive == 0 || !connected.connection.is_reusable() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.settings.keepalive {
            idle.remove(0);
        }
        idle.push(Idle {
            connected,
            since: now,
        });
        self.metrics.upstream_idle(self.index, idle.len());
    }

    /// Closes connections that have ended or were idle for too long, and takes
    /// over what names resolve to now.
    pub fn sweep(&self, now: Instant) {
        self.refresh_targets();
        let targets = self.targets.borrow();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|kept| {
            let is_fresh = now.saturating_duration_since(kept.since) < self.settings.timeouts.idle;
            let is_current = targets.contains(&kept.connected.target);
            is_fresh && is_current && kept.connected.connection.is_quiet()
        });
        if idle.len() * 4 < idle.capacity() {
            let room = idle.len() * 2;
            idle.shrink_to(room);
        }
        self.metrics.upstream_idle(self.index, idle.len());
    }

    /// Closes every idle connection.
    pub fn close_idle(&self) {
        self.idle.borrow_mut().clear();
        self.metrics.upstream_idle(self.index, 0);
    }

    fn refresh_targets(&self) {
        let mut targets = self.targets.borrow_mut();
        targets.clear();
        for (server, endpoints) in self.endpoints.iter().enumerate() {
            targets.extend(
                endpoints
                    .addresses()
                    .iter()
                    .map(|&ip| Target { server, ip }),
            );
        }
    }

    /// A name that was never resolved is worth as long a wait as a connection.
    async fn wait_for_names(&self) -> Result<(), GatewayError> {
        let resolved = async {
            while self.targets.borrow().is_empty() {
                tokio::time::sleep(NAMES_PAUSE).await;
                self.refresh_targets();
            }
        };
        let resolved = timeout(self.settings.timeouts.connect, resolved).await;
        resolved.map_err(|_| {
            self.metrics.upstream_connect_failed(self.index);
            GatewayError::upstream(CloseReason::ConnectFailed, 502)
        })
    }

    /// The server whose turn it is.
    fn turn(&self) -> Target {
        let targets = self.targets.borrow();
        let turn = self.next.get() % targets.len();
        self.next.set(turn + 1);
        targets[turn]
    }

    /// The idle connection that was used last: the others may close for want of use.
    fn take_idle(&self, target: Target) -> Option<Box<Connected>> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let at = idle
                .iter()
                .rposition(|kept| kept.connected.target == target)?;
            let mut connected = idle.remove(at).connected;
            self.metrics.upstream_idle(self.index, idle.len());
            if connected.connection.is_quiet() {
                connected.connection.reuse();
                return Some(connected);
            }
        }
    }

    async fn connect(&self, target: Target) -> Result<Box<Connected>, GatewayError> {
        let charge = self.lease.try_reserve(CONNECTION_BYTES)?;
        let endpoints = &self.endpoints[target.server];
        let connected = timeout(
            self.settings.timeouts.connect,
            connect(endpoints, target.ip),
        )
        .await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.metrics.upstream_connect_failed(self.index);
                tracing::debug!(server = %endpoints.server(), %error, "cannot connect");
                return Err(GatewayError::upstream(CloseReason::ConnectFailed, 502));
            }
            Err(_) => {
                self.metrics.upstream_connect_failed(self.index);
                return Err(GatewayError::timeout(CloseReason::ConnectTimeout));
            }
        };
        self.buffers.fit(&stream);
        self.metrics.upstream_opened(self.index);
        let connection =
            ClientConnection::new(stream, self.lease.clone(), Rc::clone(&self.metrics));
        let metrics = Rc::clone(&self.metrics);
        let open = Open {
            index: self.index,
            metrics,
            _charge: charge,
        };
        Ok(Box::new(Connected {
            connection,
            target,
            _open: open,
        }))
    }
}

async fn connect(endpoints: &Endpoints, ip: IpAddr) -> std::io::Result<Stream> {
    match (endpoints.server(), endpoints.socket_address(ip)) {
        (ServerAddress::Unix(path), _) => Stream::connect_unix(path).await,
        (_, Some(address)) => Stream::connect_tcp(address).await,
        (_, None) => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.upstream_closed(self.index);
    }
}
