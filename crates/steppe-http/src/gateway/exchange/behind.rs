//! What stands behind a filter on its route, asked in an exchange of its own.
//!
//! Such an exchange has the route and the client's address of the one that the filter saw, and neither its
//! connection nor its end: a task of the worker polls it. It is not logged or counted as a request; what it
//! does to its servers is.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use steppe_net::clock;
use tokio::task::spawn_local;

use super::{Exchange, Running, Stage, pool};
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::filter::{Behind, Identity, MakeBehind, Token};
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::WorkerRoute;
use crate::head::RequestHead;

/// Where a request is seen by a filter.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) client: &'a ClientContext,
    pub(super) route: &'a Rc<WorkerRoute>,
    /// The filter's, on the route.
    pub(super) place: usize,
}

/// What a [`Behind`] is made of.
pub(super) struct Place<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) client: IpAddr,
    pub(super) identity: &'a Identity,
}

/// The rest of a route behind one filter.
struct Rest {
    context: Rc<ClientContext>,
    route: Rc<WorkerRoute>,
    /// Of the filter that comes next.
    place: usize,
    client: IpAddr,
    token: Option<Arc<Token>>,
    is_authenticated: bool,
}

impl MakeBehind for Place<'_> {
    fn make(&self) -> Rc<dyn Behind> {
        Rc::new(Rest {
            context: self.seen.client.detached(),
            route: Rc::clone(self.seen.route),
            place: self.seen.place + 1,
            client: self.client,
            token: self.identity.token(),
            is_authenticated: self.identity.is_authenticated(),
        })
    }
}

impl Behind for Rest {
    #[expect(
        clippy::disallowed_methods,
        reason = "an exchange of a filter's own begins"
    )]
    fn ask(&self, head: RequestHead, down: Box<dyn Downstream>) -> Result<(), GatewayError> {
        let now = clock::now();
        let exchange = pool::take(self.context.exchange_lease(), now);
        let mut exchange = exchange.ok_or_else(GatewayError::over_budget)?;
        exchange.begin_behind(self, head);
        let client = Rc::clone(&self.context);
        let mut down = down;
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
}

impl Exchange {
    fn begin_behind(&mut self, rest: &Rest, head: RequestHead) {
        let core = &mut self.core;
        let route = &rest.route;
        if let Some(pool) = route.pool() {
            pool.select(&mut core.selection, &head, rest.client, core.began_at);
        }
        core.log.client = Some(rest.client);
        if let Some(token) = &rest.token {
            core.identity.set(Arc::clone(token));
        }
        if rest.is_authenticated {
            core.identity.authenticate();
        }
        core.places.start = rest.place;
        core.set_timeouts(&rest.context, route, &head);
        let repeats = core.repeats(route);
        core.replay.begin(&head, repeats);
        core.head = Some(head);
        core.route = Some(Rc::clone(route));
        self.stage = Stage::Filtering(rest.place);
    }
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "behind filter {}", self.seen.place)
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from filter {} on", self.place)
    }
}
