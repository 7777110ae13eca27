//! The attempts of an exchange: a stream to a server or a local response, and its relay.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use steppe_net::Deadline;
use tokio::task::spawn_local;

use super::retry::Verdict;
use super::tap::ExchangeTap;
use super::{End, Exchange, Stage};
use crate::error::GatewayError;
use crate::exchange::{Downstream, Outgoing};
use crate::filter::Author;
use crate::filter::attached::{Filtered, Progress};
use crate::gateway::attempt::Attempt;
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::{RouteTarget, WorkerRoute};
use crate::guest::GuestRequest;
use crate::local::Local;
use crate::metrics::CloseReason;
use crate::relay::{Relay, Relayed};
use crate::respond::{Respond, Responding};
use crate::upstream::Next;

impl Exchange {
    pub(super) fn start_respond(
        &mut self,
        respond: &Respond,
        author: Author,
        now: Instant,
    ) -> Result<(), GatewayError> {
        let core = &self.core;
        let head = core.head.as_ref().expect("no attempt has begun");
        let lease = &core.route.as_ref().expect("it was routed").lease;
        let respond = Responding::new(respond, head.method(), lease)?;
        self.start(Attempt::Respond(Local(respond), author), now)
    }

    /// Begins the first attempt at the target of the route.
    pub(super) fn start_first(
        &mut self,
        client: &ClientContext,
        route: &WorkerRoute,
        now: Instant,
    ) -> Result<(), GatewayError> {
        match &route.target {
            RouteTarget::Servers(pool) => {
                let is_admitted = pool.admits(&mut self.core.selection, now);
                match &route.fallback {
                    _ if is_admitted => self.checkout(client, now),
                    Some(respond) => self.start_respond(respond, Author::Upstream, now),
                    None => Err(GatewayError::upstream(CloseReason::CircuitOpen, 503)),
                }
            }
            RouteTarget::Respond(respond) => self.start_respond(respond, Author::Upstream, now),
            RouteTarget::Files(served) => {
                let head = self.core.head.take().expect("no attempt has begun");
                self.start(Attempt::files(head, served, &route.lease)?, now)
            }
            RouteTarget::Redirect(redirect) => {
                let head = self.core.head.as_ref().expect("no attempt has begun");
                let respond = redirect.answer(head)?;
                self.start_respond(&respond, Author::Gateway, now)
            }
            RouteTarget::Guest(guest, resource) => {
                let visit = guest.receive(GuestRequest {
                    resource,
                    head: self.core.head.take().expect("no attempt has begun"),
                    client: self.core.log.client.expect("it was routed"),
                    lease: &route.lease,
                    ends_at: self.core.timeouts.total_at,
                })?;
                self.start(Attempt::Guest(visit), now)
            }
        }
    }

    /// Begins an attempt at the server whose turn it is.
    pub(super) fn checkout(
        &mut self,
        client: &ClientContext,
        now: Instant,
    ) -> Result<(), GatewayError> {
        let core = &mut self.core;
        let route = core.route.as_ref().expect("it was routed");
        let pool = route.pool().expect("it has servers");
        match pool.checkout(&mut core.selection)? {
            Next::Stream(stream) => {
                if pool.is_nearly_full(&stream) {
                    let (pool, target) = (Rc::clone(pool), stream.target());
                    spawn_local(async move { pool.connect_ahead(target).await });
                }
                self.start(Attempt::Stream(stream), now)
            }
            Next::Connect => {
                let selection = std::mem::take(&mut core.selection);
                let ends = core.log.client.and_then(|ip| client.ends(ip));
                self.stage = Stage::Connecting(Attempt::connect(Rc::clone(pool), selection, ends));
                Ok(())
            }
        }
    }

    /// Starts the request on `attempt`.
    pub(super) fn start(&mut self, mut attempt: Attempt, now: Instant) -> Result<(), GatewayError> {
        let core = &mut self.core;
        if core.timeouts.total_at.is_some_and(|at| at <= now) {
            return Err(GatewayError::timeout(CloseReason::TotalTimeout));
        }
        core.verdict = Verdict::new(now);
        core.verdict.has_fair_time = core.has_fair_time(now);
        core.shorten_timeout(now)?;
        if let Some(call) = &mut core.call {
            call.ask();
        }
        if let Some(head) = &core.head {
            let authority = match (&attempt, head.authority().is_empty()) {
                (Attempt::Stream(stream), true) => stream.authority(),
                _ => String::new(),
            };
            attempt.split().0.start(&Outgoing {
                head,
                authority: &authority,
                lease: &core.route.as_ref().expect("it was routed").lease,
            })?;
        }
        if let Attempt::Stream(stream) = &attempt {
            core.log.set_server(stream.state());
            core.trace_server(stream.state());
        }
        // What no later attempt needs is free for others.
        if !core.replay.is_kept() {
            core.head = None;
        }
        core.replay.rewind();
        self.hedge = match attempt {
            Attempt::Stream(_) => core.hedge(),
            _ => None,
        };
        self.relay = Relay::new(core.timeouts, now);
        self.progress = Progress::default();
        self.attempt = Some(attempt);
        self.stage = Stage::Relaying;
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn poll_relay<D>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        client: &ClientContext,
        deadline: &Deadline,
        down: &mut D,
    ) -> Poll<Result<(), GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        let mut polled = self.poll_attempt(cx, now, client, down);
        while polled.is_pending() && self.hedge.is_some() && self.poll_hedge(cx, client, now) {
            polled = self.poll_attempt(cx, now, client, down);
        }
        let Poll::Ready(result) = polled else {
            deadline.set_at(self.relay.deadline());
            // The sweep wakes this task when it has passed; the relay then knows.
            let _ = deadline.poll_passed(cx);
            return Poll::Pending;
        };
        deadline.clear();
        Poll::Ready(self.relayed(client, down, result, now))
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn poll_attempt<D>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        client: &ClientContext,
        down: &mut D,
    ) -> Poll<Result<Relayed, GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        let attempt = self.attempt.as_mut().expect("an attempt has begun");
        let author = attempt.author();
        let (upstream, target) = attempt.split();
        let mut tap = ExchangeTap {
            core: &mut self.core,
            filters: &self.filters,
            client,
            target,
            author,
        };
        if self.filters.borrow().is_empty() {
            self.relay.poll(cx, now, (down, upstream), &mut tap)
        } else {
            let lease = tap.core.route.as_ref().map(|route| route.lease.clone());
            let mut filtered = Filtered {
                upstream,
                filters: &self.filters,
                progress: &mut self.progress,
                lease: &lease.expect("tunnels have no filters"),
            };
            self.relay.poll(cx, now, (down, &mut filtered), &mut tap)
        }
    }

    /// An attempt is over, and perhaps the exchange.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn relayed<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        result: Result<Relayed, GatewayError>,
        now: Instant,
    ) -> Result<(), GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let has_begun = self.relay.has_response_begun();
        if !has_begun && self.hedge.is_some() && self.promote_hedge(&result, now) {
            return Ok(());
        }
        if let Some(Attempt::Stream(stream)) = self.attempt.take()
            && self.retry(client, stream, &result, now)?
        {
            return Ok(());
        }
        let end = match result {
            Ok(Relayed::Tunnel) => End::Tunnel,
            Ok(Relayed::Response) => End::Response,
            // Part of the response is out: a cut connection is all that can tell the client.
            // A call of gRPC can be told more.
            Err(error) if has_begun && !down.retract() => {
                client.count_closed(error.reason);
                self.core.log.reason = Some(error.reason);
                self.log_failure(client, &error, now);
                self.stage = self.stage_after_cut(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.stage = Stage::Over(end);
        Ok(())
    }
}
