//! A second server is asked where the first takes long: the first head wins, and the other is cancelled.
//!
//! The exchange has one attempt, as ever. Beside it a hedge sends what the first was sent, out of [`Replay`], and
//! waits for a head; it becomes the attempt when it has one, or when the first fails. So the relay, the filters and
//! the client see one upstream.
//!
//! Invariant: only what may be sent again is sent twice, never to the same server, and never once a byte of a
//! response has reached the client; the upstream's `hedge` and its budget allow it, and its circuit is closed.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::time::Sleep;

use super::retry::Verdict;
use super::{ClientContext, Core, Exchange};
use crate::error::{GatewayError, Origin, Resend};
use crate::exchange::Outgoing;
use crate::filter::attached::Progress;
use crate::gateway::attempt::{Attempt, Connected, Connecting};
use crate::gateway::replay::{Repeats, Replay};
use crate::head::ResponseHead;
use crate::metrics::CloseReason;
use crate::relay::{Relay, Relayed};
use crate::upstream::{Failure, Next, PooledStream};

/// What is done about a first server that takes long.
pub(super) enum Hedge {
    /// It still has time.
    Waiting(Pin<Box<Sleep>>),
    /// A connection to another one is being established.
    Connecting(Connecting),
    /// Another one is asked.
    Asking(Box<Asking>),
}

/// A second server that is asked.
pub(super) struct Asking {
    stream: PooledStream,
    began_at: Instant,
    /// Parts of the request's content that it was given.
    sent: usize,
}

impl Core {
    /// What is done where the attempt that begins now takes long; `None`: nothing.
    pub(super) fn hedge(&self) -> Option<Hedge> {
        let pool = self.route.as_ref()?.pool()?;
        pool.settings().hedge?;
        let is_first = !self.selection.has_tried() && self.selection.sent_again() == 0;
        // A client that stays with a server wants no other, and a circuit is probed by one.
        let is_free = self.selection.token().is_none() && !self.selection.is_probe();
        let may = is_first && is_free && self.replay.repeats() == Repeats::Always;
        let after = pool.upstream().hedge_after().filter(|_| may)?;
        Some(Hedge::Waiting(Box::pin(tokio::time::sleep(after))))
    }
}

impl Exchange {
    /// Goes on with the hedge; says whether it has taken the place of the attempt.
    pub(super) fn poll_hedge(
        &mut self,
        cx: &mut Context<'_>,
        client: &ClientContext,
        now: Instant,
    ) -> bool {
        loop {
            // What can't be sent again any more is not sent twice either.
            let is_open = self.core.replay.repeats() == Repeats::Always;
            let Some(hedge) = self.hedge.as_mut().filter(|_| is_open) else {
                self.hedge = None;
                return false;
            };
            match hedge {
                Hedge::Waiting(sleep) => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return false;
                    }
                    self.hedge = self.ask_another(client, now);
                }
                Hedge::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                    Poll::Pending => return false,
                    Poll::Ready(Connected { stream, .. }) => {
                        // The circuit may have opened meanwhile.
                        let route = self.core.route.as_ref();
                        let pool = route.and_then(|route| route.pool());
                        let may = pool.is_some_and(|pool| pool.lets_hedges_pass(now));
                        let stream = stream.ok().filter(|_| may);
                        self.hedge = stream.and_then(|stream| self.core.ask(stream, now).ok());
                    }
                },
                Hedge::Asking(asking) => match asking.poll_head(cx, &mut self.core.replay) {
                    Poll::Pending => return false,
                    Poll::Ready(answered) => {
                        if let Some(Hedge::Asking(asking)) = self.hedge.take() {
                            return self.answered_second(*asking, answered, now);
                        }
                    }
                },
            }
        }
    }

    /// Asks another server than the first, if there is one and the budget allows it.
    fn ask_another(&self, client: &ClientContext, now: Instant) -> Option<Hedge> {
        let core = &self.core;
        let pool = core.route.as_ref()?.pool()?;
        let Some(Attempt::Stream(first)) = &self.attempt else {
            return None;
        };
        // Of content that is still on its way nobody knows whether it can be sent again.
        let may = self.relay.is_request_out()
            && pool.has_other(&core.selection, first.state())
            && pool.may_hedge(now);
        if !may {
            return None;
        }
        let mut selection = core.selection.beside(first.state());
        match pool.checkout(&mut selection).ok()? {
            Next::Stream(stream) => core.ask(stream, now).ok(),
            Next::Connect => {
                let ends = core.log.client.and_then(|ip| client.ends(ip));
                let connecting = Attempt::connect(Rc::clone(pool), selection, ends);
                Some(Hedge::Connecting(connecting))
            }
        }
    }

    /// The second server has answered, or will not; says whether it is the one whose answer counts.
    fn answered_second(
        &mut self,
        asking: Asking,
        answered: Result<ResponseHead, GatewayError>,
        now: Instant,
    ) -> bool {
        let core = &mut self.core;
        let Some(pool) = core.route.as_ref().and_then(|route| route.pool()) else {
            return false;
        };
        let Asking {
            stream, began_at, ..
        } = asking;
        let failure = match &answered {
            // The first may do better.
            Ok(head) => Failure::status(head.status),
            Err(error) => blame(error),
        };
        if let Some(failure) = failure {
            let elapsed = now.saturating_duration_since(began_at);
            pool.upstream().failed(stream.state(), failure, elapsed);
        }
        let Some(head) = answered.ok().filter(|_| failure.is_none()) else {
            return false;
        };
        pool.upstream().hedge_won();
        core.log.set_server(stream.state());
        core.trace_server(stream.state());
        if let Some(Attempt::Stream(first)) = self.attempt.replace(Attempt::Stream(stream)) {
            // It takes at least so long.
            let elapsed = now.saturating_duration_since(core.verdict.began_at);
            first.state().answered(elapsed, now);
        }
        self.relay.put_back(head);
        true
    }

    /// The first server has failed: the second that is asked already takes its place. Says whether there is one.
    pub(super) fn promote_hedge(
        &mut self,
        result: &Result<Relayed, GatewayError>,
        now: Instant,
    ) -> bool {
        let is_servers_doing = matches!(result, Err(error) if is_of_server(error));
        let Some(Hedge::Asking(asking)) = self.hedge.take().filter(|_| is_servers_doing) else {
            return false;
        };
        let core = &mut self.core;
        let is_kept = core.replay.repeats() == Repeats::Always && !core.verdict.has_passed;
        let pool = core.route.as_ref().and_then(|route| route.pool());
        let (Some(pool), true) = (pool, is_kept) else {
            return false;
        };
        if let Some(Attempt::Stream(first)) = self.attempt.take() {
            let state = first.state();
            let kept = (&core.replay, true);
            core.verdict.close(result, kept, pool, state, now);
            core.selection.failed_at(state);
        }
        let Asking {
            stream,
            began_at,
            sent,
        } = *asking;
        core.replay.seek(sent);
        core.verdict = Verdict::new(began_at);
        core.verdict.has_fair_time = core.has_fair_time(now);
        core.log.set_server(stream.state());
        core.trace_server(stream.state());
        self.relay = Relay::new(core.timeouts, now);
        self.progress = Progress::default();
        self.attempt = Some(Attempt::Stream(stream));
        true
    }
}

impl Core {
    /// Sends the request's head to a second server.
    fn ask(&self, mut stream: PooledStream, now: Instant) -> Result<Hedge, GatewayError> {
        let head = self.head.as_ref().ok_or_else(GatewayError::client_gone)?;
        let route = self.route.as_ref().expect("it was routed");
        stream.split().0.start(&Outgoing {
            head,
            // One without an authority is sent to one server only.
            authority: "",
            lease: &route.lease,
        })?;
        Ok(Hedge::Asking(Box::new(Asking {
            stream,
            began_at: now,
            sent: 0,
        })))
    }
}

impl Asking {
    /// Sends the content, and waits for the final head.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        replay: &mut Replay,
    ) -> Poll<Result<ResponseHead, GatewayError>> {
        let (stream, _) = self.stream.split();
        loop {
            while stream.can_put()
                && let Some(part) = replay.part(self.sent)
            {
                stream.put(part?)?;
                self.sent += 1;
            }
            match stream.poll_flush(cx) {
                // There may be room for more.
                Poll::Ready(Ok(())) if stream.can_put() && replay.has_part(self.sent) => continue,
                // What the server answered before it closed is worth reading.
                Poll::Ready(Err(error)) if error.reason != CloseReason::UpstreamReset => {
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(_) | Poll::Pending => {}
            }
            let head = ready!(stream.poll_head(cx))?;
            if !head.is_interim() {
                return Poll::Ready(Ok(head));
            }
        }
    }
}

/// What an error says of a second server: a connection that had closed while idle says nothing.
fn blame(error: &GatewayError) -> Option<Failure> {
    match error.reason {
        CloseReason::UpstreamReset if error.resend == Resend::No => Some(Failure::Reset),
        CloseReason::BadResponse => Some(Failure::Garbage),
        _ => None,
    }
}

/// Whether another server may do better.
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
