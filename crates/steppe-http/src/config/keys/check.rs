//! Mistakes of what keys of `[http]` say together.
//!
//! Invariant: a name that a route, a filter or a circuit breaker refers to is defined, or a mistake names it.

use std::collections::{HashMap, HashSet};

use steppe_config::key::PlaceKey;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::closest;
use steppe_config::typed::{Fields, Named, Node, valid};
use steppe_net::ListenAddress;
use steppe_net::config::tls::CLIENT_AUTH;

use super::gateway::{FILTER, LISTENER, ROUTE, UPSTREAM};
use super::{filter, listener, route, upstream};
use crate::config::GuestName;

/// Finds the mistakes of what keys of `[http]` say together. Routes may lead to `guest` as they lead to an upstream.
pub fn check(http: &Fields, guest: Option<GuestName>, mistakes: &mut Mistakes) {
    for listener in http.items(&LISTENER).iter().filter_map(Node::fields) {
        listener::check(listener, mistakes);
    }
    for upstream in http.entries(&UPSTREAM) {
        if let Some(upstream) = upstream.value.fields() {
            upstream::check(upstream, mistakes);
        }
    }
    let filters = http.entries(&FILTER);
    filter::check(filters, mistakes);
    let filters = filters.iter().map(|entry| (&*entry.name, &entry.value));
    let filters: HashMap<_, _> = filters.collect();
    let routes = routes(http);
    for route in &routes {
        filter::check_order(&filters, route.items(&route::FILTERS), mistakes);
    }
    route::check(&routes, mistakes);
    references(http, guest, mistakes);
}

/// The routes, but for those that are no tables.
fn routes(http: &Fields) -> Vec<&Fields> {
    http.items(&ROUTE).iter().filter_map(Node::fields).collect()
}

/// Upstreams and filters that are referred to by their names.
fn references(http: &Fields, guest: Option<GuestName>, mistakes: &mut Mistakes) {
    let mut upstreams = Defined::new(&UPSTREAM, http);
    fallbacks(&upstreams, mistakes);
    asked(http, &upstreams, mistakes);
    // Routes alone lead to it.
    upstreams.names.extend(guest);
    let filters = Defined::new(&FILTER, http);
    for route in routes(http) {
        if let Some(upstream) = route.value(&route::UPSTREAM.spec) {
            upstreams.reference(upstream, mistakes);
        }
        for filter in route.items(&route::FILTERS) {
            filters.reference(filter, mistakes);
        }
    }
    client_cert(http, mistakes);
    listeners(http, mistakes);
}

/// Names that others refer to.
struct Defined<'a> {
    /// `upstream` or `filter`.
    what: &'static str,
    entries: &'a [Named],
    names: HashSet<&'a str>,
}

impl<'a> Defined<'a> {
    fn new(key: &'static PlaceKey, http: &'a Fields) -> Self {
        let entries = http.entries(key);
        Self {
            what: key.spec.name,
            entries,
            names: entries.iter().map(|entry| entry.name.as_str()).collect(),
        }
    }

    fn reference(&self, node: &Node, mistakes: &mut Mistakes) {
        let name: Option<&String> = node.typed.value();
        let Some(name) = name.filter(|name| !self.names.contains(name.as_str())) else {
            return;
        };
        mistakes.error_at(node.span, || {
            let what = self.what;
            let names = self.entries.iter().map(|entry| entry.name.as_str());
            let help = match closest(name, names) {
                Some(closest) => format!("did you mean \"{closest}\"?"),
                None => format!("define it as `http.{what}.{}`", shown(name)),
            };
            Mistake::new(node.span, format!("no {what} is called `{}`", shown(name)))
                .label("not defined")
                .help(help)
        });
    }

    /// The keys of the one that is named; `None`: it is not defined, or no table.
    fn fields(&self, node: &Node) -> Option<&'a Fields> {
        let name: &String = node.typed.value()?;
        let found = self.entries.iter().find(|entry| entry.name == *name);
        found?.value.fields()
    }
}

/// A circuit breaker's fallback is an upstream with `respond`.
fn fallbacks(upstreams: &Defined<'_>, mistakes: &mut Mistakes) {
    for node in upstreams.entries.iter().filter_map(fallback) {
        upstreams.reference(node, mistakes);
        let fields = upstreams.fields(node);
        if fields.is_some_and(|fields| fields.place_of(&upstream::RESPOND).is_none()) {
            mistakes.push(
                Mistake::new(node.span, "a fallback is an upstream with `respond`")
                    .label("this one has servers")
                    .help("others are not supported yet"),
            );
        }
    }
}

/// The name of an upstream's fallback.
fn fallback(upstream: &Named) -> Option<&Node> {
    let breaker = upstream
        .value
        .fields()?
        .within(&upstream::CIRCUIT_BREAKER)?;
    breaker.value(&upstream::health::FALLBACK.spec)
}

/// A service that decides about requests has servers.
fn asked(http: &Fields, upstreams: &Defined<'_>, mistakes: &mut Mistakes) {
    for node in http.entries(&FILTER).iter().filter_map(filter::asked) {
        upstreams.reference(node, mistakes);
        let fields = upstreams.fields(node);
        if fields.is_some_and(|fields| fields.place_of(&upstream::SERVERS).is_none()) {
            mistakes.push(
                Mistake::new(
                    node.span,
                    "a `forward-auth` filter needs an upstream with servers",
                )
                .label("this upstream has none")
                .help("name an upstream with `servers`"),
            );
        }
    }
}

/// Warns of listeners without a route, and of upstreams and filters that no route names. Where other mistakes were
/// found, a key that was refused may have named them.
pub fn check_unused(http: &Fields, mistakes: &mut Mistakes) {
    none(http, mistakes);
    unused(http, mistakes);
}

/// A gateway that answers every request with 404 is hardly meant.
fn none(http: &Fields, mistakes: &mut Mistakes) {
    let listeners = http.items(&LISTENER).iter().filter_map(Node::fields);
    // One that redirects needs no route.
    let mut serving =
        listeners.filter(|listener| listener.place_of(&listener::REDIRECT_HTTPS).is_none());
    let Some(listener) = serving.next() else {
        return;
    };
    if http.items(&ROUTE).is_empty() {
        mistakes.push(
            Mistake::warning(
                listener.span,
                "every request gets 404: there is no `http.route`",
            )
            .label("no route")
            .help("add one, with `path` set to \"/{rest*}\" and an upstream"),
        );
    }
}

/// Upstreams and filters that no route names.
fn unused(http: &Fields, mistakes: &mut Mistakes) {
    let routes = routes(http);
    let named = routes
        .iter()
        .filter_map(|route| route.get(&route::UPSTREAM)?);
    let fallbacks = http.entries(&UPSTREAM).iter().filter_map(fallback);
    let asked = http.entries(&FILTER).iter().filter_map(filter::asked);
    let text = |node: &Node| node.typed.value::<String>().cloned();
    let others = fallbacks.chain(asked).filter_map(text);
    let upstreams: HashSet<String> = named.chain(others).collect();
    let named = routes.iter().flat_map(|route| route.items(&route::FILTERS));
    let filters: HashSet<String> = named.filter_map(text).collect();
    for (key, used) in [(&UPSTREAM, upstreams), (&FILTER, filters)] {
        let what = key.spec.name;
        let defined = http.entries(key).iter();
        for entry in defined.filter(|entry| !used.contains(&entry.name)) {
            let message = format!("{what} `{}` is never used", shown(&entry.name));
            mistakes.push(
                Mistake::warning(entry.span, message)
                    .label("no route names it")
                    .help(format!(
                        "name it in a route's `{}`",
                        match what {
                            "filter" => "filters",
                            _ => what,
                        }
                    )),
            );
        }
    }
}

/// The listeners of a route are listened on.
fn listeners(http: &Fields, mistakes: &mut Mistakes) {
    let there = http.items(&LISTENER).iter();
    if there.clone().any(|node| node.fields().is_none()) {
        return;
    }
    let there = there.filter_map(|node| node.fields()?.get(&listener::LISTEN));
    let there: HashSet<ListenAddress> = there.collect();
    for route in routes(http) {
        for (address, at) in valid::<ListenAddress>(route.items(&route::LISTENER)) {
            if there.contains(address) {
                continue;
            }
            mistakes.error_at(at, || {
                let mut names: Vec<String> = there.iter().map(ToString::to_string).collect();
                names.sort_unstable();
                let help = match closest(&address.to_string(), names.iter().map(String::as_str)) {
                    Some(closest) => format!("did you mean \"{closest}\"?"),
                    None => "add an `http.listener` with this `listen`".to_owned(),
                };
                Mistake::new(at, format!("no `http.listener` listens on {address}"))
                    .label("not defined")
                    .help(help)
            });
        }
    }
}

/// A route that asks for a certificate is taken only where clients are asked for one.
fn client_cert(http: &Fields, mistakes: &mut Mistakes) {
    let asks = |listener: &Fields| {
        let Some(tls) = listener.value(&listener::TLS.spec) else {
            return false;
        };
        // What is invalid was meant to ask, perhaps.
        let auth = tls.fields().and_then(|tls| tls.get(&CLIENT_AUTH));
        !matches!(auth, Some(None))
    };
    let is_unread = |node: &Node| node.fields().is_none();
    let listeners = http.items(&LISTENER).iter();
    let mut asking = listeners
        .clone()
        .filter_map(Node::fields)
        .filter(|each| asks(each));
    if asking.next().is_some() || listeners.clone().any(is_unread) {
        return;
    }
    for route in routes(http) {
        let Some(node) = route.value(&route::CLIENT_CERT.spec) else {
            continue;
        };
        mistakes.push(
            Mistake::new(node.span, "no listener asks clients for a certificate")
                .label("this route is never taken")
                .help("set `client_auth` and `client_ca` in the `tls` of a listener"),
        );
    }
}
