//! Reads request heads of a connection, one after the other.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_net::{Deadline, DrainGrace, clock};

use super::parse::RequestLine;
use super::server_side::{HeadError, ServerSide};
use super::wire::Wire;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::gateway::{Accepted, ClientContext, Request};
use crate::limits::{REQUEST_READ_BYTES, STARVED_HEADS_MAX};
use crate::metrics::CloseReason;

/// A place among the heads that may wait for budget while they hold some.
struct StarvedHead(Rc<Cell<usize>>);

impl StarvedHead {
    /// `None`: enough others wait.
    fn new(places: &Rc<Cell<usize>>) -> Option<Self> {
        let waiting = places.get();
        (waiting < STARVED_HEADS_MAX).then(|| {
            places.set(waiting + 1);
            Self(Rc::clone(places))
        })
    }
}

impl Drop for StarvedHead {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection from a client, between its requests.
pub(super) struct RequestReader {
    pub(super) side: ServerSide,
    pub(super) deadline: Deadline,
    pub(super) client: Rc<ClientContext>,
    /// `None`: a request has come, and a drain closes the connection when it waits for another.
    first_request: Option<DrainGrace>,
}

/// The result of waiting for a request.
pub(super) enum NextRequest {
    /// A request was read.
    Request(Request),
    /// The client closed, or was idle for too long.
    Closed(Option<CloseReason>),
    /// The request is rejected.
    Rejected(GatewayError, Option<(RequestLine, FieldBlock)>),
}

impl RequestReader {
    /// Waits for the first request of a connection.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    pub(super) fn new(accepted: Accepted) -> Self {
        let Accepted {
            transport,
            pending,
            client,
            deadline,
            traffic,
        } = accepted;
        let wire = Wire::new(transport, pending, traffic);
        let side = ServerSide::new(wire, client.settings(), clock::now());
        Self {
            side,
            deadline,
            client,
            first_request: Some(DrainGrace::default()),
        }
    }

    /// Waits for the next request. `now` is when the last one ended.
    #[expect(
        clippy::disallowed_methods,
        reason = "a request begins when its first bytes have come"
    )]
    pub(super) async fn next_request(&mut self, now: Instant) -> NextRequest {
        self.side.release_lease();
        let mut began_at = now;
        let is_idle = self.side.wire.pending.is_none() || self.side.skip_empty_line();
        if is_idle {
            let idle = self.side.settings.timeouts.idle;
            self.deadline.set(now, idle);
            if let Some(closed) = poll_fn(|cx| self.poll_first_bytes(cx)).await {
                return closed;
            }
            began_at = clock::now();
        }
        self.first_request = None;
        // What the listener asks may have changed meanwhile.
        self.side.settings = self.client.settings();
        self.deadline.clear();
        self.side.begin_request(began_at);
        let (mut seen, mut starved) = (0, None);
        poll_fn(|cx| self.poll_head(cx, &mut seen, &mut starved)).await
    }

    /// Ready with `None` when a request has begun.
    #[expect(
        clippy::disallowed_methods,
        reason = "a request that waits for budget begins where it is refused"
    )]
    fn poll_first_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<NextRequest>> {
        let side = &mut self.side;
        loop {
            let filled = match side.wire.pending {
                None => {
                    let lease = &side.settings.lease;
                    side.wire.poll_fill(cx, lease, REQUEST_READ_BYTES)
                }
                Some(_) => side.wire.poll_fill_more(cx, REQUEST_READ_BYTES),
            };
            match filled {
                // RFC 9112 §2.2: an empty line does not begin a request.
                Poll::Ready(Ok(1..)) if side.skip_empty_line() => continue,
                Poll::Ready(Ok(1..)) => return Poll::Ready(None),
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Some(NextRequest::Closed(None))),
                Poll::Pending => break,
            }
        }
        if side.settings.drain.is_draining() && !side.wire.is_starved() {
            match &mut self.first_request {
                None => return Poll::Ready(Some(NextRequest::Closed(None))),
                // Its client connected before the drain, and may not know of it.
                Some(grace) => grace.apply(&side.settings.drain, &self.deadline),
            }
        }
        ready!(self.deadline.poll_passed(cx));
        // A request is there, and there was no room to read it: that is told, not hidden.
        Poll::Ready(Some(if side.wire.is_starved() {
            side.begin_request(clock::now());
            NextRequest::Rejected(GatewayError::over_budget(), None)
        } else {
            NextRequest::Closed(Some(CloseReason::IdleTimeout))
        }))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        seen: &mut usize,
        starved: &mut Option<StarvedHead>,
    ) -> Poll<NextRequest> {
        let side = &mut self.side;
        loop {
            match side.parse_head(*seen) {
                Ok(Some(head)) => {
                    let began_at = side.began_at();
                    return Poll::Ready(NextRequest::Request(Request { head, began_at }));
                }
                Ok(None) => {}
                Err(HeadError { error, request }) => {
                    return Poll::Ready(NextRequest::Rejected(error, request));
                }
            }
            *seen = side
                .wire
                .pending
                .as_ref()
                .map_or(0, |pending| pending.len());
            if self.deadline.at().is_none() {
                let header = side.settings.timeouts.header;
                self.deadline.set(side.began_at(), header);
            }
            let header_bytes = side.settings.limits.header_bytes;
            match side.wire.poll_fill_more(cx, header_bytes) {
                Poll::Ready(Ok(1..)) => continue,
                // Part of a request and no more: nobody waits for an answer.
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(NextRequest::Closed(None)),
                Poll::Pending => {}
            }
            let is_starved = side.wire.is_starved();
            if !is_starved {
                *starved = None;
            } else if starved.is_none() {
                *starved = StarvedHead::new(&side.settings.starved_heads);
            }
            // It holds memory that those need who wait longer.
            let is_let_wait = starved.is_some() == is_starved;
            if is_let_wait {
                ready!(self.deadline.poll_passed(cx));
            }
            let error = if is_starved {
                GatewayError::over_budget()
            } else {
                GatewayError::timeout(CloseReason::HeaderTimeout)
            };
            return Poll::Ready(NextRequest::Rejected(error, None));
        }
    }
}

#[cfg(test)]
mod tests;
