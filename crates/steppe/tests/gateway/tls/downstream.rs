//! TLS of listeners, tested from outside: real clients, hostile ones, and bytes that no valid
//! client sends.
//!
//! Each key of `http.listener.tls` has a test in `keys.rs` that fails when the key is ignored.

mod clients;
mod floods;
mod handshakes;
mod hello;
mod keys;
mod misdirected;
mod records;
mod resumption;
mod scanners;

use steppe_testkit::{
    Issued, Metrics, NodeConfig, Section, Steppe, SteppeBuilder, eventually, is_long,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// The name in the certificate of most tests.
const NAME: &str = "a.example";
const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const GET_AND_CLOSE: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// A node whose listener speaks TLS, before it is started.
struct Site {
    builder: SteppeBuilder<'static>,
    certificates: Vec<Section>,
    config: NodeConfig,
}

impl Site {
    /// A site that shows `certificate` to clients whose SNI matches no other.
    fn serving(certificate: &Issued) -> Self {
        let site = Self {
            builder: Steppe::builder(),
            certificates: Vec::new(),
            config: NodeConfig::plain(),
        };
        site.and(certificate)
    }

    /// Adds a certificate.
    fn and(self, certificate: &Issued) -> Self {
        self.and_with(certificate, |table| table)
    }

    /// Adds a certificate, with this change to its table of the configuration.
    fn and_with(mut self, certificate: &Issued, change: impl FnOnce(Section) -> Section) -> Self {
        let number = self.certificates.len();
        let (cert, key) = (format!("{number}.crt"), format!("{number}.key"));
        let builder = self.builder.with_file(&cert, &certificate.cert);
        self.builder = builder.with_file(&key, &certificate.key);
        let table = Section::new()
            .set("cert", format!("{{scratch}}/{cert}"))
            .set("key", format!("{{scratch}}/{key}"));
        self.certificates.push(change(table));
        let all = self.certificates.clone();
        self.listener(|l| l.set("tls.certificates", all))
    }

    /// Changes the listener.
    fn listener(self, change: impl FnOnce(Section) -> Section) -> Self {
        self.configured(|config| config.listener(change))
    }

    /// Changes the configuration.
    fn configured(self, change: impl FnOnce(NodeConfig) -> NodeConfig) -> Self {
        Self {
            config: change(self.config),
            ..self
        }
    }

    fn file(mut self, name: &str, content: &str) -> Self {
        self.builder = self.builder.with_file(name, content);
        self
    }

    /// Asks clients for a certificate of the authority whose certificate this is.
    fn asking(self, policy: &str, ca: &str) -> Self {
        self.file("ca.crt", ca).listener(|l| {
            l.set("tls.client_ca", "{scratch}/ca.crt")
                .set("tls.client_auth", policy)
        })
    }

    #[track_caller]
    fn start(self, origin: impl ToString) -> Steppe {
        self.builder.with("origin", origin).start(&self.config)
    }
}

/// The number of handshakes with this outcome so far.
fn handshakes(node: &Steppe, outcome: &str) -> f64 {
    count(&node.metrics(), outcome)
}

fn count(metrics: &Metrics, outcome: &str) -> f64 {
    metrics.sum("steppe_http_tls_handshakes_total", &[("outcome", outcome)])
}

/// Waits until so many handshakes have this outcome: clients may see the end before it is counted.
#[track_caller]
fn expect_count(node: &Steppe, outcome: &str, count: f64) {
    eventually(outcome, || handshakes(node, outcome) == count);
}

/// Waits until one handshake has this outcome.
#[track_caller]
fn expect_outcome(node: &Steppe, outcome: &str) {
    expect_count(node, outcome, 1.0);
}

/// Makes the node read its files again, which must be valid.
#[track_caller]
fn reload(node: &Steppe) {
    let answer = node.admin_post("/reload");
    assert_eq!(answer.status(), 200, "{}", answer.text());
}
