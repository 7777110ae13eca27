//! A client's connection: one exchange after the other.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_net::PeerAddress;

use super::forward;
use super::listening::Door;
use super::worker::{self, WorkerGateway, WorkerState};
use crate::access::Ended;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::forwarded::Peer;
use crate::h1::{NextRequest, ServerConnection};
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use crate::proxy_protocol::{Ends, ProxyHeader};
use crate::router::{FieldLookup, NoRoute, RouteQuery};
use crate::upstream::TargetState;

/// A connection, and whose it is.
pub(super) struct Connection {
    pub(super) state: Rc<WorkerState>,
    /// The snapshot that the request under way is served by.
    pub(super) this: Rc<WorkerGateway>,
    pub(super) door: Rc<Door>,
    pub(super) server: ServerConnection,
    pub(super) address: PeerAddress,
    pub(super) peer: Peer,
    /// What the client connected to, where a proxy has said so.
    pub(super) destination: Option<SocketAddr>,
    pub(super) notes: Notes,
}

/// What is known of the exchange under way, for the access log and for servers that are
/// told whom a connection is for. Empty where neither asks.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// As far as trusted proxies vouch for it.
    pub(super) client: Option<IpAddr>,
    /// The server that was asked last.
    pub(super) server: Option<Arc<TargetState>>,
    /// Why it ended before its time.
    reason: Option<CloseReason>,
}

/// What is to become of the connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Another request may follow.
    NextRequest,
    /// The client has its response; what it may still send is of no interest.
    Linger,
    /// There is nobody to be polite to.
    Close,
}

/// Serves one request after the other. Borrows the connection: what is passed by value to an
/// async function has two more places in its caller's task, for as long as that lives.
pub(super) async fn serve(connection: &mut Connection) {
    if connection.server.settings().proxy_protocol && !Box::pin(connection.is_introduced()).await {
        return;
    }
    let mut now = Instant::now();
    // One place for the head, too.
    let mut head = None;
    loop {
        let next = connection.server.next_request(now).await;
        let refused = match next {
            NextRequest::Closed(reason) => {
                reason.inspect(|&reason| connection.this.metrics.closed(reason));
                return;
            }
            NextRequest::Refused(error) => Some(error),
            NextRequest::Request(request) => {
                head = Some(request);
                None
            }
        };
        let (after, status, route, is_forwarded) = if let Some(error) = refused {
            let after = connection.refuse(error, &[]).await;
            (after, error.status, None, false)
        } else {
            connection.follow();
            connection.exchange(&mut head).await
        };
        let began_at = connection.server.began_at();
        now = Instant::now();
        let elapsed = now.saturating_duration_since(began_at);
        let this = &connection.this;
        let upstream = route.filter(|_| is_forwarded);
        let upstream =
            upstream.and_then(|route: usize| this.gateway.config.routes[route].target.upstream());
        this.metrics.request(route, upstream, status, elapsed);
        connection.log(status, route, elapsed);
        match after {
            After::NextRequest => {}
            After::Linger => return connection.server.linger().await,
            After::Close => return,
        }
    }
}

impl Connection {
    /// Takes over the present snapshot, for the request that was just read.
    fn follow(&mut self) {
        if self.state.is_current(&self.this) {
            return;
        }
        self.this = self.state.current();
        self.peer = worker::peer_of(&self.this.gateway, self.address);
        self.server.set_settings(self.door.settings());
    }

    /// Learns from a trusted proxy who the client is. Anybody else is turned away: a header
    /// is asked for, and nobody would believe theirs.
    async fn is_introduced(&mut self) -> bool {
        let header = if self.peer.is_trusted() {
            self.server.proxy_header().await
        } else {
            Err(Some(CloseReason::ProxyProtocol))
        };
        match header {
            // Whoever is on a socket of the proxy's machine is as far away as the proxy.
            Ok(ProxyHeader::Own | ProxyHeader::Unix) => return true,
            Ok(ProxyHeader::For(ends)) => {
                self.address = PeerAddress::Ip(ends.source);
                self.destination = Some(ends.destination);
            }
            Err(reason) => {
                reason.inspect(|&reason| self.this.metrics.closed(reason));
                return false;
            }
        }
        self.peer = worker::peer_of(&self.this.gateway, self.address);
        true
    }

    /// Both ends of the connection that the request under way came by, its client's for
    /// the first; `None` where that is a local process.
    pub(super) fn ends(&self) -> Option<Ends> {
        let (ip, own) = (self.notes.client?, self.address);
        let source = match own {
            PeerAddress::Ip(address) if own.ip() == ip => SocketAddr::new(ip, address.port()),
            PeerAddress::Local if own.ip() == ip => return None,
            // Of a client beyond the peer nobody knows the port.
            _ => SocketAddr::new(ip, 0),
        };
        let destination = self.destination.or_else(|| self.server.local_address());
        Some(Ends {
            source,
            destination: destination?,
        })
    }

    /// Writes the line of the exchange that is over.
    fn log(&mut self, status: u16, route: Option<usize>, duration: Duration) {
        let notes = std::mem::take(&mut self.notes);
        let Some(access) = &self.this.access else {
            return;
        };
        let config = &self.this.gateway.config;
        let route = route.map(|route| &config.routes[route]);
        let upstream = route.and_then(|route| route.target.upstream());
        let upstream = upstream.map(|index| &config.upstreams[index]);
        let moved = self.server.moved();
        access.ended(Ended {
            client: notes.client.unwrap_or_else(|| self.peer.address()),
            peer: &self.peer,
            record: self.server.take_record(),
            status,
            sent_bytes: moved.sent,
            received_bytes: moved.received,
            duration,
            route: route.map(|route| route.name.as_str()),
            upstream: upstream.map(|upstream| upstream.name.as_str()),
            server: notes.server.as_ref().map(|server| server.address()),
            reason: notes.reason,
        });
    }

    /// Counts why an exchange ends before its time.
    pub(super) fn closed(&mut self, reason: CloseReason) {
        self.this.metrics.closed(reason);
        self.notes.reason = Some(reason);
    }

    /// Serves the request of `head`, and takes it; says what became of it, its
    /// status, its route, and whether a server answered.
    async fn exchange(
        &mut self,
        head: &mut Option<RequestHead>,
    ) -> (After, u16, Option<usize>, bool) {
        if self.this.access.is_some() {
            let head = head.as_ref().expect("a request was read");
            self.notes.client = Some(forward::client(&self.this.gateway, self, head));
        }
        let found = self.route(head.as_ref().expect("a request was read"));
        match found {
            Ok(route) => {
                self.server.charge_to(&self.this.leases[route]);
                let (after, status, is_forwarded) = forward::exchange(self, head, route).await;
                (after, status, Some(route), is_forwarded)
            }
            Err(NoRoute::NotFound) => {
                *head = None;
                (self.answer(404, &[]).await, 404, None, false)
            }
            Err(NoRoute::MethodNotAllowed) => {
                // Off the hot path: this one may allocate.
                let allowed = head.take().map(|head| self.allowed_methods(&head));
                let allowed = allowed.unwrap_or_default();
                let after = self.answer(405, &[("allow", &allowed)]).await;
                (after, 405, None, false)
            }
        }
    }

    fn route(&self, head: &RequestHead) -> Result<usize, NoRoute> {
        self.this.gateway.router.route(&query_of(head))
    }

    fn allowed_methods(&self, head: &RequestHead) -> String {
        let methods = self.this.gateway.router.allowed_methods(query_of(head));
        methods.collect::<Vec<_>>().join(", ")
    }

    /// Refuses a request, and counts why.
    pub(super) async fn refuse(&mut self, error: GatewayError, further: &[(&str, &str)]) -> After {
        self.closed(error.reason);
        if error.status == 499 {
            return After::Close;
        }
        let is_overloaded = error.status == 503;
        let retry_after = [("retry-after", "1")];
        let further = if is_overloaded { &retry_after } else { further };
        // After a request that can't be read there is no telling where the next begins.
        let is_readable = !matches!(
            error.reason,
            CloseReason::BadRequest
                | CloseReason::HeaderTooLarge
                | CloseReason::UriTooLong
                | CloseReason::HeaderTimeout
                | CloseReason::BodyTimeout
                | CloseReason::BodyTooLarge
                | CloseReason::Unsupported
        );
        if !is_readable {
            self.server.end_after_response();
        }
        self.answer(error.status, further).await
    }

    async fn answer(&mut self, status: u16, further: &[(&str, &str)]) -> After {
        match self.server.refuse(status, further).await {
            Ok(()) if self.server.is_reusable() => After::NextRequest,
            Ok(()) => After::Linger,
            Err(_) => After::Close,
        }
    }
}

fn query_of(head: &RequestHead) -> RouteQuery<'_> {
    RouteQuery {
        host: head.host(),
        path: head.path(),
        method: head.method(),
        query: head.query(),
        fields: &head.fields,
    }
}

impl FieldLookup for FieldBlock {
    fn any_value(&self, name: &str, accept: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.values_named(name.as_bytes()).any(accept)
    }
}
