//! One attempt: both sides are there, and content goes from one to the other.

use std::task::Poll;

use super::env::Env;
use super::hedging::{self, FirstAttempt, Hedge, Hedged};
use super::routed::Routed;
use super::standing::Standing;
use super::tap::ExchangeTap;
use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::filter::attached::{Filtered, Progress};
use crate::gateway::attempt::Attempt;
use crate::relay::{Relay, RelayEnv, Relayed};
use crate::upstream::{Call, Fault, Outcome};

/// An attempt whose request has started.
pub(super) struct Relaying {
    pub(super) attempt: Attempt,
    pub(super) relay: Relay,
    pub(super) standing: Standing,
    /// A second server that is asked where the first takes long; `None`: none is. Once the attempt has failed, what
    /// goes on alone.
    pub(super) hedge: Option<Hedge>,
    progress: Progress,
}

/// A second call that takes the place of the first, and the error that the first failed with.
struct Promotion<'a> {
    second: Call,
    error: &'a GatewayError,
}

impl Relaying {
    /// The relay of `attempt`, which begins now.
    pub(super) fn new<D: ?Sized>(attempt: Attempt, routed: &Routed, env: &Env<'_, '_, D>) -> Self {
        let hedge = match &attempt {
            Attempt::Call(_) => Hedge::begin(routed),
            _ => None,
        };
        Self {
            attempt,
            relay: Relay::new(routed.timeouts, env.now),
            standing: Standing::new(routed, env),
            hedge,
            progress: Progress::default(),
        }
    }

    /// The earliest moment at which waiting ends.
    pub(super) fn due(&self) -> Option<Due> {
        self.relay.due()
    }

    /// Ready when the attempt is over; a hedge may have taken its place meanwhile.
    pub(super) fn poll<D>(
        &mut self,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Poll<Result<Relayed, GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        loop {
            self.standing.is_hedged = self.hedge.as_ref().is_some_and(Hedge::has_second);
            let polled = self.poll_relay(routed, env);
            let Some(hedge) = self.hedge.take() else {
                return polled;
            };
            let is_replaced = match &polled {
                Poll::Pending => self.poll_hedge(hedge, routed, env),
                Poll::Ready(Err(error)) if self.may_be_replaced(error, routed) => match hedge {
                    Hedge::Asking(second) => {
                        let second = second.promote(routed);
                        self.promote(Promotion { second, error }, routed, env);
                        true
                    }
                    hedge => {
                        self.hedge = Some(hedge);
                        false
                    }
                },
                Poll::Ready(_) => false,
            };
            if !is_replaced {
                return polled;
            }
        }
    }

    /// True when a second server may go on alone: the attempt has failed with `error`.
    fn may_be_replaced(&self, error: &GatewayError, routed: &Routed) -> bool {
        let is_unanswered = !self.relay.has_response_begun() && !self.standing.has_passed;
        is_unanswered && hedging::may_go_on(error, routed)
    }

    fn poll_relay<D>(
        &mut self,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Poll<Result<Relayed, GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        let author = self.attempt.author();
        let (upstream, answering) = self.attempt.split();
        let filters = &env.reused.filters;
        let lease = (!filters.borrow().is_empty()).then(|| routed.route.lease.clone());
        let mut tap = ExchangeTap {
            routed,
            journal: env.journal,
            standing: &mut self.standing,
            filters,
            client: env.client,
            answering,
            author,
        };
        let Some(lease) = &lease else {
            return self.relay.poll(&mut RelayEnv {
                cx: env.cx,
                now: env.now,
                down: env.down,
                up: upstream,
                tap: &mut tap,
            });
        };
        let mut filtered = Filtered {
            upstream,
            filters,
            progress: &mut self.progress,
            lease,
        };
        self.relay.poll(&mut RelayEnv {
            cx: env.cx,
            now: env.now,
            down: env.down,
            up: &mut filtered,
            tap: &mut tap,
        })
    }

    /// Goes on with the hedge; says if its call has taken the place of the attempt.
    fn poll_hedge<D: ?Sized>(
        &mut self,
        hedge: Hedge,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> bool {
        let Attempt::Call(call) = &self.attempt else {
            return false;
        };
        let first = FirstAttempt {
            server: call.server(),
            relay: &self.relay,
        };
        match hedge.poll(&first, routed, env) {
            Hedged::Waiting(hedge) => {
                self.hedge = Some(hedge);
                false
            }
            Hedged::Over => false,
            Hedged::Answered(mut second, head) => {
                second.stands_in_for(call);
                let first = self.replace(second, env);
                drop(first.map(|first| first.finish(Outcome::Outrun, env.now)));
                self.relay.put_back(head);
                true
            }
        }
    }

    /// Goes on with a second call, from the part of the request on that it was not sent yet.
    fn promote<D: ?Sized>(
        &mut self,
        promotion: Promotion<'_>,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) {
        let Promotion { mut second, error } = promotion;
        if let Attempt::Call(first) = &self.attempt {
            second.stands_in_for(first);
        }
        let outcome = match self.standing.is_turned_down {
            true => Outcome::TurnedDown,
            false => Outcome::Failed(Fault {
                error,
                is_excused: true,
                is_timely: self.standing.is_timely,
                // A hedge begins once the whole request was sent.
                is_client_late: false,
            }),
        };
        if let Some(first) = self.replace(second, env) {
            let first = first.finish(outcome, env.now);
            routed.selection.failed_at(first.server());
        }
        self.relay = Relay::new(routed.timeouts, env.now);
        self.standing = Standing::new(routed, env);
        self.progress = Progress::default();
    }

    /// Puts the call of a hedge in the place of the first, which it gives.
    fn replace<D: ?Sized>(&mut self, second: Call, env: &mut Env<'_, '_, D>) -> Option<Call> {
        env.journal.asked(second.server());
        match std::mem::replace(&mut self.attempt, Attempt::Call(second)) {
            Attempt::Call(first) => Some(first),
            _ => None,
        }
    }
}
