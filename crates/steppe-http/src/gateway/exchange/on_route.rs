//! The stage of a request that has a route: its filters see it, then it is answered.
//!
//! Both halves work on one [`Routed`], which stays where it is: it is most of what an exchange holds, and a copy a half
//! would show in the instructions of a request.

use std::task::{Poll, ready};

use super::env::Env;
use super::filtering::Filtering;
use super::forwarding::{AnswerFrom, Decided, Failed, Forwarding};
use super::request::End;
use super::routed::Routed;
use super::tunneling::Tunneling;
use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use crate::respond::Respond;

/// A request that has a route.
pub(super) struct OnRoute {
    routed: Routed,
    half: Half,
}

enum Half {
    /// Filters see the head, until all have let it pass.
    Filtering(Filtering, Option<RequestHead>),
    Forwarding(Forwarding),
}

impl OnRoute {
    /// A request whose filters see it next. `answer`: the node answers it before they do.
    pub(super) fn new(routed: Routed, head: RequestHead, answer: Option<Box<Respond>>) -> Self {
        let half = Half::Filtering(Filtering::new(&routed, answer), Some(head));
        Self { routed, half }
    }

    /// The request.
    pub(super) fn routed(&self) -> &Routed {
        &self.routed
    }

    /// Ready when the exchange is over.
    pub(super) fn poll<D>(&mut self, env: &mut Env<'_, '_, D>) -> Poll<Result<End, Failed>>
    where
        D: Downstream + ?Sized,
    {
        loop {
            match &mut self.half {
                Half::Filtering(filtering, Some(head)) => {
                    let from = ready!(filtering.poll(head, &mut self.routed, env))?;
                    self.forward(from, env)?;
                }
                Half::Forwarding(forwarding) => return forwarding.poll(&mut self.routed, env),
                // `forward` takes the head, and leaves this half at once.
                Half::Filtering(_, None) => return Poll::Ready(Ok(End::Aborted)),
            }
        }
    }

    /// The request has passed its filters, or one of them answers it: begins the first attempt.
    fn forward<D>(&mut self, from: AnswerFrom, env: &mut Env<'_, '_, D>) -> Result<(), GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let head = match &mut self.half {
            Half::Filtering(_, head) => head.take(),
            Half::Forwarding(_) => None,
        };
        // A half is large: the last one is dropped where it is.
        self.half = Half::Forwarding(Forwarding::default());
        if let Half::Forwarding(forwarding) = &mut self.half
            && let Some(head) = head
        {
            forwarding.begin(Decided { head, from }, &mut self.routed, env)?;
        }
        Ok(())
    }

    /// The earliest moment at which waiting ends.
    pub(super) fn due<D>(&self, env: &Env<'_, '_, D>) -> Option<Due>
    where
        D: Downstream + ?Sized,
    {
        match &self.half {
            Half::Filtering(filtering, _) => {
                let late = match env.down.is_starved() {
                    true => CloseReason::OverBudget,
                    false => CloseReason::BodyTimeout,
                };
                filtering.due(&self.routed, late)
            }
            Half::Forwarding(forwarding) => forwarding.due(&self.routed),
        }
    }

    /// True while the client is read, which shows that it leaves.
    pub(super) fn reads_client(&self) -> bool {
        match &self.half {
            Half::Filtering(filtering, _) => filtering.reads_client(),
            Half::Forwarding(forwarding) => forwarding.reads_client(),
        }
    }

    /// Waits for a connection no longer, for `error`. The server that was to take it counts as tried.
    pub(super) fn stop_connecting<D: ?Sized>(
        &mut self,
        error: &GatewayError,
        env: &Env<'_, '_, D>,
    ) {
        if let Half::Forwarding(forwarding) = &mut self.half {
            forwarding.stop_connecting(error, &mut self.routed, env);
        }
    }

    /// Leaves the stage for a tunnel, which holds no route. `None`: the response made none.
    pub(super) fn into_tunnel(self) -> Option<Tunneling> {
        match self.half {
            Half::Filtering(..) => None,
            Half::Forwarding(forwarding) => forwarding.into_tunnel(),
        }
    }

    /// True once the response has made a tunnel of the exchange.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(&self.half, Half::Forwarding(forwarding) if forwarding.is_tunnel())
    }
}
