//! The state of one exchange: the stage that it is in, and all that outlives a stage.
//!
//! A stage holds what it needs. Each says when waiting ends ([`Stage::due`]), and one place, [`Stage::poll_waiting`],
//! acts on it and on a client that leaves.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Holding, Reservation};
use steppe_net::Deadline;

use super::begin::{Begun, Unrouted, begin};
use super::env::{Env, Reused};
use super::forwarding::{Cut, Failed};
use super::journal::{FailedAt, Journal};
use super::on_route::OnRoute;
use super::refusing::Refusing;
use super::request::{End, Request};
use super::routed::Routed;
use super::subrequest::StartSubrequest;
use super::tunneling::Tunneling;
use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::filter::Identity;
use crate::gateway::client::ClientContext;
use crate::gateway::web::WebCall;

/// One exchange. A worker uses its memory again for the next request, so that an idle connection has none and a request
/// allocates none.
pub(super) struct Exchange {
    pub(super) stage: Stage,
    pub(super) journal: Journal,
    /// The translation of a call of gRPC-Web; taken while the exchange is polled.
    pub(super) web: Option<Box<WebCall>>,
    /// The client, where it is not the connection's.
    pub(super) visitor: Option<Box<Holding>>,
    reused: Reused,
    _charge: Reservation,
}

/// The stage that an exchange is in.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation a request"
)]
pub(super) enum Stage {
    /// Filters see the request, then it is answered.
    OnRoute(OnRoute),
    /// The exchange has become a tunnel.
    Tunneling(Tunneling),
    /// A response of the gateway's own is being sent.
    Refusing(Refusing),
    /// The exchange is over.
    Over(End),
}

/// The surroundings of one poll.
pub(super) struct Surroundings<'a, 'cx> {
    pub(super) cx: &'a mut Context<'cx>,
    pub(super) now: Instant,
    pub(super) client: &'a ClientContext,
    pub(super) start_subrequest: StartSubrequest,
}

impl Exchange {
    /// An exchange that is over, whose memory `charge` pays for.
    pub(super) fn new(charge: Reservation, now: Instant) -> Self {
        Self {
            stage: Stage::Over(End::Aborted),
            journal: Journal::new(now),
            web: None,
            visitor: None,
            reused: Reused::default(),
            _charge: charge,
        }
    }

    /// Frees everything of the exchange, and keeps the memory.
    pub(super) fn reset(&mut self) {
        let Self {
            stage,
            journal,
            web,
            visitor,
            reused,
            _charge,
        } = self;
        *stage = Stage::Over(End::Aborted);
        *journal = Journal::new(journal.began_at);
        (*web, *visitor) = (None, None);
        reused.empty();
    }

    /// Begins to serve `request`.
    pub(super) fn begin<D>(&mut self, around: Surroundings<'_, '_>, down: &mut D, request: Request)
    where
        D: Downstream + ?Sized,
    {
        let (mut env, stage) = self.env(around, down);
        let enter = |on_route| *stage = Stage::OnRoute(on_route);
        match begin(&mut env, request, enter) {
            Ok(Begun { client, web }) => {
                let visitor = env.client.visit(client).map(Box::new);
                (self.web, self.visitor) = (web, visitor);
            }
            Err(Unrouted::Error(error)) => {
                *stage = Stage::refused(Refusing::refuse(error, &mut env))
            }
            Err(Unrouted::Status(status, field)) => {
                let field = field.as_ref().map(|(name, value)| (*name, value.as_str()));
                *stage = Stage::refused(Refusing::respond(status, field, &mut env));
            }
        }
    }

    /// Begins to answer with an error.
    pub(super) fn reject<D>(
        &mut self,
        around: Surroundings<'_, '_>,
        down: &mut D,
        error: GatewayError,
    ) where
        D: Downstream + ?Sized,
    {
        let (mut env, stage) = self.env(around, down);
        *stage = Stage::refused(Refusing::refuse(error, &mut env));
    }

    /// Begins with a request that has a route.
    pub(super) fn begin_on_route(&mut self, on_route: OnRoute) {
        self.stage = Stage::OnRoute(on_route);
    }

    /// The client's identity, as far as filters found it out.
    pub(super) fn identity(&self) -> &Identity {
        &self.reused.identity
    }

    /// Ready when the exchange is over. `deadline` is the calling task's, and moved meanwhile.
    pub(super) fn poll<D>(
        &mut self,
        around: Surroundings<'_, '_>,
        deadline: &Deadline,
        down: &mut D,
    ) -> Poll<End>
    where
        D: Downstream + ?Sized,
    {
        let (mut env, stage) = self.env(around, down);
        stage.poll(&mut env, deadline)
    }

    fn env<'a, 'cx, D: ?Sized>(
        &'a mut self,
        around: Surroundings<'a, 'cx>,
        down: &'a mut D,
    ) -> (Env<'a, 'cx, D>, &'a mut Stage) {
        let env = Env {
            cx: around.cx,
            now: around.now,
            client: around.client,
            down,
            journal: &mut self.journal,
            reused: &self.reused,
            start_subrequest: around.start_subrequest,
        };
        (env, &mut self.stage)
    }
}

impl Stage {
    fn refused(refusing: Option<Refusing>) -> Self {
        refusing.map_or(Self::Over(End::Aborted), Self::Refusing)
    }

    fn poll<D>(&mut self, env: &mut Env<'_, '_, D>, deadline: &Deadline) -> Poll<End>
    where
        D: Downstream + ?Sized,
    {
        loop {
            if let Self::Over(end) = self {
                deadline.clear();
                return Poll::Ready(*end);
            }
            if self.advance(env).is_pending() {
                let error = ready!(self.poll_waiting(env, deadline));
                match self {
                    Self::Refusing(_) => *self = Self::Over(End::Aborted),
                    _ => self.fail(&error, env),
                }
            }
        }
    }

    /// Ready when the stage has to be polled again; pending while it waits, also as a tunnel that has begun.
    fn advance<D>(&mut self, env: &mut Env<'_, '_, D>) -> Poll<()>
    where
        D: Downstream + ?Sized,
    {
        match self {
            Self::OnRoute(on_route) => match on_route.poll(env) {
                Poll::Pending => {
                    if on_route.is_tunnel() {
                        self.begin_tunnel();
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Ok(end)) => *self = Self::Over(end),
                Poll::Ready(Err(Failed::Unanswered(error))) => self.fail(&error, env),
                Poll::Ready(Err(Failed::Cut(error, cut))) => {
                    self.log_failure(&error, env);
                    *self = Self::refused(Refusing::cut(&error, cut, env));
                }
            },
            Self::Tunneling(tunneling) => match ready!(tunneling.poll(env)) {
                Ok(()) => *self = Self::Over(End::Tunnel),
                Err(error) if env.down.retract() => self.fail(&error, env),
                Err(error) => *self = Self::refused(Refusing::cut(&error, Cut::Elsewhere, env)),
            },
            Self::Refusing(refusing) => *self = Self::Over(ready!(refusing.poll(env))),
            Self::Over(_) => {}
        }
        Poll::Ready(())
    }

    /// Waits until waiting is of no use any more: the client has gone, or the earliest deadline has passed.
    fn poll_waiting<D>(&self, env: &mut Env<'_, '_, D>, deadline: &Deadline) -> Poll<GatewayError>
    where
        D: Downstream + ?Sized,
    {
        if !self.reads_client() && env.down.poll_gone(env.cx).is_ready() {
            return Poll::Ready(GatewayError::client_gone());
        }
        let due = self.due(env);
        if let Some(due) = due.filter(|due| due.has_passed(env.now)) {
            return Poll::Ready(GatewayError::timeout(due.reason));
        }
        deadline.set_at(due.map(|due| due.at));
        // The sweep wakes this task when it has passed.
        let _ = deadline.poll_passed(env.cx);
        Poll::Pending
    }

    /// The earliest deadline of the stage, with its reason: the one place that knows all of them.
    fn due<D>(&self, env: &Env<'_, '_, D>) -> Option<Due>
    where
        D: Downstream + ?Sized,
    {
        match self {
            Self::OnRoute(on_route) => on_route.due(env),
            Self::Tunneling(tunneling) => tunneling.due(),
            Self::Refusing(refusing) => refusing.due(),
            Self::Over(_) => None,
        }
    }

    /// True while the stage itself sees a client that leaves.
    fn reads_client(&self) -> bool {
        match self {
            Self::OnRoute(on_route) => on_route.reads_client(),
            Self::Tunneling(_) => true,
            Self::Refusing(_) | Self::Over(_) => false,
        }
    }

    fn begin_tunnel(&mut self) {
        if let Self::OnRoute(on_route) = std::mem::replace(self, Self::Over(End::Aborted)) {
            *self = match on_route.into_tunnel() {
                Some(tunneling) => Self::Tunneling(tunneling),
                None => Self::Over(End::Aborted),
            };
        }
    }

    /// Answers with an error. What the request held is free for others before that.
    fn fail<D>(&mut self, error: &GatewayError, env: &mut Env<'_, '_, D>)
    where
        D: Downstream + ?Sized,
    {
        if let Self::OnRoute(on_route) = self {
            on_route.stop_connecting(error, env);
        }
        self.log_failure(error, env);
        *self = Self::Over(End::Aborted);
        *self = Self::refused(Refusing::refuse(*error, env));
    }

    /// Queues a line of the error log where `error` is the upstream's.
    fn log_failure<D: ?Sized>(&self, error: &GatewayError, env: &mut Env<'_, '_, D>) {
        if let Some(routed) = self.routed() {
            env.journal.failed(
                error,
                &FailedAt {
                    client: env.client,
                    now: env.now,
                    pool: routed.pool(),
                    selection: &routed.selection,
                },
            );
        }
    }

    /// The request, while it has a route.
    fn routed(&self) -> Option<&Routed> {
        match self {
            Self::OnRoute(on_route) => Some(on_route.routed()),
            Self::Tunneling(_) | Self::Refusing(_) | Self::Over(_) => None,
        }
    }
}
