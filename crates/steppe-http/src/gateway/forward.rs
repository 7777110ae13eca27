//! One exchange with the upstream of its route.

mod retry;

use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use steppe_mem::{Buffer, Lease, OverBudget};

use super::Gateway;
use super::connection::{After, Connection};
use crate::config::UpstreamKind;
use crate::error::GatewayError;
use crate::exchange::Upstream;
use crate::field::{FieldBlock, FieldId};
use crate::files::FileResponder;
use crate::forwarded::{Forwarding, Incoming, Peer, Received};
use crate::h1::ServerConnection;
use crate::h1::encode::{self, Encoder};
use crate::head::{RequestHead, ResponseHead, Version};
use crate::made::{Made, Make};
use crate::proxy_protocol::EncodedHeader;
use crate::relay::{Continue, Patience, Relay, Relayed};
use crate::respond::Responder;
use crate::upstream::{Connected, Pool, Selection};
use retry::Forward;

/// What came of a relay, and what the client has seen of it.
struct Outcome {
    result: Result<Relayed, GatewayError>,
    /// The status that the client was sent, if any.
    status: Option<u16>,
}

impl Outcome {
    /// Of a relay that never began.
    fn failed(error: GatewayError) -> Self {
        Self {
            result: Err(error),
            status: None,
        }
    }
}

/// Serves a routed request; says what became of it, its status, and whether a
/// server answered.
pub(super) async fn exchange(
    connection: &mut Connection,
    head: &mut Option<RequestHead>,
    route: usize,
) -> (After, u16, bool) {
    let this = Rc::clone(&connection.this);
    let gateway = &*this.gateway;
    let lease = connection.this.leases[route].clone();
    let target = &gateway.config.routes[route].target;
    let pool = target
        .upstream()
        .and_then(|index| this.pools[index].as_ref());
    let is_named = pool.is_some_and(|pool| pool.settings().proxy_protocol.is_some());
    if is_named && connection.notes.client.is_none() {
        let head = head.as_ref().expect("a request was read");
        connection.notes.client = Some(client(gateway, connection, head));
    }
    let selection = match begin(gateway, connection, head, route, pool, &lease) {
        Ok(selection) => selection,
        Err(error) => {
            *head = None;
            return (connection.refuse(error, &[]).await, error.status, false);
        }
    };
    let kind = target
        .upstream()
        .map(|index| &gateway.config.upstreams[index].kind);
    let outcome = match kind {
        Some(UpstreamKind::Respond(respond)) => {
            let is_head = head.take().is_some_and(|head| head.method() == b"HEAD");
            let made = Responder::new(respond, is_head, &lease);
            serve_made(connection, gateway, route, made).await
        }
        Some(UpstreamKind::Servers(_)) => {
            let pool = pool.expect("servers have a pool");
            Forward::new(connection, gateway, route, pool, &lease, selection)
                .run(head)
                .await
        }
        None => {
            let served = this.served[route].as_ref().expect("it has no upstream");
            let head = head.take().expect("a request was read");
            let made = FileResponder::new(head, served, &lease);
            // In a box: every connection would have room for it, and most serve no files.
            Box::pin(serve_made(connection, gateway, route, made)).await
        }
    };
    *head = None;
    finish(connection, outcome).await
}

/// Says which server is wanted, and makes the request what that shall see.
fn begin(
    gateway: &Gateway,
    connection: &Connection,
    head: &mut Option<RequestHead>,
    route: usize,
    pool: Option<&Rc<Pool>>,
    lease: &Lease,
) -> Result<Selection, GatewayError> {
    let head = head.as_mut().expect("a request was read");
    // Before it is changed: what a client sent says where it belongs.
    let selection = pool.map(|pool| pool.select(head, || client(gateway, connection, head)));
    prepare(gateway, connection, head, route, lease)?;
    Ok(selection.unwrap_or_default())
}

/// Makes the request what the origin shall see: forwarding fields, `Via`, filters.
fn prepare(
    gateway: &Gateway,
    connection: &Connection,
    head: &mut RequestHead,
    route: usize,
    lease: &Lease,
) -> Result<(), GatewayError> {
    set_forwarding(gateway, connection, head, lease)?;
    head.fields
        .append_known(FieldId::Via, b"via", via(head.version))?;
    for &filter in &gateway.config.routes[route].filters {
        gateway.filters[filter].request(head)?;
    }
    Ok(())
}

fn via(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"1.0 steppe",
        Version::Http11 => b"1.1 steppe",
    }
}

/// Replaces the fields that say where a request comes from by what is true of it.
fn set_forwarding(
    gateway: &Gateway,
    connection: &Connection,
    head: &mut RequestHead,
    lease: &Lease,
) -> Result<(), OverBudget> {
    // Long lists are rare: they get a buffer, after the room on the stack was not enough.
    let mut room = [0; FORWARDING_BYTES];
    let mut encoder = Encoder::new(&mut room);
    let ends = write_forwarding(gateway, connection, head, &mut encoder);
    if encoder.finish().is_some() {
        return replace_forwarding(&connection.peer, &mut head.fields, &room, ends);
    }
    let ends = Cell::new([0; FORWARDING_LINES]);
    let values = Encoder::encode(lease, 2 * head.fields.bytes().len(), |out| {
        ends.set(write_forwarding(gateway, connection, head, out));
    })?;
    replace_forwarding(
        &connection.peer,
        &mut head.fields,
        values.filled(),
        ends.get(),
    )
}

const FORWARDING_LINES: usize = 4;

/// What the values of the four fields usually take.
const FORWARDING_BYTES: usize = 512;

/// Writes the values of the four fields, one after the other; says where each ends.
fn write_forwarding(
    gateway: &Gateway,
    connection: &Connection,
    head: &RequestHead,
    out: &mut Encoder<'_>,
) -> [usize; FORWARDING_LINES] {
    let forwarding = forwarding(gateway, connection, head);
    forwarding.write_forwarded(out);
    let first = out.written();
    forwarding.write_x_forwarded_for(out);
    let second = out.written();
    forwarding.write_x_forwarded_proto(out);
    let third = out.written();
    forwarding.write_x_forwarded_host(out);
    [first, second, third, out.written()]
}

/// Who the client is, as far as trusted proxies vouch for it.
pub(super) fn client(gateway: &Gateway, connection: &Connection, head: &RequestHead) -> IpAddr {
    forwarding(gateway, connection, head).client()
}

fn forwarding<'a>(
    gateway: &Gateway,
    connection: &'a Connection,
    head: &'a RequestHead,
) -> Forwarding<'a, impl DoubleEndedIterator<Item = &'a [u8]> + Clone> {
    let fields = &head.fields;
    let incoming = Incoming {
        forwarded: fields.values(FieldId::Forwarded),
        x_forwarded_for: fields.values(FieldId::XForwardedFor),
        x_forwarded_proto: fields.values(FieldId::XForwardedProto),
        x_forwarded_host: fields.values(FieldId::XForwardedHost),
    };
    let received = Received {
        host: head.authority(),
        proto: "http",
    };
    Forwarding::new(
        &connection.peer,
        &gateway.config.trusted_proxies,
        received,
        incoming,
    )
}

fn replace_forwarding(
    peer: &Peer,
    fields: &mut FieldBlock,
    values: &[u8],
    ends: [usize; FORWARDING_LINES],
) -> Result<(), OverBudget> {
    const NAMES: [(FieldId, &[u8]); FORWARDING_LINES] = [
        (FieldId::Forwarded, b"forwarded"),
        (FieldId::XForwardedFor, b"x-forwarded-for"),
        (FieldId::XForwardedProto, b"x-forwarded-proto"),
        (FieldId::XForwardedHost, b"x-forwarded-host"),
    ];
    fields.remove_where(|id| peer.is_replaced(id));
    let mut start = 0;
    for ((id, name), end) in NAMES.into_iter().zip(ends) {
        // A request that names no host has nothing to say in the last one.
        if end > start {
            fields.append_known(id, name, &values[start..end])?;
        }
        start = end;
    }
    Ok(())
}

/// Relays a response that is made here.
async fn serve_made(
    connection: &mut Connection,
    gateway: &Gateway,
    route: usize,
    made: Result<impl Make, GatewayError>,
) -> Outcome {
    match made {
        Ok(made) => {
            let told = OnHead {
                patience: patience(gateway, &connection.server, route, None),
                now: Instant::now(),
                accept: |_: &mut ResponseHead| Ok(()),
            };
            relay(connection, gateway, route, &mut Made(made), told).await
        }
        Err(error) => Outcome::failed(error),
    }
}

/// The request's head, after what its server is to know first. A connection that is told
/// whom it is for carries this one request, so that goes along with it.
fn encode_request(
    connection: &Connection,
    head: &RequestHead,
    pool: &Pool,
    connected: &Connected,
    lease: &Lease,
) -> Result<Buffer, OverBudget> {
    let header = pool.settings().proxy_protocol;
    let header = header.map(|version| EncodedHeader::new(version, connection.ends()));
    let before = header.as_ref().map_or(&b""[..], EncodedHeader::as_bytes);
    if head.authority().is_empty() {
        return encode::request(head, &pool.authority(connected), before, lease);
    }
    encode::request(head, "", before, lease)
}

/// How long the exchange may take, and each part of it.
fn patience(
    gateway: &Gateway,
    server: &ServerConnection,
    route: usize,
    pool: Option<&Rc<Pool>>,
) -> Patience {
    /// A response from the configuration is there at once.
    const AT_ONCE: Duration = Duration::from_secs(60);
    let upstream = pool.map(|pool| pool.settings().timeouts);
    let total = gateway.config.routes[route]
        .total
        .or(upstream.and_then(|timeouts| timeouts.total));
    let timeouts = server.settings().timeouts;
    Patience {
        request_content: timeouts.idle,
        write_stall: timeouts.write_stall,
        first_byte: upstream.map_or(AT_ONCE, |timeouts| timeouts.first_byte),
        upstream_idle: upstream.map_or(AT_ONCE, |timeouts| timeouts.idle),
        total_at: total.and_then(|total| server.began_at().checked_add(total)),
    }
}

/// What a relay is told beside its two sides.
struct OnHead<A> {
    patience: Patience,
    now: Instant,
    /// Sees the final head first, and may refuse it.
    accept: A,
}

async fn relay(
    connection: &mut Connection,
    gateway: &Gateway,
    route: usize,
    upstream: &mut impl Upstream,
    mut told: OnHead<impl FnMut(&mut ResponseHead) -> Result<(), GatewayError>>,
) -> Outcome {
    let mut status = None;
    let metrics = Rc::clone(&connection.this.metrics);
    let (mut side, deadline) = connection.server.split_deadline();
    let mut relay = Relay::new(&mut side, upstream, deadline, told.patience, told.now);
    let mut tunnel = None;
    let mut on_head = |_: &mut _, head: &mut ResponseHead| {
        (told.accept)(head)?;
        let filters = gateway.config.routes[route].filters.iter().rev();
        for &filter in filters {
            gateway.filters[filter].response(head)?;
        }
        head.fields
            .append_known(FieldId::Via, b"via", via(head.version))?;
        status = Some(head.status);
        if head.status == 101 {
            tunnel = Some(Tunnel::new(Rc::clone(&metrics)));
        }
        Ok(if is_event_stream(head) {
            Continue::Endless
        } else {
            Continue::Bounded
        })
    };
    let result = poll_fn(|cx| relay.poll(cx, &mut on_head)).await;
    let has_begun = relay.has_response_begun();
    Outcome {
        result,
        status: status.filter(|_| has_begun),
    }
}

/// Counts a tunnel for as long as it lasts.
struct Tunnel(Rc<crate::metrics::WorkerMetrics>);

impl Tunnel {
    fn new(metrics: Rc<crate::metrics::WorkerMetrics>) -> Self {
        metrics.tunnel_opened();
        Self(metrics)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.0.tunnel_closed();
    }
}

/// WHATWG HTML §9.2: it lasts for as long as its server has something to say.
fn is_event_stream(head: &ResponseHead) -> bool {
    const TYPE: &[u8] = b"text/event-stream";
    let value = head
        .fields
        .values(FieldId::ContentType)
        .next()
        .unwrap_or_default();
    value
        .get(..TYPE.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
}

async fn finish(connection: &mut Connection, outcome: Outcome) -> (After, u16, bool) {
    let server = &mut connection.server;
    match (outcome.result, outcome.status) {
        (Ok(relayed), Some(status)) if relayed.was_tunnel => (After::Close, status, true),
        (Ok(_), Some(status)) if server.is_reusable() => (After::NextRequest, status, true),
        (Ok(_), status) => (After::Linger, status.unwrap_or(502), true),
        // Part of the response is out: a cut connection is all that can tell the client.
        (Err(error), Some(status)) if !connection.server.retract() => {
            connection.closed(error.reason);
            (After::Close, status, true)
        }
        (Err(error), _) => {
            let after = connection.refuse(error, &[]).await;
            (after, error.status, false)
        }
    }
}
