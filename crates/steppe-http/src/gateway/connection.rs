//! A client's connection: one exchange after the other.

use std::rc::Rc;
use std::time::Instant;

use steppe_net::PeerAddress;

use super::forward;
use super::listening::Door;
use super::worker::{self, WorkerGateway, WorkerState};
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::forwarded::Peer;
use crate::h1::{NextRequest, ServerConnection};
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use crate::router::{FieldLookup, NoRoute, RouteQuery};

/// A connection, and whose it is.
pub(super) struct Connection {
    pub(super) state: Rc<WorkerState>,
    /// The snapshot that the request under way is served by.
    pub(super) this: Rc<WorkerGateway>,
    pub(super) door: Rc<Door>,
    pub(super) server: ServerConnection,
    pub(super) address: PeerAddress,
    pub(super) peer: Peer,
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

pub(super) async fn serve(mut connection: Connection) {
    let mut now = Instant::now();
    // One place for the head: what is passed by value through the calls below has a
    // place in each of them, for as long as the connection lives.
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
        let this = &connection.this;
        let upstream = route.filter(|_| is_forwarded);
        let upstream = upstream.map(|route: usize| this.gateway.config.routes[route].upstream);
        this.metrics.request(
            route,
            upstream,
            status,
            now.saturating_duration_since(began_at),
        );
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

    /// Serves the request of `head`, and takes it; says what became of it, its
    /// status, its route, and whether a server answered.
    async fn exchange(
        &mut self,
        head: &mut Option<RequestHead>,
    ) -> (After, u16, Option<usize>, bool) {
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
        self.this.metrics.closed(error.reason);
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
