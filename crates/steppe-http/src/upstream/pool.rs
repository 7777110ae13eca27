//! The connections of one worker to the servers of one upstream.
//!
//! Invariant: a connection that the runtime knows to be closed is never handed
//! out. A checkout makes no system call.
//!
//! Non-goals: the choice of a server (`picker.rs`), the condition of each
//! (`state.rs`), how a connection is established (`connector.rs`) and what is
//! spoken on it (`channel.rs`).

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_mem::Lease;
use steppe_net::clock;
use steppe_net::proxy_protocol::Ends;
use tokio::time::timeout;

use super::breaker::{Admission, Circuit};
use super::connector::{Connector, Peer};
use super::idle::{IdleChannels, Kept};
use super::picker::Picker;
use super::random;
use super::selection::Selection;
use super::state::{Target, UpstreamState};
use super::sticky::{self, Cookie};
use super::stream::{Open, Pending, PooledStream};
use super::target::{Failure, TargetState};
use super::under_way::{Guard, UnderWay};
use crate::config::{Balance, Hedge, RetryOn, Servers};
use crate::encoder::Encoder;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::RequestHead;
use crate::limits::CONNECTION_BYTES;
use crate::metrics::{CloseReason, UpstreamMetrics};

/// The pause between two polls of a request for the first lookup of a name.
const NAMES_PAUSE: Duration = Duration::from_millis(20);

/// One upstream, as a worker sees it.
#[derive(Debug)]
pub struct Pool {
    upstream: Arc<UpstreamState>,
    /// The servers that may be chosen, as of `version`.
    picker: RefCell<Picker>,
    version: Cell<u64>,
    /// A server is slow to start: weights change with time.
    is_growing: Cell<bool>,
    /// Shared with the pool of the snapshot before, where the upstream is the same:
    /// what is in flight there comes back to be used here.
    idle: Rc<IdleChannels>,
    /// No snapshot has the upstream any more: nothing is kept.
    is_retired: Cell<bool>,
    connector: Connector,
    /// For connections that serve one exchange: their memory counts for its client. `None`: they are kept for others.
    client_lease: Option<Lease>,
    /// Connections that others wait for.
    under_way: Rc<UnderWay>,
    metrics: UpstreamMetrics,
}

/// The parts that a pool is made of.
pub(crate) struct PoolParts {
    pub(crate) upstream: Arc<UpstreamState>,
    pub(crate) connector: Connector,
    /// The index of the worker, which has the first turn at a server of its own, so that workers start at different
    /// ones.
    pub(crate) worker: usize,
    pub(crate) metrics: UpstreamMetrics,
}

/// The beginning of the next attempt of a request.
#[derive(Debug)]
pub enum Checkout {
    /// On a connection that is there.
    Stream(PooledStream),
    /// A connection is to be established first, by [`Pool::connect_any`].
    Connect,
}

impl Pool {
    /// A pool of `parts`. `last` is the pool of the same upstream that this one follows.
    pub(crate) fn new(parts: PoolParts, last: Option<&Self>) -> Self {
        let PoolParts {
            upstream,
            connector,
            worker,
            metrics,
        } = parts;
        let seed = random::seed();
        let picker = Picker::new(upstream.settings().balance.clone(), worker, seed);
        let settings = upstream.settings();
        // One that names a client is of no use to another.
        let is_kept = settings.keepalive > 0 && settings.proxy_protocol.is_none();
        let client_lease = (!is_kept).then(|| connector.lease().account().client_lease());
        let pool = Self {
            upstream,
            picker: RefCell::new(picker),
            version: Cell::new(0),
            is_growing: Cell::new(false),
            idle: last.map_or_else(IdleChannels::new, |last| Rc::clone(&last.idle)),
            is_retired: Cell::new(false),
            connector,
            client_lease,
            under_way: Rc::default(),
            metrics,
        };
        pool.refresh();
        pool
    }

    /// The configuration of its servers.
    #[must_use]
    pub fn settings(&self) -> &Servers {
        self.upstream.settings()
    }

    /// The state that all workers share.
    #[must_use]
    pub fn upstream(&self) -> &Arc<UpstreamState> {
        &self.upstream
    }

    /// Picks a server for the next attempt of a request, and a stream to it if a
    /// connection is there.
    ///
    /// # Errors
    /// All servers are out of service: 503.
    pub fn checkout(&self, selection: &mut Selection) -> Result<Checkout, GatewayError> {
        self.refresh_if_changed();
        if self.picker.borrow().candidates().is_empty() {
            // Its name may not have been resolved yet, which takes time as a connection does.
            return Ok(Checkout::Connect);
        }
        let (state, server) = self.pick(selection)?;
        if let Some(stream) = self.open_stream(&state) {
            return Ok(Checkout::Stream(stream));
        }
        selection.picked = Some((state, server));
        Ok(Checkout::Connect)
    }

    /// A stream on a new connection to a server: the one that [`Pool::checkout`] picked,
    /// and after it others, as far as the request may be sent to them.
    ///
    /// # Errors
    /// No server can be reached in time: 502, 504. All are out of service: 503.
    pub async fn connect_any(
        &self,
        selection: &mut Selection,
        ends: Option<Ends>,
    ) -> Result<PooledStream, GatewayError> {
        loop {
            if self.picker.borrow().candidates().is_empty() {
                self.wait_for_names().await?;
            }
            let picked = selection.picked.take();
            let (state, server) = picked.map_or_else(|| self.pick(selection), Ok)?;
            let target = Target { state, server };
            let error = match self.join_or_connect(selection, target, ends).await {
                Ok(stream) => return Ok(stream),
                Err((error, None)) => return Err(error),
                Err((error, Some(_))) => error,
            };
            if !self.goes_on(selection) {
                return Err(error);
            }
        }
    }

    /// The server to ask next.
    fn pick(&self, selection: &Selection) -> Result<(Arc<TargetState>, usize), GatewayError> {
        self.refresh_if_changed();
        let mut picker = self.picker.borrow_mut();
        let picked = picker.pick(selection.wanted()).or_else(|| {
            // Only a retry gets here: all were tried, so all but the last may be asked again.
            let last = selection.tried.last()?;
            picker.pick(selection.wanted_after(last))
        });
        let at = picked.ok_or_else(|| GatewayError::upstream(CloseReason::ConnectFailed, 503))?;
        let candidate = &picker.candidates()[at];
        Ok((Arc::clone(&candidate.state), candidate.server))
    }

    /// True when another server is asked after one that took no connection. Nothing was
    /// sent, so any request may be; without `retry`, each server is asked once.
    #[expect(
        clippy::disallowed_methods,
        reason = "the circuit may have opened; only failed attempts get here"
    )]
    pub(crate) fn goes_on(&self, selection: &mut Selection) -> bool {
        if self.settings().retry.is_some() {
            let failed = selection.tried.last().map(Arc::clone);
            return failed
                .is_some_and(|failed| self.try_spend_retry(selection, RetryOn::CONNECT, &failed));
        }
        self.refresh_if_changed();
        let is_left = self.picker.borrow().has_untried(selection.wanted());
        is_left && self.admits(selection, clock::now())
    }

    /// True when a request that failed so may be sent again, to another server than the one that
    /// just `failed`; counts it if so.
    #[expect(
        clippy::disallowed_methods,
        reason = "the retry budget counts by the second; only failed attempts get here"
    )]
    pub fn try_spend_retry(
        &self,
        selection: &mut Selection,
        on: RetryOn,
        failed: &Arc<TargetState>,
    ) -> bool {
        let Some(retry) = &self.settings().retry else {
            return false;
        };
        let now = clock::now();
        let is_admitted =
            self.has_other(selection, failed) && self.is_retried_on(selection, on, now);
        let is_allowed = is_admitted && self.upstream.retry_budget().allows(retry.budget, now);
        if is_admitted && !is_allowed {
            selection.forget_trial();
        }
        selection.retries += u32::from(is_allowed);
        is_allowed
    }

    /// True when `retry` names `on`, has attempts left for the request, and the circuit lets one through.
    pub(crate) fn is_retried_on(
        &self,
        selection: &mut Selection,
        on: RetryOn,
        now: Instant,
    ) -> bool {
        let retry = self.settings().retry.as_ref();
        let is_wanted =
            retry.is_some_and(|retry| retry.on.has(on) && selection.retries < retry.attempts);
        is_wanted && self.admits(selection, now)
    }

    /// True when circuit breaker and budget allow to ask a second server now; counts it if so.
    pub(crate) fn try_spend_hedge(&self, now: Instant) -> bool {
        let hedge = self.settings().hedge.as_ref();
        let is_allowed = |hedge: &Hedge| self.upstream.hedge_budget().allows(hedge.budget, now);
        self.lets_hedges_pass(now) && hedge.is_some_and(is_allowed)
    }

    /// True when a second server may be asked: a circuit that is not closed is probed by one request,
    /// and by one attempt of it.
    pub(crate) fn lets_hedges_pass(&self, now: Instant) -> bool {
        matches!(self.upstream.circuit(now), None | Some(Circuit::Closed))
    }

    /// True when there is another server than the one that just `failed`.
    pub fn has_other(&self, selection: &Selection, failed: &Arc<TargetState>) -> bool {
        let picker = self.picker.borrow();
        picker.has_untried(selection.wanted_after(failed))
    }

    /// A stream on a new connection to the server of one that had closed while idle, which
    /// tells nothing about its server; where it takes no connection, to another.
    ///
    /// # Errors
    /// As [`Pool::connect_any`].
    pub(crate) async fn reconnect(
        &self,
        target: Target,
        selection: &mut Selection,
        ends: Option<Ends>,
    ) -> Result<PooledStream, GatewayError> {
        self.metrics.replayed();
        let connected = match self.is_shared() {
            // Exchanges whose connection ended together share the next one.
            true => self.join_or_connect(selection, target, ends).await,
            false => self.connect_for(selection, target, ends).await,
        };
        let (error, failure) = match connected {
            Ok(stream) => return Ok(stream),
            Err(failed) => failed,
        };
        if failure.is_some() && self.goes_on(selection) {
            return self.connect_any(selection, ends).await;
        }
        Err(error)
    }

    /// Takes a stream back whose exchange is over; a connection that can't be used again
    /// is closed.
    pub fn put_back(&self, stream: PooledStream, now: Instant) {
        let PooledStream {
            stream,
            state,
            server,
            open,
            in_flight,
        } = stream;
        let channel = stream.finish();
        drop(in_flight);
        if self.is_shared() {
            self.under_way.look_again(&state);
        }
        let Some(channel) = channel else {
            // Where it is shared, it was just of use.
            self.idle.touch(&open, now);
            drop(open);
            return self.count_idle();
        };
        open.used_at.set(now);
        self.keep(Kept {
            channel: Some(channel),
            state,
            server,
            open,
            under_way: None,
        });
    }

    /// True when its servers take many requests at once on a connection: they speak gRPC then, and say
    /// which requests they have not processed.
    pub(crate) fn is_multiplexed(&self) -> bool {
        self.connector.is_shared()
    }

    /// True when exchanges share connections.
    fn is_shared(&self) -> bool {
        self.client_lease.is_none() && self.connector.is_shared()
    }

    /// Keeps a connection for other exchanges, if it may be used for them.
    fn keep(&self, connection: Kept) {
        if self.client_lease.is_none() && !self.is_retired.get() {
            self.idle.put(connection, self.settings().keepalive);
            self.count_idle();
        }
    }

    /// Closes connections that were idle for too long, are too old, or go to a server that is left
    /// out; takes over what names resolve to now.
    pub fn sweep(&self, now: Instant) {
        self.upstream.sync(now);
        self.refresh_if_changed();
        if self.is_growing.get() {
            self.refresh();
        }
        let idle_max = self.settings().timeouts.idle;
        let picker = self.picker.borrow();
        self.idle.sweep(|kept| {
            let is_fresh = now.saturating_duration_since(kept.open.used_at.get()) < idle_max;
            is_fresh && now < kept.open.ages_at && picker.has(&kept.state)
        });
        self.count_idle();
    }

    fn count_idle(&self) {
        let is_shared = self.connector.is_shared();
        self.metrics.set_idle(if is_shared {
            self.idle.unused()
        } else {
            self.idle.len()
        });
    }

    /// True when both keep the same idle connections.
    #[must_use]
    pub fn shares_idle(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.idle, &other.idle)
    }

    /// Closes every idle connection, and keeps none from now on.
    pub fn retire(&self) {
        self.is_retired.set(true);
        self.idle.clear();
        self.metrics.set_idle(0);
    }

    #[inline]
    fn refresh_if_changed(&self) {
        if self.version.get() != self.upstream.version() {
            self.refresh();
        }
    }

    /// Takes over who may be chosen. Read before: a change meanwhile is seen next time.
    #[cold]
    #[expect(
        clippy::disallowed_methods,
        reason = "weights of servers that start slowly grow with time"
    )]
    fn refresh(&self) {
        self.version.set(self.upstream.version());
        let (candidates, is_growing) = self.upstream.candidates(clock::now());
        self.is_growing.set(is_growing);
        self.picker.borrow_mut().replace(candidates);
    }

    /// A name that was never resolved is worth as long a wait as a connection.
    #[expect(clippy::disallowed_methods, reason = "a lookup has ended meanwhile")]
    async fn wait_for_names(&self) -> Result<(), GatewayError> {
        if !self.upstream.targets().is_empty() {
            // There are servers, and all of them are out of service.
            return Err(GatewayError::upstream(CloseReason::ConnectFailed, 503));
        }
        let resolved = async {
            while self.picker.borrow().candidates().is_empty() {
                tokio::time::sleep(NAMES_PAUSE).await;
                self.upstream.sync(clock::now());
                self.refresh_if_changed();
            }
        };
        let resolved = timeout(self.settings().timeouts.connect, resolved).await;
        resolved.map_err(|_| {
            self.metrics.connect_failed();
            GatewayError::upstream(CloseReason::ConnectFailed, 502)
        })
    }

    /// True when exchanges to come need another connection to the server of `stream` soon, and
    /// nobody establishes one.
    pub(crate) fn is_nearly_full(&self, stream: &PooledStream) -> bool {
        self.is_shared()
            && self.idle.is_nearly_full(&stream.state)
            && !self.under_way.has(&stream.state)
    }

    /// Establishes a connection that exchanges to come share.
    pub(crate) async fn connect_ahead(&self, target: Target) {
        let Target { state, server } = target;
        // It is kept for others; what failed is counted, and found again by who needs one.
        drop(self.connect(&state, server, None).await);
    }

    /// A stream of a connection that is there.
    fn open_stream(&self, state: &Arc<TargetState>) -> Option<PooledStream> {
        let stream = self.idle.open_stream(state);
        self.count_idle();
        stream
    }

    /// A stream of a connection that is there, of one that is being established to be shared, or of a new one. A server
    /// that was asked in vain is noted as tried.
    async fn join_or_connect(
        &self,
        selection: &mut Selection,
        target: Target,
        ends: Option<Ends>,
    ) -> Result<PooledStream, (GatewayError, Option<Failure>)> {
        match self.join_stream(&target.state).await {
            Ok(Some(stream)) => Ok(stream),
            Ok(None) => self.connect_for(selection, target, ends).await,
            Err(failure) => {
                selection.tried.push(target.state);
                let error = GatewayError::timeout(CloseReason::ConnectTimeout);
                Err((error, Some(failure)))
            }
        }
    }

    /// A stream of a connection that is there, or of one that is being established to be shared; `None`: the caller
    /// is to establish one.
    ///
    /// # Errors
    /// The server lets no stream begin in time, and is blamed for it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the begin and the end of a wait for a connection"
    )]
    async fn join_stream(&self, state: &Arc<TargetState>) -> Result<Option<PooledStream>, Failure> {
        if let Some(stream) = self.open_stream(state) {
            return Ok(Some(stream));
        }
        if !self.is_shared() {
            return Ok(None);
        }
        // The balancer sees what waits for a server.
        let _pending = Pending::new(state);
        let began_at = clock::now();
        // For the connection, and again for the server's preface behind it (RFC 9113 §3.4).
        let patience = 2 * self.settings().timeouts.connect;
        loop {
            match timeout(patience, self.under_way.wait(state)).await {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(_) => {
                    let failure = Failure::ConnectTimeout;
                    self.upstream
                        .failed(state, failure, clock::now() - began_at);
                    self.metrics.connect_failed();
                    return Err(failure);
                }
            }
            if let Some(stream) = self.open_stream(state) {
                return Ok(Some(stream));
            }
        }
    }

    /// A stream on a new connection to a server, which `selection` names meanwhile, and as tried where it fails.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    async fn connect_for(
        &self,
        selection: &mut Selection,
        target: Target,
        ends: Option<Ends>,
    ) -> Result<PooledStream, (GatewayError, Option<Failure>)> {
        let Target { state, server } = target;
        selection.connecting = Some((Arc::clone(&state), clock::now()));
        let connected = self.connect(&state, server, ends).await;
        selection.connecting = None;
        if connected.is_err() {
            selection.tried.push(state);
        }
        connected
    }

    /// A stream on a new connection to a server. What failed is counted and named where it was the
    /// server.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a connection took to fail, or when it begins"
    )]
    async fn connect(
        &self,
        state: &Arc<TargetState>,
        server: usize,
        ends: Option<Ends>,
    ) -> Result<PooledStream, (GatewayError, Option<Failure>)> {
        let lease = match &self.client_lease {
            Some(lease) => &lease.of_present_holder(),
            None => self.connector.lease(),
        };
        let charge = lease.try_admit(CONNECTION_BYTES);
        let charge = charge.map_err(|error| (error.into(), None))?;
        let of_codec = self.connector.reserve(lease);
        let of_codec = of_codec.map_err(|error| (error.into(), None))?;
        let pending = Pending::new(state);
        let under_way = self.is_shared().then(|| self.under_way.begin(state));
        let peer = Peer {
            endpoints: &self.upstream.endpoints()[server],
            ip: state.ip,
            settings: self.settings(),
            tls: self.upstream.tls(),
            ends,
            timeout: self.settings().timeouts.connect,
        };
        let began_at = clock::now();
        let channel = self.connector.connect(peer, of_codec).await;
        let channel = channel.map_err(|failure| {
            let elapsed = clock::now() - began_at;
            self.upstream.failed(state, failure, elapsed);
            under_way.iter().for_each(Guard::fail);
            self.metrics.connect_failed();
            let error = match failure {
                Failure::ConnectTimeout => GatewayError::timeout(CloseReason::ConnectTimeout),
                _ => GatewayError::upstream(CloseReason::ConnectFailed, 502),
            };
            (error, Some(failure))
        })?;
        drop(pending);
        let now = clock::now();
        let open = Rc::new(Open::new(self.metrics.clone(), charge, now));
        let state = Arc::clone(state);
        let (stream, shared) = channel.open_stream();
        if let Some(channel) = shared {
            let knows_capacity = channel.knows_capacity();
            self.keep(Kept {
                channel: Some(channel),
                state: Arc::clone(&state),
                server,
                open: Rc::clone(&open),
                under_way: under_way.filter(|_| !knows_capacity),
            });
        }
        Ok(PooledStream::new(stream, state, server, open))
    }

    /// Asks if the circuit breaker lets an attempt of the request through, which each one asks, the
    /// first and those that follow. A half-open circuit lets one request through, whose attempts stop
    /// once one of them has failed.
    pub(crate) fn admits(&self, selection: &mut Selection, now: Instant) -> bool {
        let is_held = selection.trial.as_ref().is_some_and(|held| held.holds(now));
        if is_held {
            return true;
        }
        match self.upstream.admit(now) {
            Admission::Pass => true,
            Admission::Open => false,
            Admission::Trial(trial) => {
                selection.trial = Some(trial);
                true
            }
        }
    }

    /// A server has answered a request well: counts it, and closes the circuit where the request was to
    /// tell that.
    pub(crate) fn succeeded(&self, selection: &mut Selection, now: Instant) {
        self.upstream.succeeded(now);
        if let Some(trial) = selection.trial.take() {
            self.upstream.recovered(trial);
        }
    }

    /// Counts a request that its servers are asked, of which retries and hedges are a share.
    pub(crate) fn count_request(&self, now: Instant) {
        let settings = self.settings();
        if settings.retry.is_some() {
            self.upstream.retry_budget().count(now);
        }
        if settings.hedge.is_some() {
            self.upstream.hedge_budget().count(now);
        }
    }

    /// The selection of a server for a request of `client`: by the configured hash key, and by the affinity cookie.
    #[must_use]
    pub fn select(&self, head: &RequestHead, client: IpAddr) -> Selection {
        let settings = self.settings();
        let key = match &settings.balance {
            Balance::RingHash(on) => sticky::key(on, head, client),
            _ => None,
        };
        let sticky = settings.sticky.as_ref();
        let token = sticky.and_then(|sticky| sticky::read(&head.fields, &sticky.cookie));
        Selection::by(key, token)
    }

    /// Adds the affinity cookie of the server that responded, unless the client has sent it.
    ///
    /// # Errors
    /// Where the budget has no room for it.
    pub(crate) fn set_affinity(
        &self,
        selection: &Selection,
        state: &Arc<TargetState>,
        fields: &mut FieldBlock,
    ) -> Result<(), GatewayError> {
        const COOKIE_BYTES: usize = 256;
        let Some(sticky) = &self.settings().sticky else {
            return Ok(());
        };
        let Some(of_server) = self
            .token_of(state)
            .filter(|of_server| selection.token != Some(*of_server))
        else {
            return Ok(());
        };
        let mut room = [0; COOKIE_BYTES];
        let mut out = Encoder::new(&mut room);
        let cookie = Cookie {
            name: &sticky.cookie,
            secure: selection.secure,
            token: of_server,
            max_age_s: sticky.ttl.as_secs(),
        };
        sticky::write(&mut out, cookie);
        let written = out.finish().expect("names of cookies are bounded");
        Ok(fields.append(b"set-cookie", &room[..written])?)
    }

    /// `None` if the server is no candidate any more: clients get no affinity to it.
    fn token_of(&self, state: &Arc<TargetState>) -> Option<u64> {
        let picker = self.picker.borrow();
        let mut candidates = picker.candidates().iter();
        let known = candidates.find(|known| Arc::ptr_eq(&known.state, state))?;
        Some(known.token)
    }
}
