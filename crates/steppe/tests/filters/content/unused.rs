//! The cost of filters for requests that pass none of them: nothing, by the instructions of the gateway's own code.
//!
//! Only functions of the gateway are counted, not those below it that wait and keep time, which depend on the machine:
//! the counts of two nodes differ by less than an instruction a request, or by a few on a busy machine, which the
//! gateway's own timers take. A branch for each kind of filter would be two dozen. Allocations are counted by
//! steppe-http's `allocations`.

use steppe_testkit::{Nginx, NodeConfig, Steppe};

const REQUESTS: u64 = 500;
/// Path of the functions that count.
const GATEWAY: &str = "steppe_http::";

#[test]
fn measured_filters_of_other_routes_cost_a_request_no_instruction() {
    let origin = Nginx::start("location / { return 200 0123456789; }");
    let plain = NodeConfig::plain().with_toml(ROUTES);
    let without = counted(&origin, &plain);
    let all = plain
        .with_toml(EACH_KIND)
        .route("filtered", |r| r.filters(ALL));
    let beside = counted(&origin, &all);
    println!(
        "instructions of {REQUESTS} requests: {without:?} without filters, {beside:?} beside a route with all of them"
    );
    let differ = without.plain.abs_diff(beside.plain);
    assert!(
        differ < 4 * REQUESTS,
        "{without:?} without filters, {beside:?} beside them"
    );
    // One filter that passes a request by is visible: the count is sensitive enough.
    assert!(beside.with_one > beside.plain + 20 * REQUESTS, "{beside:?}");
}

/// Instructions for `REQUESTS` requests each.
#[derive(Debug)]
struct Counts {
    /// Requests to a route without filters.
    plain: u64,
    /// Requests to a route with one filter that has nothing to do.
    with_one: u64,
}

/// Counts the instructions of requests to a node.
fn counted(origin: &Nginx, config: &NodeConfig) -> Counts {
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("users", USERS)
        .with_file("keys", KEYS)
        .with_file("key", "a key of tests, which has to be long enough")
        .counted()
        .start(config);
    let of = |path: &str| {
        let mut peer = node.connect();
        let mut ask = |times| {
            for _ in 0..times {
                peer.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
                assert_eq!(peer.response().status(), 200);
            }
        };
        // Warms up: connections are open and buffers have their size.
        ask(100);
        // Timers that fire meanwhile take instructions too, more of them on a busy machine: the least of three counts.
        let counts = (0..3).map(|_| node.instructions(GATEWAY, || ask(REQUESTS)));
        counts.min().expect("there are three")
    };
    Counts {
        plain: of("/plain"),
        with_one: of("/one/filter"),
    }
}

const KEYS: &str = "ci 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n";
const USERS: &str = "alice:$6$steppetest$NeAb8r87SkriJPa0xEbyUL134eiC9.JqHu7sPwOAs.lQ7N0qe/hHUAvOzeKkzAY/w2P1LYGxziHvHU3KYt1GM.\n";

/// A filter of each kind.
const ALL: &[&str] = &[
    "cors",
    "authorize",
    "keys",
    "basic",
    "compress",
    "forward",
    "pages",
    "ip",
    "jwt",
    "cache",
    "limit",
    "redirect",
    "id",
    "headers",
    "transform",
];

const ROUTES: &str = r#"
[http.filter.passing]
kind = "ip"
allow = ["127.0.0.0/8"]
[[http.route]]
name = "one"
path = "/one/{rest*}"
upstream = "origin"
filters = ["passing"]
[[http.route]]
name = "filtered"
path = "/filtered/{rest*}"
upstream = "origin"
"#;

const EACH_KIND: &str = r#"
[http.filter.authorize]
kind = "authorize"
rules = [{ methods = ["GET"] }]
[http.filter.keys]
kind = "api-keys"
keys_file = "{scratch}/keys"
[http.filter.basic]
kind = "basic-auth"
users_file = "{scratch}/users"
[http.filter.cache]
kind = "cache"
[http.filter.compress]
kind = "compress"
[http.filter.cors]
kind = "cors"
origins = ["https://app.example.com"]
[http.filter.pages]
kind = "error-pages"
pages = [{ status = "5xx", body = "sorry" }]
[http.filter.forward]
kind = "forward-auth"
upstream = "origin"
path = "/verify"
[http.filter.ip]
kind = "ip"
allow = ["127.0.0.0/8"]
[http.filter.jwt]
kind = "jwt"
keys = [{ algorithm = "HS256", secret_file = "{scratch}/key" }]
[http.filter.limit]
kind = "rate-limit"
rate = 100
concurrent = 10
[http.filter.redirect]
kind = "redirect"
to = "https://new.example{path}{query}"
[http.filter.id]
kind = "request-id"
[http.filter.headers]
kind = "security-headers"
[http.filter.transform]
kind = "transform"
path = [{ pattern = "^/v1/(?<rest>.*)$", to = "/${rest}" }]
response_json = { remove = ["extra"] }
"#;
