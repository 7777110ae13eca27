//! Exchanges over all pairs of protocols, with clients and servers of other authors.
//!
//! One node listens for all protocols and has servers of Node.js for all; the host of a request
//! names the protocol of its server. Every change runs four pairs, in which each protocol is on
//! either side once; `STEPPE_LONG=1` runs all sixteen.

mod browser;
mod clients;
mod content;
mod fields;
mod load;
mod priority;
mod site;
mod spec;
mod streams;
mod tunnels;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use steppe_testkit::{Curl, CurlOutput, is_long, skip};

use site::Site;

/// The protocol between a client and the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Downstream {
    H1,
    H1Tls,
    H2c,
    H2,
}

/// The protocol between the node and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    H1,
    H1s,
    H2c,
    H2,
}

impl Downstream {
    const ALL: [Self; 4] = [Self::H1, Self::H1Tls, Self::H2c, Self::H2];

    fn is_tls(self) -> bool {
        matches!(self, Self::H1Tls | Self::H2)
    }

    fn is_http2(self) -> bool {
        matches!(self, Self::H2c | Self::H2)
    }

    fn scheme(self) -> &'static str {
        if self.is_tls() { "https" } else { "http" }
    }

    /// The option of curl for the protocol.
    fn option(self) -> &'static str {
        match self {
            Self::H1 | Self::H1Tls => "--http1.1",
            Self::H2c => "--http2-prior-knowledge",
            // By ALPN.
            Self::H2 => "--http2",
        }
    }

    /// The value of `Via` for a message of the protocol.
    fn via(self) -> &'static str {
        if self.is_http2() {
            "2.0 steppe"
        } else {
            "1.1 steppe"
        }
    }
}

impl Upstream {
    const ALL: [Self; 4] = [Self::H1, Self::H1s, Self::H2c, Self::H2];

    fn is_http2(self) -> bool {
        matches!(self, Self::H2c | Self::H2)
    }

    /// The name of the protocol in the configuration.
    fn protocol(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H1s => "h1s",
            Self::H2c => "h2c",
            Self::H2 => "h2",
        }
    }

    /// The host of requests to the server of the protocol.
    fn host(self) -> String {
        format!("{}.example", self.protocol())
    }

    fn via(self) -> &'static str {
        if self.is_http2() {
            "2.0 steppe"
        } else {
            "1.1 steppe"
        }
    }
}

/// Clients and servers of these two protocols, with the node in between.
struct Pair<'a> {
    site: &'a Site,
    down: Downstream,
    up: Upstream,
}

impl Pair<'_> {
    fn url(&self, path: &str) -> String {
        self.site.url(self.down, &self.up.host(), path)
    }

    /// The URL's host and port.
    fn authority(&self) -> String {
        format!("{}:{}", self.up.host(), self.site.port(self.down))
    }

    fn curl(&self, path: &str) -> Curl {
        self.site.curl(self.down, &self.up.host(), path)
    }

    /// Runs curl, and asserts its success and the version of HTTP.
    #[track_caller]
    fn run(&self, curl: Curl) -> CurlOutput {
        let got = curl.run();
        assert_eq!(got.exit, 0, "{}", got.errors);
        let version = if self.down.is_http2() { "2" } else { "1.1" };
        assert_eq!(got.figures["http_version"], version, "{got:?}");
        got
    }

    #[track_caller]
    fn get(&self, path: &str) -> CurlOutput {
        self.run(self.curl(path))
    }

    /// The request, as the server received it.
    #[track_caller]
    fn seen(&self, curl: Curl) -> Seen {
        let got = self.run(curl);
        assert_eq!(got.head.status(), 200, "{got:?}");
        let seen = Seen::parse(&got.body);
        let version = if self.up.is_http2() { "2.0" } else { "1.1" };
        assert_eq!(seen.text("version"), version);
        seen
    }

    /// A name, unique to the pair, for an exchange that waits for a later request to end it.
    fn word(&self, of: &str) -> String {
        format!("{of}-{:?}-{:?}", self.down, self.up)
    }

    /// The response, as the client of Node.js received it.
    #[track_caller]
    fn node_js(&self, method: &str, path: &str, further: [&str; 3]) -> Value {
        let url = self.url(path);
        self.site.node_js(self.down, [method, &url], further)
    }
}

/// A request, as a server of Node.js received it.
struct Seen(Value);

impl Seen {
    #[track_caller]
    fn parse(json: &[u8]) -> Self {
        let text = String::from_utf8_lossy(json);
        Self(serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    /// Values of the field lines with this name.
    fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.0["lines"].as_array().expect("it has them");
        let same = lines.iter().filter(|line| line[0] == name);
        same.filter_map(|line| line[1].as_str()).collect()
    }

    /// Asserts that the content is just this.
    #[track_caller]
    fn expect_content(&self, content: &[u8]) {
        let body = &self.0["body"];
        assert_eq!(body["length"], content.len());
        assert_eq!(body["sha256"], steppe_testkit::sha256_hex(content));
    }
}

/// Runs `case` with each pair, at a site of the test's own.
fn with_pairs(test: &str, case: impl Fn(&Pair<'_>)) {
    let Some(site) = Site::start(test) else {
        return;
    };
    for (down, up) in pairs() {
        println!("{down:?} to {up:?}");
        case(&Pair {
            site: &site,
            down,
            up,
        });
    }
}

fn pairs() -> Vec<(Downstream, Upstream)> {
    if is_long() {
        let from = |down| Upstream::ALL.map(|up| (down, up));
        return Downstream::ALL.into_iter().flat_map(from).collect();
    }
    // Both pairs that translate, and both that do not.
    vec![
        (Downstream::H1, Upstream::H2c),
        (Downstream::H1Tls, Upstream::H1s),
        (Downstream::H2c, Upstream::H1),
        (Downstream::H2, Upstream::H2),
    ]
}

fn is_there(test: &str, program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(test, &format!("{program} is not installed"));
    }
    is_there
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/protocols")
        .join(name)
}

/// Bytes as the servers make them, with a period that is no power of two.
fn content(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(bytes).collect()
}

const MEGABYTE: usize = 1_000_000;
