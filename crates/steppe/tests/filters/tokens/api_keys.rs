//! API keys: admission, the fields that servers receive, and a file that changes.

use std::fs;

use steppe_testkit::{Curl, Message, NodeConfig, RawOrigin, Section, Steppe, observe_until};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// The hash of the key: `printf alpha | sha256sum`.
const ALPHA: &str = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";
const BETA: &str = "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753";

/// A node that requires keys, its origin, and its file of keys.
struct Site {
    origin: RawOrigin,
    node: Steppe,
}

impl Site {
    fn new(change: impl FnOnce(Section) -> Section) -> Self {
        Self::new_on(
            |config| config.route("all", |r| r.filters(["keys"])),
            change,
        )
    }

    /// A site whose filters `route` names.
    fn new_on(
        route: impl FnOnce(NodeConfig) -> NodeConfig,
        change: impl FnOnce(Section) -> Section,
    ) -> Self {
        let origin = RawOrigin::answering(OK);
        let config = NodeConfig::plain()
            .set("log.access.file", "{scratch}/access.log")
            .set("log.access.format", "json");
        let config = route(config).add_filter("keys", |f| {
            let f = f.with_toml("kind = \"api-keys\"");
            change(f.set("keys_file", "{scratch}/api-keys"))
        });
        let node = Steppe::builder()
            .with("origin", origin.address())
            .with_file("api-keys", &format!("ci {ALPHA}\nphone {BETA}\n"))
            .start(&config);
        Self { origin, node }
    }

    fn ask(&self, fields: &str) -> Message {
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        self.node.connect().send(request).response()
    }

    /// Bytes that the origin received of an admitted request with these fields.
    #[track_caller]
    fn received(&self, fields: &str) -> String {
        let before = self.origin.received().len();
        assert_eq!(self.ask(fields).status(), 200, "{fields}");
        self.origin.received()[before..].to_owned()
    }
}

/// Servers receive the name of the key's client, and not the key.
#[test]
fn a_known_key_lets_in_and_its_name_goes_on() {
    let site = Site::new(|f| f);
    let received = site.received("X-Api-Key: alpha\r\nX-Api-Key-Name: root\r\n");
    assert!(received.contains("x-api-key-name: ci\r\n"), "{received}");
    assert!(
        !received.contains("alpha") && !received.contains("root"),
        "{received}"
    );
    let received = site.received("x-api-key: beta\r\n");
    assert!(received.contains("x-api-key-name: phone\r\n"), "{received}");
    let curl = Curl::new(&site.node.url("/"))
        .args(["-H", "x-api-key: alpha"])
        .run();
    assert_eq!(curl.head.status(), 200);
}

/// Behind a cache, a request to the server counts for the key of the client that it is for.
#[test]
fn a_cache_passes_the_name_of_the_key_on() {
    let site = Site::new_on(
        |config| {
            config
                .route("all", |r| r.filters(["keys", "store", "fair"]))
                .add_filter("store", |f| f.with_toml("kind = \"cache\"\nbytes = \"1MiB\""))
                .add_filter("fair", |f| {
                    f.with_toml("kind = \"rate-limit\"\nkey = \"api-key\"\nrate = 1\nper = \"1h\"\nburst = 1")
                })
        },
        |f| f,
    );
    let status = |key: &str| site.ask(&format!("X-Api-Key: {key}\r\n")).status();
    assert_eq!((status("alpha"), status("alpha")), (200, 429));
    assert_eq!((status("beta"), status("beta")), (200, 429));
}

#[test]
fn others_are_told_what_is_missing_and_reach_no_server() {
    let site = Site::new(|f| f);
    let long = format!("X-Api-Key: {}\r\n", "a".repeat(600));
    for (fields, status, challenge) in [
        ("", 401, "ApiKey realm=\"steppe\""),
        (
            "X-Api-Key: gamma\r\n",
            401,
            "ApiKey realm=\"steppe\", error=\"invalid_token\"",
        ),
        (
            "X-Api-Key: Alpha\r\n",
            401,
            "ApiKey realm=\"steppe\", error=\"invalid_token\"",
        ),
        (
            &*format!("X-Api-Key: {ALPHA}\r\n"),
            401,
            "ApiKey realm=\"steppe\", error=\"invalid_token\"",
        ),
        (
            &*long,
            401,
            "ApiKey realm=\"steppe\", error=\"invalid_token\"",
        ),
        (
            "X-Api-Key:\r\n",
            401,
            "ApiKey realm=\"steppe\", error=\"invalid_token\"",
        ),
        (
            "Authorization: Bearer alpha\r\n",
            401,
            "ApiKey realm=\"steppe\"",
        ),
        (
            "X-Api-Key: alpha\r\nX-Api-Key: alpha\r\n",
            400,
            "ApiKey realm=\"steppe\", error=\"invalid_request\"",
        ),
    ] {
        let answer = site.ask(fields);
        let seen = (answer.status(), answer.field("www-authenticate"));
        assert_eq!(seen, (status, Some(challenge)), "{fields}");
    }
    assert_eq!(site.origin.accepted(), 0);
}

#[test]
fn a_key_may_come_as_a_bearer_token_or_in_a_cookie() {
    let site = Site::new(|f| {
        let f = f.set("from", ["header:authorization", "cookie:key"]);
        f.set("forward_name", "X-Client")
    });
    let fields = "Authorization: Bearer alpha\r\nCookie: a=b; key=beta\r\n";
    let received = site.received(fields);
    assert!(received.contains("x-client: ci\r\n"), "{received}");
    assert!(
        received.contains("a=b") && !received.contains("alpha"),
        "{received}"
    );
    assert!(!received.contains("beta"), "{received}");
    let fields = "Authorization: Basic YTpi\r\nCookie: key=beta; a=b\r\n";
    let received = site.received(fields);
    assert!(received.contains("x-client: phone\r\n"), "{received}");
    assert!(
        received.to_lowercase().contains("authorization: basic"),
        "{received}"
    );
    let refused = site.ask("Authorization: Bearer gamma\r\nCookie: key=beta\r\n");
    let challenge = "Bearer realm=\"steppe\", error=\"invalid_token\"";
    let seen = (refused.status(), refused.field("www-authenticate"));
    assert_eq!(seen, (401, Some(challenge)));
}

#[test]
fn a_key_is_sent_on_where_that_is_asked_for_and_no_other_one() {
    let site = Site::new(|f| {
        let f = f.set("from", ["header:x-api-key", "cookie:key"]);
        f.set("forward_key", true)
    });
    let received = site.received("X-Api-Key: alpha\r\nCookie: key=beta\r\n");
    assert!(
        received.to_lowercase().contains("x-api-key: alpha\r\n"),
        "{received}"
    );
    assert!(!received.contains("beta"), "{received}");
}

/// The file is read again without a reload.
#[test]
fn a_file_that_changes_is_read_again_and_a_broken_one_is_not_used() {
    let site = Site::new(|f| f);
    let file = site.node.scratch().join("api-keys");
    let status_of = |key: &str| site.ask(&format!("X-Api-Key: {key}\r\n")).status();
    assert_eq!((status_of("alpha"), status_of("beta")), (200, 200));
    let replace = |text: &str| {
        let next = site.node.scratch().join("next");
        fs::write(&next, text).expect("a file");
        fs::rename(&next, &file).expect("one file system");
    };
    replace(&format!("ci {ALPHA}\n"));
    observe_until(
        "the second key is gone",
        || status_of("beta"),
        |status| *status == 401,
    );
    assert_eq!(status_of("alpha"), 200);
    replace("ci beta\n");
    let warning = "cannot use the changed API keys";
    observe_until(
        "a warning",
        || site.node.said(),
        |said| said.contains(warning),
    );
    assert_eq!((status_of("alpha"), status_of("beta")), (200, 401));
    replace(&format!("ci {ALPHA}\nlaptop {BETA}\n"));
    observe_until(
        "the second key is back",
        || status_of("beta"),
        |status| *status == 200,
    );
    let received = site.received("X-Api-Key: beta\r\n");
    assert!(
        received.contains("x-api-key-name: laptop\r\n"),
        "{received}"
    );
}

#[test]
fn requests_are_counted_by_the_name_of_their_key() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .route("all", |r| r.filters(["keys", "limit"]))
        .add_filter("keys", |f| {
            let f = f.with_toml("kind = \"api-keys\"");
            f.set("keys_file", "{scratch}/api-keys")
        })
        .add_filter("limit", |f| {
            f.with_toml("kind = \"rate-limit\"\nrate = 1\nper = \"1d\"\nkey = \"api-key\"")
        });
    let gamma = "be9d587defa1f0c09ef49eb17e206983a5f8f8289e4281860bd0ee5a19592c67";
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file(
            "api-keys",
            &format!("ci {ALPHA}\nphone {BETA}\nci {gamma}\n"),
        )
        .start(&config);
    let status_of = |key: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\n\r\n");
        node.connect().send(request).response().status()
    };
    assert_eq!((status_of("alpha"), status_of("alpha")), (200, 429));
    // A second key of the same client shares its limit.
    assert_eq!(status_of("gamma"), 429);
    assert_eq!((status_of("beta"), status_of("beta")), (200, 429));
}

/// One client may write, the others may read.
#[test]
fn rules_decide_by_the_name_of_the_key() {
    let origin = RawOrigin::answering(OK);
    let rules = "kind = \"authorize\"\nrules = [{ methods = [\"POST\"], api_keys = [\"ci\"] }, \
        { methods = [\"GET\"] }]";
    let config = NodeConfig::plain()
        .route("all", |r| r.filters(["keys", "rules"]))
        .add_filter("keys", |f| {
            let f = f.with_toml("kind = \"api-keys\"");
            f.set("keys_file", "{scratch}/api-keys")
        })
        .add_filter("rules", |f| f.with_toml(rules));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("api-keys", &format!("ci {ALPHA}\nphone {BETA}\n"))
        .start(&config);
    let status_of = |method: &str, key: &str| {
        let fields = format!("Host: a\r\nContent-Length: 0\r\nX-Api-Key: {key}\r\n");
        let request = format!("{method} / HTTP/1.1\r\n{fields}\r\n");
        node.connect().send(request).response().status()
    };
    for (method, key, status) in [
        ("POST", "alpha", 200),
        ("POST", "beta", 403),
        ("GET", "beta", 200),
        ("POST", "gamma", 401),
    ] {
        assert_eq!(status_of(method, key), status, "{method} {key}");
    }
}

/// No key is in logs, metrics or `/config`.
#[test]
fn no_key_is_told() {
    let site = Site::new(|f| f);
    let secret = "alpha-that-nobody-knows";
    assert_eq!(site.ask(&format!("X-Api-Key: {secret}\r\n")).status(), 401);
    assert_eq!(site.ask("X-Api-Key: alpha\r\n").status(), 200);
    let path = site.node.scratch().join("access.log");
    let lines = || fs::read_to_string(&path).unwrap_or_default();
    let log = observe_until("two lines", lines, |log| log.lines().count() == 2);
    let told = [
        log,
        site.node.said(),
        site.node.admin_get("/metrics").text(),
        site.node.admin_get("/config").text(),
    ];
    for text in told {
        assert!(
            !text.contains("alpha") && !text.contains(&ALPHA[..8]),
            "{text}"
        );
    }
}

/// The key is shown once, and the file has only its hash.
#[test]
fn a_new_key_is_printed_with_its_line() {
    let new = |args: &[&str]| {
        let output = Steppe::command().args(["key", "new"]).args(args).output();
        output.expect("steppe")
    };
    let output = new(&["--name", "ci"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<_> = text.lines().collect();
    let [key, line] = lines[..] else {
        panic!("{text}");
    };
    assert!(key.starts_with("stp_") && line.starts_with("ci "), "{text}");
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain()
        .route("all", |r| r.filters(["keys"]))
        .add_filter("keys", |f| {
            let f = f.with_toml("kind = \"api-keys\"");
            f.set("keys_file", "{scratch}/api-keys")
        });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .with_file("api-keys", line)
        .start(&config);
    let field = format!("x-api-key: {key}");
    let let_in = Curl::new(&node.url("/")).args(["-H", &field]).run();
    assert_eq!(let_in.head.status(), 200);
    let named = String::from_utf8(new(&[]).stdout).expect("UTF-8");
    assert!(
        named
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("key-")),
        "{named}"
    );
    assert_eq!(new(&["--name", "a b"]).status.code(), Some(2));
}
