//! A request is answered: by a server, one attempt after the other, or by a response made here.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};

use super::env::Env;
use super::hedging::Hedge;
use super::relaying::Relaying;
use super::request::End;
use super::retry::{self, Ended, NextAttempt};
use super::routed::Routed;
use super::tunneling::Tunneling;
use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::files::FileResponder;
use crate::filter::{Author, Serve};
use crate::gateway::attempt::Attempt;
use crate::gateway::snapshot::RouteTarget;
use crate::guest::GuestRequest;
use crate::head::RequestHead;
use crate::local::Local;
use crate::metrics::CloseReason;
use crate::relay::Relayed;
use crate::respond::{Respond, Responding};
use crate::upstream::{Call, Failure, Pool, Selection};

/// The attempt at a request that is being answered.
#[derive(Default)]
pub(super) struct Forwarding {
    attempt: Attempting,
}

#[derive(Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation a request"
)]
enum Attempting {
    /// A connection to a server is being established, in a box: most requests find one that is there.
    Connecting(Connecting),
    /// The request and its response go from side to side.
    Relaying(Relaying),
    /// The last attempt is over, or none has begun.
    #[default]
    Over,
}

/// A connection that is being established, for a request that has this head.
struct Connecting {
    connected: Pin<Box<dyn Future<Output = Connected>>>,
    /// The selection comes back here when the future is over or dropped.
    selection: Rc<Cell<Selection>>,
}

/// The head of the request, and the call that it is to be sent by.
type Connected = (RequestHead, Result<Call, GatewayError>);

/// A selection that a future has until it is dropped.
struct Lent {
    selection: Selection,
    owner: Rc<Cell<Selection>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.owner.set(std::mem::take(&mut self.selection));
    }
}

/// The author of the answer to a request that its filters let pass, or not.
pub(super) enum AnswerFrom {
    /// The target of the route.
    Target,
    /// The node, or one of its filters.
    Gateway(Respond),
    /// A filter that has a response, or gets one from somewhere.
    Filter(Serve),
}

/// A request whose filters have decided.
pub(super) struct Decided {
    pub(super) head: RequestHead,
    pub(super) from: AnswerFrom,
}

/// An error that ends an exchange.
pub(super) enum Failed {
    /// Nothing of a response is out: the client can be answered.
    Unanswered(GatewayError),
    /// The response was cut.
    Cut(GatewayError, Cut),
}

/// The point at which a response was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The head is out, and its content has not ended: trailers can follow.
    InContent,
    /// Elsewhere.
    Elsewhere,
}

impl From<GatewayError> for Failed {
    fn from(error: GatewayError) -> Self {
        Self::Unanswered(error)
    }
}

impl Forwarding {
    /// Begins the first attempt.
    ///
    /// # Errors
    /// The error that the client is answered with.
    pub(super) fn begin<D>(
        &mut self,
        decided: Decided,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Result<(), GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let Decided { head, from } = decided;
        self.attempt = match from {
            AnswerFrom::Target => Attempting::first(routed, head, env)?,
            AnswerFrom::Gateway(respond) => {
                Attempting::respond(routed, &head, Answer::of(&respond), env)?
            }
            AnswerFrom::Filter(serve) => {
                env.journal.log.served_from = Some(serve.from);
                // It is not sent anywhere.
                routed.replay.forget();
                Attempting::local(routed, Attempt::Served(Local(serve.by)), env)?
            }
        };
        Ok(())
    }

    /// The earliest moment at which waiting ends.
    pub(super) fn due(&self, routed: &Routed) -> Option<Due> {
        match &self.attempt {
            Attempting::Connecting(_) => Due::total(routed.timeouts.total_at),
            Attempting::Relaying(relaying) => relaying.due(),
            Attempting::Over => None,
        }
    }

    /// True while the relay looks after the client, and shows that it leaves.
    pub(super) fn reads_client(&self) -> bool {
        matches!(self.attempt, Attempting::Relaying(_))
    }

    /// Ready when the exchange is over.
    pub(super) fn poll<D>(
        &mut self,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Poll<Result<End, Failed>>
    where
        D: Downstream + ?Sized,
    {
        loop {
            match &mut self.attempt {
                Attempting::Connecting(connecting) => {
                    let (head, call) = ready!(connecting.connected.as_mut().poll(env.cx));
                    routed.selection = connecting.selection.take();
                    self.attempt = Attempting::Over;
                    // Connecting asks one server after the other.
                    env.journal.resends = routed.selection.sent_again();
                    self.attempt = Attempting::send(routed, head, call?, env)?;
                }
                Attempting::Relaying(relaying) => {
                    let relayed = ready!(relaying.poll(routed, env));
                    if let Some(end) = self.attempt_ended(&relayed, routed, env)? {
                        return Poll::Ready(Ok(end));
                    }
                }
                Attempting::Over => return Poll::Ready(Ok(End::Aborted)),
            }
        }
    }

    /// An attempt is over, and perhaps the exchange: gives its end, or begins another attempt.
    fn attempt_ended<D>(
        &mut self,
        relayed: &Result<Relayed, GatewayError>,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Option<End>, Failed>
    where
        D: Downstream + ?Sized,
    {
        let attempt = std::mem::replace(&mut self.attempt, Attempting::Over);
        let Attempting::Relaying(relaying) = attempt else {
            return Ok(Some(End::Aborted));
        };
        let Relaying {
            attempt,
            relay,
            standing,
            hedge,
            ..
        } = relaying;
        if let Attempt::Call(call) = attempt {
            let ended = Ended {
                call,
                relayed,
                standing,
                is_client_late: relay.is_client_late(env.now),
                second: match hedge {
                    Some(Hedge::Connecting(second)) => Some(second),
                    _ => None,
                },
                now: env.now,
            };
            if let Some(next) = retry::next(ended, routed, &mut env.journal.log) {
                env.journal.resends = routed.selection.sent_again();
                self.attempt = Attempting::again(routed, next, env)?;
                return Ok(None);
            }
        }
        match relayed {
            Ok(Relayed::Tunnel) => Ok(Some(End::Tunnel)),
            Ok(Relayed::Response) => Ok(Some(End::Response)),
            // Part of the response is out: a cut connection is all that can tell the client. A call of gRPC can be told
            // more.
            Err(error) if relay.has_response_begun() && !env.down.retract() => {
                let cut = match relay.is_response_open() {
                    true => Cut::InContent,
                    false => Cut::Elsewhere,
                };
                Err(Failed::Cut(*error, cut))
            }
            Err(error) => Err(Failed::Unanswered(*error)),
        }
    }

    /// Waits for a connection no longer, for `error`. The server that was to take it counts as tried.
    pub(super) fn stop_connecting<D: ?Sized>(
        &mut self,
        error: &GatewayError,
        routed: &mut Routed,
        env: &Env<'_, '_, D>,
    ) {
        let Attempting::Connecting(connecting) = &self.attempt else {
            return;
        };
        let selection = Rc::clone(&connecting.selection);
        self.attempt = Attempting::Over;
        routed.selection = selection.take();
        let is_first = !routed.selection.has_tried() && routed.selection.sent_again() == 0;
        let Some((server, since)) = routed.selection.take_connecting() else {
            return;
        };
        // A server that takes longer than `timeouts.connect` fails by that. One that takes the rest of `timeouts.total`
        // was perhaps asked late: it failed only where the time of the exchange was its own.
        let is_to_blame = error.reason == CloseReason::TotalTimeout
            && is_first
            && routed.has_fair_time(env.journal.began_at, since);
        if is_to_blame && let Some(pool) = routed.pool() {
            let elapsed = env.now.saturating_duration_since(since);
            let failure = Failure::ConnectTimeout;
            pool.upstream().failed(&server, failure, elapsed);
        }
        routed.selection.failed_at(&server);
    }

    /// Leaves the stage for a tunnel, which holds no route. `None`: the response made none.
    pub(super) fn into_tunnel(self) -> Option<Tunneling> {
        match self.attempt {
            Attempting::Relaying(Relaying {
                attempt: Attempt::Call(call),
                relay,
                standing,
                ..
            }) if standing.is_tunnel => Some(Tunneling::new(relay, call.into_tunnel())),
            _ => None,
        }
    }

    /// True once the response has made a tunnel of the exchange.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(&self.attempt, Attempting::Relaying(relaying) if relaying.standing.is_tunnel)
    }
}

/// A response of the configuration's or of a filter's words, and its author.
struct Answer<'a> {
    respond: &'a Respond,
    author: Author,
}

impl<'a> Answer<'a> {
    fn of(respond: &'a Respond) -> Self {
        let author = Author::Gateway;
        Self { respond, author }
    }

    fn of_upstream(respond: &'a Respond) -> Self {
        let author = Author::Upstream;
        Self { respond, author }
    }
}

impl Attempting {
    /// The first attempt at the target of the route.
    fn first<D>(
        routed: &mut Routed,
        head: RequestHead,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Self, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let route = Rc::clone(&routed.route);
        match &route.target {
            RouteTarget::Servers(pool) => {
                let is_admitted = pool.admits(&mut routed.selection, env.now);
                match &route.fallback {
                    _ if is_admitted => {
                        // Filters may answer a request, or refuse it, before it comes here.
                        pool.count_request(env.now);
                        Self::checkout(pool, routed, head, env)
                    }
                    Some(respond) => {
                        Self::respond(routed, &head, Answer::of_upstream(respond), env)
                    }
                    None => Err(GatewayError::upstream(CloseReason::CircuitOpen, 503)),
                }
            }
            RouteTarget::Respond(respond) => {
                Self::respond(routed, &head, Answer::of_upstream(respond), env)
            }
            RouteTarget::Files(served) => {
                let responder = FileResponder::new(head, served, &route.lease)?;
                Self::local(routed, Attempt::Files(Box::new(Local(responder))), env)
            }
            RouteTarget::Redirect(redirect) => {
                let respond = redirect.answer(&head)?;
                Self::respond(routed, &head, Answer::of(&respond), env)
            }
            RouteTarget::Guest(guest, resource) => {
                let visit = guest.receive(GuestRequest {
                    resource,
                    head,
                    client: routed.client,
                    lease: &route.lease,
                    ends_at: routed.timeouts.total_at,
                })?;
                Self::local(routed, Attempt::Guest(visit), env)
            }
        }
    }

    /// Another attempt, as `next` says.
    fn again<D>(
        routed: &mut Routed,
        next: NextAttempt,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Self, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        match next {
            NextAttempt::Another(head, pool) => Self::checkout(&pool, routed, head, env),
            NextAttempt::Same(head, server) => {
                let ends = routed.ends(env.client);
                Ok(Self::connect(routed, head, async move |selection| {
                    server.connect(selection, ends).await
                }))
            }
            NextAttempt::Second(head, second) => {
                Ok(Self::connect(routed, head, async move |selection| {
                    second.alone(selection).await
                }))
            }
        }
    }

    /// An attempt at the server whose turn it is.
    fn checkout<D>(
        pool: &Rc<Pool>,
        routed: &mut Routed,
        head: RequestHead,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Self, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        if let Some(call) = Call::checkout(pool, &mut routed.selection, env.now)? {
            return Self::send(routed, head, call, env);
        }
        let (pool, ends) = (Rc::clone(pool), routed.ends(env.client));
        Ok(Self::connect(routed, head, async move |selection| {
            Call::connect(pool, selection, ends).await
        }))
    }

    /// Waits for a connection, on which `head` is sent then.
    fn connect(
        routed: &mut Routed,
        head: RequestHead,
        connect: impl AsyncFnOnce(&mut Selection) -> Result<Call, GatewayError> + 'static,
    ) -> Self {
        let selection = Rc::<Cell<Selection>>::default();
        let mut lent = Lent {
            selection: std::mem::take(&mut routed.selection),
            owner: Rc::clone(&selection),
        };
        let connected = Box::pin(async move {
            let call = connect(&mut lent.selection).await;
            (head, call)
        });
        Self::Connecting(Connecting {
            connected,
            selection,
        })
    }

    /// Sends the request to a server.
    fn send<D>(
        routed: &mut Routed,
        mut head: RequestHead,
        mut call: Call,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Self, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let started = routed
            .check_time(env.now)
            .and_then(|()| match env.journal.grpc_call {
                Some(_) => routed.shorten_timeout(&mut head, env.now),
                None => Ok(()),
            })
            .and_then(|()| call.start(&head, &routed.route.lease, env.now));
        if let Err(error) = started {
            call.put_back_unused(env.now);
            return Err(error);
        }
        routed.replay.keep_head(head);
        env.journal.asked(call.server());
        Ok(Self::relay(routed, Attempt::Call(call), env))
    }

    /// Answers with `answer`.
    fn respond<D>(
        routed: &mut Routed,
        head: &RequestHead,
        answer: Answer<'_>,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Self, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let responding = Responding::new(answer.respond, head.method(), &routed.route.lease)?;
        let attempt = Attempt::Respond(Local(responding), answer.author);
        Self::local(routed, attempt, env)
    }

    /// Relays a response that is made here.
    fn local<D>(
        routed: &mut Routed,
        attempt: Attempt,
        env: &mut Env<'_, '_, D>,
    ) -> Result<Self, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        routed.check_time(env.now)?;
        Ok(Self::relay(routed, attempt, env))
    }

    /// Relays from `attempt`, whose request has started.
    fn relay<D>(routed: &mut Routed, attempt: Attempt, env: &mut Env<'_, '_, D>) -> Self
    where
        D: Downstream + ?Sized,
    {
        if let Some(call) = &mut env.journal.grpc_call {
            call.ask();
        }
        routed.replay.rewind();
        Self::Relaying(Relaying::new(attempt, routed, env))
    }
}
