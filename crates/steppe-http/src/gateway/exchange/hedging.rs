//! A second server is asked where the first takes long: the first head wins, and the other call is cancelled.
//!
//! The exchange has one attempt, as ever. Beside it a hedge, a [`Call`] of its own, sends what the first was sent, out
//! of [`Replay`], and waits for a head. It becomes the attempt when it has one, or when the first fails, so the relay,
//! the filters and the client see one upstream. Where the first fails while the connection to the second server is
//! being established, that connection is what the exchange waits for.
//!
//! Invariant: only what may be sent again is sent twice, never to the same server, and never once a byte of a
//! response has reached the client; the upstream's `hedge` and its budget allow it, and its circuit is closed.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_net::proxy_protocol::Ends;
use tokio::time::Sleep;

use super::env::Env;
use super::routed::Routed;
use crate::error::{GatewayError, Origin};
use crate::gateway::replay::{Repeats, Replay};
use crate::head::ResponseHead;
use crate::metrics::CloseReason;
use crate::relay::Relay;
use crate::upstream::{Call, Failure, Fault, Outcome, Pool, Selection, TargetState};

/// A second server, as far as it is asked.
pub(super) enum Hedge {
    /// The first server still has time.
    Waiting(Pin<Box<Sleep>>),
    /// A connection to the second one is being established.
    Connecting(Box<SecondConnect>),
    /// The second one is asked.
    Asking(Box<SecondCall>),
}

/// A connection to a second server that is being established.
pub(super) struct SecondConnect {
    pool: Rc<Pool>,
    ends: Option<Ends>,
    connected: Pin<Box<dyn Future<Output = Connected>>>,
}

/// The servers that were tried for a second call, and the call.
type Connected = (Selection, Result<Call, GatewayError>);

/// A call to a second server.
pub(super) struct SecondCall {
    call: Call,
    /// Parts of the request's content that it was given.
    sent: usize,
    /// The content is sent, or the server takes no more of it.
    is_out: bool,
}

/// The outcome of one poll of a hedge.
pub(super) enum Hedged {
    /// The hedge goes on.
    Waiting(Hedge),
    /// The second server has answered, well.
    Answered(Call, ResponseHead),
    /// No second server is asked any more.
    Over,
}

impl Hedge {
    /// The hedge of the attempt that begins now; `None`: no second server may be asked.
    pub(super) fn begin(routed: &Routed) -> Option<Self> {
        let pool = routed.pool()?;
        pool.settings().hedge?;
        let selection = &routed.selection;
        let is_first = !selection.has_tried() && selection.sent_again() == 0;
        // A client that stays with a server wants no other, and a circuit is probed by one.
        let is_free = selection.token().is_none() && !selection.is_trial();
        let may = is_first && is_free && routed.replay.repeats() == Repeats::Always;
        let after = pool.upstream().hedge_after().filter(|_| may)?;
        Some(Self::Waiting(Box::pin(tokio::time::sleep(after))))
    }

    /// Goes on with the hedge beside the first attempt.
    pub(super) fn poll<D: ?Sized>(
        mut self,
        first: &FirstAttempt<'_>,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Hedged {
        loop {
            // A request that can't be sent again any more is not sent twice either.
            if routed.replay.repeats() != Repeats::Always {
                return Hedged::Over;
            }
            let next = match self {
                Self::Waiting(mut sleep) => {
                    if sleep.as_mut().poll(env.cx).is_pending() {
                        return Hedged::Waiting(Self::Waiting(sleep));
                    }
                    first.ask_another(routed, env)
                }
                Self::Connecting(mut connecting) => {
                    let Poll::Ready((_, call)) = connecting.connected.as_mut().poll(env.cx) else {
                        return Hedged::Waiting(Self::Connecting(connecting));
                    };
                    // The circuit may have opened meanwhile.
                    let may = (routed.pool()).is_some_and(|pool| pool.lets_hedges_pass(env.now));
                    let call = call.ok().filter(|_| may);
                    call.and_then(|call| Self::ask(call, routed, env.now))
                }
                Self::Asking(mut second) => {
                    let Poll::Ready(head) = second.poll_head(env.cx, &mut routed.replay) else {
                        return Hedged::Waiting(Self::Asking(second));
                    };
                    return second.conclude(head, routed, env.now);
                }
            };
            match next {
                Some(next) => self = next,
                None => return Hedged::Over,
            }
        }
    }

    /// Sends the request's head to a second server.
    fn ask(mut call: Call, routed: &Routed, now: Instant) -> Option<Self> {
        let head = routed.replay.head()?;
        if call.start(head, &routed.route.lease, now).is_err() {
            call.put_back_unused(now);
            return None;
        }
        Some(Self::Asking(Box::new(SecondCall {
            call,
            sent: 0,
            is_out: false,
        })))
    }

    /// True while a second server is asked, or is about to be.
    pub(super) fn has_second(&self) -> bool {
        !matches!(self, Self::Waiting(_))
    }
}

/// True when a second server may go on alone after the first has failed with `error`.
pub(super) fn may_go_on(error: &GatewayError, routed: &Routed) -> bool {
    is_of_server(error) && routed.replay.repeats() == Repeats::Always
}

impl SecondConnect {
    /// A call to the second server after the first has failed, or to another where it takes no connection, as after any
    /// server that takes none.
    ///
    /// # Errors
    /// As [`Call::connect`].
    pub(super) async fn alone(
        self: Box<Self>,
        selection: &mut Selection,
    ) -> Result<Call, GatewayError> {
        let (beside, call) = self.connected.await;
        match call {
            Err(error) if error.origin == Origin::Upstream => {
                selection.failed_as(&beside);
                match self.pool.goes_on(selection) {
                    true => Call::connect(self.pool, selection, self.ends).await,
                    false => Err(error),
                }
            }
            call => call,
        }
    }
}

/// The attempt that a hedge stands beside.
pub(super) struct FirstAttempt<'a> {
    pub(super) server: &'a Arc<TargetState>,
    pub(super) relay: &'a Relay,
}

impl FirstAttempt<'_> {
    /// Asks another server than the first, if there is one and the budget allows it.
    fn ask_another<D: ?Sized>(&self, routed: &Routed, env: &Env<'_, '_, D>) -> Option<Hedge> {
        let pool = routed.pool()?;
        // Content that is still on its way may be more than what can be sent again.
        let may = self.relay.is_request_out()
            && pool.has_other(&routed.selection, self.server)
            && pool.try_spend_hedge(env.now);
        if !may {
            return None;
        }
        let mut selection = routed.selection.beside(self.server);
        if let Some(call) = Call::checkout(pool, &mut selection, env.now).ok()? {
            return Hedge::ask(call, routed, env.now);
        }
        let (pool, ends) = (Rc::clone(pool), routed.ends(env.client));
        let connected = Box::pin({
            let pool = Rc::clone(&pool);
            async move {
                let call = Call::connect(pool, &mut selection, ends).await;
                (selection, call)
            }
        });
        Some(Hedge::Connecting(Box::new(SecondConnect {
            pool,
            ends,
            connected,
        })))
    }
}

impl SecondCall {
    /// The call, to go on with alone from the part of the content on that it was not sent yet.
    pub(super) fn promote(self, routed: &mut Routed) -> Call {
        routed.replay.seek(self.sent);
        self.call
    }

    /// Sends the content, and waits for the final head. A head that comes earlier waits for the rest of the content to
    /// be sent: the relay that goes on with this call sends nothing more.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        replay: &mut Replay,
    ) -> Poll<Result<ResponseHead, GatewayError>> {
        if !self.is_out {
            ready!(self.poll_request(cx, replay))?;
            self.is_out = true;
        }
        loop {
            let head = ready!(self.call.upstream().poll_head(cx))?;
            if !head.is_interim() {
                return Poll::Ready(Ok(head));
            }
        }
    }

    /// Ready when the content is sent, or the server takes no more of it: it may have answered before it closed.
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        replay: &mut Replay,
    ) -> Poll<Result<(), GatewayError>> {
        let stream = self.call.upstream();
        loop {
            while stream.can_put()
                && let Some(part) = replay.part(self.sent)
            {
                stream.put(part?)?;
                self.sent += 1;
            }
            match ready!(stream.poll_flush(cx)) {
                Ok(()) if replay.has_part(self.sent) => {}
                Err(error) if error.reason != CloseReason::UpstreamReset => {
                    return Poll::Ready(Err(error));
                }
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }

    /// The second server has answered, or will not.
    fn conclude(
        self,
        answered: Result<ResponseHead, GatewayError>,
        routed: &mut Routed,
        now: Instant,
    ) -> Hedged {
        let mut call = self.call;
        match answered {
            // The first may do better.
            Ok(head) if Failure::status(head.status).is_some() => {
                call.note_status(head.status, &mut routed.selection, now);
            }
            Ok(head) => {
                if let Some(pool) = routed.pool() {
                    pool.upstream().hedge_won();
                }
                return Hedged::Answered(call, head);
            }
            Err(error) => {
                // A connection that closed while it was idle is no fault of its server.
                let fault = Fault {
                    error: &error,
                    is_excused: true,
                    is_timely: false,
                    is_client_late: false,
                };
                drop(call.finish(Outcome::Failed(fault), now));
            }
        }
        Hedged::Over
    }
}

/// True where another server may do better.
fn is_of_server(error: &GatewayError) -> bool {
    let is_failure = matches!(
        error.reason,
        CloseReason::UpstreamReset
            | CloseReason::BadResponse
            | CloseReason::FirstByteTimeout
            | CloseReason::UpstreamIdleTimeout
    );
    is_failure && error.origin == Origin::Upstream
}
