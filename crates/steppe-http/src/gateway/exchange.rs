//! One exchange, whatever codec it came by: routed, filtered, forwarded, answered.
//!
//! [`run`] serves a request and [`reject`] answers what could not be read as one.
//! Both are futures over an [`Exchange`], a state machine that a worker uses again
//! for the next request, so that an idle connection has no room for one and a
//! request allocates none.

mod beginning;
mod behind;
mod call;
mod filtering;
mod hedging;
mod log;
mod pool;
mod refusing;
mod relaying;
mod retry;
mod tap;
mod trace;

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Holding, Reservation};
use steppe_net::{Deadline, clock};

use super::attempt::{Attempt, Connected, Connecting};
use super::client::ClientContext;
use super::ending::Ending;
use super::replay::Replay;
use super::snapshot::WorkerRoute;
use super::web::WebCall;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, RefusalContent};
use crate::filter::Identity;
use crate::filter::attached::{AttachedFilters, Progress};
use crate::grpc::{self, Code};
use crate::head::{RequestHead, RequestView, Version};
use crate::metrics::CloseReason;
use crate::relay::{Relay, Timeouts};
use crate::respond::Respond;
use crate::upstream::Selection;
use call::Call;
use hedging::Hedge;
use log::Log;
use retry::Verdict;
use trace::Trace;

/// A request that a codec has read.
#[derive(Debug)]
pub struct Request {
    /// Its head.
    pub head: RequestHead,
    /// When its first bytes came.
    pub began_at: Instant,
}

/// What a codec could not read as a request.
#[derive(Debug)]
pub struct Rejected<'a> {
    /// What the client is told.
    pub error: GatewayError,
    /// When its first bytes came.
    pub began_at: Instant,
    /// As much as could be read, for the access log.
    pub request: Option<RequestView<'a>>,
}

/// What became of an exchange; what becomes of its connection is its codec's business.
#[derive(Debug, Clone, Copy)]
pub struct Completed {
    /// How it ended.
    pub end: End,
    /// When.
    pub at: Instant,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has a whole response.
    Response,
    /// It was a tunnel, and is closed.
    Tunnel,
    /// The response was cut, or there is nobody to have it.
    Aborted,
}

/// An exchange, and whose it is. Dropping it cancels the exchange.
struct Running<'a, D: ?Sized> {
    exchange: Option<Box<Exchange>>,
    client: &'a ClientContext,
    deadline: &'a Deadline,
    down: &'a mut D,
    /// The time, as far as the first poll need not ask for it.
    now: Option<Instant>,
    /// There was no memory for the exchange, and the client is told so.
    is_refused: bool,
}

/// The state of one exchange.
pub(super) struct Exchange {
    stage: Stage,
    relay: Relay,
    attempt: Option<Attempt>,
    /// What is done where the attempt takes long; `None`: nothing.
    hedge: Option<Hedge>,
    progress: Progress,
    filters: AttachedFilters,
    /// What is translated of it for its client; taken while it is polled.
    web: Option<Box<WebCall>>,
    core: Core,
    _charge: Reservation,
}

/// What outlives an attempt.
struct Core {
    began_at: Instant,
    /// `None`: it matched no route, or is a tunnel.
    route: Option<Rc<WorkerRoute>>,
    /// `None` once no attempt needs it any more.
    head: Option<RequestHead>,
    /// What is answered here instead of being forwarded.
    answer: Option<Box<Respond>>,
    /// The place of the filter that answered.
    answered_by: Option<usize>,
    /// The request's content, where a filter has taken it, as far as it did not go on yet.
    #[expect(
        clippy::box_collection,
        reason = "few have it, and an exchange stays small"
    )]
    content: Option<Box<VecDeque<Part>>>,
    /// When a filter that takes content was given some last.
    content_at: Instant,
    selection: Selection,
    timeouts: Timeouts,
    replay: Replay,
    verdict: Verdict,
    /// It is a call of gRPC, whose client is told of errors in its own way.
    call: Option<Call>,
    identity: Identity,
    /// Filters of the route that see its response, by place.
    places: Range<usize>,
    log: Log,
    /// `None`: it is not sampled.
    trace: Option<Trace>,
    /// Its client, where that is not the connection's.
    visitor: Option<Box<Holding>>,
}

/// Every filter of a route, however many it has.
const ALL_PLACES: Range<usize> = 0..usize::MAX;

enum Stage {
    /// The filter at this place of the route is next.
    Filtering(usize),
    /// The state that was attached last is not ready yet.
    Waiting(usize),
    /// A connection to a server is being established.
    Connecting(Connecting),
    /// Both sides are there.
    Relaying,
    /// A response of our own was put, and is to be flushed.
    Refusing,
    /// A call that failed behind its response's head is to end with trailers.
    Ending(Ending),
    Over(End),
}

/// Serves a request of `client`. `deadline` is the calling task's, and moved meanwhile.
///
/// # Cancel safety
/// Dropping the future cancels the exchange, and counts nothing.
pub fn run<'a, D: Downstream + ?Sized>(
    client: &'a ClientContext,
    deadline: &'a Deadline,
    down: &'a mut D,
    request: Request,
) -> impl Future<Output = Completed> + use<'a, D> {
    let now = request.began_at;
    let exchange = pool::take(client.exchange_lease(), now);
    let exchange = exchange.map(|mut exchange| {
        exchange.begin(client, down, request);
        exchange
    });
    Running {
        exchange,
        client,
        deadline,
        down,
        // A head that came in pieces has taken its time, for which it has a deadline.
        now: deadline.at().is_none().then_some(now),
        is_refused: false,
    }
}

/// Answers what could not be read as a request.
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
    // The head may have taken its time.
    let now = clock::now();
    let exchange = pool::take(client.exchange_lease(), rejected.began_at);
    let exchange = exchange.map(|mut exchange| {
        let snapshot = client.state.current();
        let peer = client.peer(&snapshot);
        let log = &mut exchange.core.log;
        log.begin(&snapshot, (peer, peer.address()), rejected.request.as_ref());
        log.set_report(&snapshot.no_route);
        exchange.refuse(client, down, rejected.error, &[]);
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

impl<D: Downstream + ?Sized> Future for Running<'_, D> {
    type Output = Completed;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Completed> {
        let this = self.get_mut();
        let exchange = this.exchange.as_ref();
        let visitor = exchange.and_then(|exchange| exchange.core.visitor.as_ref());
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
        let polled = match exchange.web.take() {
            None => exchange.poll(cx, now, self.client, self.deadline, self.down),
            Some(mut web) => {
                // Not of each codec: it is there once.
                let down: &mut dyn Downstream = &mut web.over(self.down);
                let polled = exchange.poll(cx, now, self.client, self.deadline, down);
                exchange.web = Some(web);
                polled
            }
        };
        let end = ready!(polled);
        let core = &mut exchange.core;
        if let Some(call) = &mut core.call {
            let cut = (end == End::Aborted).then(|| Code::of_cut(core.log.reason));
            call.finish(self.client, cut, core.log.status());
        }
        core.finish_trace(now);
        let route = core.route.as_deref();
        let filter = answered_by(route, core.answered_by);
        core.log.finish(self.client, (core.began_at, now), filter);
        Poll::Ready(Completed { end, at: now })
    }

    /// There was no memory for the exchange: that is all that can be said of it.
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
        match exchange.core.visitor.take() {
            None => pool::put_back(exchange),
            Some(visitor) => visitor.holder().within(|| pool::put_back(exchange)),
        }
    }
}

impl Exchange {
    fn new(charge: Reservation, now: Instant) -> Self {
        Self {
            stage: Stage::Filtering(0),
            relay: Relay::new(Timeouts::default(), now),
            attempt: None,
            hedge: None,
            progress: Progress::default(),
            filters: AttachedFilters::default(),
            web: None,
            core: Core {
                began_at: now,
                route: None,
                head: None,
                answer: None,
                answered_by: None,
                content: None,
                content_at: now,
                selection: Selection::default(),
                timeouts: Timeouts::default(),
                replay: Replay::default(),
                verdict: Verdict::new(now),
                call: None,
                identity: Identity::default(),
                places: ALL_PLACES,
                log: Log::default(),
                trace: None,
                visitor: None,
            },
            _charge: charge,
        }
    }

    /// Lets go of everything that belongs to the exchange.
    fn clear(&mut self) {
        self.stage = Stage::Filtering(0);
        self.attempt = None;
        self.hedge = None;
        self.progress = Progress::default();
        self.filters.get_mut().clear();
        self.web = None;
        let core = &mut self.core;
        core.route = None;
        core.head = None;
        core.answer = None;
        core.answered_by = None;
        core.content = None;
        core.selection.clear();
        core.replay.forget();
        core.call = None;
        core.identity.clear();
        core.places = ALL_PLACES;
        core.log.clear();
        core.trace = None;
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn poll<D>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        client: &ClientContext,
        deadline: &Deadline,
        down: &mut D,
    ) -> Poll<End>
    where
        D: Downstream + ?Sized,
    {
        loop {
            let failed = match &mut self.stage {
                Stage::Over(end) => return Poll::Ready(*end),
                Stage::Filtering(place) => {
                    let place = *place;
                    self.filter(client, place, now)
                }
                Stage::Waiting(place) => {
                    let place = *place;
                    if let Err(error) = ready!(self.poll_content(cx, now, deadline, down)) {
                        self.refuse(client, down, error, &[]);
                        continue;
                    }
                    match self.poll_filter(cx, client, place, now) {
                        Poll::Ready(passed) => passed,
                        Poll::Pending => ready!(self.poll_aborted(cx, now, deadline, down)),
                    }
                }
                Stage::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                    Poll::Ready(Connected { selection, stream }) => {
                        self.core.selection = selection;
                        stream.and_then(|stream| self.start(Attempt::Stream(stream), now))
                    }
                    Poll::Pending => ready!(self.poll_aborted(cx, now, deadline, down)),
                },
                Stage::Relaying => ready!(self.poll_relay(cx, now, client, deadline, down)),
                Stage::Refusing | Stage::Ending(_) => {
                    self.stage =
                        Stage::Over(ready!(self.poll_refusal(cx, now, client, deadline, down)));
                    Ok(())
                }
            };
            if let Err(error) = failed {
                self.log_failure(client, &error, now);
                self.refuse(client, down, error, &[]);
            }
        }
    }

    /// Ready where nobody waits any more for what the exchange waits for: the client has gone,
    /// or the time of the exchange is over.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn poll_aborted<D>(
        &self,
        cx: &mut Context<'_>,
        now: Instant,
        deadline: &Deadline,
        down: &mut D,
    ) -> Poll<Result<(), GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        if down.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(GatewayError::client_gone()));
        }
        let total_at = self.core.timeouts.total_at;
        if total_at.is_some_and(|at| at <= now) {
            return Poll::Ready(Err(GatewayError::timeout(CloseReason::TotalTimeout)));
        }
        deadline.set_at(total_at);
        // The sweep wakes this task when it has passed.
        let _ = deadline.poll_passed(cx);
        Poll::Pending
    }
}

impl Core {
    /// A server is told how long a call may still take.
    fn shorten_timeout(&mut self, now: Instant) -> Result<(), GatewayError> {
        if let (Some(_), Some(ends_at), Some(head)) =
            (&self.call, self.timeouts.total_at, &mut self.head)
        {
            let left = ends_at.saturating_duration_since(now);
            let mut room = grpc::TimeoutText::default();
            head.fields
                .set(grpc::TIMEOUT, grpc::write_timeout(left, &mut room))?;
        }
        Ok(())
    }
}

/// The name of the filter of a route that answered.
fn answered_by(route: Option<&WorkerRoute>, place: Option<usize>) -> Option<&str> {
    Some(&route?.filters[place?].name)
}

pub(super) fn via_value(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"1.0 steppe",
        Version::Http11 => b"1.1 steppe",
        Version::Http2 => b"2.0 steppe",
    }
}
