//! Fields that a client sends besides its credentials, or in other spellings of fields that filters set.

use super::*;

/// The hash of "open sesame", by bcrypt.
const HASH: &str = "$2b$04$cBxG3y4QbtIdO423VEpLmeN.5fHcr5.kOR7fAk6QelkQ4tcdoXtG.";

/// Basic credentials of ann with "open sesame".
const BASIC: &str = "Authorization: Basic YW5uOm9wZW4gc2VzYW1l\r\n";

/// Lines of the last request that reached an origin, in lower case.
fn came_to(origin: &RawOrigin) -> Vec<String> {
    let received = origin.received().to_ascii_lowercase();
    let last = received.rfind("http/1.1\r\n").unwrap_or_default();
    received[last..].lines().map(str::to_owned).collect()
}

/// A server might use the scheme that was not verified.
#[test]
fn the_scheme_that_was_verified_is_the_only_one_to_reach_the_server() {
    let token = signed(json!({ "sub": "ann" }));
    let bearer = bearer(&token);
    let others = "Authorization: Basic cm9vdDpi\r\nAuthorization: Digest x\r\n";
    over_each(|protocol| {
        let site = Site::start(protocol, HS, "", "");
        for fields in [format!("{others}{bearer}"), format!("{bearer}{others}")] {
            assert_eq!(site.ask("GET", "/", &fields).status(), 200);
            let lines = came_to(&site.origin);
            let lines: Vec<_> = lines
                .iter()
                .filter(|line| line.starts_with("auth"))
                .collect();
            assert_eq!(lines, [bearer.trim_end().to_ascii_lowercase().as_str()]);
        }
        // A field that the token was not taken from is left to the server.
        let site = Site::start(
            protocol,
            HS,
            "from = [\"cookie:t\", \"header:authorization\"]",
            "",
        );
        let fields = format!("Cookie: t={token}\r\nAuthorization: Basic cm9vdDpi\r\n");
        assert_eq!(site.ask("GET", "/", &fields).status(), 200);
        assert!(came_to(&site.origin).contains(&"authorization: basic cm9vddpi".to_owned()));
        // The same if a password was taken.
        let node = node_with_users(&site);
        for fields in [format!("{BASIC}{bearer}"), format!("{bearer}{BASIC}")] {
            site.origin.forget();
            assert_eq!(ask(&node, protocol, "GET", "/", &fields).status(), 200);
            let lines = came_to(&site.origin);
            let lines: Vec<_> = lines
                .iter()
                .filter(|line| line.starts_with("auth"))
                .collect();
            assert_eq!(lines, [BASIC.trim_end().to_ascii_lowercase().as_str()]);
        }
    });
}

/// A request that may have tokens in several places, and the lines that the server receives of them. `{good}` is a
/// token that verifies, `{bad}` one that does not.
struct Places {
    from: &'static str,
    target: &'static str,
    fields: &'static str,
    /// Lines that the server receives.
    passed: &'static [&'static str],
}

const PLACES: &[Places] = &[
    Places {
        from: r#""cookie:t", "header:authorization""#,
        target: "/",
        fields: "Cookie: t={good}\r\nAuthorization: Bearer {bad}\r\n",
        passed: &["get / http/1.1", "cookie: t={good}"],
    },
    Places {
        from: r#""header:authorization", "cookie:t""#,
        target: "/",
        fields: "Authorization: Bearer {good}\r\nCookie: a=1; t={bad}; b=2\r\n",
        passed: &["authorization: bearer {good}", "cookie: a=1; b=2"],
    },
    Places {
        from: r#""header:authorization", "cookie:t""#,
        target: "/",
        fields: "Authorization: Bearer {good}\r\nCookie: t={bad}\r\n",
        passed: &["authorization: bearer {good}"],
    },
    // White space around a name, which servers ignore.
    Places {
        from: r#""cookie:t""#,
        target: "/",
        fields: "Cookie: t={good}\r\nCookie: t ={bad}\r\n",
        passed: &["cookie: t={good}"],
    },
    Places {
        from: r#""cookie:t", "header:x-token", "query:q""#,
        target: "/?q={bad}&a=1&%71={bad}&q",
        fields: "Cookie: t={good}\r\nX-Token: {bad}\r\nX-Token: {bad}\r\nX-Tokens: 1\r\n",
        passed: &["get /?a=1 http/1.1", "cookie: t={good}", "x-tokens: 1"],
    },
    Places {
        from: r#""header:x-token", "query:q""#,
        target: "/?q={bad}",
        fields: "X-Token: {good}\r\nAuthorization: Bearer own\r\n",
        passed: &[
            "get / http/1.1",
            "x-token: {good}",
            "authorization: bearer own",
        ],
    },
    // One token in several places was verified, whichever place it was taken from.
    Places {
        from: r#""header:authorization", "cookie:t", "query:q""#,
        target: "/?q={good}&b=2",
        fields: "Authorization: Bearer {good}\r\nCookie: t={good}\r\n",
        passed: &[
            "get /?q={good}&b=2 http/1.1",
            "authorization: bearer {good}",
            "cookie: t={good}",
        ],
    },
];

/// A server that reads another place would take the forged token's identity for the client's.
#[test]
fn no_token_but_the_one_that_was_verified_reaches_the_server() {
    let good = signed(json!({ "sub": "ann" }));
    let forger = EncodingKey::from_secret(b"a secret that nobody else has heard of");
    let bad = sign(
        &Header::new(Algorithm::HS256),
        json!({ "sub": "root" }),
        &forger,
    );
    let fill = |text: &str| text.replace("{good}", &good).replace("{bad}", &bad);
    over_each(|protocol| {
        for places in PLACES {
            let from = format!("from = [{}]", places.from);
            let site = Site::start(protocol, HS, &from, "");
            let (target, fields) = (fill(places.target), fill(places.fields));
            let what = format!("{protocol:?}, {from}, {target}, {fields}");
            assert_eq!(site.ask("GET", &target, &fields).status(), 200, "{what}");
            let received = site.origin.received().to_ascii_lowercase();
            let lines: Vec<_> = received.lines().map(str::to_owned).collect();
            let forged = bad.to_ascii_lowercase();
            assert!(
                !lines.iter().any(|line| line.contains(&forged)),
                "{what}: {lines:#?}"
            );
            for passed in places.passed {
                let passed = fill(passed).to_ascii_lowercase();
                assert!(lines.contains(&passed), "{what}: {passed} in {lines:#?}");
            }
        }
    });
}

/// A server may merge trailers into the head.
#[test]
fn no_token_reaches_the_server_as_a_trailer() {
    let site = Site::start(Protocol::H1, HS, "from = [\"header:x-token\"]", "");
    let token = signed(json!({ "sub": "ann" }));
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nX-Token: {token}\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\nX-Token: forged\r\nX-Plain: 1\r\n\r\n"
    );
    assert_eq!(site.node.exchange(request).status(), 200);
    let received = site.origin.received().to_ascii_lowercase();
    assert!(
        received.ends_with("\r\n0\r\nx-plain: 1\r\n\r\n"),
        "{received}"
    );
}

fn node_with_users(site: &Site) -> Steppe {
    let config = NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .route("all", |r| r.filters(["basic"]))
        .with_toml(
            "[http.filter.basic]\nkind = \"basic-auth\"\nusers_file = \"{scratch}/users\"\n",
        );
    let users = format!("ann:{HASH}\n");
    let builder = Steppe::builder().with("origin", site.origin.address());
    builder.with_file("users", &users).start(&config)
}

/// If a listener passes underscores, a server that maps fields to variables takes `X_User` for `X-User`.
#[test]
fn aliases_of_what_the_node_sets_never_pass() {
    const FILTERS: &str = r#"
[http.filter.basic]
kind = "basic-auth"
users_file = "{folder}/users"
forward_user = "x-name"
[http.filter.service]
kind = "forward-auth"
upstream = "service"
response_headers = ["x-service", "x-none"]
[http.filter.id]
kind = "request-id"
[http.filter.edge]
kind = "transform"
request_headers = { set = { x-edge = "1" }, remove = ["x-gone"] }
"#;
    const ALIASES: [&str; 12] = [
        "X_Sub",
        "x_role",
        "X_Name",
        "X_Service",
        "X_None",
        "X_Request_Id",
        "X_Edge",
        "X_Gone",
        "X_Forwarded_For",
        "X_Forwarded-Prefix",
        "X_Real_IP",
        "Client_Cert",
    ];
    let jwt = "from = [\"cookie:t\"]\nforward_claims = { sub = \"x-sub\", role = \"x-role\" }";
    let aliases: String = ALIASES
        .iter()
        .map(|name| format!("{name}: root\r\n"))
        .collect();
    over_each(|protocol| {
        let service =
            RawOrigin::answering("HTTP/1.1 200 OK\r\nx-service: ann\r\ncontent-length: 0\r\n\r\n");
        let upstream = format!(
            "\n[http.upstream.service]\nservers = [\"{}\"]\n",
            service.address()
        );
        let (origin, scratch) = (RawOrigin::answering(OK), Scratch::new("tokens"));
        std::fs::write(scratch.path().join("hs.key"), SECRET).expect("a file");
        std::fs::write(scratch.path().join("users"), format!("ann:{HASH}\n")).expect("a file");
        let config = guarded_by(&format!("{HS}\n{jwt}"), FILTERS)
            .with_toml(&upstream)
            .listener(|l| l.set("underscores", "pass"));
        let node = start(&origin, &scratch.path().display().to_string(), &config);
        let token = signed(json!({ "sub": "ann" }));
        let fields = format!("{BASIC}Cookie: t={token}\r\n{aliases}X_Plain: 1\r\n");
        assert_eq!(ask(&node, protocol, "GET", "/", &fields).status(), 200);
        let lines = came_to(&origin);
        for set in [
            "x-sub: ann",
            "x-name: ann",
            "x-service: ann",
            "x-edge: 1",
            "x_plain: 1",
        ] {
            assert!(lines.contains(&set.to_owned()), "{set}: {lines:?}");
        }
        assert!(lines.iter().all(|line| !line.contains("root")), "{lines:?}");
        assert!(
            !service.received().contains("X_Forwarded"),
            "{}",
            service.received()
        );
        if protocol == Protocol::H2 {
            return;
        }
        // A server may merge trailers into the head.
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{BASIC}Cookie: t={token}\r\nTransfer-Encoding: chunked\r\n\r\n\
             0\r\n{aliases}X_Plain: 1\r\n\r\n"
        );
        assert_eq!(node.exchange(request).status(), 200);
        let received = origin.received().to_ascii_lowercase();
        assert!(received.ends_with("x_plain: 1\r\n\r\n"), "{received}");
        assert!(!received.contains("root"), "{received}");
    });
}
