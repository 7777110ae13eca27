//! One request on its way through the servers of its upstream, until one has served it.
//!
//! Invariant: a request goes out again only while no byte of a response has reached
//! the client, and only where asking twice does what asking once does (RFC 9110
//! §9.2.2) or no server has seen any of it.
//!
//! Content is sent again from what the budget could keep of it. Where that was not all, only a
//! server that took no connection is passed over.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use steppe_mem::{Buffer, Lease};

use super::{Connection, Gateway, OnHead, Outcome, encode_request, patience, relay};
use crate::config::RetryOn;
use crate::error::{GatewayError, Origin};
use crate::h1::Outgoing;
use crate::head::{BodyLength, RequestHead, ResponseHead};
use crate::limits::REPLAY_BYTES_MAX;
use crate::metrics::CloseReason;
use crate::relay::Patience;
use crate::upstream::{Connected, Failure, Pool, Selection, TargetState};

/// A request that is to be forwarded.
pub(super) struct Forward<'a> {
    connection: &'a mut Connection,
    gateway: &'a Gateway,
    route: usize,
    pool: &'a Rc<Pool>,
    lease: &'a Lease,
    selection: Selection,
    patience: Patience,
}

/// What came of one try.
struct Tried {
    outcome: Outcome,
    /// What the server is to be blamed for.
    failure: Option<Failure>,
    /// A response was turned down, for the request to be sent again.
    is_turned_down: bool,
}

impl<'a> Forward<'a> {
    pub(super) fn new(
        connection: &'a mut Connection,
        gateway: &'a Gateway,
        route: usize,
        pool: &'a Rc<Pool>,
        lease: &'a Lease,
        selection: Selection,
    ) -> Self {
        let patience = patience(gateway, &connection.server, route, Some(pool));
        Self {
            connection,
            gateway,
            route,
            pool,
            lease,
            selection,
            patience,
        }
    }

    /// Takes the head as soon as a server can have it.
    pub(super) async fn run(&mut self, head: &mut Option<RequestHead>) -> Outcome {
        match self.begin(head).await {
            Ok((connected, out, outgoing)) => self.forward(connected, out, outgoing).await,
            Err(error) => Outcome::failed(error),
        }
    }

    async fn begin(
        &mut self,
        head: &mut Option<RequestHead>,
    ) -> Result<(Box<Connected>, Buffer, Outgoing), GatewayError> {
        let connected = self.pool.checkout(&mut self.selection).await?;
        // Its bytes are in `out` below; what it held is free for others then.
        let head = head.take().expect("a request was read");
        let outgoing = Outgoing {
            length: head.length,
            is_head: head.method() == b"HEAD",
            asks_to_upgrade: head.upgrade().is_some(),
            is_replayable: head.upgrade().is_none()
                && head.is_idempotent()
                // Else it names its first server as its host.
                && !head.authority().is_empty()
                && may_be_kept(head.length),
        };
        let out = encode_request(self.connection, &head, self.pool, &connected, self.lease)?;
        Ok((connected, out, outgoing))
    }

    async fn forward(
        &mut self,
        mut connected: Box<Connected>,
        mut out: Buffer,
        mut outgoing: Outgoing,
    ) -> Outcome {
        loop {
            if self.connection.this.access.is_some() {
                self.connection.notes.server = Some(Arc::clone(connected.split().1));
            }
            connected.connection.start(out, outgoing, self.lease);
            let tried = self.attempt(&mut connected, outgoing).await;
            let is_stale = is_stale(&tried.outcome);
            let is_kept = connected.connection.is_request_kept();
            let goes_on = is_kept && (is_stale || self.is_retried(&tried, connected.split().1));
            let again = goes_on.then(|| connected.connection.take_request());
            let Some(request) = again.flatten() else {
                self.pool.put_back(connected, Instant::now());
                return tried.outcome;
            };
            out = request.out;
            if request.is_whole {
                outgoing.length = BodyLength::Empty;
            }
            let next = if is_stale {
                self.reconnect(connected).await
            } else {
                self.selection.failed_at(&connected);
                // It may be in the middle of a response that nobody wants.
                drop(connected);
                self.pool.checkout(&mut self.selection).await
            };
            connected = match next {
                Ok(connected) => connected,
                Err(error) => return Outcome::failed(error),
            };
        }
    }

    /// A connection that died idle says nothing of its server, so that has the first
    /// word; one that takes no connection either is passed over as always.
    async fn reconnect(&mut self, stale: Box<Connected>) -> Result<Box<Connected>, GatewayError> {
        let error = match self.pool.reconnect(&stale).await {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        self.selection.failed_at(&stale);
        drop(stale);
        let is_server = error.origin == Origin::Upstream;
        if is_server && self.pool.goes_on(&mut self.selection) {
            return self.pool.checkout(&mut self.selection).await;
        }
        Err(error)
    }

    async fn attempt(&mut self, connected: &mut Connected, outgoing: Outgoing) -> Tried {
        let now = Instant::now();
        let has_fair_time = self.has_fair_time(now);
        let (server, state) = connected.split();
        let (pool, selection) = (self.pool, &mut self.selection);
        let mut verdict = Verdict {
            has_fair_time,
            ..Verdict::default()
        };
        let accept = |head: &mut ResponseHead| {
            let answered_at = Instant::now();
            let elapsed = answered_at.saturating_duration_since(now);
            verdict.failure = Failure::status(head.status);
            verdict.has_answered = true;
            match verdict.failure {
                Some(failure) => pool.upstream().failed(state, failure, elapsed),
                None => state.answered(elapsed, answered_at),
            }
            let on = RetryOn::status(head.status).filter(|_| head.is_request_kept);
            verdict.is_turned_down = on.is_some_and(|on| pool.may_retry(selection, on, state));
            if verdict.is_turned_down {
                let reason = CloseReason::UpstreamReset;
                return Err(GatewayError::upstream(reason, head.status));
            }
            pool.stick(selection.token(), state, &mut head.fields)
        };
        let told = OnHead {
            patience: self.patience,
            now,
            accept,
        };
        let outcome = relay(self.connection, self.gateway, self.route, server, told).await;
        verdict.close(outcome, outgoing, pool, state, now)
    }

    /// Whether a try that begins now has at least half of the time that the exchange may take:
    /// otherwise it is not the server that made it late.
    fn has_fair_time(&self, now: Instant) -> bool {
        let Some(ends_at) = self.patience.total_at else {
            return true;
        };
        let whole = ends_at.saturating_duration_since(self.connection.server.began_at());
        2 * ends_at.saturating_duration_since(now) >= whole
    }

    /// Whether a request that failed before its response began is sent again: not once its
    /// time is over.
    fn is_retried(&mut self, tried: &Tried, state: &Arc<TargetState>) -> bool {
        if tried.is_turned_down {
            return true;
        }
        let ends_at = self.patience.total_at;
        if ends_at.is_some_and(|ends_at| Instant::now() >= ends_at) {
            return false;
        }
        let on = match tried.failure {
            Some(Failure::Reset | Failure::Garbage) => RetryOn::RESET,
            Some(Failure::Timeout) => RetryOn::TIMEOUT,
            _ => return false,
        };
        let is_unseen = tried.outcome.result.is_err() && tried.outcome.status.is_none();
        is_unseen && self.pool.may_retry(&mut self.selection, on, state)
    }
}

/// What a server is to be blamed for in one try.
#[derive(Debug, Default)]
struct Verdict {
    failure: Option<Failure>,
    /// See [`Forward::has_fair_time`].
    has_fair_time: bool,
    has_answered: bool,
    is_turned_down: bool,
}

impl Verdict {
    fn close(
        self,
        outcome: Outcome,
        outgoing: Outgoing,
        pool: &Pool,
        state: &Arc<TargetState>,
        began_at: Instant,
    ) -> Tried {
        let mut failure = self.failure;
        match &outcome.result {
            _ if failure.is_some() => {}
            Ok(_) => state.succeeded(),
            Err(error) => {
                failure = blame(error, &self, outgoing);
                if let Some(failure) = failure {
                    let elapsed = began_at.elapsed();
                    pool.upstream().failed(state, failure, elapsed);
                }
            }
        }
        Tried {
            outcome,
            failure,
            is_turned_down: self.is_turned_down,
        }
    }
}

/// What an error says of the server. A client that is slow, or leaves, says nothing.
fn blame(error: &GatewayError, verdict: &Verdict, outgoing: Outgoing) -> Option<Failure> {
    match error.reason {
        CloseReason::UpstreamReset if !error.is_stale_connection => Some(Failure::Reset),
        CloseReason::BadResponse => Some(Failure::Garbage),
        CloseReason::FirstByteTimeout | CloseReason::UpstreamIdleTimeout => Some(Failure::Timeout),
        // With content, or once the response has begun, the client may be what took so long.
        CloseReason::TotalTimeout
            if verdict.has_fair_time
                && !verdict.has_answered
                && outgoing.length == BodyLength::Empty =>
        {
            Some(Failure::Timeout)
        }
        _ => None,
    }
}

/// Whether a request's content is worth being kept. Of what comes in chunks nobody knows.
fn may_be_kept(length: BodyLength) -> bool {
    match length {
        BodyLength::Known(bytes) => bytes <= REPLAY_BYTES_MAX as u64,
        BodyLength::Empty | BodyLength::Chunked | BodyLength::UntilEnd => true,
    }
}

fn is_stale(outcome: &Outcome) -> bool {
    matches!(&outcome.result, Err(error) if error.is_stale_connection)
}
