//! A request finds its route, and becomes what its filters are to see.

use std::rc::Rc;
use std::time::Duration;

use super::call::Call;
use super::{ClientContext, Core, Exchange, Request, Stage, via_value};
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::field::{FieldBlock, FieldId};
use crate::filter::cors;
use crate::gateway::forwarding::Forwarded;
use crate::gateway::redirect;
use crate::gateway::replay::Repeats;
use crate::gateway::snapshot::{RouteTarget, Snapshot, WorkerRoute};
use crate::gateway::web::WebCall;
use crate::grpc::{self, Dialect};
use crate::head::RequestHead;
use crate::max_forwards::MaxForwards;
use crate::relay::Timeouts;
use crate::respond::Respond;
use crate::router::{FieldLookup, RouteQuery};

impl Exchange {
    /// Finds the route, and makes the request what its filters are to see.
    pub(super) fn begin<D>(&mut self, client: &ClientContext, down: &mut D, request: Request)
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
        let begun = head.normalize_host().map_err(GatewayError::from);
        if let Err(error) = begun.and_then(|()| self.core.begin_trace(client, &snapshot, &mut head))
        {
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
        if route.pool().is_some() {
            log.set_name(head.host(), head.path());
        }
        down.charge_to(&route.lease);
        if let Err(error) = self.translate(client, &route, &mut head) {
            return self.refuse(client, down, error, &[]);
        }
        let is_last_hop = match self.prepare(&route, &mut head, forwarded) {
            Ok(max_forwards) => max_forwards == MaxForwards::AnswerHere,
            Err(error) => return self.refuse(client, down, error, &[]),
        };
        let address = self.core.log.client;
        self.core.visitor = address.and_then(|at| client.visit(at)).map(Box::new);
        if is_last_hop {
            self.core.answer = Some(answer_to_max_forwards(client, &snapshot, &head));
        }
        self.core.set_timeouts(client, &route, &head);
        let repeats = self.core.repeats(&route);
        self.core.replay.begin(&head, repeats);
        self.core.head = Some(head);
        if (route.pool()).is_some_and(|pool| pool.settings().sticky.is_some()) {
            let scheme = self.core.scheme(client);
            self.core.selection.set_scheme(scheme);
        }
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
}

impl Core {
    /// What a request may be sent again after that is not idempotent.
    pub(super) fn repeats(&self, route: &WorkerRoute) -> Repeats {
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

    /// How long the exchange may take, and each part of it.
    pub(super) fn set_timeouts(
        &mut self,
        client: &ClientContext,
        route: &WorkerRoute,
        head: &RequestHead,
    ) {
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
            response_content: client.write_timeout(),
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
pub(super) fn allowed_methods(
    client: &ClientContext,
    snapshot: &Snapshot,
    head: &RequestHead,
) -> String {
    let methods = snapshot
        .gateway
        .router
        .allowed_methods(query_of(client, head));
    methods.collect::<Vec<_>>().join(", ")
}

fn query_of<'a>(client: &'a ClientContext, head: &'a RequestHead) -> RouteQuery<'a> {
    let cert = client.tls().and_then(|tls| tls.agreed.client.as_ref());
    RouteQuery {
        listener: &client.listener.address,
        routes: client.settings().routes,
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
    fn each_value(&self, name: &str, with: &mut dyn FnMut(&[u8])) {
        self.values_named(name.as_bytes()).for_each(with);
    }
}
