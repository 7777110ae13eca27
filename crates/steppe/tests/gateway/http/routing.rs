//! Routing through the whole node: the route that a request matches.

use steppe_testkit::{Message, NodeConfig, RawOrigin, Steppe};

/// Routes that answer with their own name, as `name: other keys`.
fn node(routes: &[(&str, &str)]) -> Steppe {
    let add = |config: NodeConfig, (name, keys): &(&str, &str)| {
        config
            .add_upstream(name, |u| {
                u.set("respond.status", 200).set("respond.body", *name)
            })
            .add_route(name, |r| r.upstream(name).with_toml(keys))
    };
    let config = routes.iter().fold(NodeConfig::bare(), add);
    Steppe::builder().start(&config)
}

/// Asserts the route that answers `METHOD target host [more fields]`; `-` stands for a plain 404.
#[track_caller]
fn check(node: &Steppe, request: &str, expected: &str) {
    let mut parts = request.splitn(4, ' ');
    let mut next = || parts.next().unwrap_or_default();
    let (method, target, host, fields) = (next(), next(), next(), next());
    let fields = if fields.is_empty() {
        String::new()
    } else {
        format!("{fields}\r\n")
    };
    let mut peer = node.connect();
    peer.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
    ));
    let answer = peer.response_to(method);
    let said = if answer.status() == 404 {
        "-".to_owned()
    } else {
        answer.text()
    };
    assert_eq!(said, expected, "{request}: {answer:?}");
}

#[test]
fn the_most_specific_host_wins() {
    let node = node(&[
        ("any", "path = \"/{rest*}\""),
        ("wild", "host = [\"*.example.com\"]\npath = \"/{rest*}\""),
        (
            "deep",
            "host = [\"*.api.example.com\"]\npath = \"/{rest*}\"",
        ),
        (
            "exact",
            "host = [\"www.example.com\", \"example.net\"]\npath = \"/{rest*}\"",
        ),
    ]);
    check(&node, "GET / www.example.com", "exact");
    check(&node, "GET / WWW.Example.COM:8080", "exact");
    check(&node, "GET / example.net", "exact");
    check(&node, "GET / a.example.com", "wild");
    check(&node, "GET / a.b.example.com", "wild");
    check(&node, "GET / v1.api.example.com", "deep");
    check(&node, "GET / example.com", "any");
    check(&node, "GET / badexample.com", "any");
    check(&node, "GET / www.example.com.evil", "any");
}

#[test]
fn the_most_specific_path_wins() {
    let node = node(&[
        ("rest", "path = \"/v1/{rest*}\""),
        ("one", "path = \"/v1/{name}\""),
        ("literal", "path = \"/v1/users\""),
        ("inner", "path = \"/v1/{name}/edit\""),
    ]);
    check(&node, "GET /v1/users a", "literal");
    check(&node, "GET /v1/other a", "one");
    check(&node, "GET /v1/other/edit a", "inner");
    check(&node, "GET /v1/other/view a", "rest");
    check(&node, "GET /v1/ a", "rest");
    check(&node, "GET /v10 a", "-");
    check(&node, "GET /v1users a", "-");
    check(&node, "GET /V1/users a", "-");
    check(&node, "GET / a", "-");
}

#[test]
fn more_predicates_win_then_the_order_of_the_file() {
    let node = node(&[
        ("plain", "path = \"/x\""),
        ("first", "path = \"/x\"\nquery = { tie = \"1\" }"),
        ("second", "path = \"/x\"\nheaders = { x-tie = \"1\" }"),
        ("header", "path = \"/x\"\nheaders = { x-version = \"2\" }"),
        (
            "query",
            "path = \"/x\"\nquery = { preview = \"true\" }\nheaders = { x-version = \"2\" }",
        ),
    ]);
    check(&node, "GET /x a", "plain");
    check(&node, "GET /x?tie=1 a X-Tie: 1", "first");
    check(&node, "GET /x a X-Tie: 1", "second");
    check(&node, "GET /x a X-Version: 2", "header");
    check(&node, "GET /x a X-Version: 3", "plain");
    check(&node, "GET /x?preview=true a X-Version: 2", "query");
    check(&node, "GET /x?a=b&preview=true&c a X-Version: 2", "query");
    check(&node, "GET /x?preview=truer a X-Version: 2", "header");
    check(&node, "GET /x?xpreview=true a X-Version: 2", "header");
}

#[test]
fn another_method_gets_405_and_allow() {
    let node = node(&[
        ("read", "path = \"/x\"\nmethods = [\"GET\", \"HEAD\"]"),
        ("write", "path = \"/x\"\nmethods = [\"PUT\"]"),
        ("get", "path = \"/y/{rest*}\"\nmethods = [\"GET\"]"),
    ]);
    check(&node, "GET /x a", "read");
    check(&node, "PUT /x a", "write");
    let refused = node.exchange("DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(refused.status(), 405);
    let mut allowed: Vec<String> = refused
        .field("allow")
        .unwrap_or("")
        .split(',')
        .map(|m| m.trim().to_owned())
        .collect();
    allowed.sort();
    assert_eq!(allowed, ["GET", "HEAD", "PUT"]);
    let small = node.exchange("get /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(small.status(), 405, "methods are case-sensitive");
    assert_eq!(
        node.exchange("PUT /z HTTP/1.1\r\nHost: a\r\n\r\n").status(),
        404
    );
}

/// A path in any spelling gets the answer of its normal form, or 400.
#[test]
fn no_spelling_gets_around_a_route() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nopen");
    let config = NodeConfig::plain()
        .add_upstream("no", |u| {
            u.set("respond.status", 403).set("respond.body", "no")
        })
        .add_route("admin", |r| r.path("/admin").upstream("no"))
        .add_route("inner", |r| r.path("/admin/{rest*}").upstream("no"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let ways = [
        "/admin",
        "/admin/",
        "/admin/x",
        "//admin",
        "///admin//x",
        "/./admin",
        "/public/../admin",
        "/public/..%2fadmin",
        "/public/..%2Fadmin",
        "/public/%2e%2e/admin",
        "/public/.%2e/admin",
        "/%61dmin",
        "/%61%64%6d%69%6e",
        "/admin;x",
        "/admin;x=y/z",
        "/;a/admin",
        "/a/..;/admin",
        "/a;b/../admin",
        "/admin%2f",
        "/admin%2fx",
        "/admin%5cx",
        "/admin%00",
        "/admin%",
        "/admin%zz",
        "/admin%2",
        "/../admin",
        "/../../admin",
        "/..",
        "/admin/.",
        "/admin/..%2fadmin",
        "/admin?x=/a",
        "/admin/%2e",
        "/x/../%61dmin;y",
        "/%2e/admin",
        "/admin/;a",
        "/a/%2e%2e/%2e%2e/admin",
    ];
    let let_through: Vec<&str> = ways
        .into_iter()
        .filter(|way| {
            let answer = node.exchange(format!("GET {way} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let elsewhere = *way == "/.." || *way == "/admin/..%2fadmin";
            let refused = [400, 403].contains(&answer.status());
            !(refused || elsewhere && answer.text() == "open")
        })
        .collect();
    assert!(
        let_through.is_empty(),
        "not refused: {let_through:?}; {}",
        origin.received()
    );
    assert!(!origin.received().contains("dmin"), "{}", origin.received());
    for bad in ["/a%2fb", "/a%5cb", "/a%00", "/a%", "/a%4", "/a%zz"] {
        let answer = node.exchange(format!("GET {bad} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status(), 400, "{bad}");
    }
}

#[test]
fn what_was_matched_is_what_is_sent() {
    let origin = RawOrigin::answering("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nopen");
    let node = Steppe::in_front_of(origin.address());
    let cases = [
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("//a///b", "/a/b"),
        ("/%61%7e%2D%5f%2e%2e", "/a~-_.."),
        ("/a%20b", "/a%20b"),
        ("/a;p=1/b;q", "/a;p=1/b;q"),
        ("/a?x=%2f..%2f&y=/../", "/a?x=%2f..%2f&y=/../"),
        ("/a/", "/a/"),
        ("/", "/"),
    ];
    for (sent, expected) in cases {
        origin.forget();
        let answer = node.exchange(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.text(), "open", "{sent}");
        let line = origin
            .received()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(line, format!("GET {expected} HTTP/1.1"), "{sent}");
    }
}

#[test]
fn a_transform_edits_fields_both_ways_in_the_order_of_the_route() {
    let origin = RawOrigin::answering(
        "HTTP/1.1 200 OK\r\nServer: secret\r\nVary: accept\r\nContent-Length: 2\r\n\r\nok",
    );
    let first = r#"
kind = "transform"
request_headers = { set = { x-who = "first" }, append = { x-list = "one" }, remove = ["x-debug"] }
response_headers = { set = { x-back = "first" }, append = { vary = "x-user" }, remove = ["server"] }
"#;
    let second = r#"
kind = "transform"
request_headers = { set = { x-who = "second" }, append = { x-list = "two" } }
response_headers = { set = { x-back = "second" } }
"#;
    let config = NodeConfig::plain()
        .route("all", |r| r.filters(["first", "second"]))
        .add_filter("first", |f| f.with_toml(first))
        .add_filter("second", |f| f.with_toml(second));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let answer = node.exchange(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Who: client\r\nX-List: zero\r\nX-Debug: 1\r\nx-debug: 2\r\n\r\n",
    );
    let head = Message {
        head: head_of(&origin),
        ..Message::default()
    };
    assert_eq!(head.all("x-who"), ["second"]);
    assert_eq!(head.all("x-list").join(", "), "zero, one, two");
    assert_eq!(head.field("x-debug"), None);
    assert_eq!(answer.all("vary").join(", "), "accept, x-user");
    assert_eq!(answer.field("server"), None);
    // Responses pass the filters in reverse order, so the first filter sets a field last.
    assert_eq!(answer.field("x-back"), Some("first"));
}

#[test]
fn a_canned_response_has_its_status_fields_and_content() {
    let config = NodeConfig::bare()
        .add_upstream("sorry", |u| {
            u.set("respond.status", 503)
                .set("respond.body", "back soon\n")
                .set("respond.headers.retry-after", "5")
        })
        .add_route("all", |r| r.path("/{rest*}").upstream("sorry"));
    let node = Steppe::builder().start(&config);
    let mut peer = node.connect();
    for _ in 0..2 {
        let put = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        let answer = peer.send(put).response();
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (503, "back soon\n")
        );
        assert_eq!(answer.field("retry-after"), Some("5"));
        let head = peer
            .send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n")
            .response_to("HEAD");
        assert_eq!(
            (head.status(), head.field("content-length")),
            (503, Some("10"))
        );
    }
}

fn head_of(origin: &RawOrigin) -> steppe_testkit::Head {
    steppe_testkit::Head::parse(origin.received().as_bytes())
}
