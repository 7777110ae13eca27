//! TLS of the request plane: of a node's listener, to workers that it dials, and of commands at either end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;

use steppe_testkit::{Authority, Leaf, Port, Process, Scratch, Steppe, TlsClient, eventually};

/// The files of an authority, and of the certificates that it issued.
pub struct Files {
    pub scratch: Scratch,
    pub authority: Authority,
}

impl Files {
    pub fn new() -> Self {
        let files = Self {
            scratch: Scratch::new("plane-tls"),
            authority: Authority::new("plane"),
        };
        files.scratch.write("ca.pem", files.authority.pem());
        files.issue("node", &files.authority);
        files.issue("peer", &files.authority);
        files
    }

    fn issue(&self, name: &str, authority: &Authority) {
        let issued = authority.issue(&Leaf::named(&["127.0.0.1"]));
        self.scratch.write(&format!("{name}.key"), &issued.key);
        self.scratch.write(&format!("{name}.crt"), &issued.cert);
    }

    pub fn at(&self, name: &str) -> String {
        let path: PathBuf = self.scratch.join(name);
        path.display().to_string()
    }

    /// The options of a peer with a certificate.
    fn known(&self) -> Vec<String> {
        let mut words = self.unknown();
        words.extend(["--cert".into(), self.at("peer.crt")]);
        words.extend(["--key".into(), self.at("peer.key")]);
        words
    }

    /// The options of a peer without a certificate.
    fn unknown(&self) -> Vec<String> {
        vec!["--tls".into(), "--ca".into(), self.at("ca.pem")]
    }

    /// The `tls` table of a listener that requires certificates of its clients.
    pub fn listener(&self) -> String {
        format!(
            "tls = {{ certificates = [{{ cert = \"{}\", key = \"{}\" }}], client_ca = \"{}\", client_auth = \"required\" }}\n",
            self.at("node.crt"),
            self.at("node.key"),
            self.at("ca.pem")
        )
    }
}

/// A node with this below `[[plane.listener]]`, and the address of that listener.
pub fn node(rest: &str) -> (Steppe, SocketAddr) {
    let plane = Port::free().keep();
    let toml = format!(
        "[node]\nworkers = 2\nmemory_budget = \"64MiB\"\n[admin]\nlisten = \"{{admin}}\"\n\
         [[plane.listener]]\nlisten = \"{plane}\"\n{rest}"
    );
    (Steppe::builder().start(&toml), plane)
}

pub fn echo(arguments: &[&str], tls: &[String]) -> Process {
    let mut command = Steppe::command();
    command.args(["plane", "echo"]).args(arguments).args(tls);
    let process = Process::start("echo", command);
    eventually("it serves", || process.said().contains("serves "));
    process
}

pub fn plane(arguments: &[&str], tls: &[String]) -> Output {
    let mut command = Steppe::command();
    let command = command.arg("plane").args(arguments).args(tls);
    command.output().expect("it runs")
}

pub fn printed(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn both_sides_of_a_relay_show_certificates() {
    let files = Files::new();
    let (_node, at) = node(&files.listener());
    let at = at.to_string();
    let _worker = echo(&["--register", &at, "--budget", "64MiB"], &files.known());
    let call = ["call", &at, "echo", "--text", "hello"];
    assert_eq!(printed(plane(&call, &files.known())), "hello");
    let bench = [
        "bench",
        &at,
        "echo",
        "--bytes",
        "1000000",
        "--concurrency",
        "20",
        "--requests",
        "200",
    ];
    let said = printed(plane(&bench, &files.known()));
    assert!(
        said.starts_with("200 answered, 0 refused, 0 failed"),
        "{said}"
    );
    // Clients without a certificate, and clients without TLS, are refused.
    for tls in [files.unknown(), Vec::new()] {
        let refused = plane(&[&call[..], &["--deadline", "5s"]].concat(), &tls);
        assert_eq!(refused.status.code(), Some(15), "{refused:?}");
    }
    // A client that trusts another authority reports the certificate.
    let stranger = Authority::new("stranger");
    files.scratch.write("stranger.pem", stranger.pem());
    let tls = [
        "--tls".to_owned(),
        "--ca".to_owned(),
        files.at("stranger.pem"),
    ];
    let refused = plane(&call, &tls);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn a_relay_dials_workers_by_tls() {
    let files = Files::new();
    let worker_at = Port::free().keep();
    let _worker = echo(&["--listen", &worker_at.to_string()], &files.known());
    let discovery = format!(
        "[discovery]\nkind = \"static\"\nservices = {{ echo = [\"{worker_at}\"] }}\n\
         tls = {{ ca = \"{}\", cert = \"{}\", key = \"{}\" }}\n",
        files.at("ca.pem"),
        files.at("node.crt"),
        files.at("node.key")
    );
    let (node, at) = node(&discovery);
    eventually("it is dialed", || {
        node.admin_json("/plane")
            .to_string()
            .contains(&worker_at.to_string())
    });
    let call = ["call", &at.to_string(), "echo", "--text", "hello"];
    assert_eq!(printed(plane(&call, &[])), "hello");
}

#[test]
fn certificates_that_change_are_read_again() {
    let files = Files::new();
    let (node, at) = node(&files.listener());
    let at = at.to_string();
    let _worker = echo(&["--register", &at], &files.known());
    let next = Authority::new("next");
    files.scratch.write("next.pem", next.pem());
    files.issue("node", &next);
    let mut tls = files.known();
    tls[2] = files.at("next.pem");
    eventually("the next certificate is shown", || {
        plane(&["call", &at, "echo", "--text", "hello"], &tls)
            .status
            .success()
    });
    let listed = node.admin_json("/certificates").to_string();
    assert!(listed.contains(&at), "{listed}");
}

/// A peer that negotiates no common protocol is not answered (RFC 7301).
#[test]
fn who_does_not_agree_on_the_protocol_is_refused() {
    let files = Files::new();
    let (_node, at) = node(&files.listener());
    let shown = files.authority.issue(&Leaf::named(&["127.0.0.1"]));
    let client = || TlsClient::new().showing(&shown);
    let mut peer = client().connect(at, "127.0.0.1");
    assert_eq!(peer.rest(), b"", "without ALPN");
    let mut peer = client().alpn(&["steppe-plane"]).connect(at, "127.0.0.1");
    assert_eq!(peer.bytes(5)[4], 1, "HELLO");
    // The other direction: a server of HTTPS without the plane's protocol.
    let https = Port::free().keep();
    let listener = format!(
        "[[http.listener]]\nlisten = \"{https}\"\nprotocols = [\"h1\"]\n\
         tls = {{ certificates = [{{ cert = \"{}\", key = \"{}\" }}] }}\n\
         [http.upstream.a]\nrespond = {{ status = 200 }}\n\
         [[http.route]]\nname = \"a\"\nupstream = \"a\"\n",
        files.at("node.crt"),
        files.at("node.key")
    );
    let (_other, _) = node(&listener);
    let call = ["call", &https.to_string(), "echo", "--text", "hello"];
    let refused = plane(&call, &files.unknown());
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
}

#[test]
fn what_lacks_is_said() {
    let refused = |arguments: &[&str]| {
        let output = plane(arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = refused(&["echo", "--listen", "127.0.0.1:0", "--tls"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("needs --cert and --key"), "{said}");
    let (code, said) = refused(&["call", "127.0.0.1:1", "echo", "--ca", "ca.pem"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("--tls"), "{said}");
    let (code, said) = refused(&["call", "127.0.0.1:1", "echo", "--tls", "--ca", "/nowhere"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("/nowhere"), "{said}");
}
