//! TLS of listeners, seen from outside: real clients, hostile ones, and bytes that nobody sends.
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

use steppe_testkit::{Issued, Metrics, Steppe, SteppeBuilder, eventually, is_long};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// The name in the certificate of most tests.
const NAME: &str = "a.example";
const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const GET_AND_CLOSE: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// A node whose listener speaks TLS, before it is started.
struct Site {
    builder: SteppeBuilder<'static>,
    certificates: Vec<String>,
    lines: Vec<String>,
    protocols: &'static str,
    config: String,
}

impl Site {
    /// It shows `certificate` to everybody who asks for no other.
    fn serving(certificate: &Issued) -> Self {
        let site = Self {
            builder: Steppe::builder(),
            certificates: Vec::new(),
            lines: Vec::new(),
            protocols: r#"["h1"]"#,
            config: Steppe::PLAIN.to_owned(),
        };
        site.and(certificate, "")
    }

    /// It has this certificate too; `further` is what else its table has.
    fn and(mut self, certificate: &Issued, further: &str) -> Self {
        let number = self.certificates.len();
        let (cert, key) = (format!("{number}.crt"), format!("{number}.key"));
        let builder = self.builder.with_file(&cert, &certificate.cert);
        self.builder = builder.with_file(&key, &certificate.key);
        self.certificates.push(format!(
            "{{ cert = \"{{scratch}}/{cert}\", key = \"{{scratch}}/{key}\"{further} }}"
        ));
        self
    }

    /// Its listener speaks these.
    fn speaking(self, protocols: &'static str) -> Self {
        Self { protocols, ..self }
    }

    /// A line of the listener.
    fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    fn file(mut self, name: &str, content: &str) -> Self {
        self.builder = self.builder.with_file(name, content);
        self
    }

    /// Asks clients for a certificate of the authority whose certificate this is.
    fn asking(self, policy: &str, ca: &str) -> Self {
        self.file("ca.crt", ca)
            .line("tls.client_ca = \"{scratch}/ca.crt\"")
            .line(&format!("tls.client_auth = \"{policy}\""))
    }

    /// Replaces a part of the configuration.
    fn replace(mut self, from: &str, to: &str) -> Self {
        assert!(self.config.contains(from), "{from} is no part of it");
        self.config = self.config.replace(from, to);
        self
    }

    #[track_caller]
    fn start(self, origin: impl ToString) -> Steppe {
        let listener = format!(
            "protocols = {}\ntls.certificates = [{}]\n{}\n",
            self.protocols,
            self.certificates.join(", "),
            self.lines.join("\n")
        );
        let config = self.config.replace("protocols = [\"h1\"]\n", &listener);
        self.builder.with("origin", origin).start(&config)
    }
}

/// Handshakes with this outcome so far.
fn handshakes(node: &Steppe, outcome: &str) -> f64 {
    count(&node.metrics(), outcome)
}

fn count(metrics: &Metrics, outcome: &str) -> f64 {
    metrics.sum("steppe_http_tls_handshakes_total", &[("outcome", outcome)])
}

/// Waits until so many handshakes ended so: clients may know it before it is counted.
#[track_caller]
fn expect_count(node: &Steppe, outcome: &str, count: f64) {
    eventually(outcome, || handshakes(node, outcome) == count);
}

/// Waits until one handshake ended so.
#[track_caller]
fn expect_outcome(node: &Steppe, outcome: &str) {
    expect_count(node, outcome, 1.0);
}

/// Has it read its files again, which must be valid.
#[track_caller]
fn reload(node: &Steppe) {
    let answer = node.admin_post("/reload");
    assert_eq!(answer.status(), 200, "{}", answer.text());
}
