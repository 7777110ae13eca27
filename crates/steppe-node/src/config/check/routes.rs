//! Routes: their names, what they refer to, and whether they can be reached.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::closest;
use steppe_config::typed::{Fields, Named, Node, Typed};
use steppe_config::units::size_text;
use steppe_http::config::{ClientCertMatch, HostPattern};
use steppe_http::path::{PathPattern, PatternSegment};

use crate::config::typed::{ByName, FromNode};
use crate::doh::FORWARDER;

pub(super) fn check(file: &Fields, http: &Fields, mistakes: &mut Mistakes) {
    let routes: Vec<&Fields> = http.list("route").iter().filter_map(Node::fields).collect();
    names(&routes, mistakes);
    let mut upstreams = Defined::new("upstream", http);
    if file.table("dns").is_some() {
        upstreams.names.insert(FORWARDER);
    }
    let filters = Defined::new("filter", http);
    for route in &routes {
        if let Some(upstream) = route.node("upstream") {
            upstreams.reference(upstream, mistakes);
        }
        files(route, mistakes);
        for filter in route.list("filters") {
            filters.reference(filter, mistakes);
        }
        budget(file, route, mistakes);
        methods(route, mistakes);
    }
    fallbacks(http, mistakes);
    asked(http, mistakes);
    unreachable(&routes, mistakes);
}

fn names(routes: &[&Fields], mistakes: &mut Mistakes) {
    let mut seen = HashMap::new();
    for node in routes.iter().filter_map(|route| route.node("name")) {
        let Some(name) = String::from_node(node) else {
            continue;
        };
        let Some(first) = seen.get(&name).copied() else {
            seen.insert(name, node.span);
            continue;
        };
        mistakes.push(
            Mistake::new(
                node.span,
                format!("two routes are called `{}`", shown(&name)),
            )
            .label("again here")
            .also(first, "first here")
            .help("metrics and logs identify routes by their names"),
        );
    }
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
        let Some(name) = String::from_node(node) else {
            return;
        };
        if self.names.contains(name.as_str()) {
            return;
        }
        mistakes.error_at(node.span, || {
            let what = self.what;
            let names = self.entries.iter().map(|entry| entry.name.as_str());
            let help = match closest(&name, names) {
                Some(closest) => format!("did you mean \"{closest}\"?"),
                None => format!("define it as `http.{what}.{}`", shown(&name)),
            };
            Mistake::new(node.span, format!("no {what} is called `{}`", shown(&name)))
                .label("not defined")
                .help(help)
        });
    }
}

/// Which file is meant must follow from the rest of the path alone.
fn files(route: &Fields, mistakes: &mut Mistakes) {
    let (Some(files), Some(path)) = (route.node("files"), route.node("path")) else {
        return;
    };
    if let Some(upstream) = route.node("upstream") {
        mistakes.push(
            Mistake::new(files.span, "a route has one of `upstream` and `files`")
                .label("a folder answers")
                .also(upstream.span, "an upstream answers")
                .help("take one of them out"),
        );
    }
    let Some(pattern) = PathPattern::from_node(path) else {
        return;
    };
    let (last, others) = pattern.segments().split_last().expect("at least one");
    let is_literal = |segment: &PatternSegment| matches!(segment, PatternSegment::Literal(_));
    if matches!(last, PatternSegment::Rest(_)) && others.iter().all(is_literal) {
        return;
    }
    let message = format!("`{pattern}` does not select a file");
    mistakes.push(
        Mistake::new(path.span, message)
            .label("not literal segments and `{rest*}`")
            .also(files.span, "a folder")
            .help(
                "the part that `{rest*}` matches is looked up in the folder: \"/static/{rest*}\"",
            ),
    );
}

/// Folders that are served, as they are now.
pub(in crate::config) fn folders(file: &Fields, mistakes: &mut Mistakes) {
    let http = file.table("http");
    let routes = http.map_or(&[][..], |http| http.list("route"));
    for route in routes.iter().filter_map(Node::fields) {
        let files = route.node("files").and_then(Node::fields);
        let Some(root) = files.and_then(|files| files.node("root")) else {
            continue;
        };
        let Some(path) = PathBuf::from_node(root) else {
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
            Mistake::new(root.span, message)
                .label("not a folder")
                .help("relative paths count from the folder of the configuration"),
        );
    }
}

fn budget(file: &Fields, route: &Fields, mistakes: &mut Mistakes) {
    let node = file.table("node");
    let (Some(whole), Some(part)) = (
        node.and_then(|node| node.take::<u64>("memory_budget")),
        route.take::<u64>("budget"),
    ) else {
        return;
    };
    let Some(at) = route.node("budget").filter(|_| part > whole) else {
        return;
    };
    let (part, whole) = (size_text(part), size_text(whole));
    let message = format!("a route's budget of {part} is more than the node's {whole}");
    let mistake = Mistake::new(at.span, message).label("a part of the node's budget");
    let of_node = node
        .filter(|node| node.given("memory_budget").is_some())
        .and_then(|node| node.node("memory_budget"));
    mistakes.push(match of_node {
        Some(of_node) => mistake.also(of_node.span, "the whole"),
        None => mistake,
    });
}

/// RFC 9110 §9.1: methods are case-sensitive, and those that are registered are upper case.
fn methods(route: &Fields, mistakes: &mut Mistakes) {
    for node in route.list("methods") {
        let Some(method) = String::from_node(node) else {
            continue;
        };
        let upper = method.to_ascii_uppercase();
        let is_lower_case = method != upper && REGISTERED.contains(&upper.as_str());
        if is_lower_case {
            mistakes.push(
                Mistake::warning(node.span, format!("method `{method}` is not `{upper}`"))
                    .label("case-sensitive")
                    .help(format!("did you mean \"{upper}\"?")),
            );
        }
    }
}

const REGISTERED: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH",
];

/// What decides whether a request takes a route, in a form that can be compared.
#[derive(PartialEq, Eq, Hash)]
struct Predicates {
    path: Vec<Shape>,
    methods: Vec<String>,
    headers: Vec<(String, String)>,
    query: Vec<(String, String)>,
    client_cert: Option<ClientCertMatch>,
}

/// A segment of a path without the name of its capture.
#[derive(PartialEq, Eq, Hash)]
enum Shape {
    Literal(Vec<u8>),
    Capture,
    Rest,
}

/// A route whose predicates an earlier one has too is never taken: at equal specificity, the first
/// in the file is.
fn unreachable(routes: &[&Fields], mistakes: &mut Mistakes) {
    let mut seen: HashMap<Predicates, Group> = HashMap::new();
    for route in routes {
        let Some((hosts, predicates)) = read_predicates(route) else {
            continue;
        };
        let name = route.node("name");
        let at = name.map_or(route.span, |node| node.span);
        let earlier = seen.entry(predicates).or_default();
        match earlier.covering(&hosts) {
            Some(first) => mistakes.push(
                Mistake::new(at, "this route is never taken")
                    .label("has no condition that the other lacks")
                    .also(first, "already matches all of these"),
            ),
            None => earlier.add(hosts, at),
        }
    }
}

/// Routes that differ in their hosts alone.
#[derive(Default)]
struct Group {
    /// The one of every host.
    any_host: Option<Span>,
    /// Of the others: where each stands, and by host, in ascending order, which have it.
    places: Vec<Span>,
    by_host: HashMap<(bool, String), Vec<usize>>,
}

impl Group {
    /// The first route that has each of these hosts, just so: a wildcard covers no name, because
    /// the more specific host wins.
    fn covering(&self, hosts: &[HostPattern]) -> Option<Span> {
        if hosts.is_empty() {
            return self.any_host;
        }
        let having = |host| self.by_host.get(&host_key(host)).map(Vec::as_slice);
        let mut having: Vec<&[usize]> = hosts.iter().map(having).collect::<Option<_>>()?;
        // The rarest host leaves the fewest to look at.
        having.sort_by_key(|routes| routes.len());
        let (rarest, others) = having.split_first()?;
        let has_others = |route: &&usize| {
            others
                .iter()
                .all(|routes| routes.binary_search(route).is_ok())
        };
        rarest
            .iter()
            .find(has_others)
            .map(|&route| self.places[route])
    }

    fn add(&mut self, hosts: Vec<HostPattern>, at: Span) {
        if hosts.is_empty() {
            self.any_host = Some(at);
            return;
        }
        let route = self.places.len();
        self.places.push(at);
        for host in &hosts {
            self.by_host.entry(host_key(host)).or_default().push(route);
        }
    }
}

/// Whether it is a wildcard, and its text.
fn host_key(host: &HostPattern) -> (bool, String) {
    match host {
        HostPattern::Exact(name) => (false, name.clone()),
        HostPattern::Wildcard(suffix) => (true, suffix.clone()),
    }
}

fn read_predicates(route: &Fields) -> Option<(Vec<HostPattern>, Predicates)> {
    let path: PathPattern = route.take("path")?;
    let mut methods: Vec<String> = route.optional("methods")?.unwrap_or_default();
    let mut headers: Vec<(String, String)> = route.take("headers")?;
    let mut query: Vec<(String, String)> = route.take("query")?;
    methods.sort_unstable();
    methods.dedup();
    headers.sort_unstable();
    query.sort_unstable();
    let hosts = route.optional("host")?.unwrap_or_default();
    let path = path.segments().iter().map(Shape::of).collect();
    let predicates = Predicates {
        path,
        methods,
        headers,
        query,
        client_cert: route.optional("client_cert")?,
    };
    Some((hosts, predicates))
}

impl Shape {
    fn of(segment: &PatternSegment) -> Self {
        match segment {
            PatternSegment::Literal(literal) => Self::Literal(literal.clone()),
            PatternSegment::Capture(_) => Self::Capture,
            PatternSegment::Rest(_) => Self::Rest,
        }
    }
}

/// What answers while a circuit is open: an upstream with `respond`.
fn fallbacks(http: &Fields, mistakes: &mut Mistakes) {
    let upstreams = Defined::new("upstream", http);
    for (name, node) in http.map("upstream").iter().filter_map(fallback) {
        upstreams.reference(node, mistakes);
        let named = |entry: &&Named| Some(&entry.name) == name.as_ref();
        let found = upstreams.entries.iter().find(named);
        let fields = found.and_then(|entry| entry.value.fields());
        if fields.is_some_and(|fields| fields.given("respond").is_none()) {
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
    let breaker = upstream.value.fields()?.table("circuit_breaker")?;
    let node = breaker.node("fallback")?;
    Some((String::from_node(node), node))
}

/// A service that decides about requests has servers.
fn asked(http: &Fields, mistakes: &mut Mistakes) {
    let upstreams = Defined::new("upstream", http);
    for node in http.map("filter").iter().filter_map(asked_by) {
        upstreams.reference(node, mistakes);
        let name = String::from_node(node);
        let named = |entry: &&Named| Some(&entry.name) == name.as_ref();
        let found = upstreams.entries.iter().find(named);
        let fields = found.and_then(|entry| entry.value.fields());
        if fields.is_some_and(|fields| fields.given("servers").is_none()) {
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

/// The upstream that a filter asks.
fn asked_by(filter: &Named) -> Option<&Node> {
    match &filter.value.typed {
        Typed::Variant { name, fields, .. } if *name == "forward-auth" => fields.node("upstream"),
        _ => None,
    }
}

/// A gateway that answers every request with 404 is hardly meant.
pub(super) fn none(http: &Fields, mistakes: &mut Mistakes) {
    let listeners = http.list("listener").iter().filter_map(Node::fields);
    // One that redirects needs no route.
    let mut serving = listeners.filter(|listener| listener.given("redirect_https").is_none());
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
    let routes: Vec<&Fields> = http.list("route").iter().filter_map(Node::fields).collect();
    let named = routes
        .iter()
        .filter_map(|route| route.take::<String>("upstream"));
    let fallbacks = http.map("upstream").iter();
    let fallbacks = fallbacks.filter_map(|upstream| fallback(upstream)?.0);
    let asked = http.map("filter").iter().filter_map(asked_by);
    let asked = asked.filter_map(String::from_node);
    let upstreams: HashSet<String> = named.chain(fallbacks).chain(asked).collect();
    let named = routes.iter().flat_map(|route| route.list("filters"));
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
