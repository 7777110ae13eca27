//! Effects of filters on exchanges, as seen by clients and servers on the wire.

use std::fs;
use std::path::Path;

use steppe_testkit::{
    Document, Message, NodeConfig, RawOrigin, Steppe, SteppeBuilder, observe_until,
};

/// A file of users: "open sesame", by bcrypt.
const USERS: &str = "ann:$2b$04$cBxG3y4QbtIdO423VEpLmeN.5fHcr5.kOR7fAk6QelkQ4tcdoXtG.\n";
/// A file of API keys: "secret".
const API_KEYS: &str = "ci 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A node whose one route has the filter `f` with these keys, and its origin.
fn filtered(response: &str, keys: &str) -> (RawOrigin, Steppe) {
    let origin = RawOrigin::answering(response);
    let node = started(&origin, filtering(keys));
    (origin, node)
}

/// A configuration whose one route has the filter `f` with these keys.
fn filtering(keys: &str) -> NodeConfig {
    NodeConfig::plain()
        .route("all", |r| r.filters(["f"]))
        .add_filter("f", |f| f.with_toml(keys))
}

/// A node with the files that filters read.
fn builder() -> SteppeBuilder<'static> {
    Steppe::builder()
        .with_file("hs256.key", "a secret that is long enough for HS256")
        .with_file("users.htpasswd", USERS)
        .with_file("api-keys", API_KEYS)
        .with_file("busy.html", "<p>Back in a minute.\n")
}

/// A node in front of `origin`.
fn started(origin: &RawOrigin, config: NodeConfig) -> Steppe {
    builder().with("origin", origin.address()).start(&config)
}

fn ask(node: &Steppe, line: &str, fields: &str) -> Message {
    let mut peer = node.connect();
    let method = line.split(' ').next().unwrap_or_default();
    peer.send(format!(
        "{line} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"
    ));
    peer.response_to(method)
}

fn answers_of(node: &Steppe) -> f64 {
    let metrics = node.admin_get("/metrics").text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("steppe_http_filter_answers_total{filter=\"f\"}"));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value
        .and_then(|value| value.parse().ok())
        .expect("a series of the filter")
}

const CORS: &str = "kind = \"cors\"\norigins = [\"https://app.example.com\", \"https://*.example.org\"]\n\
    methods = [\"GET\", \"PUT\"]\nheaders = [\"X-Version\"]\nexpose = [\"x-total\"]\n\
    credentials = true\nmax_age = \"10m\"";

const PREFLIGHT: &str = "Origin: https://app.example.com\r\nAccess-Control-Request-Method: PUT\r\n";

#[test]
fn a_preflight_is_answered_here() {
    let (origin, node) = filtered(OK, CORS);
    let fields = format!("{PREFLIGHT}Access-Control-Request-Headers: x-version\r\n");
    let answer = ask(&node, "OPTIONS /x", &fields);
    assert_eq!(answer.status(), 204);
    for (name, value) in [
        ("access-control-allow-origin", "https://app.example.com"),
        ("access-control-allow-methods", "GET, PUT"),
        ("access-control-allow-headers", "x-version"),
        ("access-control-allow-credentials", "true"),
        ("access-control-max-age", "600"),
    ] {
        assert_eq!(answer.field(name), Some(value), "{name}: {answer:?}");
    }
    assert_eq!(origin.accepted(), 0);
    assert!((answers_of(&node) - 1.0).abs() < 0.5);
}

#[test]
fn a_preflight_of_what_is_not_allowed_says_so() {
    let (origin, node) = filtered(OK, CORS);
    for (fields, word) in [
        (PREFLIGHT.replace("app.", "evil."), "origin"),
        (PREFLIGHT.replace("PUT", "DELETE"), "method"),
        (
            format!("{PREFLIGHT}Access-Control-Request-Headers: x-version, x-other\r\n"),
            "request header",
        ),
    ] {
        let answer = ask(&node, "OPTIONS /x", &fields);
        assert_eq!(answer.status(), 403, "{fields}");
        assert!(answer.text().contains(word), "{answer:?}");
        assert_eq!(answer.field("access-control-allow-origin"), None);
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn a_response_is_marked_for_its_origin_alone() {
    let response =
        "HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\ncontent-length: 2\r\n\r\nok";
    let (_origin, node) = filtered(response, CORS);
    let marked = ask(&node, "GET /", "Origin: https://a.example.org\r\n");
    assert_eq!(
        marked.field("access-control-allow-origin"),
        Some("https://a.example.org")
    );
    assert_eq!(
        marked.field("access-control-allow-credentials"),
        Some("true")
    );
    assert_eq!(
        marked.field("access-control-expose-headers"),
        Some("x-total")
    );
    assert_eq!(marked.field("vary"), Some("origin"));
    for fields in ["", "Origin: https://evil.example\r\n", "Origin: null\r\n"] {
        let other = ask(&node, "GET /", fields);
        assert_eq!((other.status(), other.text()), (200, "ok".to_owned()));
        assert_eq!(other.field("access-control-allow-origin"), None, "{fields}");
        assert_eq!(other.field("vary"), Some("origin"), "{fields}");
    }
}

#[test]
fn every_origin_may_read_without_credentials() {
    let (_origin, node) = filtered(OK, "kind = \"cors\"\norigins = [\"*\"]");
    // A cache may give the response to a request without an origin to a script later.
    for fields in ["Origin: https://a.example\r\n", ""] {
        let answer = ask(&node, "GET /", fields);
        assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.field("vary"), None);
        assert_eq!(answer.field("access-control-allow-credentials"), None);
    }
}

#[test]
fn a_preflight_finds_a_route_that_asks_for_more_than_it_has() {
    let origin = RawOrigin::answering(OK);
    let config = filtering(CORS).route("all", |r| {
        r.set("methods", ["PUT"])
            .set("headers.x-version", "2")
            .set("query.preview", "true")
    });
    let node = started(&origin, config);
    assert_eq!(ask(&node, "OPTIONS /x", PREFLIGHT).status(), 204);
    // A method that the route does not take, and a request that is no preflight.
    assert_eq!(
        ask(&node, "OPTIONS /x", &PREFLIGHT.replace("PUT", "GET")).status(),
        404
    );
    assert_eq!(
        ask(&node, "OPTIONS /x", "Origin: https://app.example.com\r\n").status(),
        404
    );
}

#[test]
fn an_options_request_that_asks_nothing_is_forwarded() {
    let (origin, node) = filtered(OK, CORS);
    assert_eq!(
        ask(&node, "OPTIONS /", "Origin: https://app.example.com\r\n").text(),
        "ok"
    );
    assert!(origin.received().contains("OPTIONS / HTTP/1.1"));
}

#[test]
fn a_burst_passes_and_the_rest_is_told_when_to_come_back() {
    let (_origin, node) = filtered(
        OK,
        "kind = \"rate-limit\"\nrate = 1\nper = \"1h\"\nburst = 5",
    );
    let answers: Vec<_> = (0..8).map(|_| ask(&node, "GET /", "")).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status()).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    let refused = &answers[7];
    assert_eq!(refused.field("ratelimit-policy"), Some("\"f\";q=5;w=18000"));
    let wait: u64 = refused
        .field("retry-after")
        .and_then(|text| text.parse().ok())
        .expect("seconds");
    assert!((3000..=3600).contains(&wait), "{wait}");
    assert_eq!(
        refused.field("ratelimit"),
        Some(&*format!("\"f\";r=0;t={wait}"))
    );
    assert!((answers_of(&node) - 3.0).abs() < 0.5);
}

#[test]
fn a_limit_is_the_nodes_and_outlives_a_reload() {
    let origin = RawOrigin::answering(OK);
    let limit = "kind = \"rate-limit\"\nrate = 1\nper = \"1h\"\nburst = 10\nkey = \"route\"";
    let node = started(&origin, filtering(limit).workers(2));
    let passed = |count: usize| {
        // Each request has its own connection: the kernel distributes them to the workers.
        let answers = (0..count).map(|_| ask(&node, "GET /", "").status());
        answers.filter(|status| *status == 200).count()
    };
    assert_eq!(passed(30), 10);
    node.set_config(&(node.config() + "# changed\n"));
    let reloaded = node.admin_post("/reload");
    assert_eq!(reloaded.status(), 200, "{reloaded:?}");
    assert_eq!(passed(10), 0);
}

#[test]
fn values_of_a_field_are_counted_apart() {
    let keys = "kind = \"rate-limit\"\nrate = 1\nper = \"1h\"\nburst = 1\nkey = \"header:X-Key\"";
    let (_origin, node) = filtered(OK, keys);
    let ask = |key: &str| ask(&node, "GET /", key).status();
    assert_eq!((ask("X-Key: a\r\n"), ask("x-key: a\r\n")), (200, 429));
    assert_eq!((ask("X-Key: b\r\n"), ask("X-Key: b\r\n")), (200, 429));
    // Requests without the field share one key.
    assert_eq!((ask(""), ask("")), (200, 429));
    // A server may read the second of two fields.
    assert_eq!(ask("X-Key: c\r\nX-Key: a\r\n"), 400);
}

#[test]
fn networks_are_let_in_or_kept_out() {
    let open = ask(
        &filtered(OK, "kind = \"ip\"\nallow = [\"127.0.0.0/8\"]").1,
        "GET /",
        "",
    );
    assert_eq!(open.status(), 200);
    for keys in [
        "allow = [\"10.0.0.0/8\"]",
        "allow = [\"127.0.0.1\"]\ndeny = [\"127.0.0.0/8\"]",
        "deny = [\"127.0.0.1/32\"]",
    ] {
        let (origin, node) = filtered(OK, &format!("kind = \"ip\"\n{keys}"));
        assert_eq!(ask(&node, "GET /", "").status(), 403, "{keys}");
        assert_eq!(origin.accepted(), 0);
    }
}

#[test]
fn clients_are_sent_elsewhere() {
    let (origin, node) = filtered(
        OK,
        "kind = \"redirect\"\nto = \"https://new.example{path}{query}\"\nstatus = 307",
    );
    let answer = ask(&node, "GET /a/../b%0d%0aX:y?c={host}", "");
    assert_eq!(answer.status(), 307);
    assert_eq!(
        answer.field("location"),
        Some("https://new.example/b%0D%0AX:y?c={host}")
    );
    assert_eq!(origin.accepted(), 0);
}

/// A route that redirects needs no upstream; its filters run first.
#[test]
fn clients_of_a_route_are_sent_elsewhere() {
    let config = NodeConfig::bare()
        .set("log.access.file", "{scratch}/access.log")
        .set("log.access.format", "json")
        .add_filter("edit", |f| {
            f.with_toml("kind = \"transform\"\npath = [{ pattern = \"^/old\", to = \"/new\" }]")
        })
        .add_route("short", |r| {
            let r = r.path("/old/{rest*}").filters(["edit"]);
            r.set("redirect", "https://new.example{path}{query}")
        })
        .add_route("table", |r| {
            r.path("/{rest*}")
                .set("redirect.to", "//{host}/")
                .set("redirect.status", 303)
        });
    let node = builder().start(&config);
    let answer = ask(&node, "GET /old/a?b={path}", "");
    assert_eq!(answer.status(), 308);
    let location = answer.field("location");
    assert_eq!(location, Some("https://new.example/new/a?b={path}"));
    let answer = ask(&node, "HEAD /x", "");
    assert_eq!(
        (answer.status(), answer.field("content-length")),
        (303, Some("0"))
    );
    assert_eq!(answer.field("location"), Some("//a.example/"));
    let answer = ask(&node, "POST /y", "Content-Length: 2\r\n\r\nhi");
    assert_eq!(answer.status(), 303);
    let path = node.scratch().join("access.log");
    let log = observe_until(
        "three lines",
        || fs::read_to_string(&path).unwrap_or_default(),
        |log| log.lines().count() == 3,
    );
    assert!(
        !log.contains("\"upstream\"") && !log.contains("\"filter\""),
        "{log}"
    );
    let metrics = node.admin_get("/metrics").text();
    let series = "steppe_http_requests_total{route=\"table\",status=\"3xx\",upstream=\"-\"} 2";
    assert!(metrics.contains(series), "{metrics}");
}

#[test]
fn each_request_has_a_name_of_its_own() {
    let (origin, node) = filtered(OK, "kind = \"request-id\"");
    let name = |answer: &Message| {
        answer
            .field("x-request-id")
            .map(str::to_owned)
            .expect("a name")
    };
    let first = name(&ask(&node, "GET /", "X-Request-Id: mine\r\n"));
    let second = name(&ask(&node, "GET /", ""));
    assert_ne!(first, second);
    assert!(
        first.len() == 32 && first.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{first}"
    );
    assert!(
        origin
            .received()
            .to_ascii_lowercase()
            .contains(&format!("x-request-id: {first}"))
    );
    let chunked = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n\
        1\r\na\r\n0\r\nX-Request-Id: forged\r\nX-Other: kept\r\n\r\n";
    assert_eq!(node.exchange(chunked).status(), 200);
    let received = origin.received();
    assert!(
        received.contains("kept") && !received.contains("forged"),
        "{received}"
    );
    let (origin, node) = filtered(OK, "kind = \"request-id\"\nheader = \"X-Id\"\nkeep = true");
    assert_eq!(
        ask(&node, "GET /", "X-Id: mine-1\r\n").field("x-id"),
        Some("mine-1")
    );
    assert!(
        origin
            .received()
            .to_ascii_lowercase()
            .contains("x-id: mine-1")
    );
    assert_ne!(
        ask(&node, "GET /", "X-Id: not a token\r\n").field("x-id"),
        Some("not a token")
    );
}

#[test]
fn browsers_are_told_to_be_careful_unless_the_server_says_otherwise() {
    let response = "HTTP/1.1 200 OK\r\nX-Frame-Options: SAMEORIGIN\r\ncontent-length: 2\r\n\r\nok";
    let keys = "kind = \"security-headers\"\ncontent_security_policy = \"default-src 'self'\"\n\
                cross_origin_opener_policy = \"same-origin\"\npermissions_policy = \"camera=()\"";
    let (_origin, node) = filtered(response, keys);
    let answer = ask(&node, "GET /", "");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "SAMEORIGIN"),
        ("referrer-policy", "strict-origin-when-cross-origin"),
        ("content-security-policy", "default-src 'self'"),
        ("cross-origin-opener-policy", "same-origin"),
        ("permissions-policy", "camera=()"),
    ] {
        assert_eq!(answer.field(name), Some(value), "{name}");
    }
}

#[test]
fn paths_and_queries_are_rewritten() {
    let keys = "kind = \"transform\"\n\
        path = [{ pattern = \"^/v1/users/(?<id>[0-9]+)$\", to = \"/users/${id}\" },\n\
                { pattern = \"^/v1/(?<rest>.*)$\", to = \"/${rest}\" }]\n\
        query = { set = { source = \"edge\" }, remove = [\"utm_source\"] }";
    let (origin, node) = filtered(OK, keys);
    for (target, forwarded) in [
        ("/v1/users/42?a=1&utm_source=x", "/users/42?a=1&source=edge"),
        ("/v1/a%0d%0ab", "/a%0D%0Ab?source=edge"),
        ("/other?source=mine", "/other?source=edge"),
    ] {
        assert_eq!(ask(&node, &format!("GET {target}"), "").text(), "ok");
        let line = format!("GET {forwarded} HTTP/1.1\r\n");
        assert!(
            origin.received().contains(&line),
            "{target}: {}",
            origin.received()
        );
    }
}

/// Each filter's page in docs/gateway/filters begins with a configuration; the node starts with it, and a route has the
/// filter.
#[test]
fn the_pages_configurations_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateway/filters");
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name")
            .to_owned();
        if name == "README" {
            continue;
        }
        let page = Document::named(&format!("docs/gateway/filters/{name}.md"));
        let config = NodeConfig::parse(page.toml())
            .set("admin.listen", "{admin}")
            .listener_at("127.0.0.1:8080", |l| l.set("listen", "{gateway}"));
        let node = builder().start(&config);
        let config = node.admin_json("/config");
        let routed = config["http"]["route"][0]["filters"].as_array();
        let mut routed = routed.expect("the route has filters").iter();
        let kind_of = |filter: &serde_json::Value| {
            let filter = filter.as_str().expect("a name");
            config["http"]["filter"][filter]["kind"].clone()
        };
        assert!(
            routed.any(|filter| kind_of(filter) == name.as_str()),
            "{name}"
        );
        seen.push(name);
    }
    seen.sort();
    let expected = [
        "api-keys",
        "authorize",
        "basic-auth",
        "cache",
        "compress",
        "cors",
        "error-pages",
        "forward-auth",
        "ip",
        "jwt",
        "rate-limit",
        "redirect",
        "request-id",
        "security-headers",
        "transform",
    ];
    assert_eq!(seen, expected);
}

/// The gateway's own responses are known to be so, not recognized by their form.
#[test]
fn what_a_server_says_of_cors_is_replaced_in_a_response_like_a_preflights() {
    let response = "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n\
        Vary: origin, access-control-request-method, access-control-request-headers\r\n\r\n";
    let (_origin, node) = filtered(response, CORS);
    let answer = ask(&node, "GET /", "Origin: https://evil.example\r\n");
    assert_eq!(answer.status(), 204);
    assert_eq!(answer.field("access-control-allow-origin"), None);
}
