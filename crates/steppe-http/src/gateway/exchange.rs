//! One exchange, whatever codec it came by: routed, filtered, forwarded, answered.
//!
//! [`run`] serves a request and [`reject`] answers what could not be read as one. Both are futures over an
//! [`Exchange`], whose stages are, in this order: the request is on its route (`on_route.rs`), where its filters see it
//! (`filtering.rs`) and one attempt after the other is made to answer it (`forwarding.rs`, with `relaying.rs`,
//! `hedging.rs` and `retry.rs`), and perhaps the exchange becomes a tunnel (`tunneling.rs`) or is refused
//! (`refusing.rs`).

mod begin;
mod env;
mod filtering;
mod forwarding;
mod grpc_call;
mod hedging;
mod journal;
mod log;
mod on_route;
mod pool;
mod refusing;
mod relaying;
mod request;
mod retry;
mod routed;
mod stages;
mod standing;
mod subrequest;
mod tap;
mod trace;
mod tunneling;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use steppe_net::{Deadline, clock};
use tokio::task::spawn_local;

use super::client::ClientContext;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Refusal, RefusalContent};
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use on_route::OnRoute;
use routed::{RequestOrigin, Routed};
use stages::{Exchange, Surroundings};
use subrequest::RestOfRoute;

pub use request::{Completed, End, Rejected, Request};

/// An exchange in progress. Dropping it cancels the exchange.
struct Running<'a, D: ?Sized> {
    /// `None`: there was no memory for it.
    exchange: Option<Box<Exchange>>,
    client: &'a ClientContext,
    deadline: &'a Deadline,
    down: &'a mut D,
    /// The time, as far as the first poll need not ask for it.
    now: Option<Instant>,
    /// There was no memory for the exchange, and the client is told so.
    is_refused: bool,
}

/// Serves a request of `client`. `deadline` is the calling task's, and moved meanwhile.
///
/// # Cancel safety
/// Dropping the future cancels the exchange, which is not counted or logged as a request then.
pub fn run<'a, D: Downstream + ?Sized>(
    client: &'a ClientContext,
    deadline: &'a Deadline,
    down: &'a mut D,
    request: Request,
) -> impl Future<Output = Completed> + use<'a, D> {
    let now = request.began_at;
    let exchange = pool::take(client.exchange_lease(), now);
    let exchange = exchange.map(|mut exchange| {
        // Nothing is polled before the first poll of the future.
        let cx = &mut Context::from_waker(Waker::noop());
        exchange.begin(surroundings(cx, now, client), down, request);
        exchange
    });
    Running {
        exchange,
        client,
        deadline,
        down,
        // A codec that has set a deadline has waited for the rest of the head since: the clock is read again.
        now: deadline.at().is_none().then_some(now),
        is_refused: false,
    }
}

/// Answers bytes that could not be read as a request.
///
/// # Cancel safety
/// As [`run`].
#[expect(
    clippy::disallowed_methods,
    reason = "a rejected head may have taken its time"
)]
pub fn reject<'a, D: Downstream + ?Sized>(
    client: &'a ClientContext,
    deadline: &'a Deadline,
    down: &'a mut D,
    rejected: Rejected<'_>,
) -> impl Future<Output = Completed> + use<'a, D> {
    let now = clock::now();
    let exchange = pool::take(client.exchange_lease(), rejected.began_at);
    let exchange = exchange.map(|mut exchange| {
        let snapshot = client.state.current();
        let peer = client.peer(&snapshot);
        let log = &mut exchange.journal.log;
        log.client = Some(peer.address());
        log.begin(&snapshot, peer, rejected.request.as_ref());
        log.set_report(&snapshot.no_route);
        let cx = &mut Context::from_waker(Waker::noop());
        exchange.reject(surroundings(cx, now, client), down, rejected.error);
        exchange
    });
    Running {
        exchange,
        client,
        deadline,
        down,
        now: Some(now),
        is_refused: false,
    }
}

/// Starts the exchange of a subrequest, in a task of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "an exchange of a filter's own begins"
)]
fn start_subrequest(
    rest: &RestOfRoute,
    head: RequestHead,
    mut down: Box<dyn Downstream>,
) -> Result<(), GatewayError> {
    let now = clock::now();
    let client = Rc::clone(&rest.context);
    let exchange = pool::take(client.exchange_lease(), now);
    let mut exchange = exchange.ok_or_else(GatewayError::over_budget)?;
    exchange.journal.log.client = Some(rest.client);
    exchange.journal.log.set_name(&rest.route, &head);
    rest.identify(exchange.identity());
    let origin = RequestOrigin {
        context: &client,
        client: rest.client,
        began_at: now,
        call: None,
        first_filter: rest.place,
    };
    let routed = Routed::new(&rest.route, &head, origin);
    exchange.begin_on_route(OnRoute::new(routed, head, None));
    spawn_local(async move {
        let deadline = client.add_deadline();
        let running = Running {
            exchange: Some(exchange),
            client: &client,
            deadline: &deadline,
            down: &mut *down,
            now: Some(now),
            is_refused: false,
        };
        running.await;
    });
    Ok(())
}

fn surroundings<'a, 'cx>(
    cx: &'a mut Context<'cx>,
    now: Instant,
    client: &'a ClientContext,
) -> Surroundings<'a, 'cx> {
    Surroundings {
        cx,
        now,
        client,
        start_subrequest,
    }
}

impl<D: Downstream + ?Sized> Future for Running<'_, D> {
    type Output = Completed;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Completed> {
        let this = self.get_mut();
        let exchange = this.exchange.as_ref();
        let visitor = exchange.and_then(|exchange| exchange.visitor.as_ref());
        match visitor.map(|visitor| Arc::clone(visitor.holder())) {
            None => this.poll_in_scope(cx),
            Some(visitor) => visitor.within(|| this.poll_in_scope(cx)),
        }
    }
}

impl<D: Downstream + ?Sized> Running<'_, D> {
    #[expect(
        clippy::disallowed_methods,
        reason = "once a poll of an exchange; everything below it is told"
    )]
    fn poll_in_scope(&mut self, cx: &mut Context<'_>) -> Poll<Completed> {
        let now = self.now.take().unwrap_or_else(clock::now);
        let Some(exchange) = &mut self.exchange else {
            let end = ready!(self.poll_no_room(cx, now));
            return Poll::Ready(Completed { end, at: now });
        };
        let around = surroundings(cx, now, self.client);
        let polled = match exchange.web.take() {
            None => exchange.poll(around, self.deadline, self.down),
            Some(mut web) => {
                // One copy of the code, not one a codec.
                let down: &mut dyn Downstream = &mut web.over(self.down);
                let polled = exchange.poll(around, self.deadline, down);
                exchange.web = Some(web);
                polled
            }
        };
        let completed = Completed {
            end: ready!(polled),
            at: now,
        };
        exchange.journal.finish(self.client, completed);
        Poll::Ready(completed)
    }

    /// Refuses a request without an exchange, for which there was no memory.
    fn poll_no_room(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<End> {
        // The deadline may still be that of the head.
        if !self.is_refused {
            self.is_refused = true;
            self.client.count_closed(CloseReason::OverBudget);
            let fields = &[("retry-after", "1")];
            self.down.put_refusal(&Refusal {
                status: 503,
                fields,
                content: RefusalContent::Word,
            });
            self.deadline.set(now, self.client.write_timeout());
        }
        if let Poll::Ready(flushed) = self.down.poll_flush(cx) {
            return Poll::Ready(flushed.map_or(End::Aborted, |()| End::Response));
        }
        if self.down.poll_gone(cx).is_ready() {
            return Poll::Ready(End::Aborted);
        }
        self.deadline.poll_passed(cx).map(|()| End::Aborted)
    }
}

impl<D: ?Sized> Drop for Running<'_, D> {
    fn drop(&mut self) {
        let Some(mut exchange) = self.exchange.take() else {
            return;
        };
        match exchange.visitor.take() {
            None => pool::put_back(exchange),
            Some(visitor) => visitor.holder().within(|| pool::put_back(exchange)),
        }
    }
}
