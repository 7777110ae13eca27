//! A node whose DNS forwarder is under test.

use std::fmt::Display;
use std::net::SocketAddr;

use crate::{Authority, Issued, Leaf, Port, Steppe, SteppeBuilder};

/// A running node with a forwarder, and the forwarder's address.
#[derive(Debug)]
pub struct Forwarder {
    /// The node.
    pub node: Steppe,
    /// Address over UDP and TCP.
    pub plain: SocketAddr,
}

/// A [`Forwarder`] that listens over TLS and HTTPS too.
#[derive(Debug)]
pub struct SecureForwarder {
    /// The node.
    pub node: Steppe,
    /// Address over UDP and TCP.
    pub plain: SocketAddr,
    /// Address over TLS.
    pub dot: SocketAddr,
    /// Address over HTTPS.
    pub doh: SocketAddr,
    /// The certificate at both: `dns.crt` and `dns.key` in the node's directory.
    pub certificate: Issued,
}

const PLAIN: &str = r#"[node]
workers = {workers}
memory_budget = "{budget}"
[admin]
listen = "{admin}"
[[dns.listener]]
listen = "{plain}"
"#;

const SECURE: &str = r#"[[dns.listener]]
listen = "{dot}"
protocols = ["tls"]
tls.certificates = [{ cert = "dns.crt", key = "dns.key" }]
[[dns.listener]]
listen = "{doh}"
protocols = ["https"]
tls.certificates = [{ cert = "dns.crt", key = "dns.key" }]
"#;

impl SteppeBuilder<'_> {
    /// Starts a node with a forwarder, and these tables beside. It has 2 workers and a budget of 96 MiB unless
    /// `workers` and `budget` were given.
    ///
    /// # Panics
    /// As [`SteppeBuilder::start`].
    #[track_caller]
    pub fn start_forwarder(self, tables: impl Display) -> Forwarder {
        let plain = Port::free().keep();
        // Of several values of one name, the first counts.
        let builder = self.with("workers", 2).with("budget", "96MiB");
        let node = builder
            .with("plain", plain)
            .start(format!("{PLAIN}{tables}"));
        Forwarder { node, plain }
    }

    /// As [`SteppeBuilder::start_forwarder`], with listeners over TLS and HTTPS, and a certificate of
    /// `authority` for `host` and 127.0.0.1. In its directory, `ca.pem` is that authority and `other.pem` is
    /// one that has issued nothing.
    ///
    /// # Panics
    /// As [`SteppeBuilder::start`].
    #[track_caller]
    pub fn start_secure_forwarder(
        self,
        authority: &Authority,
        host: &str,
        tables: impl Display,
    ) -> SecureForwarder {
        let certificate = authority.issue(&Leaf::named(&[host, "127.0.0.1"]));
        let [dot, doh] = [(); 2].map(|()| Port::free().keep());
        let builder = self
            .with("dot", dot)
            .with("doh", doh)
            .with_file("dns.crt", &certificate.cert)
            .with_file("dns.key", &certificate.key)
            .with_file("ca.pem", &authority.pem())
            .with_file("other.pem", &Authority::new("other").pem());
        let Forwarder { node, plain } = builder.start_forwarder(format!("{SECURE}{tables}"));
        SecureForwarder {
            node,
            plain,
            dot,
            doh,
            certificate,
        }
    }
}

impl SecureForwarder {
    /// Queries that came over a transport, `udp`, `tcp`, `tls` or `https`.
    #[track_caller]
    pub fn queries(&self, transport: &str) -> f64 {
        let labels = [("transport", transport)];
        self.node.metrics().sum("steppe_dns_queries_total", &labels)
    }
}
