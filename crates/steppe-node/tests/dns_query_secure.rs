//! `steppe dns query` over TLS and HTTPS, against the listeners of a real node.

use std::net::SocketAddr;
use std::process::{Command, Output};

use steppe_testkit::{Authority, Leaf, Port, Steppe, Validity};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");

const NAME: &str = "resolver.test";

const CONFIG: &str = r#"
[node]
workers = 1
memory_budget = "64MiB"
[admin]
listen = "{admin}"
[http]
[[http.listener]]
listen = "{gateway}"
[http.upstream.here]
respond = {}
[[http.route]]
name = "all"
upstream = "here"
[[dns.listener]]
listen = "{plain}"
[[dns.listener]]
listen = "{dot}"
protocols = ["tls"]
tls.certificates = [{ cert = "good.crt", key = "good.key" }]
[[dns.listener]]
listen = "{doh}"
protocols = ["https"]
tls.certificates = [{ cert = "good.crt", key = "good.key" }]
[[dns.listener]]
listen = "{old}"
protocols = ["tls"]
tls.certificates = [{ cert = "old.crt", key = "old.key" }]
[[dns.rule]]
suffix = "zero.example"
block = "zero"
"#;

/// A node, where it listens, and whom it is certified by.
struct Site {
    node: Steppe,
    plain: SocketAddr,
    dot: SocketAddr,
    doh: SocketAddr,
    /// What it shows has expired.
    old: SocketAddr,
}

fn site() -> Site {
    let [plain, dot, doh, old] = [(); 4].map(|()| Port::free().keep());
    let authority = Authority::new("site");
    let good = authority.issue(&Leaf::named(&[NAME, "127.0.0.1"]));
    let expired = authority.issue(&Leaf::named(&[NAME]).valid(Validity::Expired));
    let node = Steppe::builder(STEPPE)
        .with("plain", plain)
        .with("dot", dot)
        .with("doh", doh)
        .with("old", old)
        .with_file("good.crt", &good.cert)
        .with_file("good.key", &good.key)
        .with_file("old.crt", &expired.cert)
        .with_file("old.key", &expired.key)
        .with_file("ca.pem", &authority.pem())
        .with_file("stranger.pem", &Authority::new("stranger").pem())
        .start(CONFIG);
    Site {
        node,
        plain,
        dot,
        doh,
        old,
    }
}

impl Site {
    /// Asks a server, trusting this file.
    fn query(&self, server: &str, ca: &str) -> Output {
        let mut command = Command::new(STEPPE);
        command.args(["dns", "query", "www.zero.example", server, "--ca"]);
        command.arg(self.node.scratch().join(ca));
        command.output().expect("it runs")
    }

    /// Why there is no answer.
    fn refusal(&self, server: &str, ca: &str) -> String {
        let output = self.query(server, ca);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(5), "{server}: {said}");
        assert_eq!(output.stdout, b"", "{server}");
        said
    }

    fn queries(&self, transport: &str) -> f64 {
        let labels = [("transport", transport)];
        self.node.metrics().sum("steppe_dns_queries_total", &labels)
    }
}

#[test]
fn servers_are_asked_over_tls_and_https_by_name_and_by_address() {
    let site = site();
    let Site { dot, doh, .. } = &site;
    for (server, asked) in [
        (format!("@tls://{NAME}@{dot}"), format!("tls://{dot}")),
        (format!("@tls://{dot}"), format!("tls://{dot}")),
        (
            format!("@https://{NAME}@{doh}/dns-query"),
            format!("https://{doh}/dns-query"),
        ),
        (
            format!("@https://{doh}"),
            format!("https://{doh}/dns-query"),
        ),
    ] {
        let output = site.query(&server, "ca.pem");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{server}: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        let head = format!(";; NOERROR from {asked} in ");
        assert!(text.starts_with(&head), "{text}");
        let line = "\nwww.zero.example.\t60\tIN\tA\t0.0.0.0\n";
        assert!(text.contains(line), "{text}");
    }
    for transport in ["tls", "https"] {
        assert!((site.queries(transport) - 2.0).abs() < f64::EPSILON);
    }
    assert!(site.node.stop().success());
}

#[test]
fn a_certificate_that_is_refused_is_told_with_what_to_do() {
    let site = site();
    let Site { dot, doh, old, .. } = &site;
    for server in [
        format!("@tls://{NAME}@{dot}"),
        format!("@https://{NAME}@{doh}"),
    ] {
        let said = site.refusal(&server, "stranger.pem");
        assert!(
            said.contains("certificate is refused: its issuer is unknown; --ca"),
            "{said}"
        );
    }
    for server in [
        format!("@tls://other.test@{dot}"),
        format!("@https://other.test@{doh}"),
    ] {
        let said = site.refusal(&server, "ca.pem");
        assert!(
            said.contains("it has another name than other.test; NAME@ADDRESS"),
            "{said}"
        );
    }
    let said = site.refusal(&format!("@tls://{NAME}@{old}"), "ca.pem");
    assert!(
        said.contains("certificate is refused: it expired"),
        "{said}"
    );
    // Nothing was asked of a server that is somebody else.
    for transport in ["tls", "https"] {
        assert!(site.queries(transport).abs() < f64::EPSILON);
    }
    let said = site.refusal(&format!("@tls://{NAME}@{}", site.plain), "ca.pem");
    assert!(said.contains(": TLS"), "{said}");
    assert!(site.node.stop().success());
}
