//! Common DNS clients against the forwarder: command lines, a validator, a stub resolver and browsers. Behind it nsd
//! has a signed zone and one that is not. Long tier only.

mod browsers;
mod lookups;
mod stubs;
mod validators;
mod zones;

use std::path::PathBuf;
use std::process::{Command, Output};

use steppe_testkit::{Authority, SecureForwarder, Steppe, is_long, skip};
use zones::Nsd;

/// The host name in the forwarder's certificate, besides its address.
const HOST: &str = "dns.test";

/// A name that the forwarder answers itself, with the address of the gateway.
const PAGE_HOST: &str = "www.browser.example";

/// The content of the gateway's page.
const PAGE: &str = "a page of the gateway";

const TABLES: &str = r#"
[[http.listener]]
listen = "{gateway}"
[http.upstream.page]
respond = { body = "a page of the gateway", headers = { content-type = "text/plain" } }
[[http.route]]
name = "all"
path = "/{rest*}"
upstream = "page"
[dns.hosts]
records = { "www.browser.example" = "127.0.0.1" }
[dns.upstream.nsd]
servers = ["udp://{nsd}"]
[[dns.rule]]
forward = "nsd"
"#;

/// A forwarder with an authority server behind it.
struct Site {
    forwarder: SecureForwarder,
    nsd: Nsd,
}

impl Site {
    /// Starts the site. `None` outside of the long tier, or if nsd is not installed; `test` is reported as skipped
    /// then.
    fn start(test: &str) -> Option<Self> {
        if !is_long() {
            skip(test, "it takes packages of the long tier");
            return None;
        }
        let nsd = Nsd::start().inspect_err(|reason| skip(test, reason)).ok()?;
        let forwarder = Steppe::builder()
            .with("nsd", nsd.address())
            .start_secure_forwarder(&Authority::new("clients"), HOST, TABLES);
        Some(Self { forwarder, nsd })
    }

    /// The authority that certifies the forwarder.
    fn ca(&self) -> PathBuf {
        self.forwarder.node.scratch().join("ca.pem")
    }

    /// An authority that does not certify it.
    fn other_ca(&self) -> PathBuf {
        self.forwarder.node.scratch().join("other.pem")
    }

    fn stop(self) {
        assert!(self.forwarder.node.stop().success());
    }
}

/// Runs a command to its end. `None` if it is not installed; `test` is reported as skipped then.
fn run(test: &str, mut command: Command) -> Option<Output> {
    let output = command.output();
    let program = command.get_program().to_string_lossy();
    output
        .inspect_err(|error| skip(test, &format!("{program}: {error}")))
        .ok()
}

/// Standard output and standard error of a command.
fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
