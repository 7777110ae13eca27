//! Connections to the servers of one upstream, of one worker.
//!
//! Invariant: a connection is in the pool only while nothing is under way on
//! it, and one that the runtime knows to be closed is never handed out. A
//! checkout makes no system call.
//!
//! Leaves out: which server is next (`picker.rs`), and in what condition each is
//! (`state.rs`), which all workers share.

mod idle;
mod latency;
mod metrics;
mod picker;
mod probe;
mod random;
mod report;
mod retry;
mod selection;
mod state;
mod sticky;
mod target;
mod uptime;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_mem::{Lease, Reservation};
use steppe_net::{Endpoints, ServerAddress, Stream};
use tokio::time::timeout;

use crate::config::{RetryOn, Servers};
use crate::error::GatewayError;
use crate::h1::ClientConnection;
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CloseReason, WorkerMetrics};
use crate::socket_buffers::SocketBuffers;
use idle::IdleConnections;
use picker::Picker;

pub use metrics::UpstreamsCollector;
pub use probe::Probes;
pub use report::{ProbeReport, ServerReport, UpstreamReport};
pub use selection::Selection;
pub use state::{UpstreamState, Upstreams};
pub use target::{Condition, Failure, TargetState};

/// How often it is looked which idle connections are worth keeping, and what names resolve to.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How often a request looks whether the first lookup of a name has ended.
const NAMES_PAUSE: Duration = Duration::from_millis(20);

/// One upstream, as a worker sees it.
#[derive(Debug)]
pub struct Pool {
    index: usize,
    upstream: Arc<UpstreamState>,
    /// What may be chosen, as of `version`.
    picker: RefCell<Picker>,
    version: Cell<u64>,
    /// A server is slow to start: weights are looked at again.
    is_growing: Cell<bool>,
    /// Shared with the pool of the snapshot before, where the upstream is the same:
    /// what is under way there comes back to be used here.
    idle: Rc<IdleConnections>,
    /// No snapshot has the upstream any more: nothing is kept.
    is_retired: Cell<bool>,
    lease: Lease,
    buffers: Arc<SocketBuffers>,
    metrics: Rc<WorkerMetrics>,
}

/// A connection that an exchange may use.
#[derive(Debug)]
pub struct Connected {
    /// The connection itself.
    pub connection: ClientConnection,
    /// The server that it goes to.
    state: Arc<TargetState>,
    /// Index of its server.
    server: usize,
    /// An exchange is under way on it.
    is_active: bool,
    _open: Open,
}

/// A request that waits for a connection.
#[derive(Debug)]
struct Pending(Arc<TargetState>);

/// Counts a connection for as long as it lives.
#[derive(Debug)]
struct Open {
    index: usize,
    metrics: Rc<WorkerMetrics>,
    _charge: Reservation,
}

impl Pool {
    /// Upstream `index`; `first` has the first turn, so that workers start at
    /// different servers. `last` is the pool of the same upstream that this one follows.
    #[must_use]
    pub fn new(
        index: usize,
        upstream: Arc<UpstreamState>,
        lease: Lease,
        buffers: Arc<SocketBuffers>,
        first: usize,
        metrics: Rc<WorkerMetrics>,
        last: Option<&Self>,
    ) -> Self {
        let seed = random::seed();
        let picker = Picker::new(upstream.settings().balance.clone(), first, seed);
        let pool = Self {
            index,
            upstream,
            picker: RefCell::new(picker),
            version: Cell::new(0),
            is_growing: Cell::new(false),
            idle: last.map_or_else(IdleConnections::new, |last| Rc::clone(&last.idle)),
            is_retired: Cell::new(false),
            lease,
            buffers,
            metrics,
        };
        pool.refresh();
        pool
    }

    /// How long its servers may take, and what else it was told.
    #[must_use]
    pub fn settings(&self) -> &Servers {
        self.upstream.settings()
    }

    /// What all workers share of it.
    #[must_use]
    pub fn upstream(&self) -> &Arc<UpstreamState> {
        &self.upstream
    }

    /// How a server is named where a request names no host.
    #[must_use]
    pub fn authority(&self, connected: &Connected) -> String {
        connected.state.server.to_string()
    }

    /// A connection for the next try of a request: an idle one where there is one.
    ///
    /// # Errors
    /// Where no server can be reached in time: 502, 504. All are out of service: 503.
    pub async fn checkout(
        &self,
        selection: &mut Selection,
    ) -> Result<Box<Connected>, GatewayError> {
        self.refresh_if_changed();
        if self.picker.borrow().candidates().is_empty() {
            self.wait_for_names().await?;
        }
        loop {
            let (state, server) = match self.next(selection)? {
                Next::Idle(connected) => return Ok(connected),
                Next::Connect(state, server) => (state, server),
            };
            let began_at = Instant::now();
            let (error, failure) = match self.connect(&state, server).await {
                Ok(connected) => return Ok(connected),
                Err((error, None)) => return Err(error),
                Err((error, Some(failure))) => (error, failure),
            };
            self.upstream.failed(&state, failure, began_at.elapsed());
            selection.tried.push(state);
            if !self.goes_on(selection) {
                return Err(error);
            }
        }
    }

    /// The server to ask, with a connection if one is idle.
    fn next(&self, selection: &Selection) -> Result<Next, GatewayError> {
        self.refresh_if_changed();
        let mut picker = self.picker.borrow_mut();
        let picked = picker.pick(selection.wanted()).or_else(|| {
            // Only a retry gets here: all were tried, so all but the last may be asked again.
            let last = selection.tried.last()?;
            picker.pick(selection.wanted_after(last))
        });
        let at = picked.ok_or_else(|| GatewayError::upstream(CloseReason::ConnectFailed, 503))?;
        let candidate = &picker.candidates()[at];
        match self.take_idle(&candidate.state) {
            Some(connected) => Ok(Next::Idle(connected)),
            None => {
                let state = Arc::clone(&candidate.state);
                Ok(Next::Connect(state, candidate.server))
            }
        }
    }

    /// Whether another server is asked after one that took no connection. Nothing was
    /// sent, so any request may be; without `retry`, each server is asked once.
    pub(crate) fn goes_on(&self, selection: &mut Selection) -> bool {
        if self.settings().retry.is_some() {
            let failed = selection.tried.last().map(Arc::clone);
            return failed
                .is_some_and(|failed| self.may_retry(selection, RetryOn::CONNECT, &failed));
        }
        self.refresh_if_changed();
        self.picker.borrow().has_untried(selection.wanted())
    }

    /// Whether a request that failed so may be sent again, to another server than the one that
    /// just `failed`; counts it if so.
    pub fn may_retry(
        &self,
        selection: &mut Selection,
        on: RetryOn,
        failed: &Arc<TargetState>,
    ) -> bool {
        let Some(retry) = &self.settings().retry else {
            return false;
        };
        let is_allowed = retry.on.has(on)
            && selection.retries < retry.attempts
            && self
                .picker
                .borrow()
                .has_untried(selection.wanted_after(failed))
            && self
                .upstream
                .retry_budget()
                .allows(retry.budget, Instant::now());
        selection.retries += u32::from(is_allowed);
        is_allowed
    }

    /// A new connection, to the server that `connected` went to.
    ///
    /// # Errors
    /// As [`Pool::checkout`].
    pub async fn reconnect(&self, connected: &Connected) -> Result<Box<Connected>, GatewayError> {
        self.metrics.upstream_replayed(self.index);
        let began_at = Instant::now();
        let again = self.connect(&connected.state, connected.server).await;
        again.map_err(|(error, failure)| {
            if let Some(failure) = failure {
                let elapsed = began_at.elapsed();
                self.upstream.failed(&connected.state, failure, elapsed);
            }
            error
        })
    }

    /// Takes a connection back; one that can't be used again is closed.
    pub fn put_back(&self, mut connected: Box<Connected>, now: Instant) {
        let keepalive = self.settings().keepalive;
        // One that names a client is of no use to another.
        let is_named = self.settings().proxy_protocol.is_some();
        if keepalive == 0
            || is_named
            || self.is_retired.get()
            || !connected.connection.is_reusable()
        {
            return;
        }
        connected.rest();
        let count = self.idle.put(connected, keepalive, now);
        self.metrics.upstream_idle(self.index, count);
    }

    /// Closes connections that were idle for too long, or go to a server that is left
    /// out; takes over what names resolve to now.
    pub fn sweep(&self, now: Instant) {
        self.upstream.sync(now);
        self.refresh_if_changed();
        if self.is_growing.get() {
            self.refresh();
        }
        let idle_max = self.settings().timeouts.idle;
        let picker = self.picker.borrow();
        let count = self.idle.sweep(|connected, since| {
            let is_fresh = now.saturating_duration_since(since) < idle_max;
            is_fresh && picker.has(&connected.state)
        });
        self.metrics.upstream_idle(self.index, count);
    }

    /// Whether both keep the same idle connections.
    #[must_use]
    pub fn shares_idle(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.idle, &other.idle)
    }

    /// Closes every idle connection, and keeps none from now on.
    pub fn retire(&self) {
        self.is_retired.set(true);
        self.idle.clear();
        self.metrics.upstream_idle(self.index, 0);
    }

    #[inline]
    fn refresh_if_changed(&self) {
        if self.version.get() != self.upstream.version() {
            self.refresh();
        }
    }

    /// Takes over who may be chosen. Read before: a change meanwhile is seen next time.
    #[cold]
    fn refresh(&self) {
        self.version.set(self.upstream.version());
        let (candidates, is_growing) = self.upstream.candidates(Instant::now());
        self.is_growing.set(is_growing);
        self.picker.borrow_mut().replace(candidates);
    }

    /// A name that was never resolved is worth as long a wait as a connection.
    async fn wait_for_names(&self) -> Result<(), GatewayError> {
        if !self.upstream.targets().is_empty() {
            // There are servers, and all of them are out of service.
            return Err(GatewayError::upstream(CloseReason::ConnectFailed, 503));
        }
        let resolved = async {
            while self.picker.borrow().candidates().is_empty() {
                tokio::time::sleep(NAMES_PAUSE).await;
                self.upstream.sync(Instant::now());
                self.refresh_if_changed();
            }
        };
        let resolved = timeout(self.settings().timeouts.connect, resolved).await;
        resolved.map_err(|_| {
            self.metrics.upstream_connect_failed(self.index);
            GatewayError::upstream(CloseReason::ConnectFailed, 502)
        })
    }

    /// An idle connection that is as good as new.
    fn take_idle(&self, state: &Arc<TargetState>) -> Option<Box<Connected>> {
        let taken = self.idle.take(state);
        self.metrics.upstream_idle(self.index, self.idle.len());
        let mut connected = taken?;
        connected.connection.reuse();
        connected.work();
        Some(connected)
    }

    /// A new connection to a server. What failed is named where it was the server.
    async fn connect(
        &self,
        state: &Arc<TargetState>,
        server: usize,
    ) -> Result<Box<Connected>, (GatewayError, Option<Failure>)> {
        let charge = self.lease.try_reserve(CONNECTION_BYTES);
        let charge = charge.map_err(|error| (error.into(), None))?;
        let pending = Pending::new(state);
        let endpoints = &self.upstream.endpoints()[server];
        let connecting = connect(endpoints, state.ip);
        let stream = match timeout(self.settings().timeouts.connect, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.metrics.upstream_connect_failed(self.index);
                tracing::debug!(server = %endpoints.server(), %error, "cannot connect");
                let error = GatewayError::upstream(CloseReason::ConnectFailed, 502);
                return Err((error, Some(Failure::Connect)));
            }
            Err(_) => {
                self.metrics.upstream_connect_failed(self.index);
                let error = GatewayError::timeout(CloseReason::ConnectTimeout);
                return Err((error, Some(Failure::ConnectTimeout)));
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
        let mut connected = Box::new(Connected {
            connection,
            state: Arc::clone(state),
            server,
            is_active: false,
            _open: open,
        });
        connected.work();
        drop(pending);
        Ok(connected)
    }
}

/// What a checkout goes on with.
enum Next {
    Idle(Box<Connected>),
    Connect(Arc<TargetState>, usize),
}

async fn connect(endpoints: &Endpoints, ip: IpAddr) -> std::io::Result<Stream> {
    match (endpoints.server(), endpoints.socket_address(ip)) {
        (ServerAddress::Unix(path), _) => Stream::connect_unix(path).await,
        (_, Some(address)) => Stream::connect_tcp(address).await,
        (_, None) => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

impl Connected {
    /// Connection and server, to use both.
    pub(crate) fn split(&mut self) -> (&mut ClientConnection, &Arc<TargetState>) {
        (&mut self.connection, &self.state)
    }

    fn work(&mut self) {
        self.is_active = true;
        self.state.begin();
    }

    fn rest(&mut self) {
        if std::mem::take(&mut self.is_active) {
            self.state.end();
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Pending {
    fn new(state: &Arc<TargetState>) -> Self {
        state.wait();
        Self(Arc::clone(state))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.wait_over();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.upstream_closed(self.index);
    }
}
