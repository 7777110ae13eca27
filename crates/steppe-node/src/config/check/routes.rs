//! Routes: what they refer to, and what refers to upstreams.

use std::collections::HashSet;

use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::closest;
use steppe_config::typed::{Fields, Named, Node};
use steppe_config::units::size_text;
use steppe_http::config::keys::{filter, listener, route, upstream};
use steppe_net::config::tls::CLIENT_AUTH;

use crate::config::typed::{ByName, FromNode};
use crate::doh::FORWARDER;

pub(super) fn check(file: &Fields, http: &Fields, mistakes: &mut Mistakes) {
    let routes = routes(http);
    route::check(&routes, mistakes);
    let mut upstreams = Defined::new("upstream", http);
    if file.table("dns").is_some() {
        upstreams.names.insert(FORWARDER);
    }
    let filters = Defined::new("filter", http);
    for route in &routes {
        if let Some(upstream) = route.value(&route::UPSTREAM.spec) {
            upstreams.reference(upstream, mistakes);
        }
        for filter in route.items(&route::FILTERS) {
            filters.reference(filter, mistakes);
        }
        budget(file, route, mistakes);
    }
    fallbacks(http, mistakes);
    asked(http, mistakes);
    client_cert(http, mistakes);
}

fn routes(http: &Fields) -> Vec<&Fields> {
    http.list("route").iter().filter_map(Node::fields).collect()
}

/// What routes may name.
struct Defined<'a> {
    /// `upstream` or `filter`.
    what: &'static str,
    entries: &'a [Named],
    names: HashSet<&'a str>,
}

impl<'a> Defined<'a> {
    fn new(what: &'static str, http: &'a Fields) -> Self {
        let entries = http.map(what);
        Self {
            what,
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
}

/// Folders that are served, as they are now.
pub(in crate::config) fn folders(file: &Fields, mistakes: &mut Mistakes) {
    let http = file.table("http");
    let routes = http.map_or(&[][..], |http| http.list("route"));
    for route in routes.iter().filter_map(Node::fields) {
        let files = route.within(&route::FILES);
        let Some((path, at)) = files.and_then(|files| files.located(&route::files::ROOT)) else {
            continue;
        };
        let why = match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => "it is not a folder".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!(
            "`{}` can't be served: {why}",
            shown(&path.to_string_lossy())
        );
        mistakes.push(
            Mistake::new(at, message)
                .label("not a folder")
                .help("relative paths count from the folder of the configuration"),
        );
    }
}

fn budget(file: &Fields, route: &Fields, mistakes: &mut Mistakes) {
    let node = file.table("node");
    let (Some(whole), Some((part, at))) = (
        node.and_then(|node| node.take::<u64>("memory_budget")),
        route.located(&route::BUDGET),
    ) else {
        return;
    };
    if part <= whole {
        return;
    }
    let (part, whole) = (size_text(part), size_text(whole));
    let message = format!("a route's budget of {part} is more than the node's {whole}");
    let mistake = Mistake::new(at, message).label("a part of the node's budget");
    let of_node = node
        .filter(|node| node.given("memory_budget").is_some())
        .and_then(|node| node.node("memory_budget"));
    mistakes.push(match of_node {
        Some(of_node) => mistake.also(of_node.span, "the whole"),
        None => mistake,
    });
}

/// What answers while a circuit is open: an upstream with `respond`.
fn fallbacks(http: &Fields, mistakes: &mut Mistakes) {
    let upstreams = Defined::new("upstream", http);
    for (name, node) in http.map("upstream").iter().filter_map(fallback) {
        upstreams.reference(node, mistakes);
        let named = |entry: &&Named| Some(&entry.name) == name.as_ref();
        let found = upstreams.entries.iter().find(named);
        let fields = found.and_then(|entry| entry.value.fields());
        if fields.is_some_and(|fields| fields.place_of(&upstream::RESPOND).is_none()) {
            mistakes.push(
                Mistake::new(node.span, "a fallback is an upstream with `respond`")
                    .label("this one has servers")
                    .help("others are not supported yet"),
            );
        }
    }
}

/// The name of an upstream's fallback, and where it stands.
fn fallback(upstream: &Named) -> Option<(Option<String>, &Node)> {
    let breaker = upstream
        .value
        .fields()?
        .within(&upstream::CIRCUIT_BREAKER)?;
    let node = breaker.value(&upstream::health::FALLBACK.spec)?;
    Some((String::from_node(node), node))
}

/// A service that decides about requests has servers.
fn asked(http: &Fields, mistakes: &mut Mistakes) {
    let upstreams = Defined::new("upstream", http);
    for node in http.map("filter").iter().filter_map(filter::asked) {
        upstreams.reference(node, mistakes);
        let name = String::from_node(node);
        let named = |entry: &&Named| Some(&entry.name) == name.as_ref();
        let found = upstreams.entries.iter().find(named);
        let fields = found.and_then(|entry| entry.value.fields());
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

/// A gateway that answers every request with 404 is hardly meant.
pub(super) fn none(http: &Fields, mistakes: &mut Mistakes) {
    let listeners = http.list("listener").iter().filter_map(Node::fields);
    // One that redirects needs no route.
    let mut serving =
        listeners.filter(|listener| listener.place_of(&listener::REDIRECT_HTTPS).is_none());
    let Some(listener) = serving.next() else {
        return;
    };
    if http.list("route").is_empty() {
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
pub(super) fn unused(http: &Fields, mistakes: &mut Mistakes) {
    let routes = routes(http);
    let named = routes
        .iter()
        .filter_map(|route| route.get(&route::UPSTREAM)?);
    let fallbacks = http.map("upstream").iter();
    let fallbacks = fallbacks.filter_map(|upstream| fallback(upstream)?.0);
    let asked = http.map("filter").iter().filter_map(filter::asked);
    let asked = asked.filter_map(String::from_node);
    let upstreams: HashSet<String> = named.chain(fallbacks).chain(asked).collect();
    let named = routes.iter().flat_map(|route| route.items(&route::FILTERS));
    let filters: HashSet<String> = named.filter_map(String::from_node).collect();
    for (what, used) in [("upstream", upstreams), ("filter", filters)] {
        let defined = http.map(what).iter();
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
    let listeners = http.list("listener").iter();
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
