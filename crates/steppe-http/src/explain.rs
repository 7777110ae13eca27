//! Explains the routing and filtering of a described request, without sending anything.
//!
//! Filters that decide by the request alone are run as the gateway runs them. The verdicts of
//! others
//! depend on state that is unknown beforehand: a bucket, a password, another service.
//!
//! Left out: conditions on a client's certificate, which a described request does not have.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use steppe_mem::{Budget, Lease};
use steppe_net::ListenAddress;

use crate::cache::Caches;
use crate::config::{self, Target};
use crate::error::GatewayError;
use crate::exchange::Downstream;
use crate::filter::{
    About, Behind, FileError, FilterParts, FilterVerdict, Identity, Judgment, MakeBehind, Token,
    cors, factory, target_of,
};
use crate::head::RequestHead;
use crate::router::{NoRoute, RouteQuery, Router, Unmet};

/// The description of a request to explain.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// The path, with a query or without one.
    pub target: &'a str,
    /// The field lines.
    pub fields: &'a [(String, String)],
    /// The client's address.
    pub client: IpAddr,
    /// The index of the listener that receives it.
    pub listener: usize,
    /// Claims that are taken as verified. `None`: those of the request's own token, if it has one.
    pub claims: Option<Map<String, Value>>,
    /// The time.
    pub now: Instant,
}

/// The result: route, filter steps and target of the request.
#[derive(Debug)]
pub struct Explained {
    /// The index of the route that matches.
    pub route: Result<usize, Unrouted>,
    /// Routes before it that have its host and path, by their indexes, each with the condition that it does not
    /// meet.
    pub passed_over: Vec<(usize, Unmet)>,
    /// Explanations of filters in order, up to the one that answers.
    pub steps: Vec<Explanation>,
    /// The request to the route's target, where no filter answers: a path in normal form, and a
    /// query; for a
    /// redirect, its `Location`.
    pub target: Option<String>,
}

/// The reason why no route matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrouted {
    /// The listener redirects to https: 308.
    ToHttps,
    /// No route matches: 404.
    NotFound,
    /// Routes match it only with these methods: 405.
    Methods(Vec<String>),
}

/// The judgment of one filter.
#[derive(Debug)]
pub struct Explanation {
    /// The filter's index in the configuration.
    pub filter: usize,
    /// The judgment.
    pub judgment: Judgment,
}

/// The reason why a request can't be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// A file that the configuration names can't be used.
    #[error("{}: {}", .0.key, .0.cause)]
    File(#[from] FileError),
    /// The request is malformed.
    #[error("the request is refused before routing: {}", .0.status)]
    Request(#[from] GatewayErrorStatus),
}

/// The status that the gateway refuses a request with.
#[derive(Debug)]
pub struct GatewayErrorStatus {
    /// 400 to 599.
    pub status: u16,
}

impl fmt::Display for GatewayErrorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)
    }
}

impl std::error::Error for GatewayErrorStatus {}

impl From<GatewayError> for ExplainError {
    fn from(error: GatewayError) -> Self {
        Self::Request(GatewayErrorStatus {
            status: error.status,
        })
    }
}

/// Room for one request and what filters keep.
const BUDGET_BYTES: u64 = 64 << 20;

/// Says what a gateway that serves `config` does with a request; reads the files that it names.
///
/// # Errors
/// Where a file can't be used, or the request is malformed.
pub fn explain(config: &config::Gateway, asked: &Asked<'_>) -> Result<Explained, ExplainError> {
    let filters = config.filters.iter();
    let files = filters.map(|filter| factory(&filter.kind).load(&filter.name));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let budget = Budget::new(BUDGET_BYTES);
    let lease = budget.root().lease();
    let mut head = head_of(asked, &lease)?;
    let mut passed_over = Vec::new();
    let route = route(config, asked, &head, &mut passed_over);
    let Ok(index) = route else {
        return Ok(Explained {
            route,
            passed_over,
            steps: Vec::new(),
            target: None,
        });
    };
    let identity = Identity::default();
    if let Some(claims) = &asked.claims {
        identity.set(Arc::new(Token::said(claims.clone())));
    }
    let listener = &config.listeners[asked.listener].address;
    let about = About {
        client: asked.client,
        listener,
        route: &config.routes[index].name,
        lease: &lease,
        identity: &identity,
        pool: None,
        scheme: match config.listeners[asked.listener].tls {
            Some(_) => "https",
            None => "http",
        },
        behind: &Nobody,
        now: asked.now,
    };
    let mut steps = Vec::new();
    let mut is_over = false;
    for &at in &config.routes[index].filters {
        let filter = &config.filters[at];
        let factory = factory(&filter.kind);
        let filter = factory.build(&FilterParts {
            name: &filter.name,
            files: &files[at],
            account: budget.root(),
            last: None,
            caches: &Caches::default(),
        });
        let judgment = factory.explain(&*filter, &about, &mut head)?;
        is_over = matches!(judgment.verdict, FilterVerdict::Answers(_));
        steps.push(Explanation {
            filter: at,
            judgment,
        });
        if is_over {
            break;
        }
    }
    let target = match &config.routes[index].target {
        _ if is_over => None,
        Target::Redirect(redirect) => Some(redirect.location(&head)?),
        _ => Some(target_of(&head)),
    };
    Ok(Explained {
        route: Ok(index),
        passed_over,
        steps,
        target,
    })
}

/// Nothing is sent: what stands behind a filter is not asked.
#[derive(Debug)]
pub(crate) struct Nobody;

impl MakeBehind for Nobody {
    fn make(&self) -> Rc<dyn Behind> {
        Rc::new(Self)
    }
}

impl Behind for Nobody {
    fn ask(&self, _: RequestHead, _: Box<dyn Downstream>) -> Result<(), GatewayError> {
        Err(GatewayError::over_budget())
    }
}

fn head_of(asked: &Asked<'_>, lease: &Lease) -> Result<RequestHead, GatewayError> {
    let mut head = RequestHead::new(
        asked.method.as_bytes(),
        asked.authority.as_bytes(),
        asked.target.as_bytes(),
        lease,
    )?;
    for (name, value) in asked.fields {
        head.fields.append(name.as_bytes(), value.as_bytes())?;
    }
    head.normalize_host()?;
    Ok(head)
}

fn route(
    config: &config::Gateway,
    asked: &Asked<'_>,
    head: &RequestHead,
    passed_over: &mut Vec<(usize, Unmet)>,
) -> Result<usize, Unrouted> {
    let listener = &config.listeners[asked.listener];
    if listener.redirect_https.is_some() {
        return Err(Unrouted::ToHttps);
    }
    let router = Router::new(&config.routes, &config.filters);
    let query = || RouteQuery {
        listener: &listener.address,
        routes: listener.routes,
        host: head.host(),
        path: head.path(),
        method: head.method(),
        preflight: cors::requested_method(head),
        query: head.query(),
        fields: &head.fields,
        client_cert: None,
    };
    let note = |route, unmet| {
        // A route that names several hosts may be tried for each.
        if !passed_over.contains(&(route, unmet)) {
            passed_over.push((route, unmet));
        }
    };
    let found = router.route_noting(&query(), note);
    found.map_err(|no_route| match no_route {
        NoRoute::NotFound => Unrouted::NotFound,
        NoRoute::MethodNotAllowed => {
            let methods = router.allowed_methods(query());
            Unrouted::Methods(methods.map(str::to_owned).collect())
        }
    })
}

/// The display name of a route's target.
#[must_use]
pub fn target_name(config: &config::Gateway, route: usize) -> String {
    match &config.routes[route].target {
        Target::Files(files) => format!("files of {}", files.root.display()),
        Target::Redirect(redirect) => format!("a redirect with {}", redirect.status),
        Target::Upstream(index) => match config.upstreams.get(*index) {
            Some(upstream) => format!("upstream {}", upstream.name),
            None => "the DNS forwarder".to_owned(),
        },
    }
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Above it.
    Https,
}

/// The listener that a request by `scheme` comes to: the one of this port. Without a port, it is the one
/// of the scheme's own port, else the first of its kind.
#[must_use]
pub fn listener_for(config: &config::Gateway, scheme: Scheme, port: Option<u16>) -> Option<usize> {
    let listeners = config.listeners.iter().enumerate();
    let scheme_of = |listener: &config::Listener| match listener.tls {
        Some(_) => Scheme::Https,
        None => Scheme::Http,
    };
    let of_kind = listeners.filter(|(_, listener)| scheme_of(listener) == scheme);
    let port_of = |address: &ListenAddress| match address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix(_) => None,
    };
    let all: Vec<_> = of_kind.collect();
    let usual = match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    let wanted = port.unwrap_or(usual);
    let is_named =
        |(_, listener): &&(usize, &config::Listener)| port_of(&listener.address) == Some(wanted);
    let otherwise = all.first().filter(|_| port.is_none());
    let found = all.iter().find(is_named).or(otherwise);
    found.map(|(index, _)| *index)
}
