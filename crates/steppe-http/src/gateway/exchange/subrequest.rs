//! Requests that a filter sends through the rest of its route.
//!
//! A subrequest has the route and the client's address of the exchange that the filter saw, and neither its
//! connection nor its end: a task of the worker polls it. It is not logged or counted as a request; the
//! failures of its servers are.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::filter::{Behind, Identity, MakeBehind, Token};
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::WorkerRoute;
use crate::head::RequestHead;

/// Starts the exchange of a subrequest: exchanges stand above filters.
pub(super) type StartSubrequest =
    fn(&RestOfRoute, RequestHead, Box<dyn Downstream>) -> Result<(), GatewayError>;

/// Makes the rest of a route behind one filter, for a filter that asks for it.
pub(super) struct SubrequestFactory<'a> {
    pub(super) context: &'a ClientContext,
    pub(super) route: &'a Rc<WorkerRoute>,
    /// The place of the filter on the route.
    pub(super) place: usize,
    pub(super) client: IpAddr,
    pub(super) identity: &'a Identity,
    pub(super) start: StartSubrequest,
}

/// The rest of a route behind one filter.
pub(super) struct RestOfRoute {
    pub(super) context: Rc<ClientContext>,
    pub(super) route: Rc<WorkerRoute>,
    /// The place of the filter that comes next.
    pub(super) place: usize,
    pub(super) client: IpAddr,
    token: Option<Arc<Token>>,
    api_key: Option<Arc<str>>,
    is_authenticated: bool,
    start: StartSubrequest,
}

impl RestOfRoute {
    /// Tells filters who the client is, as far as those before found out.
    pub(super) fn identify(&self, identity: &Identity) {
        if let Some(token) = &self.token {
            identity.set(Arc::clone(token));
        }
        if let Some(name) = &self.api_key {
            identity.set_api_key(Arc::clone(name));
        }
        if self.is_authenticated {
            identity.authenticate();
        }
    }
}

impl MakeBehind for SubrequestFactory<'_> {
    fn make(&self) -> Rc<dyn Behind> {
        Rc::new(RestOfRoute {
            context: self.context.detached(),
            route: Rc::clone(self.route),
            place: self.place + 1,
            client: self.client,
            token: self.identity.token(),
            api_key: self.identity.api_key(),
            is_authenticated: self.identity.is_authenticated(),
            start: self.start,
        })
    }
}

impl Behind for RestOfRoute {
    fn ask(&self, head: RequestHead, down: Box<dyn Downstream>) -> Result<(), GatewayError> {
        (self.start)(self, head, down)
    }
}

impl fmt::Debug for SubrequestFactory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "behind filter {}", self.place)
    }
}

impl fmt::Debug for RestOfRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from filter {} on", self.place)
    }
}
