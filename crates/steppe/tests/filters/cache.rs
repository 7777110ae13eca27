//! The `cache` filter on the wire, over HTTP/1.1 and HTTP/2 alike.
//!
//! Stale responses arrive stale: origins send an `Age`, so that no test waits for a clock.

mod collapsing;
mod freshness;
mod keys;
mod operating;
mod parts;
mod validation;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_testkit::{Curl, CurlOutput, Message, NodeConfig, RawOrigin, Steppe};

/// The hash of "open sesame", by bcrypt.
const HASH: &str = "$2b$04$cBxG3y4QbtIdO423VEpLmeN.5fHcr5.kOR7fAk6QelkQ4tcdoXtG.";

/// The protocol of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    H1,
    H2,
}

/// A node with a cache in front of an origin.
struct Site {
    origin: RawOrigin,
    node: Steppe,
    protocol: Protocol,
    config: NodeConfig,
}

/// Two workers, and a cache for the one route.
fn config() -> NodeConfig {
    NodeConfig::plain()
        .workers(2)
        .protocols(["h1", "h2c"])
        .route("all", |r| r.filters(["store"]))
        .add_filter("store", |f| f.set("kind", "cache").set("bytes", "16MiB"))
}

/// Runs `test` with a site for each protocol: `keys` belong to the filter, and `answer` returns its
/// origin's response to a request, given the number of requests before it.
fn with_each(
    keys: &str,
    answer: impl Fn(&Message, usize) -> String + Send + Sync + Clone + 'static,
    test: impl Fn(&Site),
) {
    for protocol in [Protocol::H1, Protocol::H2] {
        let (count, answer) = (AtomicUsize::new(0), answer.clone());
        let origin = RawOrigin::replying(move |request| {
            answer(request, count.fetch_add(1, Ordering::SeqCst)).into_bytes()
        });
        test(&Site::start(origin, protocol, keys, ""));
    }
}

impl Site {
    fn start(origin: RawOrigin, protocol: Protocol, keys: &str, more: &str) -> Self {
        let config = config()
            .filter("store", |f| f.with_toml(keys))
            .with_toml(more);
        Self::start_with(origin, protocol, config)
    }

    fn start_with(origin: RawOrigin, protocol: Protocol, config: NodeConfig) -> Self {
        let node = Steppe::builder()
            .with("origin", origin.address())
            .with_file("hs256.key", "a secret that is long enough for HS256")
            .with_file(
                "users",
                &["ann", "bob"]
                    .map(|user| format!("{user}:{HASH}\n"))
                    .concat(),
            )
            .start(&config);
        Self {
            origin,
            node,
            protocol,
            config,
        }
    }

    /// Reloads the configuration with this change.
    #[track_caller]
    fn reload(&self, change: impl FnOnce(NodeConfig) -> NodeConfig) {
        self.node.set_config(change(self.config.clone()));
        assert_eq!(self.node.admin_post("/reload").status(), 200);
    }

    fn curl(&self, path: &str) -> Curl {
        let option = match self.protocol {
            Protocol::H1 => "--http1.1",
            Protocol::H2 => "--http2-prior-knowledge",
        };
        Curl::new(&self.node.url(path)).args([option])
    }

    #[track_caller]
    fn get(&self, path: &str) -> CurlOutput {
        self.get_with(path, [])
    }

    /// Sends a GET with these fields, each in the syntax of curl.
    #[track_caller]
    fn get_with<const N: usize>(&self, path: &str, fields: [&str; N]) -> CurlOutput {
        let curl = fields
            .into_iter()
            .fold(self.curl(path), |curl, field| curl.args(["-H", field]));
        let got = curl.run();
        assert_eq!(got.exit, 0, "{}", got.errors);
        got
    }

    /// Number of requests for `target` that reached the origin.
    fn asked(&self, target: &str) -> usize {
        self.origin
            .received()
            .matches(&format!(" {target} HTTP/1.1\r\n"))
            .count()
    }

    fn purge(&self, query: &str) -> u64 {
        let got = self.node.admin_post(&format!("/cache/purge?{query}"));
        assert_eq!(got.status(), 200, "{}", got.text());
        let got: serde_json::Value = serde_json::from_str(&got.text()).expect("JSON");
        got["purged"].as_u64().expect("a count")
    }
}

/// A response with these fields and this content.
fn response(status: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n{content}")
}

fn ok(fields: &str, content: &str) -> String {
    response("200 OK", fields, content)
}

const FRESH: &str = "cache-control: max-age=3600\r\n";

/// The `Cache-Status` of a response.
fn status_of(got: &CurlOutput) -> &str {
    got.head.field("cache-status").unwrap_or_default()
}

#[track_caller]
fn is_hit(got: &CurlOutput) -> bool {
    status_of(got).starts_with("steppe; hit")
}

fn text(got: &CurlOutput) -> String {
    String::from_utf8_lossy(&got.body).into_owned()
}

/// A shared counter, twice: for the test and for an origin's script.
fn counter() -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    (Arc::clone(&count), count)
}
