//! The router against a sort and a scan, and the rules of precedence one by one.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use steppe_http::config::{HostPattern, ListenerRoutes, Route, Target};
use steppe_http::path::{PathPattern, PatternSegment};
use steppe_http::router::{FieldLookup, NoRoute, RouteQuery, Router, Unmet};
use steppe_net::ListenAddress;

/// Fields as name and value.
struct Fields<'a>(&'a [(&'a str, &'a str)]);

impl FieldLookup for Fields<'_> {
    fn each_value(&self, name: &str, with: &mut dyn FnMut(&[u8])) {
        let named = self.0.iter().filter(|field| field.0 == name);
        named.for_each(|field| with(field.1.as_bytes()));
    }
}

/// A route for `hosts`, separated by spaces, and `path`.
fn route(hosts: &str, path: &str) -> Route {
    let host = |host| HostPattern::parse(host).expect("a valid host");
    let name = format!("{hosts}{path}");
    let path = PathPattern::parse(path).expect("a valid pattern");
    Route {
        hosts: hosts.split_whitespace().map(host).collect(),
        ..Route::of(&name, path, Target::Upstream(0))
    }
}

trait With {
    fn methods(self, methods: &str) -> Self;
    fn header(self, name: &str, value: &str) -> Self;
    fn query(self, name: &str, value: &str) -> Self;
}

impl With for Route {
    fn methods(mut self, methods: &str) -> Self {
        self.methods
            .extend(methods.split_whitespace().map(str::to_owned));
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// `GET host path`, where `target` may have a query.
fn get<'a>(host: &'a str, target: &'a str, fields: &'a Fields<'a>) -> RouteQuery<'a> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (target, None),
    };
    RouteQuery {
        host: host.as_bytes(),
        path: path.as_bytes(),
        method: b"GET",
        preflight: None,
        query,
        fields,
        client_cert: None,
        listener: &LISTENER,
        routes: ListenerRoutes::Shared,
    }
}

static LISTENER: ListenAddress =
    ListenAddress::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80));

const NO_FIELDS: Fields<'static> = Fields(&[]);

fn routed(routes: &[Route], host: &str, target: &str) -> Result<usize, NoRoute> {
    Router::new(routes, &[]).route(&get(host, target, &NO_FIELDS))
}

#[test]
fn a_listener_with_routes_of_its_own_has_no_others() {
    let [own, other] = [1, 2].map(|port| ListenAddress::Tcp(([127, 0, 0, 1], port).into()));
    let routes = [
        route("", "/{rest*}"),
        Route {
            listeners: vec![own.clone()],
            ..route("", "/own")
        },
    ];
    let router = Router::new(&routes, &[]);
    let at = |listener, target, routes| {
        let request = get("a", target, &NO_FIELDS);
        router.route(&RouteQuery {
            listener,
            routes,
            ..request
        })
    };
    let (shared, alone) = (ListenerRoutes::Shared, ListenerRoutes::Own);
    assert_eq!(at(&other, "/own", shared), Ok(0));
    assert_eq!(at(&own, "/own", alone), Ok(1));
    assert_eq!(at(&own, "/a", alone), Err(NoRoute::NotFound));
    assert_eq!(at(&other, "/own", alone), Err(NoRoute::NotFound));
}

#[test]
fn a_route_of_some_listeners_takes_no_request_of_others() {
    let [first, second, third] =
        [1, 2, 3].map(|port| ListenAddress::Tcp(([127, 0, 0, 1], port).into()));
    let routes = [
        route("", "/{rest*}"),
        Route {
            listeners: vec![first.clone(), second.clone()],
            ..route("", "/{rest*}")
        },
        Route {
            listeners: vec![third.clone()],
            ..route("", "/a/{rest*}")
        },
    ];
    let router = Router::new(&routes, &[]);
    let at = |listener, target| {
        let mut unmet = Vec::new();
        let request = get("a", target, &NO_FIELDS);
        let found = router.route_noting(
            &RouteQuery {
                listener,
                ..request
            },
            |route, condition| unmet.push((route, condition)),
        );
        (found, unmet)
    };
    // A condition more wins over the order of the file.
    assert_eq!(at(&first, "/b"), (Ok(1), vec![]));
    assert_eq!(at(&second, "/b"), (Ok(1), vec![]));
    let unmet = |route| (route, Unmet::Listener);
    assert_eq!(at(&third, "/b"), (Ok(0), vec![unmet(1)]));
    assert_eq!(at(&third, "/a/b"), (Ok(2), vec![]));
    assert_eq!(at(&first, "/a/b"), (Ok(1), vec![unmet(2)]));
}

#[test]
fn the_most_specific_host_wins() {
    let routes = [
        route("", "/{rest*}"),
        route("*.com", "/{rest*}"),
        route("*.example.com", "/{rest*}"),
        route("api.example.com", "/{rest*}"),
        route("[::1]", "/{rest*}"),
    ];
    for (host, index) in [
        ("api.example.com", 3),
        ("API.Example.COM.", 3),
        ("a.example.com", 2),
        ("a.b.example.com", 2),
        ("example.com", 1),
        (".example.com", 1),
        ("com", 0),
        ("notexample.org", 0),
        ("", 0),
        ("[0:0::1]", 4),
        ("[::2]", 0),
    ] {
        assert_eq!(routed(&routes, host, "/"), Ok(index), "{host}");
    }
    let long = "a".repeat(300);
    assert_eq!(routed(&routes, &long, "/"), Ok(0));
    assert_eq!(routed(&routes[1..], &long, "/"), Err(NoRoute::NotFound));
}

#[test]
fn the_most_specific_path_wins_segment_by_segment() {
    let routes = [
        route("", "/{rest*}"),
        route("", "/{a}/b/c"),
        route("", "/v1/{rest*}"),
        route("", "/v1/{id}"),
        route("", "/v1/users"),
        route("", "/v1/users/{id}/x"),
        route("", "/v1/"),
    ];
    for (path, index) in [
        ("/v1/users", 4),
        ("/v1/users;x=1", 4),
        ("/v1/7", 3),
        ("/v1/users/7/x", 5),
        ("/v1/users/7/y", 2),
        ("/v1/b/c", 2),
        ("/v2/b/c", 1),
        ("/v1/", 6),
        ("/v1", 0),
        ("/v10", 0),
        ("/", 0),
    ] {
        assert_eq!(routed(&routes, "a", path), Ok(index), "{path}");
    }
    assert_eq!(routed(&routes[1..], "a", "/v10"), Err(NoRoute::NotFound));
}

#[test]
fn host_goes_before_path_and_path_before_predicates() {
    let routes = [
        route("", "/admin").methods("GET").query("a", "1"),
        route("example.com", "/{rest*}"),
        route("example.com", "/{x}").methods("GET").query("a", "1"),
    ];
    assert_eq!(routed(&routes, "example.com", "/admin?a=1"), Ok(2));
    assert_eq!(routed(&routes, "example.com", "/admin"), Ok(1));
    assert_eq!(routed(&routes, "example.org", "/admin?a=1"), Ok(0));
}

#[test]
fn more_predicates_then_the_order_of_the_file() {
    let routes = [
        route("", "/a"),
        route("", "/a"),
        route("", "/a").header("x-version", "2"),
        route("", "/a")
            .header("x-version", "2")
            .query("preview", "true"),
        route("", "/a").methods("GET POST HEAD"),
    ];
    let router = Router::new(&routes, &[]);
    let version = Fields(&[("x-version", " 2\t")]);
    let get = |target| router.route(&get("", target, &version));
    assert_eq!(get("/a?preview=true"), Ok(3));
    assert_eq!(get("/a?preview=TRUE"), Ok(2));
    assert_eq!(routed(&routes, "", "/a"), Ok(4));
    assert_eq!(routed(&routes[..4], "", "/a"), Ok(0));
}

#[test]
fn predicates_that_fail_leave_it_to_less_specific_routes() {
    let routes = [
        route("a.example.com", "/v1/x").methods("POST"),
        route("*.example.com", "/v1/{id}").query("q", "1"),
        route("", "/{rest*}").header("x-a", "b"),
        route("", "/v1/x"),
    ];
    assert_eq!(routed(&routes, "a.example.com", "/v1/x?q=1"), Ok(1));
    assert_eq!(routed(&routes, "a.example.com", "/v1/x"), Ok(3));
    let router = Router::new(&routes[..3], &[]);
    let fields = Fields(&[("x-a", "b")]);
    assert_eq!(router.route(&get("a.example.com", "/v1/x", &fields)), Ok(2));
}

#[test]
fn only_a_method_in_the_way_is_405() {
    let routes = [
        route("", "/a").methods("POST PUT"),
        route("", "/{x}").methods("DELETE POST"),
        route("", "/a").methods("PATCH").query("q", "1"),
        route("b", "/a").methods("OPTIONS"),
    ];
    let router = Router::new(&routes, &[]);
    let allowed = |host, target| {
        let request = get(host, target, &NO_FIELDS);
        let error = router.route(&request).expect_err("no route takes GET");
        (error, router.allowed_methods(request).collect::<Vec<_>>())
    };
    assert_eq!(
        allowed("", "/a"),
        (NoRoute::MethodNotAllowed, vec!["DELETE", "POST", "PUT"])
    );
    assert_eq!(
        allowed("b", "/a?q=1"),
        (
            NoRoute::MethodNotAllowed,
            vec!["DELETE", "OPTIONS", "PATCH", "POST", "PUT"]
        )
    );
    assert_eq!(allowed("", "/a/b"), (NoRoute::NotFound, vec![]));
    let lower_case = RouteQuery {
        method: b"post",
        preflight: None,
        ..get("", "/a", &NO_FIELDS)
    };
    assert_eq!(router.route(&lower_case), Err(NoRoute::MethodNotAllowed));
}

/// RFC 9110 §5.3: several lines are one value, a list.
#[test]
fn a_field_is_compared_as_a_whole() {
    let rows: [(&str, &[&str], bool); 14] = [
        ("admin", &["admin"], true),
        ("admin", &[" admin\t"], true),
        ("admin", &[], false),
        ("admin", &["adm"], false),
        ("admin", &["admin2"], false),
        ("admin", &["admin", "user"], false),
        ("admin", &["user", "admin"], false),
        ("admin", &["admin", "admin"], false),
        ("admin", &["admin", ""], false),
        ("admin", &["", "admin"], false),
        ("a, b", &["a", "b"], true),
        ("a, b", &["a, b"], true),
        ("a, b", &["a"], false),
        ("", &[""], true),
    ];
    for (wanted, sent, is_match) in rows {
        let router = Router::new(&[route("", "/").header("x-role", wanted)], &[]);
        let lines: Vec<_> = sent.iter().map(|value| ("x-role", *value)).collect();
        let fields = Fields(&lines);
        let result = router.route(&get("a", "/", &fields));
        assert_eq!(result.is_ok(), is_match, "{wanted:?} {sent:?}");
    }
}

#[test]
fn routes_that_are_passed_over_are_told_with_their_condition() {
    let routes = [
        route("", "/{rest*}"),
        route("", "/a").header("x-a", "1").header("x-b", "1"),
        route("", "/a").query("q", "1"),
        route("", "/a").methods("POST"),
        route("", "/b").query("q", "1"),
    ];
    let router = Router::new(&routes, &[]);
    let fields = Fields(&[("x-a", "1"), ("x-b", "1"), ("x-b", "2")]);
    let mut noted = Vec::new();
    let found = router.route_noting(&get("a", "/a?q=1&q=2", &fields), |route, unmet| {
        noted.push((route, unmet));
    });
    let expected = [
        (1, Unmet::Header(1)),
        (2, Unmet::Query(0)),
        (3, Unmet::Method),
    ];
    assert_eq!((found, &noted[..]), (Ok(0), &expected[..]));
}

#[test]
fn query_parameters_are_compared_decoded() {
    let routes = [route("", "/").query("a b", "c+d&")];
    for (query, is_match) in [
        ("a%20b=c+d%26", true),
        ("x&a%20b=%63%2bd%26&y", true),
        ("a%20b=c%20d%26", false),
        ("a+b=c+d%26", false),
        ("a%20b=c+d%26%", false),
        ("a%20b=c+d%26&a%20b=c+d%26", true),
        ("a%20b=c+d%26&a%20b=other", false),
        ("a%20b=other&a%20b=c+d%26", false),
        ("a%20b=c+d%26&%61%20b", false),
        ("a%20b=c+d%26&a%20b=%", false),
        ("a%20b=c+d%26&a%20b%=other", true),
        ("a%20b=c+d%2", false),
        ("a%20b", false),
        ("", false),
    ] {
        let result = routed(&routes, "", &format!("/?{query}"));
        assert_eq!(result.is_ok(), is_match, "{query}");
    }
    let flag = [route("", "/").query("flag", "")];
    for (target, is_match) in [
        ("/?flag", true),
        ("/?x&flag=", true),
        ("/?flag=1", false),
        ("/", false),
        ("/?flags", false),
    ] {
        assert_eq!(routed(&flag, "", target).is_ok(), is_match, "{target}");
    }
    // A literal that looks like an escape that is none.
    assert!(routed(&[route("", "/").query("a", "100%")], "", "/?a=100%").is_err());
    assert!(routed(&[route("", "/").query("a", "100%")], "", "/?a=100%25").is_ok());
}

/// The specificity of a route for a request whose host and path it matches; less is more specific.
type Rank = (u8, Reverse<usize>, Vec<u8>, Reverse<usize>, usize);

fn rank(index: usize, route: &Route, host: &str, path: &str) -> Option<Rank> {
    let host = host.to_ascii_lowercase();
    let by_host = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(name) => (*name == host).then_some((0, Reverse(0))),
        HostPattern::Wildcard(suffix) => {
            let is_below = host.len() > suffix.len() && host.ends_with(suffix);
            is_below.then_some((1, Reverse(suffix.len())))
        }
    };
    let (kind, length) = if route.hosts.is_empty() {
        (2, Reverse(0))
    } else {
        route.hosts.iter().filter_map(by_host).min()?
    };
    let kinds = route.path.segments().iter().map(|segment| match segment {
        PatternSegment::Literal(_) => 0,
        PatternSegment::Capture(_) => 1,
        PatternSegment::Rest(_) => 2,
    });
    let lists = [!route.listeners.is_empty(), !route.methods.is_empty()];
    let lists: usize = lists.map(usize::from).iter().sum();
    let predicates = lists + route.headers.len() + route.query.len();
    let is_match = route.path.matches(path.as_bytes());
    is_match.then(|| (kind, length, kinds.collect(), Reverse(predicates), index))
}

/// A request as the oracle reads it.
struct Sent<'a> {
    host: &'a str,
    path: &'a str,
    query: &'a [(&'a str, &'a str)],
    fields: &'a Fields<'a>,
}

fn oracle(routes: &[Route], method: &str, request: &Sent<'_>) -> Result<usize, NoRoute> {
    let Sent {
        host,
        path,
        query,
        fields,
    } = *request;
    let mut ranked: Vec<_> = routes
        .iter()
        .enumerate()
        .filter_map(|(index, route)| rank(index, route, host, path))
        .filter(|rank| {
            let route = &routes[rank.4];
            let has = |pairs: &[(&str, &str)], (name, value): &(String, String)| {
                pairs.contains(&(&**name, &**value))
            };
            let is_for = route.listeners.is_empty() || route.listeners.contains(&LISTENER);
            is_for
                && route.headers.iter().all(|header| has(fields.0, header))
                && route.query.iter().all(|parameter| has(query, parameter))
        })
        .collect();
    ranked.sort();
    let allows = |rank: &&Rank| {
        let methods = &routes[rank.4].methods;
        methods.is_empty() || methods.iter().any(|allowed| allowed == method)
    };
    match ranked.iter().find(allows) {
        Some(rank) => Ok(rank.4),
        None if ranked.is_empty() => Err(NoRoute::NotFound),
        None => Err(NoRoute::MethodNotAllowed),
    }
}

fn any_route() -> impl Strategy<Value = Route> {
    let hosts = prop::sample::select(vec![
        "",
        "",
        "a.x",
        "b.a.x",
        "*.x",
        "*.a.x",
        "a.x *.a.x",
        "*.x *.a.x A.X",
        "b.a.x *.x",
    ]);
    let segment = prop::sample::select(vec!["a", "b", "%61", "{p}", "{p}", "a%3Ab"]);
    let end = prop::sample::select(vec!["", "", "/", "/{rest*}"]);
    let path = (prop::collection::vec(segment, 0..4), end).prop_map(|(segments, end)| {
        let mut path = String::new();
        for (index, segment) in segments.iter().enumerate() {
            path.push('/');
            path.push_str(&segment.replace("{p}", &format!("{{p{index}}}")));
        }
        path.push_str(end);
        if path.is_empty() {
            "/".to_owned()
        } else {
            path
        }
    });
    let methods = prop::sample::select(vec!["", "", "GET", "POST", "GET POST"]);
    let count = || prop::collection::vec(prop::sample::select(vec!["1", "2"]), 0..2);
    let other = ListenAddress::Tcp(([127, 0, 0, 1], 81).into());
    let listeners = vec![vec![], vec![], vec![LISTENER.clone()], vec![other]];
    let hosts = (hosts, prop::sample::select(listeners));
    (hosts, path, methods, count(), count()).prop_map(|(hosts, path, methods, headers, query)| {
        let (hosts, listeners) = hosts;
        let mut made = route(hosts, &path).methods(methods);
        made.listeners = listeners;
        for value in headers {
            made = made.header("h", value);
        }
        for value in query {
            made = made.query("q", value);
        }
        made
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_router_agrees_with_a_sort_and_a_scan(
        routes in prop::collection::vec(any_route(), 0..24),
        host in prop::sample::select(vec!["", "x", "a.x", "A.x", "b.a.x", "c.b.a.x", "y"]),
        path in "/(((a|b|c|a%3Ab|a:b)(;z)?/){0,3}(a|b|c)?)",
        method in prop::sample::select(vec!["GET", "POST", "HEAD"]),
        header in prop::option::of(prop::sample::select(vec!["1", "2"])),
        parameter in prop::option::of(prop::sample::select(vec!["1", "2"])),
    ) {
        let headers: Vec<_> = header.iter().map(|value| ("h", *value)).collect();
        let fields = Fields(&headers);
        let query = parameter.map(|value| format!("q={value}"));
        let pairs: Vec<_> = parameter.iter().map(|value| ("q", *value)).collect();
        let request = RouteQuery {
            host: host.as_bytes(),
            path: path.as_bytes(),
            method: method.as_bytes(),
            preflight: None,
            query: query.as_deref().map(str::as_bytes),
            fields: &fields,
            client_cert: None,
            listener: &LISTENER,
            routes: ListenerRoutes::Shared,
        };
        let router = Router::new(&routes, &[]);
        let sent = Sent { host, path: &path, query: &pairs, fields: &fields };
        let expected = |method| oracle(&routes, method, &sent);
        prop_assert_eq!(router.route(&request), expected(method));
        let allowed: Vec<_> = router.allowed_methods(request).collect();
        let named = |method: &&str| routes.iter().any(|r| r.methods.iter().any(|m| m == method));
        let oracle_allowed: Vec<_> =
            ["GET", "POST"].into_iter().filter(named).filter(|m| expected(m).is_ok()).collect();
        prop_assert_eq!(allowed, oracle_allowed);
    }
}
