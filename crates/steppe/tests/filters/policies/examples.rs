//! The whole examples of `examples/`, unchanged but for addresses and folders.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;
use steppe_testkit::{
    Curl, CurlOutput, Gate, Nginx, NodeConfig, RawOrigin, Scratch, Steppe, eventually,
};

const SECRET: &str = "a secret that is long enough for HS256";

/// An example with addresses of the test's own.
fn config(name: &str) -> NodeConfig {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = std::fs::read_to_string(folder.join(name)).expect("an example");
    NodeConfig::parse(&text)
        .set("admin.listen", "{admin}")
        .listener_at("127.0.0.1:8080", |l| l.set("listen", "{gateway}"))
}

fn example(name: &str, upstream: &str, servers: &[SocketAddr]) -> Steppe {
    let config = config(name).upstream(upstream, |u| u.servers(servers));
    Steppe::builder()
        .with_file("api.key", SECRET)
        .with_file("models.key", SECRET)
        .start(&config)
}

fn text(answer: &CurlOutput) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[expect(clippy::disallowed_methods, reason = "tokens end by the time of day")]
fn token(subject: &str, audience: &str, scope: &str) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let claims = json!({
        "sub": subject, "aud": audience, "scope": scope, "exp": now.as_secs() + 600,
    });
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::default(), &claims, &key).expect("a token")
}

fn get(node: &Steppe, path: &str, token: &str, version: &str) -> CurlOutput {
    let bearer = format!("Authorization: Bearer {token}");
    Curl::new(&node.url(path))
        .args(["-H", &bearer, "-H", "X-User: mallory", version])
        .run()
}

#[test]
fn an_api_with_tokens_and_limits() {
    let server = "location / { return 200 \"$http_x_user\"; }";
    let servers = [Nginx::start(server), Nginx::start(server)];
    let addresses = servers.each_ref().map(Nginx::address);
    let node = example("api.toml", "api", &addresses);
    let reader = token("ann", "api", "read");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let answer = get(&node, "/v1/things", &reader, version);
        assert_eq!(
            (answer.head.status(), text(&answer)),
            (200, "ann".to_owned())
        );
        let anonymous = Curl::new(&node.url("/v1/things")).args([version]).run();
        assert_eq!(anonymous.head.status(), 401);
    }
    assert_eq!(
        get(
            &node,
            "/v1/things",
            &token("ann", "others", "read"),
            "--http1.1"
        )
        .head
        .status(),
        401
    );
    let write = |token: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        Curl::new(&node.url("/v1/things"))
            .args(["-H", &bearer, "-d", "x"])
            .run()
            .head
            .status()
    };
    assert_eq!(write(&reader), 403);
    assert_eq!(write(&token("bob", "api", "read write")), 200);
    // A burst of 20, and ten a second: of sixty at once some are refused, and only those of this
    // caller.
    let greedy = token("eve", "api", "read");
    let request =
        format!("GET /v1/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {greedy}\r\n\r\n");
    let mut peer = node.connect();
    peer.send(request.repeat(60));
    let statuses: Vec<_> = (0..60).map(|_| peer.response().status()).collect();
    assert!(statuses.starts_with(&[200; 20]), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    eventually("the access log names the filter", || {
        let log = node.said();
        log.contains("\"filter\":\"callers\"") && log.contains("\"filter\":\"writers\"")
    });
}

/// Makes one fetch for each coding, and serves pages while the server is gone.
#[test]
fn a_site_with_cache_and_compression() {
    let page = "<p>the same words over and over</p>\n".repeat(200);
    let asked = Arc::<AtomicUsize>::default();
    let (content, counter) = (page.clone(), Arc::clone(&asked));
    let server = RawOrigin::replying(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        (head + &content).into_bytes()
    });
    let node = example("site.toml", "pages", &[server.address()]);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for _ in 0..2 {
            let encoded = Curl::new(&node.url("/"))
                .args([version, "-H", "Accept-Encoding: gzip"])
                .run();
            assert_eq!(encoded.head.field("content-encoding"), Some("gzip"));
            assert!(
                encoded.body.len() < page.len() / 5,
                "{}",
                encoded.body.len()
            );
            let decoded = Curl::new(&node.url("/"))
                .args([version, "-H", "Accept-Encoding: gzip", "--compressed"])
                .run();
            assert_eq!(text(&decoded), page);
            let plain = Curl::new(&node.url("/")).args([version]).run();
            assert_eq!(plain.head.field("content-encoding"), None);
            assert_eq!(text(&plain), page);
            assert_eq!(plain.head.field("x-content-type-options"), Some("nosniff"));
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "one for each coding");
    drop(server);
    let stored = Curl::new(&node.url("/")).run();
    assert_eq!((stored.head.status(), text(&stored)), (200, page));
}

/// Files have a lifetime, the page of a missing one has none, and `www` is redirected.
#[test]
fn a_static_site_with_lifetimes_and_an_error_page() {
    let folder = Scratch::new("site");
    let page = "<p>the same words over and over</p>\n".repeat(200);
    folder.write("index.html", &page);
    let config = config("static-site.toml").route("site", |r| r.set("files.root", folder.path()));
    let node = Steppe::builder()
        .with_file("404.html", "<p>Not here.</p>\n")
        .start(&config);
    let encoded = Curl::new(&node.url("/"))
        .args(["-H", "Accept-Encoding: gzip", "--compressed"])
        .run();
    assert_eq!(encoded.head.field("content-encoding"), Some("gzip"));
    assert_eq!(encoded.head.field("cache-control"), Some("no-cache"));
    assert_eq!(text(&encoded), page);
    let missing = Curl::new(&node.url("/missing")).run();
    assert_eq!(
        (missing.head.status(), text(&missing)),
        (404, "<p>Not here.</p>\n".to_owned())
    );
    assert_eq!(missing.head.field("cache-control"), None);
    for answer in [&encoded, &missing] {
        let policy = answer.head.field("content-security-policy");
        assert_eq!(policy, Some("default-src 'self'"));
    }
    let redirected = Curl::new(&node.url("/a?b"))
        .args(["-H", "Host: www.example.com"])
        .run();
    assert_eq!(redirected.head.status(), 308);
    assert_eq!(
        redirected.head.field("location"),
        Some("https://example.com/a?b")
    );
}

/// Tokens are streamed as they are made, and a caller's third stream is refused while two last.
#[test]
fn an_inference_server_behind_tokens_and_limits() {
    let may_end = Gate::new();
    let gate = may_end.clone();
    let model = RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            assert_eq!(request.field("x-user"), Some("ann"));
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
            peer.send("9\r\ndata: a\n\n\r\n");
            gate.wait();
            peer.send("9\r\ndata: b\n\n\r\n0\r\n\r\n");
        }
    });
    let node = example("inference.toml", "model", &[model.address()]);
    let bearer = format!("Authorization: Bearer {}", token("ann", "models", ""));
    let ask = || {
        Curl::new(&node.url("/v1/chat/completions")).args([
            "-H",
            &bearer,
            "-H",
            "Accept-Encoding: gzip",
            "-d",
            "{}",
        ])
    };
    let streams = [ask().start(), ask().start()];
    for stream in &streams {
        eventually("the first token has come", || {
            text(&stream.so_far()) == "data: a\n\n"
        });
    }
    assert_eq!(ask().run().head.status(), 429);
    may_end.open();
    for stream in streams {
        let answer = stream.finish();
        assert_eq!(text(&answer), "data: a\n\ndata: b\n\n");
        assert_eq!(answer.head.field("content-encoding"), None);
    }
    assert_eq!(ask().run().head.status(), 200);
    let anonymous = Curl::new(&node.url("/v1/models")).run();
    assert_eq!(anonymous.head.status(), 401);
}
