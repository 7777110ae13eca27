//! One exchange, whatever codec it came by: routed, filtered, forwarded, answered.
//!
//! [`run`] serves a request and [`reject`] answers what could not be read as one.
//! Both are futures over an [`Exchange`], a state machine that a worker uses again
//! for the next request, so that an idle connection has no room for one and a
//! request allocates none.

mod behind;
mod call;
mod filtering;
mod hedging;
mod log;
mod pool;
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
use std::time::{Duration, Instant};

use steppe_mem::Reservation;
use steppe_net::Deadline;

use super::attempt::{Attempt, Connected, Connecting};
use super::client::ClientContext;
use super::forwarding::Forwarded;
use super::redirect;
use super::replay::{Repeats, Replay};
use super::snapshot::{RouteReport, RouteTarget, Snapshot, WorkerRoute};
use super::web::WebCall;
use crate::config::ListenerRoutes;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Page, Part, Refusal, RefusalContent};
use crate::field::{FieldBlock, FieldId};
use crate::filter::attached::{AttachedFilters, Progress};
use crate::filter::{Identity, cors};
use crate::grpc::{self, Code, Dialect};
use crate::head::{RequestHead, RequestView, Version};
use crate::max_forwards::MaxForwards;
use crate::metrics::CloseReason;
use crate::relay::{Relay, Timeouts};
use crate::respond::Respond;
use crate::router::{FieldLookup, NoRoute, RouteQuery};
use crate::status;
use crate::upstream::{Probe, Selection};
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
    /// It was let through a half-open circuit.
    probe: Option<Probe>,
    /// It is a call of gRPC, whose client is told of errors in its own way.
    call: Option<Call>,
    identity: Identity,
    /// Filters of the route that see its response, by place.
    places: Range<usize>,
    log: Log,
    /// `None`: it is not sampled.
    trace: Option<Trace>,
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
pub fn reject<'a, D: Downstream + ?Sized>(
    client: &'a ClientContext,
    deadline: &'a Deadline,
    down: &'a mut D,
    rejected: Rejected<'_>,
) -> impl Future<Output = Completed> + use<'a, D> {
    // The head may have taken its time.
    let now = Instant::now();
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
        let now = this.now.take().unwrap_or_else(Instant::now);
        let Some(exchange) = &mut this.exchange else {
            let end = ready!(this.poll_no_room(cx, now));
            return Poll::Ready(Completed { end, at: now });
        };
        let polled = match exchange.web.take() {
            None => exchange.poll(cx, now, this.client, this.deadline, this.down),
            Some(mut web) => {
                // Not of each codec: it is there once.
                let down: &mut dyn Downstream = &mut web.over(this.down);
                let polled = exchange.poll(cx, now, this.client, this.deadline, down);
                exchange.web = Some(web);
                polled
            }
        };
        let end = ready!(polled);
        let core = &mut exchange.core;
        if let Some(call) = &mut core.call {
            let cut = (end == End::Aborted).then(|| Code::of_cut(core.log.reason));
            call.finish(this.client, cut, core.log.status());
        }
        core.finish_trace(this.client, now);
        let route = core.route.as_deref();
        let filter = answered_by(route, core.answered_by);
        core.log.finish(this.client, (core.began_at, now), filter);
        Poll::Ready(Completed { end, at: now })
    }
}

impl<D: Downstream + ?Sized> Running<'_, D> {
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
            let write_stall = self.client.settings().timeouts.write_stall;
            self.deadline.set(now, write_stall);
        }
        if let Poll::Ready(flushed) = self.down.poll_flush(cx) {
            return Poll::Ready(flushed.map_or(End::Aborted, |()| End::Response));
        }
        self.deadline.poll_passed(cx).map(|()| End::Aborted)
    }
}

impl<D: ?Sized> Drop for Running<'_, D> {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            pool::put_back(exchange);
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
                probe: None,
                call: None,
                identity: Identity::default(),
                places: ALL_PLACES,
                log: Log::default(),
                trace: None,
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
        core.probe = None;
        core.replay.forget();
        core.call = None;
        core.identity.clear();
        core.places = ALL_PLACES;
        core.log.clear();
        core.trace = None;
    }

    /// Finds the route, and makes the request what its filters are to see.
    fn begin<D>(&mut self, client: &ClientContext, down: &mut D, request: Request)
    where
        D: Downstream + ?Sized,
    {
        let Request { mut head, .. } = request;
        let snapshot = client.state.current();
        let peer = client.peer(&snapshot);
        let forwarded = Forwarded::new(&snapshot, &peer, client);
        self.core.call = Call::begin(client, &head);
        let log = &mut self.core.log;
        if snapshot.access.is_some() {
            let client = forwarded.client(&head);
            log.begin(&snapshot, (peer, client), Some(&head.view()));
        }
        if let Err(error) = self.core.begin_trace(client, &mut head) {
            self.core.log.set_report(&snapshot.no_route);
            return self.refuse(client, down, error, &[]);
        }
        let log = &mut self.core.log;
        if let Some(tls) = client.tls()
            && tls.is_misdirected(head.host())
        {
            log.set_report(&snapshot.no_route);
            return self.respond(client, down, 421, &[]);
        }
        if let Some(port) = client.settings().redirect_https {
            log.set_report(&snapshot.no_route);
            if head.is_connect() {
                return self.refuse_connect(client, down);
            }
            return match redirect::to_https(&head, port) {
                Some(location) => self.respond(client, down, 308, &[("location", &location)]),
                None => self.refuse(client, down, GatewayError::bad_request(), &[]),
            };
        }
        let route = match snapshot.gateway.router.route(&query_of(client, &head)) {
            Ok(route) => Rc::clone(&snapshot.routes[route]),
            Err(no_route) => {
                log.set_report(&snapshot.no_route);
                return self.refuse_unrouted(client, down, no_route, &snapshot, &head);
            }
        };
        log.set_report(&route.report);
        down.charge_to(&route.lease);
        if let Err(error) = self.translate(client, &route, &mut head) {
            return self.refuse(client, down, error, &[]);
        }
        let is_last_hop = match self.prepare(&route, &mut head, forwarded) {
            Ok(max_forwards) => max_forwards == MaxForwards::AnswerHere,
            Err(error) => return self.refuse(client, down, error, &[]),
        };
        if is_last_hop {
            self.core.answer = Some(answer_to_max_forwards(client, &snapshot, &head));
        }
        self.core.set_timeouts(client, &route, &head);
        let repeats = self.core.repeats(&route);
        self.core.replay.begin(&head, repeats);
        self.core.head = Some(head);
        self.core.route = Some(route);
        self.stage = Stage::Filtering(0);
    }

    /// Makes a call of gRPC of one of gRPC-Web where the servers can be those of gRPC.
    fn translate(
        &mut self,
        client: &ClientContext,
        route: &WorkerRoute,
        head: &mut RequestHead,
    ) -> Result<(), GatewayError> {
        let Some(call) = &mut self.core.call else {
            return Ok(());
        };
        let Dialect::Web { request, response } = call.dialect else {
            return Ok(());
        };
        if !route.pool().is_some_and(|pool| pool.is_multiplexed()) {
            return Ok(());
        }
        grpc::web::to_grpc(head, request)?;
        self.web = Some(WebCall::new((request, response), &route.lease)?);
        call.count(client, head);
        Ok(())
    }

    /// Says which server is wanted, and adds what origins are told of the client.
    fn prepare(
        &mut self,
        route: &WorkerRoute,
        head: &mut RequestHead,
        forwarded: Forwarded<'_>,
    ) -> Result<MaxForwards, GatewayError> {
        let core = &mut self.core;
        // Before it is changed: what a client sent tells where it belongs.
        let client = forwarded.client(head);
        if let Some(pool) = route.pool() {
            pool.select(&mut core.selection, head, client, core.began_at);
        }
        core.log.client = Some(client);
        forwarded.replace(head, &route.lease)?;
        head.fields
            .append_known(FieldId::Via, b"via", via_value(head.version))?;
        let method: &[u8] = match head.method() {
            b"OPTIONS" => b"OPTIONS",
            b"TRACE" => b"TRACE",
            _ => return Ok(MaxForwards::Absent),
        };
        MaxForwards::count_down(method, &mut head.fields)
    }

    /// No route is for it.
    fn refuse_connect<D>(&mut self, client: &ClientContext, down: &mut D)
    where
        D: Downstream + ?Sized,
    {
        let error = GatewayError::downstream(CloseReason::Unsupported, 501);
        self.refuse(client, down, error, &[]);
    }

    fn refuse_unrouted<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        no_route: NoRoute,
        snapshot: &Snapshot,
        head: &RequestHead,
    ) where
        D: Downstream + ?Sized,
    {
        match no_route {
            _ if head.is_connect() => self.refuse_connect(client, down),
            NoRoute::NotFound => self.respond(client, down, 404, &[]),
            NoRoute::MethodNotAllowed => {
                let allowed = allowed_methods(client, snapshot, head);
                self.respond(client, down, 405, &[("allow", &allowed)]);
            }
        }
    }

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
                Stage::Refusing => {
                    self.stage =
                        Stage::Over(ready!(self.poll_refusal(cx, now, client, deadline, down)));
                    Ok(())
                }
            };
            if let Err(error) = failed {
                self.refuse(client, down, error, &[]);
            }
        }
    }

    /// Ready where nobody waits any more for what the exchange waits for: the client has gone,
    /// or the time of the exchange is over.
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

    /// Answers with an error, and counts why.
    fn refuse<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        error: GatewayError,
        fields: &[(&str, &str)],
    ) where
        D: Downstream + ?Sized,
    {
        client.count_closed(error.reason);
        self.core.log.reason = Some(error.reason);
        if error.status == 499 {
            self.core.log.refused(error.status, 0);
            self.stage = Stage::Over(End::Aborted);
            return;
        }
        let retry_after = [("retry-after", "1")];
        let is_overloaded = error.status == 503;
        let fields = if is_overloaded { &retry_after } else { fields };
        self.respond(client, down, error.status, fields);
    }

    /// Answers with a status and a word about it.
    fn respond<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        status: u16,
        fields: &[(&str, &str)],
    ) where
        D: Downstream + ?Sized,
    {
        let settings = client.settings();
        let transport_security = settings.strict_transport_security.as_deref();
        let transport_security =
            transport_security.map(|value| ("strict-transport-security", value));
        // A call is told beside 200 (gRPC's "Trailers-Only").
        let code = Code::of(status, self.core.log.reason);
        let dialect = self.core.call.as_ref().map(|call| call.dialect);
        let media_type = dialect.map_or("", Dialect::media_type_of_refusal);
        let of_call = [
            ("content-type", media_type),
            ("grpc-status", code.as_str()),
            ("grpc-message", status::reason(status)),
        ];
        let is_call = self.core.call.is_some();
        let (status, of_call) = match &mut self.core.call {
            Some(call) => {
                call.refuse(code);
                (200, &of_call[..])
            }
            None => (status, &[][..]),
        };
        let with_ours: Vec<_>;
        let fields = if is_call || transport_security.is_some() {
            let ours = transport_security.iter().chain(of_call);
            with_ours = fields.iter().chain(ours).copied().collect();
            &with_ours
        } else {
            fields
        };
        // What the request held is free for others.
        self.attempt = None;
        self.hedge = None;
        self.core.probe = None;
        self.core.head = None;
        self.core.replay.forget();
        let page = self.page(status).filter(|_| !is_call);
        let content = match &page {
            _ if is_call => RefusalContent::Nothing,
            Some(page) => RefusalContent::Page(page),
            None => RefusalContent::Word,
        };
        let sent = down.put_refusal(&Refusal {
            status,
            fields,
            content,
        });
        self.core.log.refused(status, sent.unwrap_or(0));
        self.relay = Relay::new(Timeouts::default(), self.core.began_at);
        self.stage = match sent {
            Some(_) => Stage::Refusing,
            None => Stage::Over(End::Aborted),
        };
    }

    /// What the first filter that has something to say about `status` says.
    fn page(&mut self, status: u16) -> Option<Arc<Page>> {
        let mut filters = self.filters.get_mut().iter();
        filters.find_map(|attached| attached.filter.page(status))
    }

    fn poll_refusal<D>(
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
        let flushed = down.poll_flush(cx);
        if let Poll::Ready(flushed) = flushed {
            let end = flushed.map_or(End::Aborted, |()| End::Response);
            return Poll::Ready(end);
        }
        if !self.core.log.is_refusal_timed {
            self.core.log.is_refusal_timed = true;
            deadline.set(now, client.settings().timeouts.write_stall);
        }
        ready!(deadline.poll_passed(cx));
        Poll::Ready(End::Aborted)
    }
}

impl Core {
    /// What a request may be sent again after that is not idempotent.
    fn repeats(&self, route: &WorkerRoute) -> Repeats {
        let Some(pool) = route.pool() else {
            return Repeats::Never;
        };
        let policy = pool.settings().retry;
        let is_retried = self.call.is_some() && policy.is_some_and(|retry| retry.on.has_codes());
        if is_retried || pool.is_multiplexed() {
            Repeats::AfterWord
        } else {
            Repeats::Never
        }
    }

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

    /// How long the exchange may take, and each part of it.
    fn set_timeouts(&mut self, client: &ClientContext, route: &WorkerRoute, head: &RequestHead) {
        /// A local response is there at once.
        const LOCAL: Duration = Duration::from_secs(60);
        let local = match &route.target {
            // Its answer may take as long as the route lets it.
            RouteTarget::Guest(..) => route.total.unwrap_or(LOCAL),
            _ => LOCAL,
        };
        let upstream = route.pool().map(|pool| pool.settings().timeouts);
        let timeouts = client.settings().timeouts;
        // A call lasts for as long as its client says: there may be no end to it.
        let total = if self.call.is_some() {
            let mut said = head.fields.values_named(grpc::TIMEOUT);
            said.next().and_then(grpc::timeout)
        } else {
            route.total
        };
        let total_at = total.and_then(|total| self.began_at.checked_add(total));
        self.timeouts = Timeouts {
            request_content: timeouts.idle,
            write_stall: timeouts.write_stall,
            first_byte: upstream.map_or(local, |timeouts| timeouts.first_byte),
            upstream_idle: upstream.map_or(local, |timeouts| timeouts.idle),
            total_at,
        };
    }
}

/// RFC 9110 §7.6.2: who may not forward a request any further answers as its origin would.
/// `OPTIONS` is told what the route takes; what came is shown to nobody (`TRACE`).
fn answer_to_max_forwards(
    client: &ClientContext,
    snapshot: &Snapshot,
    head: &RequestHead,
) -> Box<Respond> {
    let allowed = allowed_methods(client, snapshot, head);
    let allow = (!allowed.is_empty()).then(|| ("allow".to_owned(), allowed));
    Box::new(Respond {
        status: if head.method() == b"TRACE" { 405 } else { 204 },
        body: Vec::new(),
        fields: allow.into_iter().collect(),
    })
}

/// The value of `Allow`. Off the hot path: it allocates.
fn allowed_methods(client: &ClientContext, snapshot: &Snapshot, head: &RequestHead) -> String {
    let methods = snapshot
        .gateway
        .router
        .allowed_methods(query_of(client, head));
    methods.collect::<Vec<_>>().join(", ")
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

fn query_of<'a>(client: &'a ClientContext, head: &'a RequestHead) -> RouteQuery<'a> {
    let cert = client.tls().and_then(|tls| tls.agreed.client.as_ref());
    let has_own = client.settings().routes == ListenerRoutes::Own;
    RouteQuery {
        listener: has_own.then_some(&client.listener.address),
        host: head.host(),
        path: head.path(),
        method: head.method(),
        preflight: cors::requested_method(head),
        query: head.query(),
        fields: &head.fields,
        client_cert: cert.map(|cert| &cert.summary),
    }
}

impl FieldLookup for FieldBlock {
    fn any_value(&self, name: &str, accept: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.values_named(name.as_bytes()).any(accept)
    }
}
