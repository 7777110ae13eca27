//! `steppe dns query` over TLS and HTTPS, against the listeners of a real node.

use std::net::SocketAddr;
use std::process::Output;

use steppe_testkit::{Authority, Leaf, Port, SecureForwarder, Steppe, Validity};

const NAME: &str = "resolver.test";

const TABLES: &str = r#"
[[dns.listener]]
listen = "{old}"
protocols = ["tls"]
tls.certificates = [{ cert = "old.crt", key = "old.key" }]
[[dns.rule]]
suffix = "zero.example"
block = "zero"
"#;

/// A forwarder with valid certificates, and a second listener with an expired one.
struct Site {
    forwarder: SecureForwarder,
    old: SocketAddr,
}

fn site() -> Site {
    let (authority, old) = (Authority::new("site"), Port::free().keep());
    let expired = authority.issue(&Leaf::named(&[NAME]).valid(Validity::Expired));
    let forwarder = Steppe::builder()
        .with("old", old)
        .with_file("old.crt", &expired.cert)
        .with_file("old.key", &expired.key)
        .start_secure_forwarder(&authority, NAME, TABLES);
    Site { forwarder, old }
}

impl Site {
    /// Queries a server, with the CA certificates of this file.
    fn query(&self, server: &str, ca: &str) -> Output {
        let mut command = Steppe::command();
        command.args(["dns", "query", "www.zero.example", server, "--ca"]);
        command.arg(self.forwarder.node.scratch().join(ca));
        command.output().expect("it runs")
    }

    /// The reason why there is no answer.
    fn refusal(&self, server: &str, ca: &str) -> String {
        let output = self.query(server, ca);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(5), "{server}: {said}");
        assert_eq!(output.stdout, b"", "{server}");
        said
    }
}

#[test]
fn servers_are_asked_over_tls_and_https_by_name_and_by_address() {
    let site = site();
    let SecureForwarder { dot, doh, .. } = &site.forwarder;
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
        assert!((site.forwarder.queries(transport) - 2.0).abs() < f64::EPSILON);
    }
    assert!(site.forwarder.node.stop().success());
}

#[test]
fn a_certificate_that_is_refused_is_told_with_what_to_do() {
    let site = site();
    let Site { forwarder, old } = &site;
    let SecureForwarder { dot, doh, .. } = forwarder;
    for server in [
        format!("@tls://{NAME}@{dot}"),
        format!("@https://{NAME}@{doh}"),
    ] {
        let said = site.refusal(&server, "other.pem");
        assert!(
            said.contains("certificate is refused: unknown issuer; trust its CA with --ca"),
            "{said}"
        );
    }
    for server in [
        format!("@tls://other.test@{dot}"),
        format!("@https://other.test@{doh}"),
    ] {
        let said = site.refusal(&server, "ca.pem");
        assert!(
            said.contains("it is not for other.test; set the expected name with NAME@ADDRESS"),
            "{said}"
        );
    }
    let said = site.refusal(&format!("@tls://{NAME}@{old}"), "ca.pem");
    assert!(
        said.contains("certificate is refused: the certificate has expired"),
        "{said}"
    );
    // No query was sent to a server with another name.
    for transport in ["tls", "https"] {
        assert!(site.forwarder.queries(transport).abs() < f64::EPSILON);
    }
    let said = site.refusal(&format!("@tls://{NAME}@{}", forwarder.plain), "ca.pem");
    assert!(said.contains(": TLS"), "{said}");
    assert!(site.forwarder.node.stop().success());
}
