//! Keys of routes.

mod client_cert;
pub mod files;
mod unreachable;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use steppe_config::form::{ANY, Form, NAME as NAMED, Read, Refusal};
use steppe_config::key::{
    Key, OptionalKey, key, list, map, one_or_many, section, size, table, text, timeout,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Table};
use steppe_config::typed::Fields;
use steppe_mem::limits::BUDGET_BYTES_MAX;
use steppe_net::ListenAddress;
use steppe_net::config::forms::LISTEN;

use unreachable::{RouteConditions, SegmentShape};

use super::forms::{self, FIELD_NAME, FIELD_VALUE};
use super::redirect;
use crate::config::{ClientCertMatch, Files, HostPattern, Redirect, Route, Target};
use crate::limits::ROUTE_BUDGET_MIN;
use crate::path::{PathPattern, PatternSegment};

/// `[[http.route]]`.
pub static TABLE: Table = Table::new(
    "http.route",
    "Routes of requests to upstreams, folders or other URLs. Of those that match a request, the one with the \
     most specific host is taken, then the most specific path, the most predicates, the first in \
     the file. A request that matches none gets 404, or 405 with `Allow` if only its method \
     differs.",
    keys! { NAME, LISTENER, HOST, PATH, METHODS, HEADERS, QUERY, CLIENT_CERT, FILTERS, UPSTREAM, FILES, REDIRECT, BUDGET, TIMEOUTS },
)
.needing(Needs::One(&["upstream", "files", "redirect"]));

static NAME: Key<String> = key(
    "name",
    text(&NAMED),
    "Unique name, shown in metrics and logs.",
)
.required();

/// Addresses of its listeners.
pub static LISTENER: OptionalKey<Vec<ListenAddress>> = key(
    "listener",
    one_or_many(&text(&LISTEN)),
    "Listeners whose requests match, by their `listen`: \"[::]:443\". Without it, every listener.",
);

static HOST: OptionalKey<Vec<HostPattern>> = key(
    "host",
    one_or_many(&text(&HOST_FORM)),
    "Hosts that match: \"www.example.com\", or \"*.example.com\" for every name below it. Without \
     it, every host.",
);

static HOST_FORM: Form<HostPattern> =
    Form::new("a host such as \"example.com\" or \"*.example.com\"", host)
        .pattern("^.+$")
        .shown_by(host_text);

/// A host as a file has it.
pub(in crate::config) fn host_text(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("*{suffix}"),
    }
}

/// A name, an address, or a wildcard.
fn host(text: &str, _: &Path) -> Read<HostPattern> {
    const FORMS: &str =
        "write a name such as \"www.example.com\", \"*.example.com\", or an IP address";
    if let Some((_, rest)) = text.split_once("://") {
        let host = shown(rest.split(['/', ':']).next().unwrap_or(rest));
        return Err(
            Refusal::new(format!("`{}` is a URL, not a host", shown(text))).help(format!(
                "write the host alone: \"{host}\"; a route's `path` takes the path"
            )),
        );
    }
    HostPattern::parse(text).map_err(|error| Refusal::new(error.to_string()).help(FORMS))
}

static PATH: Key<PathPattern> = key(
    "path",
    text(&forms::PATH),
    "Path pattern: literal segments, `{name}` for one segment, `{rest*}` for the remaining path. \
     \"/v1/{rest*}\" does not match \"/v10\".",
)
.or(Absent::Text("/{rest*}"));

/// The route's methods.
pub static METHODS: OptionalKey<Vec<String>> = key(
    "methods",
    list(&text(&forms::METHOD), 1),
    "Methods that match, case-sensitive. Without it, every method but CONNECT. With \"CONNECT\", \
     clients get tunnels to any host and port of the route's hosts, through an upstream whose \
     servers are proxies: the node sends them CONNECT in turn, and relays bytes once they accept. \
     `timeouts.idle` of the upstream ends a tunnel.",
);

/// Fields that a request must have.
pub static HEADERS: Key<Vec<(String, String)>> = key(
    "headers",
    map(&FIELD_NAME, &text(&FIELD_VALUE)),
    "Fields that a request must have with exactly this value. Several lines of a field are one \
     value, joined by `, `.",
)
.secret()
.or(Absent::Table);

/// Query parameters that a request must have.
pub static QUERY: Key<Vec<(String, String)>> = key(
    "query",
    map(&ANY, &text(&ANY)),
    "Query parameters that a request must have with exactly this value; every parameter of the \
     name has it.",
)
.secret()
.or(Absent::Table);

/// Conditions on the client's certificate.
pub static CLIENT_CERT: OptionalKey<ClientCertMatch> =
    section("client_cert", &client_cert::TABLE, client_cert::build);

/// Names of its filters.
pub static FILTERS: Key<Vec<String>> = key(
    "filters",
    list(&text(&NAMED), 0),
    "Filters by name, in order for the request and in reverse for the response.",
)
.or(Absent::Texts(&[]));

/// The name of its upstream.
pub static UPSTREAM: OptionalKey<String> = key(
    "upstream",
    text(&NAMED),
    "Upstream that requests are forwarded to. \"dns\" is the DNS forwarder unless an upstream has \
     that name.",
);

/// The folder that it serves.
pub static FILES: OptionalKey<Files> = section("files", &files::TABLE, files::build);

/// Where its clients are sent.
static REDIRECT: OptionalKey<Redirect> = key(
    "redirect",
    redirect::of_route(),
    "URL that clients are sent to, instead of an upstream: the value of `Location`, or a table with \
     `to` and `status`.",
);

/// The route's part of the node's memory budget.
pub static BUDGET: OptionalKey<u64> = key(
    "budget",
    size(ROUTE_BUDGET_MIN, BUDGET_BYTES_MAX),
    "Part of the node's memory budget that exchanges of this route may take. Without it, all of \
     it.",
);

static TIMEOUTS: Key<Option<Duration>> = key(
    "timeouts",
    table(&TIMEOUT, |timeouts| timeouts.get(&TOTAL)),
    TIMEOUT.doc,
)
.or(Absent::Table);

static TIMEOUT: Table = Table::new(
    "http.route.timeouts",
    "Time limits of the route.",
    keys! { TOTAL },
);

static TOTAL: OptionalKey<Duration> = key(
    "total",
    timeout(),
    "For the whole exchange, in place of the upstream's. For a service of the request plane, it is \
     the deadline of the call.",
);

/// Upstreams and filters that routes name, by their numbers.
#[derive(Debug)]
pub struct RouteNames<'a> {
    /// Numbers of upstreams.
    pub upstreams: HashMap<&'a str, usize>,
    /// Numbers of filters.
    pub filters: HashMap<&'a str, usize>,
}

/// The route that a table describes; `None`: a value of it is invalid, and its mistake was reported.
#[must_use]
pub fn build(route: &Fields, names: &RouteNames<'_>) -> Option<Route> {
    let target = match (route.get(&FILES)?, route.get(&REDIRECT)?) {
        (Some(files), _) => Target::Files(files),
        (None, Some(redirect)) => Target::Redirect(redirect),
        (None, None) => Target::Upstream(*names.upstreams.get(route.get(&UPSTREAM)??.as_str())?),
    };
    let filters = route.get(&FILTERS)?;
    let filters = filters
        .iter()
        .map(|name| names.filters.get(name.as_str()).copied());
    Some(Route {
        name: route.get(&NAME)?,
        hosts: route.get(&HOST)?.unwrap_or_default(),
        path: route.get(&PATH)?,
        listeners: route.get(&LISTENER)?.unwrap_or_default(),
        methods: route.get(&METHODS)?.unwrap_or_default(),
        headers: route.get(&HEADERS)?,
        query: route.get(&QUERY)?,
        client_cert: route.get(&CLIENT_CERT)?,
        filters: filters.collect::<Option<_>>()?,
        target,
        budget: route.get(&BUDGET)?,
        total: route.get(&TIMEOUTS)?,
    })
}

/// Finds the mistakes of routes that neither upstreams nor filters make a difference to.
pub fn check(routes: &[&Fields], mistakes: &mut Mistakes) {
    let mut seen = HashMap::new();
    for route in routes {
        if let Some((name, at)) = route.located(&NAME)
            && let Some(first) = seen.insert(name.clone(), at)
        {
            seen.insert(name.clone(), first);
            mistakes.push(
                Mistake::new(at, format!("two routes are called `{}`", shown(&name)))
                    .label("again here")
                    .also(first, "first here")
                    .help("metrics and logs identify routes by their names"),
            );
        }
        targets(route, mistakes);
        files(route, mistakes);
        methods(route, mistakes);
    }
    unreachable::check(
        routes.iter().filter_map(|route| predicates(route)),
        mistakes,
    );
}

fn predicates(route: &Fields) -> Option<(Span, Vec<HostPattern>, RouteConditions)> {
    let name = route.value(&NAME.spec);
    let at = name.map_or(route.span, |node| node.span);
    let hosts = route.get(&HOST)?.unwrap_or_default();
    let mut predicates = RouteConditions {
        listeners: route.get(&LISTENER)?.unwrap_or_default(),
        path: SegmentShape::of_path(&route.get(&PATH)?),
        methods: route.get(&METHODS)?.unwrap_or_default(),
        headers: route.get(&HEADERS)?,
        query: route.get(&QUERY)?,
        client_cert: route.get(&CLIENT_CERT)?,
    };
    predicates
        .listeners
        .sort_unstable_by_key(ToString::to_string);
    predicates.listeners.dedup();
    predicates.methods.sort_unstable();
    predicates.methods.dedup();
    predicates.headers.sort_unstable();
    predicates.query.sort_unstable();
    Some((at, hosts, predicates))
}

/// One thing alone answers.
fn targets(route: &Fields, mistakes: &mut Mistakes) {
    let targets = [
        (&UPSTREAM.spec, "an upstream answers"),
        (&FILES.spec, "a folder answers"),
        (&REDIRECT.spec, "a redirect answers"),
    ];
    let mut given = targets
        .into_iter()
        .filter_map(|(key, label)| Some((route.value(key)?, label)));
    if let (Some((first, first_label)), Some((second, label))) = (given.next(), given.next()) {
        let message = "a route has one of `upstream`, `files` and `redirect`";
        mistakes.push(
            Mistake::new(second.span, message)
                .label(label)
                .also(first.span, first_label)
                .help("take one of them out"),
        );
    }
    if let Some(redirect) = route.within(&REDIRECT) {
        redirect::check(redirect, mistakes);
    }
}

/// Which file is meant must follow from the rest of the path alone.
fn files(route: &Fields, mistakes: &mut Mistakes) {
    let (Some(files), Some(path)) = (route.value(&FILES.spec), route.value(&PATH.spec)) else {
        return;
    };
    if let Some(fields) = files.fields() {
        files::check(fields, mistakes);
    }
    let Some(pattern) = path.typed.value::<PathPattern>() else {
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

/// RFC 9110 §9.1: methods are case-sensitive, and those that are registered are upper case.
fn methods(route: &Fields, mistakes: &mut Mistakes) {
    for node in route.items(&METHODS) {
        let Some(method) = node.typed.value::<String>() else {
            continue;
        };
        let upper = method.to_ascii_uppercase();
        let is_lower_case = *method != upper && REGISTERED.contains(&upper.as_str());
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
