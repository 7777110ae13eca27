//! A request finds its route, and becomes the request that filters see.

use std::net::IpAddr;

use super::env::Env;
use super::grpc_call::GrpcCall;
use super::on_route::OnRoute;
use super::request::Request;
use super::routed::{RequestOrigin, Routed, scheme};
use super::trace::Trace;
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::field::{FieldBlock, FieldId};
use crate::filter::cors;
use crate::gateway::client::ClientContext;
use crate::gateway::forwarded_fields::Forwarded;
use crate::gateway::redirect;
use crate::gateway::snapshot::{Snapshot, WorkerRoute};
use crate::gateway::web::WebCall;
use crate::grpc::{self, Dialect};
use crate::head::RequestHead;
use crate::max_forwards::MaxForwards;
use crate::metrics::CloseReason;
use crate::respond::Respond;
use crate::router::{FieldLookup, NoRoute, RouteQuery};

/// A request that has a route, which has entered its stage.
pub(super) struct Begun {
    /// The client, as far as trusted proxies vouch for it.
    pub(super) client: IpAddr,
    /// The translation of a call of gRPC-Web.
    pub(super) web: Option<Box<WebCall>>,
}

/// The reason why a request is answered before it has a route.
pub(super) enum Unrouted {
    /// An error, which is counted.
    Error(GatewayError),
    /// A status, perhaps with a field.
    Status(u16, Option<(&'static str, String)>),
}

impl From<GatewayError> for Unrouted {
    fn from(error: GatewayError) -> Self {
        Self::Error(error)
    }
}

/// Finds the route of a request, and makes the request what its filters are to see. `enter` puts the [`OnRoute`] into its
/// stage: it is large, and would be copied by each function that returns it.
pub(super) fn begin<D>(
    env: &mut Env<'_, '_, D>,
    request: Request,
    enter: impl FnOnce(OnRoute),
) -> Result<Begun, Unrouted>
where
    D: Downstream + ?Sized,
{
    let begun = begin_on_route(env, request, enter);
    if begun.is_err() && env.journal.log.report().is_none() {
        // Metrics and logs have a route without a name for it.
        let snapshot = env.client.state.current();
        env.journal.log.set_report(&snapshot.no_route);
    }
    begun
}

fn begin_on_route<D>(
    env: &mut Env<'_, '_, D>,
    request: Request,
    enter: impl FnOnce(OnRoute),
) -> Result<Begun, Unrouted>
where
    D: Downstream + ?Sized,
{
    let Request { mut head, .. } = request;
    let client = env.client;
    let snapshot = client.state.current();
    let peer = client.peer(&snapshot);
    let forwarded = Forwarded::new(&snapshot, &peer, client);
    let journal = &mut *env.journal;
    journal.grpc_call = GrpcCall::begin(client, &head);
    if snapshot.access.is_some() {
        journal.log.client = Some(forwarded.client(&head));
        journal.log.begin(&snapshot, peer, Some(&head.view()));
    }
    head.normalize_host().map_err(GatewayError::from)?;
    journal.trace = Trace::begin(client, &snapshot, &mut head, journal.began_at)?;
    check_listener(client, &head)?;
    let route = match snapshot.gateway.router.route(&query_of(client, &head)) {
        Ok(route) => &snapshot.routes[route],
        Err(no_route) => return Err(unrouted(no_route, client, &snapshot, &head)),
    };
    journal.log.set_report(&route.report);
    journal.log.set_name(route, &head);
    env.down.charge_to(&route.lease);
    let web = translate(client, journal.grpc_call.as_mut(), route, &mut head)?;
    // Before the fields of forwarding are replaced: an upstream may choose a server by their hash.
    let address = forwarded.client(&head);
    journal.log.client = Some(address);
    let mut routed = Routed::new(
        route,
        &head,
        RequestOrigin {
            context: client,
            client: address,
            began_at: journal.began_at,
            call: journal.grpc_call.as_ref(),
            first_filter: 0,
        },
    );
    forwarded
        .replace(&mut head, &route.lease)
        .map_err(GatewayError::from)?;
    let via = head.version.via();
    (head.fields.append_known(FieldId::Via, b"via", via)).map_err(GatewayError::from)?;
    let is_last_hop = count_down(&mut head)? == MaxForwards::AnswerHere;
    let answer = is_last_hop.then(|| answer_to_max_forwards(client, &snapshot, &head));
    if (route.pool()).is_some_and(|pool| pool.settings().sticky.is_some()) {
        routed.selection.set_scheme(scheme(&head, client));
    }
    enter(OnRoute::new(routed, head, answer));
    Ok(Begun {
        client: address,
        web,
    })
}

/// Judges a request by its listener alone.
fn check_listener(client: &ClientContext, head: &RequestHead) -> Result<(), Unrouted> {
    if (client.tls()).is_some_and(|tls| tls.is_misdirected(head.host())) {
        return Err(Unrouted::Status(421, None));
    }
    match client.settings().redirect_https {
        None => Ok(()),
        Some(_) if head.is_connect() => Err(connect_refused()),
        Some(port) => Err(match redirect::to_https(head, port) {
            Some(location) => Unrouted::Status(308, Some(("location", location))),
            None => GatewayError::bad_request().into(),
        }),
    }
}

/// The answer to a request that no route matches.
fn unrouted(
    no_route: NoRoute,
    client: &ClientContext,
    snapshot: &Snapshot,
    head: &RequestHead,
) -> Unrouted {
    match no_route {
        _ if head.is_connect() => connect_refused(),
        NoRoute::NotFound => Unrouted::Status(404, None),
        NoRoute::MethodNotAllowed => {
            let allowed = allowed_methods(client, snapshot, head);
            Unrouted::Status(405, Some(("allow", allowed)))
        }
    }
}

/// The node connects to no server that a client names.
fn connect_refused() -> Unrouted {
    GatewayError::downstream(CloseReason::Unsupported, 501).into()
}

/// Makes a call of gRPC of one of gRPC-Web where the servers can be those of gRPC.
fn translate(
    client: &ClientContext,
    call: Option<&mut GrpcCall>,
    route: &WorkerRoute,
    head: &mut RequestHead,
) -> Result<Option<Box<WebCall>>, GatewayError> {
    let Some(call) = call else {
        return Ok(None);
    };
    let Dialect::Web { request, response } = call.dialect else {
        return Ok(None);
    };
    if !route.pool().is_some_and(|pool| pool.is_multiplexed()) {
        return Ok(None);
    }
    grpc::web::to_grpc(head, request)?;
    let web = WebCall::new(request, response, &route.lease)?;
    call.count(client, head);
    Ok(Some(web))
}

/// Counts down `Max-Forwards` (RFC 9110 §7.6.2), which has a meaning for two methods.
fn count_down(head: &mut RequestHead) -> Result<MaxForwards, GatewayError> {
    let method: &[u8] = match head.method() {
        b"OPTIONS" => b"OPTIONS",
        b"TRACE" => b"TRACE",
        _ => return Ok(MaxForwards::Absent),
    };
    MaxForwards::count_down(method, &mut head.fields)
}

/// The answer of a node that may not forward a request any further (RFC 9110 §7.6.2), as its origin's. `OPTIONS`
/// is told what the route takes; a request is not echoed (`TRACE`).
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
    let router = &snapshot.gateway.router;
    let methods = router.allowed_methods(query_of(client, head));
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
