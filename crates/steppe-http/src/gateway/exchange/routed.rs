//! A request that has a route: all that its filters and attempts share.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use steppe_net::proxy_protocol::Ends;

use super::grpc_call::GrpcCall;
use super::journal::Journal;
use crate::error::{GatewayError, Origin};
use crate::exchange::Part;
use crate::field::FieldId;
use crate::filter::Filter;
use crate::gateway::client::ClientContext;
use crate::gateway::replay::{Repeats, Replay};
use crate::gateway::snapshot::{RouteFilter, RouteTarget, WorkerRoute};
use crate::grpc;
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use crate::relay::Timeouts;
use crate::upstream::{Pool, Selection};

/// A request that has a route, until its response is over or a tunnel begins.
pub(super) struct Routed {
    pub(super) route: Rc<WorkerRoute>,
    /// The client, as far as trusted proxies vouch for it.
    pub(super) client: IpAddr,
    pub(super) timeouts: Timeouts,
    /// The servers that were tried, and what the choice of the next one goes by.
    pub(super) selection: Selection,
    /// The copy of the request that is kept, to be sent again.
    pub(super) replay: Replay,
    /// Content that a filter has taken, as far as it did not go on yet.
    #[expect(
        clippy::box_collection,
        reason = "few have it, and an exchange stays small"
    )]
    pub(super) content: Option<Box<VecDeque<Part>>>,
    /// The filters of the route that see the response, by place.
    pub(super) places: Range<usize>,
    /// The place of the filter that answered: its own response is not shown to it.
    pub(super) answered_by: Option<usize>,
}

impl Routed {
    /// The request `head` of `client` on `route`, which is shown to the filters from `first` on.
    pub(super) fn new(
        route: &Rc<WorkerRoute>,
        head: &RequestHead,
        origin: RequestOrigin<'_>,
    ) -> Self {
        let select = |pool: &Rc<Pool>| pool.select(head, origin.client);
        let selection = route.pool().map(select).unwrap_or_default();
        let mut replay = Replay::default();
        replay.begin(head, repeats(route, origin.call));
        Self {
            timeouts: timeouts(route, head, &origin),
            route: Rc::clone(route),
            client: origin.client,
            selection,
            replay,
            content: None,
            places: origin.first_filter..route.filters.len(),
            answered_by: None,
        }
    }

    /// The pool of the route's servers, where it has servers.
    pub(super) fn pool(&self) -> Option<&Rc<Pool>> {
        self.route.pool()
    }

    /// True for the request of a filter, whose response has no client of its own.
    pub(super) fn is_subrequest(&self) -> bool {
        // The filter that sends it does not see it.
        self.places.start > 0
    }

    /// The filters that see the response, in the order in which they see a request.
    pub(super) fn filters(&self) -> impl DoubleEndedIterator<Item = &dyn Filter> {
        let filters = &self.route.filters[self.places.clone()];
        filters.iter().map(|each| &*each.filter)
    }

    /// Notes that the filter at `place` answers, or refuses, the request.
    pub(super) fn note_answer_of(&mut self, place: usize, journal: &mut Journal) {
        let RouteFilter { name, metrics, .. } = &self.route.filters[place];
        metrics.count_answer();
        journal.answered_by = Some(Rc::clone(name));
        self.answered_by = Some(place);
    }

    /// Notes that the filter at `place` refuses the request, unless the node itself is the reason.
    pub(super) fn refused(&mut self, place: usize, error: &GatewayError, journal: &mut Journal) {
        if error.origin != Origin::Internal {
            self.note_answer_of(place, journal);
        }
    }

    /// Both ends of the client's connection, for servers that are told them.
    pub(super) fn ends(&self, client: &ClientContext) -> Option<Ends> {
        client.ends(self.client)
    }

    /// # Errors
    /// The time of the exchange is over.
    pub(super) fn check_time(&self, now: Instant) -> Result<(), GatewayError> {
        match self.timeouts.total_at {
            Some(ends_at) if ends_at <= now => {
                Err(GatewayError::timeout(CloseReason::TotalTimeout))
            }
            _ => Ok(()),
        }
    }

    /// True when an attempt that begins now has at least half of the time that the exchange may take: otherwise
    /// its server is not to blame where that passes.
    pub(super) fn has_fair_time(&self, began_at: Instant, now: Instant) -> bool {
        self.timeouts.total_at.is_none_or(|ends_at| {
            let whole = ends_at.saturating_duration_since(began_at);
            2 * ends_at.saturating_duration_since(now) >= whole
        })
    }

    /// Writes into the head of a call of gRPC how long it may still take.
    pub(super) fn shorten_timeout(
        &self,
        head: &mut RequestHead,
        now: Instant,
    ) -> Result<(), GatewayError> {
        if let Some(ends_at) = self.timeouts.total_at {
            let left = ends_at.saturating_duration_since(now);
            let mut room = grpc::TimeoutText::default();
            let text = grpc::write_timeout(left, &mut room);
            head.fields.set(grpc::TIMEOUT, text)?;
        }
        Ok(())
    }
}

/// The rest of what the treatment of a request goes by.
pub(super) struct RequestOrigin<'a> {
    pub(super) context: &'a ClientContext,
    /// The client, as far as trusted proxies vouch for it.
    pub(super) client: IpAddr,
    pub(super) began_at: Instant,
    pub(super) call: Option<&'a GrpcCall>,
    /// The place of the first filter that sees it.
    pub(super) first_filter: usize,
}

/// The events after which a request that is not idempotent may be sent again.
fn repeats(route: &WorkerRoute, call: Option<&GrpcCall>) -> Repeats {
    let Some(pool) = route.pool() else {
        return Repeats::Never;
    };
    let policy = pool.settings().retry;
    let is_retried = call.is_some() && policy.is_some_and(|retry| retry.on.has_codes());
    if is_retried || pool.is_multiplexed() {
        Repeats::OnServerStatement
    } else {
        Repeats::Never
    }
}

/// The time that the exchange may take, and each part of it.
fn timeouts(route: &WorkerRoute, head: &RequestHead, origin: &RequestOrigin<'_>) -> Timeouts {
    /// A local response is there at once.
    const LOCAL: Duration = Duration::from_secs(60);
    let local = match &route.target {
        // Its answer may take as long as the route lets it.
        RouteTarget::Guest(..) => route.total.unwrap_or(LOCAL),
        _ => LOCAL,
    };
    let upstream = route.pool().map(|pool| pool.settings().timeouts);
    let timeouts = origin.context.settings().timeouts;
    // A call lasts for as long as its client says: there may be no end to it.
    let total = if origin.call.is_some() {
        let mut said = head.fields.values_named(grpc::TIMEOUT);
        said.next().and_then(grpc::timeout)
    } else {
        route.total
    };
    Timeouts {
        request_content: timeouts.idle,
        response_content: timeouts.write_stall,
        first_byte: upstream.map_or(local, |timeouts| timeouts.first_byte),
        upstream_idle: upstream.map_or(local, |timeouts| timeouts.idle),
        total_at: total.and_then(|total| origin.began_at.checked_add(total)),
    }
}

/// The scheme that the client asked by, as far as trusted proxies vouch for it: the field is theirs or the gateway's
/// own.
pub(super) fn scheme(head: &RequestHead, client: &ClientContext) -> &'static str {
    let mut told = head.fields.values(FieldId::XForwardedProto);
    match (told.next(), told.next()) {
        (Some(b"http"), None) => "http",
        (Some(b"https"), None) => "https",
        _ => client.scheme(),
    }
}
